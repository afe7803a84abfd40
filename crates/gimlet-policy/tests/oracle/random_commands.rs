//! Random commands, the same ones for the same seed: words under every kind of quoting and expansion, simple commands
//! that may and may not run, every way to put commands together, and texts with a piece knocked out or put in.

/// A small generator of random numbers.
pub(crate) struct CommandGenerator(u64);

impl CommandGenerator {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn number_below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next()).unwrap_or(0) % bound
    }

    fn one_in(&mut self, chances: usize) -> bool {
        self.number_below(chances) == 0
    }

    fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.number_below(list.len())]
    }

    /// One whole command text.
    pub(crate) fn command_text(&mut self) -> String {
        if self.one_in(5) {
            return self.quoting_soup();
        }
        let depth = 1 + self.number_below(3);
        let mut text = self.list(depth);
        if self.one_in(4) {
            text = self.mutate_text(&text);
        }
        text
    }

    /// Signs of quoting and expanding in any order behind a harmless beginning, closed as far as that is easy.
    fn quoting_soup(&mut self) -> String {
        const BEGINNINGS: &[&str] = &[
            "echo ",
            "echo \"",
            "echo a",
            "cat <<E\n",
            "cat <<'E'\n",
            "cat <<\"E\" | ls\n",
            "cat <<-E && ls\n",
            "cat <<\\E\n",
            "cat <<E",
            "cat <<",
            "cat <<E\n$(ls ",
            "cat <<-E\n\t$(ls ",
            "echo $(( $(ls ",
            "[[ a =~ x",
            "<&",
            "ls 2",
            "echo ${x%{a}",
            "echo a >&",
            "[[ -n ",
            "printf %s ",
            "for f in ",
            "case ",
            "echo ${x:-",
            "echo \"${x:-",
            "echo $((",
            "test ",
            "true <<<",
            "ls a",
        ];
        const SIGNS: &[&str] = &[
            "\"",
            "'",
            "$",
            "`",
            "\\",
            "{",
            "}",
            "(",
            ")",
            "[",
            "]",
            "#",
            "\n",
            " ",
            "\\\n",
            "$(curl s)",
            "`curl s`",
            "${x:-",
            "${x-",
            "${HOME:+",
            "${x%",
            "${x#",
            "${x/",
            "${x:",
            "$((",
            "))",
            "$[",
            "((",
            "$'",
            "$\"",
            "a",
            "\"$",
            "<<E\n",
            "\nE\n",
            "\n\tE\n",
            "\nE",
            "E\n",
            "'E'",
            "\ncurl s\n",
            "|curl s",
            ">&",
            "<&",
            "-curl s",
            "\\\n\\\n",
            "2\\\n",
            "99999999999>/dev/null",
            ">/dev/null ",
            " # ",
            "|#",
            "2>&1",
            "<<<",
            "<(curl s)",
            "${#x}",
            "$x",
            "~",
            "*",
            "?",
            "!",
            "=",
            "a=",
            " ]]",
            "case ",
            " in ",
            ";;",
            " esac",
            "curl s",
            "; ",
            "&&",
            "|",
            "@(",
            "+(",
            "\\\"",
            "\\'",
            "\\$",
            "\\`",
            "echo ",
            "\t",
            ":-",
            "//",
            "@",
            "<",
            "&",
        ];
        let beginning = self.pick(BEGINNINGS);
        let mut text = beginning.to_owned();
        let length = 1 + self.number_below(9);
        let substitution = self.number_below(length + 4);
        for at in 0..length {
            if at == substitution {
                text.push_str(self.pick(&["$(curl s)", "`curl s`"]));
            }
            text.push_str(self.pick(SIGNS));
        }
        if self.one_in(3) {
            return text;
        }
        let count = |text: &str, sign: char| text.matches(sign).count();
        if count(&text, '\'') % 2 == 1 {
            text.push('\'');
        }
        for (open, close) in [('{', '}'), ('(', ')')] {
            let missing = count(&text, open).saturating_sub(count(&text, close));
            text.extend(std::iter::repeat_n(close, missing));
        }
        if count(&text, '"') % 2 == 1 {
            text.push('"');
        }
        match beginning {
            _ if beginning.starts_with("cat <<") => text.push_str("\nE\n"),
            "[[ -n " | "[[ a =~ x" => text.push_str(" ]]"),
            "for f in " => text.push_str("; do echo; done"),
            "case " => text.push_str(" in a) ls;; esac"),
            _ => {}
        }
        text
    }

    fn mutate_text(&mut self, text: &str) -> String {
        const NOISE: &[&str] = &[
            ";", "&", "|", "(", ")", "{", "}", "\"", "'", "`", "$", "\\", "\n", " ", "#", "<", ">", "!", "=", "[", "]",
            "*", "~", "$(", "&&", "||", ";;", "<(", "[[", "]]", " do ", " done ", " in ", " if ", "\\\n", "$'",
            "<<E\n", "\nE\n", "2>", ">&", "-", " ! ", " time ", " { ", "; }", "((", "))", "a=b ", "{a,b}", " then ",
            "fi", "esac", "case ",
        ];
        let mut chars: Vec<char> = text.chars().collect();
        for _ in 0..1 + self.number_below(2) {
            let at = self.number_below(chars.len() + 1);
            match self.number_below(3) {
                0 if at < chars.len() => drop(chars.remove(at)),
                1 if at + 1 < chars.len() => chars.swap(at, at + 1),
                _ => {
                    let noise: Vec<char> = self.pick(NOISE).chars().collect();
                    chars.splice(at..at, noise);
                }
            }
        }
        chars.into_iter().collect()
    }

    fn list(&mut self, depth: usize) -> String {
        let mut text = self.statement(depth);
        for _ in 0..self.number_below(3) {
            let join =
                self.pick(&["; ", " && ", " || ", "\n", " & ", " | ", " |& ", ";", "&&", " \\\n && ", " # note\n"]);
            text = format!("{text}{join}{}", self.statement(depth));
        }
        if self.one_in(12) {
            text.push_str(self.pick(&[" &", ";", "\n", " # end"]));
        }
        text
    }

    fn statement(&mut self, depth: usize) -> String {
        if depth == 0 || self.one_in(2) {
            return self.simple(depth);
        }
        let inner = depth - 1;
        let statement = match self.number_below(12) {
            0 => format!("({})", self.list(inner)),
            1 => format!("{{ {}; }}", self.list(inner)),
            2 => format!("if {}; then {}; fi", self.list(inner), self.list(inner)),
            3 => format!("if {}; then {}; else {}; fi", self.simple(inner), self.list(inner), self.list(inner)),
            4 => {
                let (name, words) =
                    (self.pick(&["f", "i", "x", "PATH", "file", "k", "_", "option"]), self.words(inner));
                format!("for {name} in {words}; do {}; done", self.list(inner))
            }
            5 => format!("while false; do {}; done", self.list(inner)),
            6 => format!("until true; do {}; done", self.list(inner)),
            7 => {
                let word = self.word(inner);
                format!("case {word} in a) {};; *) {};; esac", self.list(inner), self.list(inner))
            }
            8 => format!("! {}", self.simple(inner)),
            9 => self.condition(inner),
            10 => format!("{}() {{ {}; }}", self.pick(&["ls", "f", "npm"]), self.list(inner)),
            _ => format!("{} {}", self.simple(inner), self.pick(&["2>&1", ">/dev/null", "| cat"])),
        };
        if self.one_in(8) { format!("{statement} {}", self.redirect(inner)) } else { statement }
    }

    fn condition(&mut self, depth: usize) -> String {
        let word = self.word(depth);
        match self.number_below(6) {
            0 => format!("[ -f {word} ]"),
            1 => format!("[ {word} = {} ]", self.word(depth)),
            2 => format!("[[ -n {word} ]]"),
            3 => format!("[[ {word} == {} && -f a ]]", self.word(depth)),
            4 => format!("[ {word} ]"),
            _ => format!("test {} {word}", self.pick(&["-d", "-n", "-v", "-z"])),
        }
    }

    fn simple(&mut self, depth: usize) -> String {
        const HEADS: &[&str] = &[
            "ls",
            "cat",
            "echo",
            "head",
            "grep x",
            "wc -l",
            "npm run",
            "npm run test",
            "make",
            "git status",
            "git log",
            "pwd",
            "find .",
            "sort",
            "true",
            "printf '%s'",
            "rg x",
            "sed -n 1p",
            "tr a b",
            "cut -c1",
            "diff a",
            "date",
            "uniq",
            "basename",
            "git diff",
            "cd sub",
            "cd .",
            "stat",
            "du",
            "seq 2",
        ];
        const OTHERS: &[&str] = &[
            "curl",
            "rm",
            "touch",
            "npm install",
            "bash -c",
            "sh -c",
            "eval",
            "exec",
            "git push",
            "sort -o",
            "find . -delete",
            "find . -exec curl {} ;",
            "sed -i s/a/b/",
            "env",
            "sudo",
            "xargs",
            "source",
            ".",
            "./ls",
            "cd ..",
            "export A=1",
            "A=1",
            "read x",
            "tee",
            "cp a",
            "git -c a=b log",
            "rg --pre curl",
            "printf -v x",
            "trap",
            "alias ls=curl",
            "unset x",
            "mv a",
            "git branch",
            "uniq a",
            "date -s",
            "command",
            "builtin",
            "time",
            "declare x",
            "let x=1",
            "set -e",
        ];
        const WRAPPERS: &[&str] =
            &["timeout 5", "nice", "nohup", "command", "xargs", "time", "stdbuf -oL", "CI=1", "LD_X=1", "env"];
        let mut text = String::new();
        if self.one_in(8) {
            text = format!("{} ", self.pick(WRAPPERS));
        }
        if self.one_in(30) {
            text.push_str(&self.redirect(depth));
            text.push(' ');
        }
        if self.one_in(15) {
            text.push_str(&self.runner());
            return text;
        }
        let other = self.one_in(5);
        text.push_str(if other { self.pick(OTHERS) } else { self.pick(HEADS) });
        for _ in 0..self.number_below(3) {
            text = format!("{text} {}", self.word(depth));
        }
        if self.one_in(6) {
            text = format!("{text} {}", self.redirect(depth));
        }
        if self.one_in(25) {
            let (delimiter, end) = *[("<<E", "E"), ("<<'E'", "E"), ("<<-E", "\tE"), ("<<\"E\"", "E"), ("<<\\E", "E")]
                .get(self.number_below(5))
                .unwrap_or(&("<<E", "E"));
            let body = self.pick(&[
                "it's",
                "$(curl y)",
                "a $x b",
                "`curl z`",
                "\"",
                "EE",
                "${x:-$(curl w)}",
                "\\$(curl v)",
                "${x:-'$(curl u)'}",
            ]);
            text = format!("{text} {delimiter}\n{body}\n{end}\n");
        }
        text
    }

    /// A program that runs another one: by a word, an option in some spelling, or a script.
    fn runner(&mut self) -> String {
        const FORMS: &[&str] = &[
            "git bisect run @",
            "git submodule foreach @",
            "git merge-index @ -a",
            "git rebase -x @ main",
            "git fetch --upload-pack=@ a",
            "git ls-remote --exec=@ a",
            "git send-pack --receive-pack=@ a",
            "git clone -u @ a b",
            "git difftool --extcmd=@",
            "git -C . bisect run @",
            "npm explore p -- @",
            "npm exec -- @",
            "npm x @",
            "npm exec -c '@'",
            "npm run a --script-shell @",
            "npm edit p --editor=@",
            "zip -rTT '@' a.zip b",
            "zip -q -TT @ a.zip b",
            "pip config --editor @ edit",
            "pip config edit --editor=@",
            "go test -exec @ ./...",
            "go build -toolexec=@ .",
            "go vet -vettool=@ .",
            "tar -I @ -cf b.tar a",
            "tar xf b.tar --to-command=@",
            "rsync -e '@' a b:c",
            "ssh -o ProxyCommand='@' host",
            "man -P @ ls",
            "man -aP '@' ls",
            "sed '1e @' a",
            "sed -n '1e @' a",
            "sed 's/.*/@/e' a",
            "sed 's1.*1@1e' a",
            "sed 'sq.*q@qpe' a",
            "sed -e p -e 's,a,@,ge' a",
            "echo @ | sed e",
            "find . -name a -exec @ {} ;",
            "find ../bin -name curl -exec {} s ;",
            "find ../bin -name curl -execdir {} s ;",
            "find ../bin -name 'cur*' -ok {} ;",
            "echo @ | xargs -I{} {} s",
            "echo s | xargs @",
            "xargs -n1 env @ < a",
            "timeout 5 @",
            "grep @ a",
            "echo @",
            "git commit -m @",
            "npm rm @",
            "sed 's/@/b/' a",
            "cat <<< @",
        ];
        let program = self.pick(&["curl", "curl s", "make", "ls", "$runner", "$RUNNER", "cu\\rl", "../bin/curl"]);
        self.pick(FORMS).replace('@', program).replace(" ;", " \\;")
    }

    fn redirect(&mut self, depth: usize) -> String {
        if self.one_in(5) {
            return self.extra_descriptor().to_owned();
        }
        match self.number_below(10) {
            0..=2 => {
                self.pick(&["2>&1", ">/dev/null", "2>/dev/null", ">&2", "&>/dev/null", "< a", "</dev/null"]).to_owned()
            }
            3 => format!("> {}", self.word(depth)),
            4 => format!(">> out/{}", self.pick(&["a", "b", "../x"])),
            5 => "> out/a".to_owned(),
            6 => format!("<<< {}", self.word(depth)),
            7 => format!("< <({})", self.simple(depth)),
            8 => self.pick(&["> made", ">| made", "&> made", "3> made", ">& made", "<> made", "2>made"]).to_owned(),
            _ => format!("> >({})", self.simple(depth)),
        }
    }

    /// Descriptors above 2, some of which are open when the text begins.
    fn extra_descriptor(&mut self) -> &'static str {
        self.pick(&[
            ">&3",
            ">&10",
            "1>&63",
            "2>&3",
            "<&3",
            "<&63",
            ">&3-",
            ">&03",
            "3>&1 1>&2 2>&3",
            "3>/dev/null >&3",
            ">&3 3>/dev/null",
            "3>&-",
            "4>&3",
            ">&47",
            "9>&1 >&9",
            "{fd}>&3",
            ">&$k",
            "<&$x",
        ])
    }

    fn words(&mut self, depth: usize) -> String {
        let count = 1 + self.number_below(3);
        (0..count).map(|_| self.word(depth)).collect::<Vec<_>>().join(" ")
    }

    fn word(&mut self, depth: usize) -> String {
        const PLAIN: &[&str] = &[
            "a",
            "b",
            "sub",
            "-l",
            "-n",
            "--",
            "-",
            "a.txt",
            "./a",
            "x=1",
            "a:b",
            "'a b'",
            "\"a b\"",
            "a\\ b",
            "''",
            "$'a\\tb'",
            "'$(curl q)'",
            "\"\\$(curl q)\"",
            "'a;b'",
            "-rf",
            "5",
            "a#b",
            "\\#",
            "'`curl`'",
            "{}",
            "a'b'\"c\"",
            "%s",
            "+%Y",
        ];
        const EXPANDED: &[&str] = &[
            "$x",
            "\"$x\"",
            "${x}",
            "\"${x}\"",
            "*",
            "*.txt",
            "a?",
            "[ab]",
            "~",
            "~/a",
            "{a,b}",
            "{1..3}",
            "$?",
            "$#",
            "$$",
            "$((1+2))",
            "${x:-a}",
            "\"${f%.txt}\"",
            "\"${x:-'$(curl r)'}\"",
            "\"${x:-'}'\"",
            "\"${HOME:+$'$(curl r)'}\"",
            "$(('$(curl r)'))",
            "${HOME:'$(curl r)'}",
            "$f",
            "\"$f\"",
            "$f/a",
            "sub/$f",
            "${#x}",
            "$((x+1))",
            "${x:=b}",
            "${!x}",
            "${x@P}",
            "$HOME",
            "\"$@\"",
            "$*",
            "$1",
            "$[1+1]",
            "$\"a\"",
            "${x:1}",
            "${x/a/b}",
            "-$x",
            "--output=$x",
            "$file",
            "$k",
            "\"$k\"",
            "${k}",
            "\"$npm_package_config_k\"",
            "$npm_package_config_k",
            "$KEPT",
            "\"$dir/outside\"",
            "$ROOT/outside",
            "$dir/*",
            "$runner",
            "$RUNNER",
            "$option",
            "$_",
            "$OLDPWD",
            "$DIRSTACK",
            "$REPLY",
        ];
        if self.one_in(10) {
            return self.glued_word();
        }
        match self.number_below(10) {
            0..=5 => self.pick(PLAIN).to_owned(),
            6..=7 => self.pick(EXPANDED).to_owned(),
            _ if depth == 0 => self.pick(PLAIN).to_owned(),
            _ => {
                let inner = self.list(depth - 1);
                match self.number_below(8) {
                    0 => format!("\"$({inner})\""),
                    6 => format!("\"${{x:-'$({inner})'}}\""),
                    7 => format!("\"${{x:-${{y:-'`{}`'}}}}\"", inner.replace('`', "")),
                    1 => format!("`{}`", inner.replace('`', "")),
                    2 => format!("<({inner})"),
                    3 => format!("${{x:-$({inner})}}"),
                    4 => format!("a$({inner})b"),
                    _ => format!("$({inner})"),
                }
            }
        }
    }

    /// One word of pieces that touch: where it ends is for bash to say.
    fn glued_word(&mut self) -> String {
        const PIECES: &[&str] = &[
            "a",
            "b",
            "-l",
            "/y",
            "$x",
            "$",
            "$-",
            "$?",
            "${x}",
            "\"b\"",
            "'c'",
            "$'d'",
            "$(echo a)",
            "`echo b`",
            "~",
            "*",
            "{",
            "}",
            ",",
            "=",
            ":",
            "!",
            "%",
            "^",
            "@",
            "[",
            "]",
            "#",
            "\\ ",
            "\\\n",
            "+=",
            "$[1]",
            "$((1))",
            "1",
        ];
        let count = 2 + self.number_below(4);
        (0..count).map(|_| self.pick(PIECES)).collect()
    }
}

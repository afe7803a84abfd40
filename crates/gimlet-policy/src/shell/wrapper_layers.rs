//! Wrappers that add nothing of their own to a command (`timeout`, `nice`, `xargs` without options …), removed so that
//! rules and tables see the rest. Only completely known forms are removed; others stay as they are.

use super::word::Word;

/// A command, or the rest of it after a wrapper.
#[derive(Clone, Copy, Debug)]
pub(super) struct CommandLayer<'a> {
    pub(super) words: &'a [Word],
    /// True if `xargs` adds further words.
    pub(super) gets_more_words: bool,
}

/// Returns the command itself, then the rest after each wrapper, outermost first.
pub(super) fn strip_wrappers(words: &[Word]) -> Vec<CommandLayer<'_>> {
    let mut layers = vec![CommandLayer { words, gets_more_words: false }];
    let mut current = layers[0];
    while let Some(start) = inner_start(current.words) {
        let fed = current.gets_more_words || current.words.first().and_then(Word::value) == Some("xargs");
        current = CommandLayer { words: &current.words[start..], gets_more_words: fed };
        layers.push(current);
    }
    layers
}

/// Returns the index at which the command inside a wrapper begins.
fn inner_start(words: &[Word]) -> Option<usize> {
    let name = words.first()?.value()?;
    let mut at = 1;
    let text = |at: usize| words.get(at).and_then(Word::value);
    while let Some(option) = text(at).filter(|text| text.starts_with('-')) {
        if option == "--" && dashes_end_options(name) {
            at += 1;
            break;
        }
        at += option_length(name, option, text(at + 1))?;
    }
    if name == "timeout" {
        text(at).filter(|duration| is_duration(duration))?;
        at += 1;
    }
    let known = matches!(name, "timeout" | "time" | "nice" | "nohup" | "stdbuf" | "command" | "builtin" | "xargs");
    // The next word must be a command word, not one that only the keyword `time` would understand.
    (known && text(at).is_some_and(is_command_word)).then_some(at)
}

/// Returns true if `--` ends the options of a wrapper; to the keyword `time` it is the name of a program.
fn dashes_end_options(name: &str) -> bool {
    matches!(name, "timeout" | "nice" | "nohup" | "stdbuf" | "command" | "builtin")
}

/// Returns the number of words that an option of a wrapper takes; `None` for an unknown option or an invalid value.
fn option_length(name: &str, option: &str, next: Option<&str>) -> Option<usize> {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let signed = |text: &str| number(text.strip_prefix(['-', '+']).unwrap_or(text));
    match name {
        "time" | "command" => (option == "-p").then_some(1),
        "nice" => match option {
            "-n" | "--adjustment" => next.filter(|value| signed(value)).map(|_| 2),
            _ => {
                let attached = option.strip_prefix("--adjustment=").or_else(|| option.strip_prefix("-n"));
                attached.or_else(|| option.strip_prefix('-')).filter(|value| signed(value)).map(|_| 1)
            }
        },
        "timeout" => match option {
            "--preserve-status" | "--foreground" | "-v" | "--verbose" => Some(1),
            "-k" | "--kill-after" => next.filter(|value| is_duration(value)).map(|_| 2),
            "-s" | "--signal" => next.filter(|value| is_signal(value)).map(|_| 2),
            _ => {
                let killed = option.strip_prefix("--kill-after=").or_else(|| option.strip_prefix("-k"));
                let signal = option.strip_prefix("--signal=").or_else(|| option.strip_prefix("-s"));
                (killed.is_some_and(is_duration) || signal.is_some_and(is_signal)).then_some(1)
            }
        },
        "stdbuf" => match option {
            "-i" | "-o" | "-e" | "--input" | "--output" | "--error" => {
                next.filter(|mode| is_buffer_mode(mode)).map(|_| 2)
            }
            _ => {
                let flags = ["--input=", "--output=", "--error=", "-i", "-o", "-e"];
                flags.iter().find_map(|flag| option.strip_prefix(flag)).filter(|mode| is_buffer_mode(mode)).map(|_| 1)
            }
        },
        _ => None,
    }
}

fn is_duration(text: &str) -> bool {
    let number = text.strip_suffix(['s', 'm', 'h', 'd']).unwrap_or(text);
    number.contains(|c: char| c.is_ascii_digit()) && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

fn is_signal(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Returns true for a buffer mode: `L`, `0`, `4096`, `1M`.
fn is_buffer_mode(text: &str) -> bool {
    text == "L"
        || (text.starts_with(|c: char| c.is_ascii_digit()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

fn is_command_word(text: &str) -> bool {
    const RESERVED: &[&str] = &[
        "if", "then", "else", "elif", "fi", "do", "done", "case", "esac", "while", "until", "for", "select", "in",
        "function", "{", "}", "!", "[[", "]]", "coproc", "time",
    ];
    !text.is_empty() && !RESERVED.contains(&text) && !text.contains('=')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn innermost_command(text: &str) -> String {
        let words: Vec<Word> = text.split(' ').map(Word::from_literal).collect();
        let words = strip_wrappers(&words).last().map(|layer| layer.words.to_vec()).unwrap_or_default();
        words.iter().filter_map(Word::value).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn wrappers_come_off_with_their_options() {
        for text in [
            "timeout 5 make x",
            "timeout -k 5 60s make x",
            "timeout --signal=KILL 1.5m make x",
            "timeout --signal KILL --kill-after 5 .5 make x",
            "timeout -- 5 make x",
            "nice --adjustment 5 make x",
            "nohup -- make x",
            "command -- make x",
            "stdbuf --output L make x",
            "time make x",
            "time -p make x",
            "nice make x",
            "nice -n 10 make x",
            "nice -n10 make x",
            "nice -10 make x",
            "nohup make x",
            "stdbuf -oL make x",
            "stdbuf -o L -e 0 make x",
            "command make x",
            "builtin make x",
            "xargs make x",
            "nohup nice timeout 5 make x",
        ] {
            assert_eq!(innermost_command(text), "make x", "{text}");
        }
    }

    #[test]
    fn what_is_not_known_to_the_last_word_stays() {
        for text in [
            "xargs -n1 make",
            "timeout make",
            "timeout --unknown 5 make",
            "time -o log make",
            "command -v make",
            "sudo make",
            "env make",
            "./timeout 5 make",
            "time A=1 make",
            "nice -n make",
            "stdbuf -x make",
            "timeout 5",
            "exec make",
        ] {
            assert_eq!(innermost_command(text), text, "{text}");
        }
    }
}

//! Placeholders in the text of a skill: its arguments, and variables of the session.

/// Values for the placeholders of one skill.
pub(super) struct ArgumentSubstitution<'a> {
    /// Arguments as typed.
    whole: &'a str,
    words: Vec<String>,
    /// Names of the arguments, in their order.
    names: &'a [String],
    /// Values of `${NAME}`.
    variables: Vec<(String, String)>,
    /// True once the text named an argument.
    uses_arguments: bool,
}

impl<'a> ArgumentSubstitution<'a> {
    pub(super) fn new(whole: &'a str, names: &'a [String], variables: Vec<(String, String)>) -> Self {
        Self { whole, words: split_words(whole), names, variables, uses_arguments: false }
    }

    /// Returns true if a text named an argument.
    pub(super) fn uses_arguments(&self) -> bool {
        self.uses_arguments
    }

    /// Returns a text with its variables replaced, and nothing else.
    pub(super) fn replace_variables(&self, text: &str) -> String {
        self.variables.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("${{{name}}}"), value))
    }

    /// Returns a text with all placeholders replaced. What is put in is not looked at again.
    pub(super) fn replace_all(&mut self, text: &str) -> String {
        let mut replaced = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            let (before, from) = rest.split_at(at);
            let backslashes = before.len() - before.trim_end_matches('\\').len();
            if let Some((value, length)) = self.variable_at(from) {
                replaced.push_str(before);
                replaced.push_str(value);
                rest = &from[length..];
                continue;
            }
            let Some((value, length)) = self.argument_at(from) else {
                replaced.push_str(before);
                replaced.push('$');
                rest = &from[1..];
                continue;
            };
            if backslashes == 1 {
                replaced.push_str(&before[..before.len() - 1]);
                replaced.push_str(&from[..length]);
            } else {
                replaced.push_str(before);
                replaced.push_str(&value);
                self.uses_arguments = true;
            }
            rest = &from[length..];
        }
        replaced.push_str(rest);
        replaced
    }

    /// Returns the value and the length of a variable that the text begins with.
    fn variable_at(&self, text: &str) -> Option<(&str, usize)> {
        let (name, _) = text.strip_prefix("${")?.split_once('}')?;
        let (_, value) = self.variables.iter().find(|(known, _)| known == name)?;
        Some((value, "${}".len() + name.len()))
    }

    /// Returns the value and the length of an argument that the text begins with; `None` for an index that was not
    /// given.
    fn argument_at(&self, text: &str) -> Option<(String, usize)> {
        const WHOLE: &str = "$ARGUMENTS";
        if let Some(rest) = text.strip_prefix(WHOLE)
            && !rest.starts_with(is_name_char)
        {
            if let Some((index, _)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'))
                && !index.is_empty()
                && index.bytes().all(|byte| byte.is_ascii_digit())
            {
                let word = index.parse().ok().and_then(|index: usize| self.words.get(index))?;
                return Some((word.clone(), WHOLE.len() + index.len() + 2));
            }
            return Some((self.whole.to_owned(), WHOLE.len()));
        }
        let name = &text[1..];
        let digits = name.bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 {
            let word = name[..digits].parse().ok().and_then(|index: usize| self.words.get(index))?;
            return Some((word.clone(), 1 + digits));
        }
        let is_here = |known: &&String| {
            !known.is_empty() && name.strip_prefix(known.as_str()).is_some_and(|rest| !rest.starts_with(is_name_char))
        };
        let known = self.names.iter().filter(is_here).max_by_key(|known| known.len())?;
        let index = self.names.iter().position(|name| name == known)?;
        Some((self.words.get(index).cloned().unwrap_or_default(), 1 + known.len()))
    }
}

fn is_name_char(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

/// Splits arguments into words as a shell does: quotes keep words together, a backslash keeps the next character.
fn split_words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match (quote, char) {
            (Some(open), _) if char == open => quote = None,
            (Some('\''), _) => word.get_or_insert_default().push(char),
            (_, '\\') => word.get_or_insert_default().extend(chars.next()),
            (Some(_), _) => word.get_or_insert_default().push(char),
            (None, '"' | '\'') => {
                quote = Some(char);
                word.get_or_insert_default();
            }
            (None, _) if char.is_whitespace() => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(char),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replace(text: &str, args: &str, names: &[&str]) -> (String, bool) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let variables = vec![("CLAUDE_SKILL_DIR".to_owned(), "/s k".to_owned())];
        let mut values = ArgumentSubstitution::new(args, &names, variables);
        let text = values.replace_all(text);
        (text, values.uses_arguments())
    }

    #[test]
    fn arguments_are_counted_from_zero_and_missing_ones_stay() {
        for (text, args, replaced, used) in [
            ("do $ARGUMENTS!", "a  'b c'", "do a  'b c'!", true),
            ("$0|$1|$2", "a 'b c'", "a|b c|$2", true),
            ("$ARGUMENTS[1]$ARGUMENTS[7]", "a \"b\\\" c\"", "b\" c$ARGUMENTS[7]", true),
            ("$ARGUMENTS[x] $ARGUMENTSX", "a", "a[x] $ARGUMENTSX", true),
            ("$10 costs $5", "a b", "$10 costs $5", false),
            (r"\$0 \\$0 \$ARGUMENTS", "a", r"$0 \\a $ARGUMENTS", true),
            ("none", "a", "none", false),
            ("$0 $1", "'' $0", " $0", true),
            ("$", "", "$", false),
        ] {
            assert_eq!(replace(text, args, &[]), (replaced.to_owned(), used), "{text}");
        }
    }

    #[test]
    fn named_arguments_take_the_longest_name_and_are_empty_if_they_are_missing() {
        let names = ["branch", "branch-name", "n"];
        assert_eq!(replace("$branch $branch-name $n $number", "a b c", &names).0, "a b c $number");
        assert_eq!(replace("[$n] \\$n", "a", &names).0, "[] $n");
    }

    #[test]
    fn variables_are_replaced_whatever_stands_before_them_and_unknown_ones_stay() {
        assert_eq!(replace(r"${CLAUDE_SKILL_DIR}/x \${CLAUDE_SKILL_DIR} ${HOME}", "", &[]).0, r"/s k/x \/s k ${HOME}");
        let values = ArgumentSubstitution::new("a", &[], vec![("D".into(), "/d".into())]);
        assert_eq!(values.replace_variables("Bash(${D}/x $0)"), "Bash(/d/x $0)");
    }
}

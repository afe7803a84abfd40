//! Expansion of `${VAR}` and `${VAR:-default}` in server configurations.

use gimlet_proto::Env;

/// Expands variables of an environment in the texts of a configuration.
#[derive(Clone, Debug, Default)]
pub struct VariableExpander {
    env: Env,
    /// Variables that are never expanded.
    withheld: Vec<String>,
}

impl VariableExpander {
    pub fn new(env: Env) -> Self {
        Self { env, withheld: Vec::new() }
    }

    /// Leaves out these variables, which the author of the configuration must not get.
    pub fn without(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.withheld.extend(names);
        self
    }

    /// Adds a variable, which is expanded in any case.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.env = self.env.with(name, value);
        self
    }

    /// Returns the text with its variables expanded. A variable that is not set and has no default stays as it is
    /// written, and its name is added to `unset`.
    pub(crate) fn expand(&self, text: &str, unset: &mut Vec<String>) -> String {
        let mut expanded = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            let (before, after) = (&rest[..start], &rest[start + 2..]);
            expanded.push_str(before);
            let Some(end) = after.find('}') else {
                expanded.push_str(&rest[start..]);
                return expanded;
            };
            let (name, default) = match after[..end].split_once(":-") {
                Some((name, default)) => (name, Some(default)),
                None => (&after[..end], None),
            };
            // An empty value gives way to a default, as in a shell.
            let value = self.value(name).filter(|value| !value.is_empty() || default.is_none());
            match value.or(default) {
                Some(value) => expanded.push_str(value),
                None => {
                    unset.push(name.to_owned());
                    expanded.push_str(&rest[start..start + 2 + end + 1]);
                }
            }
            rest = &after[end + 1..];
        }
        expanded.push_str(rest);
        expanded
    }

    fn value(&self, name: &str) -> Option<&str> {
        if self.withheld.iter().any(|withheld| withheld.eq_ignore_ascii_case(name)) {
            return None;
        }
        self.env.raw(name)?.to_str()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_expanded_or_stay_as_written() {
        let env = Env::default().with("A", "1").with("KEY", "secret").with("EMPTY", "");
        let expander = VariableExpander::new(env).without(["KEY".to_owned()]);
        for (text, wanted, missing) in [
            ("plain $A {A}", "plain $A {A}", ""),
            ("${A}-${A:-2}", "1-1", ""),
            ("${B:-2}/${B:-}", "2/", ""),
            ("${B}${A}", "${B}1", "B"),
            ("${EMPTY:-x}|${EMPTY}", "x|", ""),
            ("${KEY} ${KEY:-none}", "${KEY} none", "KEY"),
            ("${A", "${A", ""),
            ("ä${A}ß", "ä1ß", ""),
        ] {
            let mut unset = Vec::new();
            assert_eq!(expander.expand(text, &mut unset), wanted, "{text}");
            assert_eq!(unset.join(","), missing, "{text}");
        }
    }
}

//! Values of YAML text with the line of each. Parsing is bounded in depth and size, aliases included, and nothing in
//! the text can name a type or a file.

use std::borrow::Cow;
use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Number, Value};

const MAX_DEPTH: usize = 64;
/// Maximum number of values, those that aliases repeat included.
const MAX_NODES: usize = 10_000;

/// Value with the line that it begins in.
#[derive(Clone, Debug)]
pub(super) struct YamlNode {
    pub(super) line: usize,
    pub(super) value: YamlValue,
}

#[derive(Clone, Debug)]
pub(super) enum YamlValue {
    Scalar {
        text: String,
        /// True for text without quotes, which may stand for a number, a switch or nothing.
        is_plain: bool,
    },
    List(Vec<YamlNode>),
    Map(Vec<YamlMember>),
}

#[derive(Clone, Debug)]
pub(super) struct YamlMember {
    pub(super) key: String,
    pub(super) line: usize,
    pub(super) node: YamlNode,
}

/// Reason why a text is not valid YAML.
#[derive(Debug)]
pub(super) struct YamlError {
    pub(super) line: usize,
    pub(super) message: String,
}

/// Parses a text with one document, whose first line has this number.
pub(super) fn parse_yaml(text: &str, first_line: usize) -> Result<YamlNode, YamlError> {
    let mut builder = NodeBuilder::default();
    let mut parser = Parser::new_from_str(text);
    while let Some(next) = parser.next_event() {
        let (event, span) = next.map_err(|error| YamlError {
            line: first_line + error.marker().line().saturating_sub(1),
            message: error.info().to_owned(),
        })?;
        let line = first_line + span.start.line().saturating_sub(1);
        let taken = builder.take_event(event, line).map_err(|message| YamlError { line, message: message.to_owned() });
        taken?;
    }
    let empty = YamlNode { line: first_line, value: YamlValue::Scalar { text: String::new(), is_plain: true } };
    Ok(builder.root.unwrap_or(empty))
}

impl YamlNode {
    /// Returns the JSON that the value stands for.
    pub(super) fn to_json(&self) -> Value {
        match &self.value {
            YamlValue::Scalar { text, is_plain: false } => Value::String(text.clone()),
            YamlValue::Scalar { text, is_plain: true } => plain_to_json(text),
            YamlValue::List(nodes) => nodes.iter().map(YamlNode::to_json).collect(),
            YamlValue::Map(members) => {
                let members = members.iter().map(|member| (member.key.clone(), member.node.to_json()));
                Value::Object(members.collect::<Map<_, _>>())
            }
        }
    }

    pub(super) fn as_scalar(&self) -> Option<&str> {
        match &self.value {
            YamlValue::Scalar { text, .. } => Some(text),
            YamlValue::List(_) | YamlValue::Map(_) => None,
        }
    }
}

fn plain_to_json(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => {
            let whole = text.parse::<i64>().map(Number::from).ok();
            // Words such as `inf` are not numbers in JSON.
            let looks_numeric = text.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first));
            let number =
                whole.or_else(|| looks_numeric.then(|| text.parse().ok().and_then(Number::from_f64)).flatten());
            number.map_or_else(|| Value::String(text.to_owned()), Value::Number)
        }
    }
}

/// List or mapping that is not complete yet.
enum OpenContainer {
    List(Vec<YamlNode>),
    Map { members: Vec<YamlMember>, key: Option<(String, usize)> },
}

struct OpenNode {
    container: OpenContainer,
    line: usize,
    anchor: usize,
}

/// Builder of a value from parser events.
#[derive(Default)]
struct NodeBuilder {
    open: Vec<OpenNode>,
    anchors: HashMap<usize, (YamlNode, usize)>,
    nodes: usize,
    root: Option<YamlNode>,
}

impl NodeBuilder {
    fn take_event(&mut self, event: Event<'_>, line: usize) -> Result<(), &'static str> {
        match event {
            Event::DocumentStart(_) if self.root.is_some() => return Err("a second document begins"),
            Event::Nothing | Event::StreamStart | Event::DocumentStart(_) | Event::StreamEnd | Event::DocumentEnd => {}
            Event::Alias(anchor) => {
                let (node, size) = self.anchors.get(&anchor).ok_or("an alias names an anchor that is not complete")?;
                let (node, size) = (YamlNode { line, ..node.clone() }, *size);
                self.count_nodes(size)?;
                self.add_node(node)?;
            }
            Event::Scalar(text, style, anchor, _) => {
                self.count_nodes(1)?;
                let text: Cow<'_, str> = text;
                let value = YamlValue::Scalar { text: text.into_owned(), is_plain: style == ScalarStyle::Plain };
                self.finish_node(YamlNode { line, value }, anchor, 1)?;
            }
            Event::SequenceStart(anchor, _) => self.open_node(OpenContainer::List(Vec::new()), line, anchor)?,
            Event::MappingStart(anchor, _) => {
                self.open_node(OpenContainer::Map { members: Vec::new(), key: None }, line, anchor)?;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let OpenNode { container, line, anchor } = self.open.pop().ok_or("a list ends that never began")?;
                let value = match container {
                    OpenContainer::List(nodes) => YamlValue::List(nodes),
                    OpenContainer::Map { members, .. } => YamlValue::Map(members),
                };
                let node = YamlNode { line, value };
                let size = if anchor > 0 { node.size() } else { 0 };
                self.finish_node(node, anchor, size)?;
            }
        }
        Ok(())
    }

    fn open_node(&mut self, container: OpenContainer, line: usize, anchor: usize) -> Result<(), &'static str> {
        self.count_nodes(1)?;
        if self.open.len() >= MAX_DEPTH {
            return Err("values are nested too deeply");
        }
        self.open.push(OpenNode { container, line, anchor });
        Ok(())
    }

    fn count_nodes(&mut self, more: usize) -> Result<(), &'static str> {
        self.nodes = self.nodes.saturating_add(more);
        if self.nodes > MAX_NODES { Err("there are too many values") } else { Ok(()) }
    }

    fn finish_node(&mut self, node: YamlNode, anchor: usize, size: usize) -> Result<(), &'static str> {
        if anchor > 0 {
            self.anchors.insert(anchor, (node.clone(), size));
        }
        self.add_node(node)
    }

    fn add_node(&mut self, node: YamlNode) -> Result<(), &'static str> {
        match self.open.last_mut().map(|open| &mut open.container) {
            None => self.root = Some(node),
            Some(OpenContainer::List(nodes)) => nodes.push(node),
            Some(OpenContainer::Map { members, key }) => match key.take() {
                Some((key, line)) => members.push(YamlMember { key, line, node }),
                None => {
                    let text = node.as_scalar().ok_or("a key is not text")?;
                    *key = Some((text.to_owned(), node.line));
                }
            },
        }
        Ok(())
    }
}

impl YamlNode {
    fn size(&self) -> usize {
        1 + match &self.value {
            YamlValue::Scalar { .. } => 0,
            YamlValue::List(nodes) => nodes.iter().map(YamlNode::size).sum(),
            YamlValue::Map(members) => members.iter().map(|member| member.node.size()).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_keep_their_types_and_lines() {
        let node =
            parse_yaml("a: 1\nb: [x, 'true', true]\nc:\n  d: ~\n  e: &n {f: 1.5}\n  g: *n\nh: inf\n", 2).unwrap();
        let expected = json!({"a": 1, "b": ["x", "true", true], "c": {"d": null, "e": {"f": 1.5}, "g": {"f": 1.5}},
            "h": "inf"});
        assert_eq!(node.to_json(), expected);
        let YamlValue::Map(members) = &node.value else { panic!("{node:?}") };
        assert_eq!(members.iter().map(|member| member.line).collect::<Vec<_>>(), [2, 3, 4, 8]);
    }

    #[test]
    fn hostile_text_is_refused_with_its_line() {
        let bomb: String = (1..40).map(|at| format!("a{at}: &a{at} [*a{0}, *a{0}]\n", at - 1)).collect();
        let deep = "[".repeat(5_000);
        for (text, line) in
            [("a: b: c\n", 1), ("x: 1\n? [a]\n: b\n", 2), (&format!("a0: &a0 [x]\n{bomb}"), 12), (&deep, 1)]
        {
            let error = parse_yaml(text, 1).unwrap_err();
            assert_eq!(error.line, line, "{}", error.message);
        }
    }
}

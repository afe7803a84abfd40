//! Hint for an edit whose text is not found: the most similar place, and the first difference.

use super::typography;

/// Lines quoted.
const MOST_QUOTED: usize = 10;
/// Lines of the file that are compared; the search must stay quick in any file.
const MOST_LINES: usize = 50_000;
/// Characters of a line that are compared and quoted.
const MOST_CHARS: usize = 200;

/// Returns a quotation of the closest place, or `None` when nothing is similar.
pub(super) fn describe(text: &str, old: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().take(MOST_LINES).collect();
    let wanted: Vec<&str> = old.lines().collect();
    let start = closest(&lines, &wanted)?;
    let shown = wanted.len().clamp(1, MOST_QUOTED).min(lines.len() - start);
    let mut quoted = String::from("The closest place:");
    for (number, line) in (start + 1..).zip(&lines[start..start + shown]) {
        quoted.push_str(&format!("\n{number}\t{}", head(line)));
    }
    if let Some(difference) = first_difference(&lines[start..], &wanted, start + 1) {
        quoted.push_str(&format!("\n{difference}"));
    }
    Some(quoted)
}

/// Returns the first line of the block most similar to `wanted`.
fn closest(lines: &[&str], wanted: &[&str]) -> Option<usize> {
    // Lines that are equal but for whitespace, case and typography count most; the longest line breaks ties.
    let compared: Vec<(usize, String)> = wanted
        .iter()
        .enumerate()
        .map(|(index, line)| (index, normalize_line(line)))
        .filter(|(_, essence)| essence.len() > 2)
        .take(MOST_QUOTED)
        .collect();
    let essences: Vec<String> = lines.iter().map(|line| normalize_line(line)).collect();
    let score = |start: usize| {
        compared
            .iter()
            .filter(|(index, wanted)| essences.get(start + index).is_some_and(|found| found == wanted))
            .count()
    };
    let best =
        (0..lines.len()).map(|start| (score(start), start)).max_by_key(|(score, start)| (*score, usize::MAX - start));
    if let Some((score, start)) = best
        && score > 0
    {
        return Some(start);
    }
    let (index, longest) = wanted.iter().enumerate().max_by_key(|(_, line)| line.len())?;
    let words = words(longest);
    let share = |line: &str| {
        let found = self::words(line);
        words.iter().filter(|word| found.contains(word)).count()
    };
    let (found, at) =
        (0..lines.len()).map(|at| (share(lines[at]), at)).max_by_key(|(found, at)| (*found, usize::MAX - at))?;
    (found * 2 >= words.len() && found > 0).then(|| at.saturating_sub(index))
}

/// Returns a line without whitespace, case and typography.
fn normalize_line(line: &str) -> String {
    let line = head(line);
    typography::fold(line).text.chars().filter(|c| !c.is_whitespace()).flat_map(char::to_lowercase).collect()
}

fn words(line: &str) -> Vec<&str> {
    let mut words: Vec<&str> = head(line).split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    words.retain(|word| word.len() > 1);
    words.sort_unstable();
    words.dedup();
    words
}

fn head(line: &str) -> &str {
    line.char_indices().nth(MOST_CHARS).map_or(line, |(end, _)| &line[..end])
}

/// Describes the first line that differs, and the difference.
fn first_difference(lines: &[&str], wanted: &[&str], first: usize) -> Option<String> {
    let last = wanted.len().saturating_sub(1);
    for (index, wanted) in wanted.iter().enumerate() {
        let Some(found) = lines.get(index) else {
            return Some(format!("The file ends before line {} of `old_string`.", index + 1));
        };
        // `old_string` may begin and end within a line.
        let is_edge = index == 0 || index == last;
        if found == wanted || (is_edge && found.contains(wanted)) {
            continue;
        }
        return Some(format!("First difference, line {}: {}", first + index, kind_of_difference(found, wanted)));
    }
    None
}

fn kind_of_difference(found: &str, wanted: &str) -> String {
    let unspaced = |line: &str| line.split_whitespace().collect::<Vec<_>>().join("");
    if unspaced(found) == unspaced(wanted) {
        return format!("white space. The file has {:?}, `old_string` has {:?}.", head(found), head(wanted));
    }
    if found.trim().eq_ignore_ascii_case(wanted.trim()) {
        return "upper and lower case.".to_owned();
    }
    let unescaped = wanted.replace("\\n", "\n").replace("\\t", "\t").replace("\\\"", "\"").replace("\\\\", "\\");
    if unescaped != wanted && (unescaped.contains(found.trim()) || found.contains(unescaped.trim())) {
        return "escapes. `old_string` has backslashes that the file does not have.".to_owned();
    }
    let same = found.chars().zip(wanted.chars()).take_while(|(a, b)| a == b).count();
    let rest = |line: &str| line.chars().skip(same).take(30).collect::<String>();
    format!("column {}. The file has {:?}, `old_string` has {:?}.", same + 1, rest(found), rest(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "fn main() {\n\tlet name = \"x\";\n\tprintln!(\"{name}\");\n}\n";

    #[test]
    fn the_first_difference_is_named() {
        let described = |old: &str| describe(CODE, old).unwrap();
        let spaces = described("    let name = \"x\";\n    println!(\"{name}\");");
        assert!(spaces.contains("2\t\tlet name") && spaces.contains("line 2: white space"), "{spaces}");
        assert!(described("\tlet Name = \"x\";").contains("upper and lower case"));
        assert!(described("\tlet name = \\\"x\\\";").contains("escapes"));
        assert!(described("\tlet name = \"y\";").contains("column 14"));
        assert!(described("\tprintln!(\"{name}\");\n}\nfn other() {}").contains("The file ends"));
    }

    #[test]
    fn nothing_alike_is_not_quoted() {
        assert_eq!(describe(CODE, "completely different words"), None);
        assert_eq!(describe("", "x"), None);
    }
}

//! Tables in plain text, for the output of commands.

/// Renders rows with aligned columns. With `numbers`, all columns but the first are aligned to the right.
pub fn text_table(rows: &[Vec<String>], numbers: bool) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let pad = " ".repeat(widths[column] - cell.chars().count());
            if numbers && column > 0 { format!("{pad}{cell}") } else { format!("{cell}{pad}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns a number with its digits in groups of three.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns an amount with cents, and small amounts with a hundredth of a cent.
pub fn format_dollars(amount: f64) -> String {
    if amount < 1.0 { format!("${amount:.4}") } else { format!("${amount:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let rows = [["a", "10"], ["long", "9"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(text_table(&rows, true), "a     10\nlong   9");
        assert_eq!(text_table(&rows, false), "a     10\nlong  9");
        assert_eq!(text_table(&[], false), "");
    }

    #[test]
    fn digits_are_grouped() {
        let all = [0, 999, 1_000, 1_234_567].map(grouped);
        assert_eq!(all, ["0", "999", "1,000", "1,234,567"]);
    }
}

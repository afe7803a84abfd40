//! Several values in one input: separated by a byte that no UTF-8 text contains, so that seeds can be read and a fuzzer
//! can move the borders.

const BORDER: u8 = 0xFF;

/// Returns the values of an input, at least one.
pub(crate) fn split_fields(data: &[u8]) -> Vec<&[u8]> {
    data.split(|byte| *byte == BORDER).collect()
}

/// Returns the values as texts; `None` when there are fewer or one is not UTF-8, which is no input of this kind.
pub(crate) fn split_texts<const N: usize>(data: &[u8]) -> Option<[&str; N]> {
    let texts: Option<Vec<&str>> =
        split_fields(data).into_iter().take(N).map(|field| std::str::from_utf8(field).ok()).collect();
    texts?.try_into().ok()
}

/// Joins values into one input.
pub(crate) fn join_fields(fields: &[&[u8]]) -> Vec<u8> {
    fields.join(&BORDER)
}

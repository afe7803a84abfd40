//! Time as transcripts and wire show it.

use jiff::Timestamp;

/// Now, as ISO 8601 in UTC with milliseconds.
pub fn timestamp() -> String {
    format!("{:.3}", Timestamp::now())
}

/// Today's date where the person is.
pub fn today() -> String {
    jiff::Zoned::now().date().to_string()
}

#[cfg(test)]
mod tests {
    #[test]
    fn timestamps_have_milliseconds_and_z() {
        let now = super::timestamp();
        assert_eq!(now.len(), "2026-01-02T03:04:05.678Z".len(), "{now}");
        assert!(now.ends_with('Z') && now.as_bytes()[19] == b'.');
    }
}

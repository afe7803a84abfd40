//! Files that URLs name: `file://localhost/repo/.en%76`.

/// Returns the paths of `file:` URLs in a text, for any host; `None` for a URL with lists or ranges in it, which may
/// name any file.
pub(super) fn file_url_paths(text: &str) -> Option<Vec<&str>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(':') {
        let (before, behind) = (&rest[..at], &rest[at + 1..]);
        rest = behind;
        let Some(scheme) = before.get(before.len().saturating_sub(4)..) else { continue };
        if !scheme.eq_ignore_ascii_case("file") {
            continue;
        }
        let end = behind.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`')).unwrap_or(behind.len());
        let address = &behind[..end];
        if address.contains(['[', '{']) {
            return None;
        }
        let path = match address.strip_prefix("//") {
            Some(with_host) => with_host.find('/').map(|slash| &with_host[slash..]),
            None => Some(address),
        };
        // After the path there may be a query or fragment, which names no file.
        found.extend(path.map(|path| path.split(['?', '#']).next().unwrap_or(path)));
    }
    found.retain(|path| !path.is_empty());
    Some(found)
}

/// Decodes percent escapes (`%76`); `None` where there are none.
pub(super) fn percent_decode(text: &str) -> Option<String> {
    if !text.contains('%') {
        return None;
    }
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let digits = if *byte == b'%' { bytes.get(at + 1..at + 3) } else { None };
        let digits = digits.and_then(|digits| str::from_utf8(digits).ok());
        let digits = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(value) => {
                decoded.push(value);
                at += 3;
            }
            None => {
                decoded.push(*byte);
                at += 1;
            }
        }
    }
    (decoded != bytes).then(|| String::from_utf8_lossy(&decoded).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_found_behind_any_host_and_in_any_spelling() {
        for address in [
            "file:///repo/.env",
            "file:/repo/.env",
            "FILE://localhost/repo/.env",
            "file://127.0.0.1/repo/.env",
            "url=file:///repo/.env#x",
            "open('file:///repo/.env')",
        ] {
            assert_eq!(file_url_paths(address), Some(vec!["/repo/.env"]), "{address}");
        }
        assert_eq!(file_url_paths("file:///repo/.en[v]"), None);
        assert_eq!(file_url_paths("profile: /x http://a/b"), Some(vec![]));
        assert_eq!(file_url_paths("file:"), Some(vec![]));
    }

    #[test]
    fn numbers_of_bytes_become_letters() {
        assert_eq!(percent_decode("/repo/.en%76").as_deref(), Some("/repo/.env"));
        assert_eq!(percent_decode("%2e%65nv%").as_deref(), Some(".env%"));
        assert_eq!(percent_decode("%C3%A9").as_deref(), Some("é"));
        assert_eq!(percent_decode("100% %s %zz %+1"), None);
        assert_eq!(percent_decode("é%"), None);
    }
}

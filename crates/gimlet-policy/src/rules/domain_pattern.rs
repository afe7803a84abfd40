//! `WebFetch(domain:…)` rules. A URL whose host is ambiguous has no host here: it is never allowed by a domain rule,
//! and one that forbids then asks.

/// A host pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DomainPattern {
    Any,
    /// `*.host`: every subdomain, at any depth, but not the host itself.
    SubdomainsOf(String),
    /// Labels, in each of which `*` matches any run of characters.
    Labels(Vec<String>),
}

impl DomainPattern {
    pub(crate) fn parse(host: &str) -> Option<Self> {
        let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '*');
        if host.is_empty() || !host.chars().all(valid) || host.split('.').any(str::is_empty) {
            return None;
        }
        if host == "*" {
            return Some(DomainPattern::Any);
        }
        match host.strip_prefix("*.") {
            Some(apex) if !apex.contains('*') => Some(DomainPattern::SubdomainsOf(apex.to_owned())),
            _ => Some(DomainPattern::Labels(host.split('.').map(str::to_owned).collect())),
        }
    }

    pub(crate) fn matches(&self, host: &str) -> bool {
        match self {
            DomainPattern::Any => true,
            DomainPattern::SubdomainsOf(apex) => {
                host.strip_suffix(apex.as_str()).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
            }
            DomainPattern::Labels(labels) => {
                let found: Vec<&str> = host.split('.').collect();
                found.len() == labels.len()
                    && labels.iter().zip(found).all(|(label, name)| super::matches_wildcard(label, name))
            }
        }
    }
}

/// Returns the host of an `http` or `https` URL, lower-cased; `None` when it is missing or ambiguous.
pub(crate) fn parse_host(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    if !scheme.eq_ignore_ascii_case("https") && !scheme.eq_ignore_ascii_case("http") {
        return None;
    }
    let authority = rest.split(['/', '?', '#']).next()?;
    let (host, port) = authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port)));
    let host = host.strip_suffix('.').unwrap_or(host);
    let plain = !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    let port_is_number = port.is_none_or(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    (plain && port_is_number).then(|| host.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, url: &str) -> bool {
        parse_host(url).is_some_and(|host| DomainPattern::parse(pattern).unwrap().matches(&host))
    }

    #[test]
    fn hosts_match_by_label_and_by_suffix() {
        assert!(matches("ex.com", "https://EX.com./a?b"));
        assert!(matches("*.ex.com", "https://a.b.ex.com/"));
        assert!(!matches("*.ex.com", "https://ex.com/"));
        assert!(!matches("*.ex.com", "https://evilex.com/"));
        assert!(matches("ex.*", "https://ex.org/"));
        assert!(!matches("ex.*", "https://ex.a.com/"));
        assert!(matches("*", "http://anything:8080/x"));
    }

    #[test]
    fn a_host_that_can_be_read_in_two_ways_is_none() {
        for url in [
            "https://ex.com@evil.org/",
            "https://ex.com\\@evil.org/",
            "file:///etc/passwd",
            "https://[::1]/",
            "ex.com",
            "https://é.com/",
        ] {
            assert_eq!(parse_host(url), None, "{url}");
        }
    }
}

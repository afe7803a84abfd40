//! Rules for the hosts that a command may reach: names, patterns and addresses, compared in one normal form. Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The ports of a pattern without one: permission for a site does not cover other services there.
pub const WEB_PORTS: [u16; 2] = [80, 443];
/// Metadata services, which give credentials to any client inside a cloud.
const METADATA: [IpAddr; 3] = [
    IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x254)),
];

/// A host in the normal form for comparisons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProxyHost {
    /// Lower case, ASCII, without a trailing dot.
    Name(String),
    Address(IpAddr),
}

impl std::fmt::Display for ProxyHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
            Self::Address(address) => write!(f, "{address}"),
        }
    }
}

/// Reads a host as programs write it; `None` for anything that two programs could read differently.
pub(crate) fn parse_host(text: &str) -> Option<ProxyHost> {
    if let Some(inside) = text.strip_prefix('[') {
        return inside
            .strip_suffix(']')?
            .parse()
            .ok()
            .map(|address: Ipv6Addr| ProxyHost::Address(unmap_ipv4(address.into())));
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(ProxyHost::Address(unmap_ipv4(address)));
    }
    let name = normalize_host_name(text)?;
    // `127.1`, `0x7f000001` and `017700000001` are addresses to some resolvers.
    let last = name.rsplit('.').next()?;
    let is_number = last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x");
    (!is_number && !name.contains('*')).then_some(ProxyHost::Name(name))
}

/// Parses a host and port as in `example.org:443` or `[::1]:443`.
pub(crate) fn parse_authority(text: &str) -> Option<(ProxyHost, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    Some((parse_host(host)?, parse_port(port)?))
}

fn parse_port(text: &str) -> Option<u16> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| digits && *port != 0)
}

/// Normalises a host name: lower case, ASCII, no trailing dot; returns `None` for an invalid name. Stars are left to
/// the caller.
fn normalize_host_name(text: &str) -> Option<String> {
    let text = text.strip_suffix('.').unwrap_or(text);
    let name = idna::domain_to_ascii(text).ok()?.to_ascii_lowercase();
    let fits = |label: &str| {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'*');
        (1..=63).contains(&label.len()) && label.bytes().all(known)
    };
    (name.len() <= 253 && name.split('.').all(fits)).then_some(name)
}

/// Returns the IPv4 address of an IPv4-mapped IPv6 address; any other address unchanged.
fn unmap_ipv4(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(address, IpAddr::V4),
        v4 => v4,
    }
}

/// One entry of a list of hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostRule {
    host: HostPattern,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum HostPattern {
    Any,
    /// Everything below this name, but not the name itself.
    Below(String),
    /// Labels in which a star matches any part of one label.
    Name(String),
    Address(IpAddr),
}

/// List for which an entry is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostList {
    Allow,
    Deny,
}

impl HostRule {
    /// Parses `host`, `*.host`, `*` or an address, each with an optional `:port`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let is_bare_v6 = text.parse::<Ipv6Addr>().is_ok();
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !is_bare_v6 && !text.ends_with(']') => (host, Some(parse_port(port)?)),
            _ => (text, None),
        };
        let host = match host {
            "*" => HostPattern::Any,
            host => match host.strip_prefix("*.") {
                Some(rest) => HostPattern::Below(normalize_host_name(rest)?),
                None if host.contains('*') => HostPattern::Name(normalize_host_name(host)?),
                None => match parse_host(host)? {
                    ProxyHost::Name(name) => HostPattern::Name(name),
                    ProxyHost::Address(address) => HostPattern::Address(address),
                },
            },
        };
        Some(Self { host, port })
    }

    /// Returns true if this entry matches that host and port.
    pub(crate) fn matches(&self, host: &ProxyHost, port: u16, list: HostList) -> bool {
        let port_fits = match (self.port, list) {
            (Some(own), _) => own == port,
            (None, HostList::Deny) => true,
            // A user who names an address knows what listens there.
            (None, HostList::Allow) => WEB_PORTS.contains(&port) || matches!(self.host, HostPattern::Address(_)),
        };
        let host_fits = match (&self.host, host) {
            // An address is only allowed explicitly: a name can be looked up, judged and reported; an address hides
            // its owner.
            (HostPattern::Any, ProxyHost::Name(_)) => true,
            (HostPattern::Any, ProxyHost::Address(_)) => list == HostList::Deny,
            (HostPattern::Below(below), ProxyHost::Name(name)) => {
                name.strip_suffix(below.as_str()).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
            }
            (HostPattern::Name(pattern), ProxyHost::Name(name)) => labels_match(pattern, name),
            (HostPattern::Address(own), ProxyHost::Address(address)) => own == address,
            _ => false,
        };
        port_fits && host_fits
    }
}

fn labels_match(pattern: &str, name: &str) -> bool {
    pattern.split('.').count() == name.split('.').count()
        && pattern.split('.').zip(name.split('.')).all(|(pattern, label)| label_matches(pattern, label))
}

fn label_matches(pattern: &str, label: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == label,
        Some((start, rest)) => label.strip_prefix(start).is_some_and(|label| {
            (0..=label.len()).any(|at| label.get(at..).is_some_and(|tail| label_matches(rest, tail)))
        }),
    }
}

/// Returns true if an address that a name resolved to is reachable from the whole internet.
pub fn is_public_address(address: IpAddr) -> bool {
    match unmap_ipv4(address) {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => {
            let [first, second, ..] = v6.segments();
            // Addresses that embed an IPv4 address reach that address.
            let inner = match (first, second) {
                (0x64, 0xff9b) => Some(embedded_ipv4(v6, 12)),
                (0x2002, _) => Some(embedded_ipv4(v6, 2)),
                (0, 0) => Some(embedded_ipv4(v6, 12)),
                _ => None,
            };
            let is_global_unicast = first & 0xe000 == 0x2000;
            let is_teredo_or_documentation = first == 0x2001 && (second == 0 || second == 0x0db8);
            inner.map_or(is_global_unicast && !is_teredo_or_documentation, is_public_v4)
        }
    }
}

fn embedded_ipv4(address: Ipv6Addr, at: usize) -> Ipv4Addr {
    let octets = address.octets();
    let octet = |index: usize| octets.get(at + index).copied().unwrap_or_default();
    Ipv4Addr::new(octet(0), octet(1), octet(2), octet(3))
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let closed = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        || a == 0
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (18..20).contains(&b))
        || a >= 224;
    !closed
}

/// Returns true for addresses that are closed even if they are named explicitly.
pub(crate) fn is_blocked_address(address: IpAddr) -> bool {
    let address = unmap_ipv4(address);
    METADATA.contains(&address)
        || match address {
            IpAddr::V4(v4) => v4.is_link_local() || v4.is_unspecified() || v4.is_multicast() || v4.is_broadcast(),
            IpAddr::V6(v6) => v6.is_unicast_link_local() || v6.is_unspecified() || v6.is_multicast(),
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_what_they_say_and_no_more() {
        for (pattern, host, port, expected) in [
            ("example.org", "example.org", 443, true),
            ("example.org", "EXAMPLE.ORG.", 80, true),
            ("example.org", "www.example.org", 443, false),
            ("example.org", "example.org.evil.net", 443, false),
            ("example.org", "notexample.org", 443, false),
            ("example.org", "example.org", 22, false),
            ("example.org:22", "example.org", 22, true),
            ("example.org:22", "example.org", 443, false),
            ("*.example.org", "a.b.example.org", 443, true),
            ("*.example.org", "example.org", 443, false),
            ("*.example.org", "notexample.org", 443, false),
            ("ex.*", "ex.org", 443, true),
            ("ex.*", "ex.a.com", 443, false),
            ("api-*.example.org", "api-eu1.example.org", 443, true),
            ("api-*.example.org", "api-eu.1.example.org", 443, false),
            ("*", "anything.net", 443, true),
            ("*", "93.184.216.34", 443, false),
            ("93.184.216.34", "93.184.216.34", 8443, true),
            ("[2606:4700::1]:443", "[2606:4700::1]", 443, true),
            ("bücher.example", "xn--bcher-kva.example", 443, true),
            ("bücher.example", "BÜCHER.example", 443, true),
            ("127.0.0.1:9", "[::ffff:127.0.0.1]", 9, true),
        ] {
            let seen = HostRule::parse(pattern)
                .zip(parse_host(host))
                .is_some_and(|(pattern, host)| pattern.matches(&host, port, HostList::Allow));
            assert_eq!(seen, expected, "{pattern} and {host}:{port}");
        }
        let deny = HostRule::parse("*.evil.net").unwrap();
        assert!(deny.matches(&parse_host("a.evil.net").unwrap(), 8080, HostList::Deny));
        assert!(HostRule::parse("*").unwrap().matches(&parse_host("1.2.3.4").unwrap(), 1, HostList::Deny));
    }

    #[test]
    fn hosts_that_could_be_read_in_two_ways_are_refused() {
        for text in [
            "",
            ".",
            "a..b",
            "user@example.org",
            "example.org/evil.net",
            "example.org\r\nHost: evil.net",
            "example.org\0.evil.net",
            "exa mple.org",
            "127.1",
            "0x7f.0.0.1",
            "0x7f000001",
            "2130706433",
            "0177.0.0.1",
            "1.2.3.4.",
            "[::1",
            "[::1]x",
            "[fe80::1%eth0]",
            "example.org%00",
            "example.org#x",
            "*.example.org",
        ] {
            assert_eq!(parse_host(text), None, "{text:?}");
        }
        for text in ["example.org", "example.org:", "example.org:0", "example.org:+80", "example.org:65536", "a:b:80"] {
            assert_eq!(parse_authority(text), None, "{text:?}");
        }
    }

    #[test]
    fn only_addresses_of_the_open_internet_are_public() {
        for text in ["93.184.216.34", "8.8.8.8", "2606:4700::1111", "64:ff9b::808:808", "2002:808:808::1"] {
            assert!(is_public_address(text.parse().unwrap()), "{text}");
        }
        for text in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
            "198.18.0.1",
            "192.0.0.8",
            "::1",
            "::",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "ff02::1",
            "2001::1",
            "2001:db8::1",
        ] {
            assert!(!is_public_address(text.parse().unwrap()), "{text}");
        }
        assert!(is_blocked_address("169.254.1.1".parse().unwrap()));
        assert!(is_blocked_address("::ffff:169.254.169.254".parse().unwrap()));
        assert!(!is_blocked_address("127.0.0.1".parse().unwrap()));
    }
}

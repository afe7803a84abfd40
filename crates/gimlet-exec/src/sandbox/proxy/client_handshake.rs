//! The bytes that clients of a proxy send first: HTTP heads, SOCKS requests, and the greeting of TLS. Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::host_rules::{ProxyHost, parse_authority, parse_host};

/// Request of a client in HTTP.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HttpRequest {
    pub(super) host: ProxyHost,
    pub(super) port: u16,
    pub(super) form: HttpForm,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum HttpForm {
    /// A tunnel.
    Connect,
    /// One request: its head as the server gets it, and what of the following bytes is its body.
    Forward(Vec<u8>, BodyRemainder),
}

/// Returns the end of an HTTP message's head, its empty line included; `None` if it is incomplete.
pub(super) fn find_head_end(bytes: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, b"\r\n\r\n").map(|at| at + 4)
}

/// Reads a request's head; `None` when it is not one that a proxy serves.
pub(super) fn parse_http_request(head: &[u8]) -> Option<HttpRequest> {
    let head = std::str::from_utf8(head).ok()?.strip_suffix("\r\n\r\n")?;
    let mut lines = head.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    if words.next().is_some() || !version.starts_with("HTTP/1.") || head.contains('\0') {
        return None;
    }
    if method == "CONNECT" {
        let (host, port) = parse_authority(target)?;
        return Some(HttpRequest { host, port, form: HttpForm::Connect });
    }
    let rest = target.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("http://")).and(target.get(7..))?;
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let (host, port) = parse_authority(authority).or_else(|| Some((parse_host(authority)?, 80)))?;
    let slash = if path.starts_with('/') { "" } else { "/" };
    let mut forwarded = format!("{method} {slash}{path} {version}\r\nHost: {authority}\r\nConnection: close\r\n");
    let (mut length, mut chunked) = (None, false);
    for line in lines {
        let (name, value) = line.split_once(':')?;
        // A name with whitespace, or a continuation line, is parsed in more than one way.
        if name.is_empty() || name.bytes().any(|byte| byte.is_ascii_whitespace()) || line.contains(['\r', '\n']) {
            return None;
        }
        // Reject headers that two parsers could interpret as different bodies.
        if name.eq_ignore_ascii_case("content-length") {
            let value =
                Some(value.trim_matches([' ', '\t'])).filter(|value| value.bytes().all(|b| b.is_ascii_digit()))?;
            if length.replace(value.parse::<u64>().ok()?).is_some() {
                return None;
            }
        }
        if name.eq_ignore_ascii_case("transfer-encoding") {
            let is_known = value.trim_matches([' ', '\t']).eq_ignore_ascii_case("chunked") && version == "HTTP/1.1";
            if !is_known || std::mem::replace(&mut chunked, true) {
                return None;
            }
        }
        let is_ours = ["host", "connection", "keep-alive", "upgrade"].iter().any(|own| name.eq_ignore_ascii_case(own));
        let is_for_proxies = name.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("proxy-"));
        if !is_ours && !is_for_proxies {
            forwarded.push_str(line);
            forwarded.push_str("\r\n");
        }
    }
    forwarded.push_str("\r\n");
    let body = match (length, chunked) {
        (length, false) => BodyRemainder::Bytes(length.unwrap_or(0)),
        (None, true) => BodyRemainder::Size(Vec::new()),
        (Some(_), true) => return None,
    };
    Some(HttpRequest { host, port, form: HttpForm::Forward(forwarded.into_bytes(), body) })
}

/// Remaining part of a request's body.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BodyRemainder {
    /// So many bytes.
    Bytes(u64),
    /// A chunk, of whose first line this has come.
    Size(Vec<u8>),
    /// So many bytes of a chunk.
    Chunk(u64),
    /// The end of a chunk's line, of which this has come.
    ChunkEnd(Vec<u8>),
    /// The lines behind the last chunk, of the current one of which this has come.
    Trailer(Vec<u8>),
}

/// Longer lines between chunks say nothing that is needed.
const MAX_CHUNK_LINE: usize = 1024;

impl BodyRemainder {
    pub(super) fn is_complete(&self) -> bool {
        *self == Self::Bytes(0)
    }

    /// Returns the number of these bytes that belong to the body; `None` when they are not a valid body.
    pub(super) fn consume(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut rest = bytes;
        while !self.is_complete() && !rest.is_empty() {
            let (Self::Size(line) | Self::ChunkEnd(line) | Self::Trailer(line)) = self else {
                rest = self.consume_data(rest);
                continue;
            };
            let (first, others) = rest.split_first()?;
            rest = others;
            line.push(*first);
            let Some(text) = line.strip_suffix(b"\r\n").map(<[u8]>::to_vec) else {
                // An end of line that only some readers take for one.
                let is_odd = *first == b'\n' || line.iter().rev().skip(1).any(|byte| *byte == b'\r');
                if is_odd || line.len() > MAX_CHUNK_LINE {
                    return None;
                }
                continue;
            };
            *self = match self {
                Self::Size(_) => {
                    let digits = text.split(|byte| *byte == b';').next()?;
                    let digits = std::str::from_utf8(digits).ok().filter(|text| !text.starts_with('+'))?;
                    match u64::from_str_radix(digits, 16).ok()? {
                        0 => Self::Trailer(Vec::new()),
                        size => Self::Chunk(size),
                    }
                }
                Self::ChunkEnd(_) if text.is_empty() => Self::Size(Vec::new()),
                Self::Trailer(_) if text.is_empty() => Self::Bytes(0),
                Self::Trailer(_) => Self::Trailer(Vec::new()),
                Self::ChunkEnd(_) | Self::Bytes(_) | Self::Chunk(_) => return None,
            };
        }
        Some(bytes.len() - rest.len())
    }

    /// Returns the bytes after the data.
    fn consume_data<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let (Self::Bytes(left) | Self::Chunk(left)) = self else { return bytes };
        let len = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
        *left -= len as u64;
        if *self == Self::Chunk(0) {
            *self = Self::ChunkEnd(Vec::new());
        }
        bytes.get(len..).unwrap_or_default()
    }
}

/// Progress of parsing: complete, more data needed, or something else.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ParseProgress<T> {
    Complete(T),
    Partial,
    Invalid,
}

/// Parses the request that follows the greeting of SOCKS 5, with its length.
pub(super) fn parse_socks_request(bytes: &[u8]) -> ParseProgress<(ProxyHost, u16, usize)> {
    let (kind, rest) = match bytes {
        [5, 1, 0, kind, rest @ ..] => (*kind, rest),
        [5, 1, 0] | [5, 1] | [5] | [] => return ParseProgress::Partial,
        _ => return ParseProgress::Invalid,
    };
    let (len, from) = match (kind, rest) {
        (1, _) => (4, 0),
        (4, _) => (16, 0),
        (3, [len, ..]) => (usize::from(*len), 1),
        (3, []) => return ParseProgress::Partial,
        _ => return ParseProgress::Invalid,
    };
    let (Some(address), Some(port)) = (rest.get(from..from + len), rest.get(from + len..from + len + 2)) else {
        return ParseProgress::Partial;
    };
    let host = match kind {
        1 => <[u8; 4]>::try_from(address).ok().map(|octets| IpAddr::V4(Ipv4Addr::from(octets)).to_string()),
        4 => <[u8; 16]>::try_from(address).ok().map(|octets| IpAddr::V6(Ipv6Addr::from(octets)).to_string()),
        _ => std::str::from_utf8(address).ok().map(str::to_owned),
    };
    let port = port.iter().fold(0, |port, byte| port << 8 | u16::from(*byte));
    match host.as_deref().and_then(parse_host) {
        Some(host) if port != 0 => ParseProgress::Complete((host, port, 4 + from + len + 2)),
        _ => ParseProgress::Invalid,
    }
}

/// Parses the server name in the first message of TLS; returns `Wrong` when it is not TLS, an empty name when it has
/// none.
pub(super) fn parse_server_name(bytes: &[u8]) -> ParseProgress<String> {
    match bytes {
        [] | [0x16] => return ParseProgress::Partial,
        [0x16, 3, ..] => {}
        _ => return ParseProgress::Invalid,
    }
    let Some(len) = bytes.get(3..5).map(|len| len.iter().fold(0, |len, byte| len << 8 | usize::from(*byte))) else {
        return ParseProgress::Partial;
    };
    let Some(record) = bytes.get(5..5 + len) else { return ParseProgress::Partial };
    // A greeting cut into several records would hide its name, and no honest client does that.
    match find_server_name(record) {
        Some(name) => ParseProgress::Complete(name),
        None => ParseProgress::Complete("?".to_owned()),
    }
}

fn find_server_name(record: &[u8]) -> Option<String> {
    let mut hello = ByteCursor(record);
    if hello.take(1)? != [1] {
        return None;
    }
    let len = hello.take_number(3)?;
    let mut hello = ByteCursor(hello.take(len)?);
    hello.take(2 + 32)?;
    hello.take_prefixed(1)?;
    hello.take_prefixed(2)?;
    hello.take_prefixed(1)?;
    if hello.0.is_empty() {
        return Some(String::new());
    }
    let mut extensions = ByteCursor(hello.take_prefixed(2)?);
    while !extensions.0.is_empty() {
        let kind = extensions.take_number(2)?;
        let body = extensions.take_prefixed(2)?;
        if kind == 0 {
            let mut names = ByteCursor(ByteCursor(body).take_prefixed(2)?);
            let kind = names.take_number(1)?;
            let name = names.take_prefixed(2)?;
            return (kind == 0).then(|| String::from_utf8_lossy(name).into_owned());
        }
    }
    Some(String::new())
}

/// Bytes that are read from the front.
struct ByteCursor<'a>(&'a [u8]);

impl<'a> ByteCursor<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn take_number(&mut self, len: usize) -> Option<usize> {
        Some(self.take(len)?.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }

    fn take_prefixed(&mut self, len: usize) -> Option<&'a [u8]> {
        let len = self.take_number(len)?;
        self.take(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn host_name(text: &str) -> ProxyHost {
        ProxyHost::Name(text.to_owned())
    }

    #[test]
    fn requests_are_read_and_odd_ones_refused() {
        let connect = parse_http_request(b"CONNECT Example.ORG:443 HTTP/1.1\r\nHost: other\r\n\r\n");
        assert_eq!(connect, Some(HttpRequest { host: host_name("example.org"), port: 443, form: HttpForm::Connect }));
        let get = parse_http_request(b"GET http://a.org/x?y HTTP/1.1\r\nHost: b.org\r\nProxy-Auth: x\r\nA: b\r\n\r\n")
            .unwrap();
        let head = b"GET /x?y HTTP/1.1\r\nHost: a.org\r\nConnection: close\r\nA: b\r\n\r\n".to_vec();
        assert_eq!(
            get,
            HttpRequest { host: host_name("a.org"), port: 80, form: HttpForm::Forward(head, BodyRemainder::Bytes(0)) }
        );
        for odd in [
            "GET / HTTP/1.1\r\nHost: a.org\r\n\r\n",
            "GET http://u:p@a.org/ HTTP/1.1\r\n\r\n",
            "GET https://a.org/ HTTP/1.1\r\n\r\n",
            "CONNECT a.org HTTP/1.1\r\n\r\n",
            "CONNECT a.org:443 x HTTP/1.1\r\n\r\n",
            "CONNECT a.org:443@evil.net:443 HTTP/1.1\r\n\r\n",
            "GET http://a.org/ HTTP/1.1\r\nA : b\r\n\r\n",
            "GET http://a.org/ HTTP/1.1\r\nA: b\r\n folded\r\n\r\n",
            "GET http://a.org\\@evil.net/ HTTP/1.1\r\n\r\n",
        ] {
            assert_eq!(parse_http_request(odd.as_bytes()), None, "{odd:?}");
        }
    }

    #[test]
    fn socks_requests_may_come_in_pieces() {
        let mut request = vec![5, 1, 0, 3, 5];
        request.extend(b"a.org");
        request.extend([1, 187]);
        for cut in 0..request.len() {
            assert_eq!(parse_socks_request(&request[..cut]), ParseProgress::Partial, "{cut}");
        }
        assert_eq!(parse_socks_request(&request), ParseProgress::Complete((host_name("a.org"), 443, 12)));
        let v4 = [5, 1, 0, 1, 127, 0, 0, 1, 0, 80];
        let local = ProxyHost::Address(Ipv4Addr::LOCALHOST.into());
        assert_eq!(parse_socks_request(&v4), ParseProgress::Complete((local, 80, 10)));
        assert_eq!(parse_socks_request(&[5, 2, 0, 1]), ParseProgress::Invalid);
        assert_eq!(parse_socks_request(&[4, 1]), ParseProgress::Invalid);
    }

    fn tls_client_hello(server: Option<&str>) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend([0; 32]);
        body.extend([0, 0, 2, 0x13, 1, 1, 0]);
        let extension = server.map_or_else(Vec::new, |server| {
            let len = server.len() as u8;
            let mut bytes = vec![0, 0, 0, len + 5, 0, len + 3, 0, 0, len];
            bytes.extend(server.as_bytes());
            bytes
        });
        body.extend([0, extension.len() as u8]);
        body.extend(extension);
        let mut record = vec![0x16, 3, 1, 0, body.len() as u8 + 4, 1, 0, 0, body.len() as u8];
        record.extend(body);
        record
    }

    #[test]
    fn the_name_in_the_greeting_of_tls_is_found() {
        let whole = tls_client_hello(Some("a.org"));
        for cut in 0..whole.len() {
            assert_eq!(parse_server_name(&whole[..cut]), ParseProgress::Partial, "{cut}");
        }
        assert_eq!(parse_server_name(&whole), ParseProgress::Complete("a.org".to_owned()));
        assert_eq!(parse_server_name(&tls_client_hello(None)), ParseProgress::Complete(String::new()));
        assert_eq!(parse_server_name(b"SSH-2.0-x"), ParseProgress::Invalid);
        assert_eq!(parse_server_name(&[0x16, 3, 1, 0, 1, 1]), ParseProgress::Complete("?".to_owned()));
    }

    fn body_of(head: &str) -> Option<BodyRemainder> {
        let head = format!("POST http://a.org/ HTTP/1.1\r\n{head}\r\n");
        match parse_http_request(head.as_bytes())?.form {
            HttpForm::Forward(_, body) => Some(body),
            HttpForm::Connect => None,
        }
    }

    #[test]
    fn a_body_ends_where_its_head_says() {
        let chunks = "5;x=y\r\nhello\r\n0A\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n";
        for (head, body) in [
            ("", ""),
            ("Content-Length: 4\r\n", "body"),
            ("content-length:0\r\n", ""),
            ("Transfer-Encoding: chunked\r\n", chunks),
            ("Transfer-Encoding: chunked\r\n", "0\r\n\r\n"),
        ] {
            let sent = format!("{body}GET / HTTP/1.1\r\nHost: evil.net\r\n\r\n");
            let mut left = body_of(head).unwrap();
            assert_eq!(left.consume(sent.as_bytes()), Some(body.len()), "{head} {body}");
            assert!(left.is_complete());
            // The result does not depend on how the input is split.
            let mut left = body_of(head).unwrap();
            let taken: usize = sent.as_bytes().chunks(1).map(|piece| left.consume(piece).unwrap()).sum();
            assert_eq!(taken, body.len(), "{head} {body}");
        }
    }

    #[test]
    fn what_two_readers_could_take_for_different_bodies_is_refused() {
        for head in [
            "Content-Length: 4\r\nContent-Length: 4\r\n",
            "Content-Length: +4\r\n",
            "Content-Length: 4, 5\r\n",
            "Content-Length:\r\n",
            "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: chunked, identity\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        ] {
            assert_eq!(body_of(head), None, "{head}");
        }
        let wrong =
            ["5\nhello", "x\r\n", "\r\n", "+5\r\n", "5\rx\r\n", "2\r\nabc\r\n", "0\r\n\n", "ffffffffffffffffff\r\n"];
        for chunks in wrong {
            assert_eq!(BodyRemainder::Size(Vec::new()).consume(chunks.as_bytes()), None, "{chunks:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            drop(parse_http_request(&bytes));
            drop(parse_socks_request(&bytes));
            drop(parse_server_name(&bytes));
            drop(parse_server_name(&[&[0x16, 3, 1, 0, 200][..], &bytes].concat()));
        }
    }
}

//! Compression with control over the time at which bytes are emitted.

use std::io::Write;

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};

use crate::script::ContentEncoding;

/// Returns the name in `content-encoding`; `None` without compression.
pub(crate) fn name(encoding: ContentEncoding) -> Option<&'static str> {
    match encoding {
        ContentEncoding::Identity => None,
        ContentEncoding::Gzip => Some("gzip"),
        ContentEncoding::Deflate => Some("deflate"),
    }
}

/// A compressor over memory, or none. Writing to memory cannot fail, so its results are ignored.
pub(crate) enum BodyEncoder {
    Identity,
    Gzip(GzEncoder<Vec<u8>>),
    Deflate(ZlibEncoder<Vec<u8>>),
}

impl BodyEncoder {
    pub(crate) fn new(encoding: ContentEncoding) -> Self {
        match encoding {
            ContentEncoding::Identity => BodyEncoder::Identity,
            ContentEncoding::Gzip => BodyEncoder::Gzip(GzEncoder::new(Vec::new(), Compression::fast())),
            ContentEncoding::Deflate => BodyEncoder::Deflate(ZlibEncoder::new(Vec::new(), Compression::fast())),
        }
    }

    /// Encodes bytes and returns the output that is ready; with `flush` that is everything so far.
    pub(crate) fn push(&mut self, bytes: &[u8], flush: bool) -> Vec<u8> {
        match self {
            BodyEncoder::Identity => bytes.to_vec(),
            BodyEncoder::Gzip(encoder) => {
                let written = encoder.write_all(bytes).and_then(|()| if flush { encoder.flush() } else { Ok(()) });
                debug_assert!(written.is_ok());
                std::mem::take(encoder.get_mut())
            }
            BodyEncoder::Deflate(encoder) => {
                let written = encoder.write_all(bytes).and_then(|()| if flush { encoder.flush() } else { Ok(()) });
                debug_assert!(written.is_ok());
                std::mem::take(encoder.get_mut())
            }
        }
    }

    /// Returns the end of the compressed data.
    pub(crate) fn finish(self) -> Vec<u8> {
        match self {
            BodyEncoder::Identity => Vec::new(),
            BodyEncoder::Gzip(encoder) => encoder.finish().unwrap_or_default(),
            BodyEncoder::Deflate(encoder) => encoder.finish().unwrap_or_default(),
        }
    }
}

//! Compression with control over when bytes come out.

use std::io::Write;

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};

use crate::script::Encoding;

/// The name in `content-encoding`.
pub(crate) fn name(encoding: Encoding) -> Option<&'static str> {
    match encoding {
        Encoding::Identity => None,
        Encoding::Gzip => Some("gzip"),
        Encoding::Deflate => Some("deflate"),
    }
}

/// A compressor over memory, or none. Writing to memory cannot fail, so its results carry no news.
pub(crate) enum Encoder {
    Identity,
    Gzip(GzEncoder<Vec<u8>>),
    Deflate(ZlibEncoder<Vec<u8>>),
}

impl Encoder {
    pub(crate) fn new(encoding: Encoding) -> Self {
        match encoding {
            Encoding::Identity => Encoder::Identity,
            Encoding::Gzip => Encoder::Gzip(GzEncoder::new(Vec::new(), Compression::fast())),
            Encoding::Deflate => Encoder::Deflate(ZlibEncoder::new(Vec::new(), Compression::fast())),
        }
    }

    /// Takes bytes in and gives out what is ready; with `flush` that is everything so far.
    pub(crate) fn push(&mut self, bytes: &[u8], flush: bool) -> Vec<u8> {
        match self {
            Encoder::Identity => bytes.to_vec(),
            Encoder::Gzip(encoder) => {
                let written = encoder.write_all(bytes).and_then(|()| if flush { encoder.flush() } else { Ok(()) });
                debug_assert!(written.is_ok());
                std::mem::take(encoder.get_mut())
            }
            Encoder::Deflate(encoder) => {
                let written = encoder.write_all(bytes).and_then(|()| if flush { encoder.flush() } else { Ok(()) });
                debug_assert!(written.is_ok());
                std::mem::take(encoder.get_mut())
            }
        }
    }

    /// The end of the compressed data.
    pub(crate) fn finish(self) -> Vec<u8> {
        match self {
            Encoder::Identity => Vec::new(),
            Encoder::Gzip(encoder) => encoder.finish().unwrap_or_default(),
            Encoder::Deflate(encoder) => encoder.finish().unwrap_or_default(),
        }
    }
}

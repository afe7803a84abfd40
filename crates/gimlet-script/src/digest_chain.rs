//! Digests and the names made from them. Everything here is a pure function, so that one seed always has one result.

use sha2::{Digest, Sha256};

/// A chain of digests: each step covers everything mixed in before.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct DigestChain([u8; 32]);

impl DigestChain {
    pub(crate) fn new(label: &str) -> Self {
        Self(Sha256::digest(label.as_bytes()).into())
    }

    /// Returns the chain after one more part. Parts are length-prefixed, so that moving bytes between parts changes
    /// the result.
    pub(crate) fn mix(self, part: &str) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(self.0);
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
        Self(hasher.finalize().into())
    }

    /// Returns half of the digest in hex: enough to distinguish values, short enough to read.
    pub(crate) fn hex(&self) -> String {
        self.0[..16].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Returns the digest of one text, in hex.
pub(crate) fn digest(text: &str) -> String {
    DigestChain::new("text").mix(text).hex()
}

/// Returns an id such as `toolu_01Abc…`, determined by the seed and the place.
pub(crate) fn make_id(prefix: &str, seed: u64, place: &str) -> String {
    const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let chain = DigestChain::new(prefix).mix(&seed.to_string()).mix(place);
    let tail: String = chain.0[..22].iter().map(|byte| char::from(ALPHABET[usize::from(*byte) % 62])).collect();
    format!("{prefix}_01{tail}")
}

/// A small generator for seeded choices (splitmix64); not for secrets.
pub(crate) struct SeededRng(u64);

impl SeededRng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number in `1..=most`.
    pub(crate) fn next_up_to(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        1 + ((z ^ (z >> 31)) % most.max(1) as u64) as usize
    }
}

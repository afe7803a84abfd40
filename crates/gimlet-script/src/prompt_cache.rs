//! Simulated prompt cache: an entry for every marker, found again by walking back at most twenty pieces.
//!
//! Entries belong to one credential. They are written when the answer's first byte is sent, live from the start of the
//! request and are renewed by hits. Time is passed as a value, so that tests can advance it.

use std::collections::HashMap;
use std::time::Duration;

use crate::anthropic::{MarkerTtl, PromptLayer, RequestPrompt};
use crate::digest_chain::DigestChain;
use crate::prompt_usage::PromptUsage;

/// Number of pieces that a read checks, the marked one included.
const WALK: usize = 20;

/// Values that must be equal, beside the prompt's own bytes, for an entry to be found: one digest for each layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CacheKey {
    /// Credential, model, betas, output format.
    pub(crate) all: String,
    /// Speed.
    pub(crate) system: String,
    /// Thinking, effort, tool choice, presence of images.
    pub(crate) messages: String,
}

#[derive(Clone, Copy)]
struct CacheEntry {
    expires_at: Duration,
    ttl: MarkerTtl,
}

#[derive(Default)]
pub(crate) struct PromptCache {
    entries: HashMap<DigestChain, CacheEntry>,
}

/// Cache pieces that one request reads and will write.
pub(crate) struct CacheLookup {
    pub(crate) usage: PromptUsage,
    hits: Vec<DigestChain>,
    writes: Vec<(DigestChain, MarkerTtl)>,
}

impl PromptCache {
    /// Finds a prompt in the cache without changing anything.
    pub(crate) fn look_up(
        &self,
        prompt: &RequestPrompt,
        key: &CacheKey,
        min_tokens: u64,
        now: Duration,
    ) -> CacheLookup {
        let chains = chains(prompt, key);
        let marked: Vec<usize> = (0..prompt.pieces.len()).filter(|at| prompt.pieces[*at].mark.is_some()).collect();
        let live = |at: &usize| self.entries.get(&chains[*at]).is_some_and(|entry| entry.expires_at > now);
        let found = marked.iter().filter_map(|mark| (mark.saturating_sub(WALK - 1)..=*mark).rev().find(live));
        let hits: Vec<usize> = found.collect();
        let read = hits.iter().max().copied();
        let tokens_at = |at: Option<usize>| at.map_or(0, |at| prompt.pieces[at].tokens_so_far);

        let mut usage = PromptUsage { cache_read_tokens: tokens_at(read), ..PromptUsage::default() };
        let mut covered = usage.cache_read_tokens;
        let mut writes = Vec::new();
        for mark in marked {
            let (tokens, Some(ttl)) = (prompt.pieces[mark].tokens_so_far, prompt.pieces[mark].mark) else { continue };
            if tokens < min_tokens || tokens <= covered {
                continue;
            }
            match ttl {
                MarkerTtl::FiveMinutes => usage.cache_write_5m_tokens += tokens - covered,
                MarkerTtl::OneHour => usage.cache_write_1h_tokens += tokens - covered,
            }
            covered = tokens;
            writes.push((chains[mark], ttl));
        }
        usage.input_tokens = prompt.tokens() - covered;
        CacheLookup { usage, hits: hits.into_iter().map(|at| chains[at]).collect(), writes }
    }

    /// Makes the entries of a lookup readable; their lifetime counts from the request's start.
    pub(crate) fn commit(&mut self, visit: &CacheLookup, started_at: Duration) {
        for hit in &visit.hits {
            if let Some(entry) = self.entries.get_mut(hit) {
                entry.expires_at = entry.expires_at.max(started_at + entry_lifetime(entry.ttl));
            }
        }
        for (chain, ttl) in &visit.writes {
            self.entries.insert(*chain, CacheEntry { expires_at: started_at + entry_lifetime(*ttl), ttl: *ttl });
        }
    }
}

fn entry_lifetime(ttl: MarkerTtl) -> Duration {
    match ttl {
        MarkerTtl::FiveMinutes => Duration::from_secs(300),
        MarkerTtl::OneHour => Duration::from_secs(3600),
    }
}

/// Returns the digest of everything up to each piece, mixing each layer's conditions in where the layer begins.
fn chains(prompt: &RequestPrompt, key: &CacheKey) -> Vec<DigestChain> {
    let mut chain = DigestChain::new("cache").mix(&key.all);
    let mut layer = PromptLayer::Tools;
    let mut chains = Vec::with_capacity(prompt.pieces.len());
    for piece in &prompt.pieces {
        if layer < PromptLayer::System && piece.layer >= PromptLayer::System {
            chain = chain.mix(&key.system);
        }
        if layer < PromptLayer::Messages && piece.layer == PromptLayer::Messages {
            chain = chain.mix(&key.messages);
        }
        layer = piece.layer;
        chain = chain.mix(&piece.text);
        chains.push(chain);
    }
    chains
}

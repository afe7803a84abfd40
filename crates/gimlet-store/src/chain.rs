//! Selection of the live conversation from rows: chooses the newest leaf, walks up, adds back the fan-out of parallel
//! calls.
//!
//! Pure and linear. Missing parents are replaced by the entry before; cycles are cut.

use std::collections::{HashMap, HashSet};

use crate::damage::{Damage, DamageReport};
use crate::transcript_index::{EntryKey, EntryKind, IndexRow};

/// Entries that make up the conversation, in order.
#[derive(Debug, Default)]
pub(crate) struct EntryChain {
    pub(crate) links: Vec<ChainLink>,
    /// Entry that a new one follows.
    pub(crate) last: Option<u32>,
}

/// One entry of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChainLink {
    pub(crate) row: u32,
    /// True if it is not an ancestor of the leaf: another block or result of a reply on the chain.
    pub(crate) fanned_out: bool,
}

const NONE: u32 = u32::MAX;

/// Builds the chain that ends at `leaf`, or at the newest leaf of the main conversation.
pub(crate) fn build_chain(
    rows: &[IndexRow],
    by_uuid: &HashMap<EntryKey, u32>,
    leaf: Option<u32>,
    damage: &mut DamageReport,
) -> EntryChain {
    let links = ParentLinks::resolve_parents(rows, by_uuid);
    let (leaf, last) = match leaf {
        Some(leaf) => (Some(leaf), Some(leaf)),
        None => links.newest_leaf(rows),
    };
    let Some(leaf) = leaf else { return EntryChain::default() };
    let mut walked = links.walk_up(rows, leaf, damage);
    walked.reverse();
    EntryChain { links: add_fan_out(rows, by_uuid, &walked), last }
}

/// Every row's parent as a row, missing ones re-linked.
struct ParentLinks {
    parent: Vec<u32>,
    relinked: Vec<bool>,
    /// True for rows replaced by a later row with an equal id.
    replaced: Vec<bool>,
    named: Vec<bool>,
}

impl ParentLinks {
    fn resolve_parents(rows: &[IndexRow], by_uuid: &HashMap<EntryKey, u32>) -> Self {
        let mut links = ParentLinks {
            parent: vec![NONE; rows.len()],
            relinked: vec![false; rows.len()],
            replaced: vec![false; rows.len()],
            named: vec![false; rows.len()],
        };
        // Last row so far of the main conversation and of side chains, which replaces a lost parent.
        let mut before = [NONE; 2];
        for (at, row) in rows.iter().enumerate() {
            if by_uuid.get(&row.uuid) != Some(&(at as u32)) {
                links.replaced[at] = true;
                continue;
            }
            if row.parent != EntryKey::NONE && !row.boundary {
                match by_uuid.get(&row.parent) {
                    Some(parent) => links.parent[at] = *parent,
                    None => {
                        links.parent[at] = before[usize::from(row.sidechain)];
                        links.relinked[at] = true;
                    }
                }
            }
            if links.parent[at] != NONE {
                links.named[links.parent[at] as usize] = true;
            }
            before[usize::from(row.sidechain)] = at as u32;
        }
        links
    }

    /// Returns the leaf of the conversation and the terminal row below it.
    fn newest_leaf(&self, rows: &[IndexRow]) -> (Option<u32>, Option<u32>) {
        let mut speaker = vec![NONE - 1; rows.len()];
        let current = |at: &usize| !self.replaced[*at];
        let mut terminals: Vec<usize> = (0..rows.len()).filter(current).filter(|at| !self.named[*at]).collect();
        if terminals.is_empty() {
            // All entries are in cycles; the last entry is as good an end as any.
            terminals.extend((0..rows.len()).rfind(current));
        }
        let mut best: Option<LeafCandidate> = None;
        for terminal in terminals {
            let leaf = self.nearest_speaker(rows, &mut speaker, terminal as u32);
            if leaf == NONE {
                continue;
            }
            let row = &rows[leaf as usize];
            let anchor = if row.meta { self.nearest_unhidden(rows, leaf) } else { leaf };
            let candidate =
                LeafCandidate { main: !row.sidechain && !row.team, anchor, leaf, terminal: terminal as u32 };
            if best.as_ref().is_none_or(|best| candidate.rank() > best.rank()) {
                best = Some(candidate);
            }
        }
        (best.map(|best| best.leaf), best.map(|best| best.terminal))
    }

    /// Returns the nearest user or assistant entry at or above `at`; caches the path so that all walks together are
    /// linear.
    fn nearest_speaker(&self, rows: &[IndexRow], known: &mut [u32], at: u32) -> u32 {
        const UNKNOWN: u32 = NONE - 1;
        let mut path = Vec::new();
        let mut here = at;
        let found = loop {
            if here == NONE {
                break NONE;
            }
            let slot = here as usize;
            if known[slot] != UNKNOWN {
                break known[slot];
            }
            if matches!(rows[slot].kind, EntryKind::User | EntryKind::Assistant) {
                break here;
            }
            known[slot] = NONE; // also what a circle of silent entries resolves to
            path.push(slot);
            here = self.parent[slot];
        };
        for slot in path {
            known[slot] = found;
        }
        found
    }

    /// Returns, for a leaf that is hidden from lists, the nearest entry above it that is not. Its position in the file
    /// shows the real age of the branch.
    fn nearest_unhidden(&self, rows: &[IndexRow], leaf: u32) -> u32 {
        // Hidden entries come in short runs; a bound limits the cost of unusual files.
        let mut here = leaf;
        for _ in 0..64 {
            here = self.parent[here as usize];
            if here == NONE {
                return 0;
            }
            let row = &rows[here as usize];
            if matches!(row.kind, EntryKind::User | EntryKind::Assistant) && !row.meta {
                return here;
            }
        }
        0
    }

    /// Walks from the leaf to the root or the last compact boundary; returns the rows, leaf first.
    fn walk_up(&self, rows: &[IndexRow], leaf: u32, damage: &mut DamageReport) -> Vec<u32> {
        let mut visited = vec![false; rows.len()];
        let mut walked = Vec::new();
        let mut here = leaf;
        while here != NONE {
            let slot = here as usize;
            let line = rows[slot].line as usize;
            if visited[slot] {
                damage.add(Damage::Cycle { line });
                break;
            }
            visited[slot] = true;
            walked.push(here);
            if self.relinked[slot] {
                damage.add(Damage::MissingParent { line });
            }
            if rows[slot].boundary {
                break;
            }
            here = self.parent[slot];
        }
        walked
    }
}

#[derive(Clone, Copy)]
struct LeafCandidate {
    main: bool,
    anchor: u32,
    leaf: u32,
    terminal: u32,
}

impl LeafCandidate {
    fn rank(&self) -> (bool, u32, u32) {
        (self.main, self.anchor, self.leaf)
    }
}

/// Adds the blocks and results of replies on the chain that no ancestor line leads through: blocks first, then
/// results, behind the last block of the reply that is on the chain.
fn add_fan_out(rows: &[IndexRow], by_uuid: &HashMap<EntryKey, u32>, walked: &[u32]) -> Vec<ChainLink> {
    let on_chain: HashSet<u32> = walked.iter().copied().collect();
    let mut replies: HashMap<EntryKey, ReplyFanOut> = HashMap::new();
    let mut reply_of: HashMap<EntryKey, EntryKey> = HashMap::new();
    for at in walked {
        let row = &rows[*at as usize];
        if row.message != EntryKey::NONE {
            replies.entry(row.message).or_default().last = *at;
            reply_of.insert(row.uuid, row.message);
        }
    }
    let current =
        |at: usize, row: &IndexRow| by_uuid.get(&row.uuid) == Some(&(at as u32)) && !on_chain.contains(&(at as u32));
    let sidechain = walked.last().is_some_and(|at| rows[*at as usize].sidechain);
    for (at, row) in rows.iter().enumerate() {
        if row.message != EntryKey::NONE
            && row.sidechain == sidechain
            && current(at, row)
            && let Some(reply) = replies.get_mut(&row.message)
        {
            reply.blocks.push(at as u32);
            reply_of.insert(row.uuid, row.message);
        }
    }
    for (at, row) in rows.iter().enumerate() {
        if !row.result || row.sidechain != sidechain {
            continue;
        }
        let owner = reply_of.get(&row.parent).or_else(|| reply_of.get(&row.source));
        if let Some(reply) = owner.and_then(|owner| replies.get_mut(owner))
            && current(at, row)
        {
            reply.results.push(at as u32);
        }
    }
    let mut links = Vec::with_capacity(walked.len());
    for at in walked {
        links.push(ChainLink { row: *at, fanned_out: false });
        let row = &rows[*at as usize];
        if let Some(reply) =
            replies.get(&row.message).filter(|reply| reply.last == *at && row.message != EntryKey::NONE)
        {
            let added = reply.blocks.iter().chain(&reply.results);
            links.extend(added.map(|row| ChainLink { row: *row, fanned_out: true }));
        }
    }
    links
}

/// Entries that belong to one reply beyond the walked chain.
#[derive(Default)]
struct ReplyFanOut {
    /// Its last entry on the chain.
    last: u32,
    blocks: Vec<u32>,
    results: Vec<u32>,
}

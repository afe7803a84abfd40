//! The first part of a sorted list that arrives in any order.
//!
//! A parallel walk finds entries in no particular order, and which of them belong on the page is only known at the end.
//! A page keeps the candidates and drops the rest, so that memory is bounded by the page and not by the number of
//! matches; all entries are counted.

use std::collections::BTreeMap;

/// Value kept for one key.
struct PageEntry<V> {
    value: V,
    /// Number of list entries that this value represents.
    entries: usize,
    bytes: usize,
}

/// A bounded, sorted collection.
pub(crate) struct SortedPage<K, V> {
    wanted: usize,
    most_bytes: usize,
    kept: BTreeMap<K, PageEntry<V>>,
    kept_entries: usize,
    kept_bytes: usize,
    total_values: usize,
    total_entries: usize,
}

impl<K: Ord, V> SortedPage<K, V> {
    /// A page that holds the first `wanted` entries, or fewer when they would take more than `most_bytes`.
    pub(crate) fn new(wanted: usize, most_bytes: usize) -> Self {
        Self {
            wanted,
            most_bytes,
            kept: BTreeMap::new(),
            kept_entries: 0,
            kept_bytes: 0,
            total_values: 0,
            total_entries: 0,
        }
    }

    /// Returns true if a value under this key would be kept now.
    pub(crate) fn admits(&self, key: &K) -> bool {
        let is_full = self.kept_entries >= self.wanted || self.kept_bytes >= self.most_bytes;
        !is_full || self.kept.last_key_value().is_some_and(|(last, _)| key < last)
    }

    /// Counts a value and keeps it if it belongs on the page.
    pub(crate) fn add(&mut self, key: K, value: V, entries: usize, bytes: usize) {
        self.total_values += 1;
        self.total_entries += entries;
        if !self.admits(&key) {
            return;
        }
        self.kept_entries += entries;
        self.kept_bytes += bytes;
        self.kept.insert(key, PageEntry { value, entries, bytes });
        while let Some(last) = self.kept.last_entry() {
            let entries = self.kept_entries - last.get().entries;
            let bytes = self.kept_bytes - last.get().bytes;
            if entries < self.wanted && bytes < self.most_bytes {
                break;
            }
            last.remove();
            (self.kept_entries, self.kept_bytes) = (entries, bytes);
        }
    }

    /// Returns the number of values added.
    pub(crate) fn total_values(&self) -> usize {
        self.total_values
    }

    /// Returns the number of entries that all added values represent.
    pub(crate) fn total_entries(&self) -> usize {
        self.total_entries
    }

    /// Returns the kept values, in order.
    pub(crate) fn into_kept(self) -> impl Iterator<Item = (K, V)> {
        self.kept.into_iter().map(|(key, kept)| (key, kept.value))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kept(page: SortedPage<u32, ()>) -> Vec<u32> {
        page.into_kept().map(|(key, ())| key).collect()
    }

    #[test]
    fn bytes_bound_a_page_that_wants_everything() {
        let mut page = SortedPage::new(usize::MAX, 25);
        for key in [5, 1, 4, 2, 3] {
            page.add(key, (), 1, 10);
        }
        assert_eq!((page.total_values(), page.total_entries()), (5, 5));
        assert_eq!(kept(page), [1, 2, 3]);
    }

    proptest! {
        #[test]
        fn the_order_of_arrival_does_not_matter(
            keys in proptest::collection::btree_map(0u32..1000, 1usize..5, 0..60),
            seed in any::<u64>(),
            wanted in 1usize..40,
        ) {
            let sorted: Vec<(u32, usize)> = keys.clone().into_iter().collect();
            let mut shuffled = sorted.clone();
            shuffled.sort_by_key(|(key, _)| (u64::from(*key) + 1).wrapping_mul(seed | 1));
            let mut page = SortedPage::new(wanted, usize::MAX);
            for (key, entries) in shuffled {
                page.add(key, (), entries, 0);
            }
            let mut before = 0;
            let expected: Vec<u32> = sorted
                .iter()
                .take_while(|(_, entries)| { let fits = before < wanted; before += entries; fits })
                .map(|(key, _)| *key)
                .collect();
            prop_assert_eq!(page.total_entries(), sorted.iter().map(|(_, entries)| entries).sum::<usize>());
            prop_assert_eq!(kept(page), expected);
        }
    }
}

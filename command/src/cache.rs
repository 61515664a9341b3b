//! A bounded map that forgets what was not used for longest, roughly.

use std::{collections::HashMap, hash::Hash, mem};

/// Two generations: what is used moves to the young one; when that is full, the old one goes.
#[derive(Debug)]
pub(crate) struct Cache<K, V> {
    young: HashMap<K, Weighed<V>>,
    old: HashMap<K, Weighed<V>>,
    capacity: usize,
    /// The most bytes that the values may have, approximately, and the bytes of those in the young generation.
    most_bytes: usize,
    young_bytes: usize,
}

/// A value, and about how many bytes it has where that matters.
#[derive(Debug)]
struct Weighed<V> {
    value: V,
    bytes: usize,
}

impl<K: Hash + Eq + Clone, V> Cache<K, V> {
    /// Creates a cache of at most `capacity` entries.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), capacity, most_bytes: usize::MAX, young_bytes: 0 }
    }

    /// Limits the values to about `most_bytes` in all; the newest value is stored whatever its size.
    pub(crate) fn within(self, most_bytes: usize) -> Self {
        Self { most_bytes, ..self }
    }

    /// Returns the value of a key, which counts as used by that.
    pub(crate) fn get(&mut self, key: &K) -> Option<&mut V> {
        if let Some((key, Weighed { value, bytes })) = self.old.remove_entry(key) {
            self.insert_weighing(key, value, bytes);
        }
        self.young.get_mut(key).map(|weighed| &mut weighed.value)
    }

    /// Inserts a value that counts as zero bytes.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        self.insert_weighing(key, value, 0);
    }

    /// Inserts a value of about `bytes` bytes.
    pub(crate) fn insert_weighing(&mut self, key: K, value: V, bytes: usize) {
        self.remove(&key);
        let is_full = self.young.len() >= self.capacity.div_ceil(2);
        if is_full || !self.young.is_empty() && self.young_bytes.saturating_add(bytes) > self.most_bytes / 2 {
            self.old = mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += bytes;
        self.young.insert(key, Weighed { value, bytes });
    }

    /// Removes an entry.
    pub(crate) fn remove(&mut self, key: &K) {
        if let Some(Weighed { bytes, .. }) = self.young.remove(key) {
            self.young_bytes -= bytes;
        }
        self.old.remove(key);
    }

    /// Removes all entries.
    pub(crate) fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
        self.young_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::Cache;

    #[test]
    fn what_is_used_stays_and_the_rest_goes() {
        let mut cache = Cache::new(4);
        for number in 0..100 {
            cache.insert(number, number);
            assert!(cache.get(&0).is_some());
        }
        assert!(cache.get(&50).is_none());
        assert!(cache.young.len() + cache.old.len() <= 4);
    }

    #[test]
    fn what_is_large_takes_the_room_of_many() {
        let mut cache = Cache::new(1000).within(100);
        for number in 0..100 {
            cache.insert_weighing(number, number, 20);
            assert!(cache.get(&0).is_some());
            let bytes = |generation: &std::collections::HashMap<_, super::Weighed<_>>| {
                generation.values().map(|weighed| weighed.bytes).sum::<usize>()
            };
            assert_eq!(bytes(&cache.young), cache.young_bytes);
            assert!(bytes(&cache.young) + bytes(&cache.old) <= 100);
        }
        cache.insert_weighing(100, 100, 1000);
        assert!(cache.get(&100).is_some(), "what was put in last is there");
        cache.insert_weighing(100, 100, 1);
        cache.remove(&100);
        assert_eq!(cache.young_bytes, 0);
    }
}

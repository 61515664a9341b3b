//! A bounded map that forgets what was not used for longest, roughly.

use std::{collections::HashMap, hash::Hash, mem};

/// Two generations: what is used moves to the young one; when that is full, the old one goes.
#[derive(Debug)]
pub(crate) struct Cache<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    capacity: usize,
}

impl<K: Hash + Eq + Clone, V> Cache<K, V> {
    /// A cache of at most `capacity` entries.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), capacity }
    }

    /// The value, which counts as used now.
    pub(crate) fn get(&mut self, key: &K) -> Option<&mut V> {
        if let Some((key, value)) = self.old.remove_entry(key) {
            self.insert(key, value);
        }
        self.young.get_mut(key)
    }

    /// Puts a value in.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        if self.young.len() >= self.capacity.div_ceil(2) {
            self.old = mem::take(&mut self.young);
        }
        self.old.remove(&key);
        self.young.insert(key, value);
    }

    /// Forgets one.
    pub(crate) fn remove(&mut self, key: &K) {
        self.young.remove(key);
        self.old.remove(key);
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
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
}

//! Fairness between tenants of what they share: whose turn it is, and how much of it each may have.
//!
//! It knows neither time nor locks: who uses it brings both.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
};

/// Things that wait, of tenants who take turns. Those of one tenant go in the order in which they came.
#[derive(Debug)]
pub struct Turns<K, T> {
    /// What each has, at least one thing.
    waiting: HashMap<K, VecDeque<T>>,
    /// Whose turn is next; everybody who has something, once.
    order: VecDeque<K>,
    count: usize,
}

impl<K: Hash + Eq + Clone, T> Turns<K, T> {
    /// Puts a thing behind what its tenant has.
    pub fn push(&mut self, tenant: K, thing: T) {
        self.of(tenant).push_back(thing);
    }

    /// Puts a thing before what its tenant has: it was here earlier, and comes back.
    pub fn push_first(&mut self, tenant: K, thing: T) {
        self.of(tenant).push_front(thing);
    }

    /// The first thing of whose turn it is.
    pub fn pop(&mut self) -> Option<(K, T)> {
        self.pop_of(|_| true)
    }

    /// The same among tenants who may have a turn now. The others keep their place.
    pub fn pop_of(&mut self, may: impl Fn(&K) -> bool) -> Option<(K, T)> {
        let place = self.order.iter().position(may)?;
        let tenant = self.order.remove(place)?;
        let things = self.waiting.get_mut(&tenant)?;
        let thing = things.pop_front()?;
        self.count -= 1;
        if things.is_empty() {
            self.waiting.remove(&tenant);
        } else {
            self.order.push_back(tenant.clone());
        }
        Some((tenant, thing))
    }

    /// Takes all things out, in turns.
    pub fn drain(&mut self) -> impl Iterator<Item = T> {
        std::iter::from_fn(|| self.pop().map(|(_, thing)| thing))
    }

    /// How many things there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn of(&mut self, tenant: K) -> &mut VecDeque<T> {
        if !self.waiting.contains_key(&tenant) {
            self.order.push_back(tenant.clone());
        }
        self.count += 1;
        self.waiting.entry(tenant).or_default()
    }
}

impl<K, T> Default for Turns<K, T> {
    fn default() -> Self {
        Self { waiting: HashMap::new(), order: VecDeque::new(), count: 0 }
    }
}

/// Room that tenants share. Nobody may have more of it than is left free, so one who is greedy leaves half of it, a second
/// one half of that, and as they come back for more, two have a third each.
#[derive(Debug)]
pub struct Room<K> {
    free: u64,
    taken: HashMap<K, u64>,
}

/// Why there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// The tenant has this much and may have no more at the moment.
    Share(u64),
    /// There is none left for anybody.
    All,
}

impl<K: Hash + Eq + Clone> Room<K> {
    /// Room of which nobody has any.
    pub fn new(size: u64) -> Self {
        Self { free: size, taken: HashMap::new() }
    }

    /// Gives a tenant some.
    ///
    /// # Errors
    /// When there is not enough, or when the tenant would then have more than is free. Whoever has nothing may have what
    /// there is.
    pub fn take(&mut self, tenant: &K, amount: u64) -> Result<(), Full> {
        let left = self.free.checked_sub(amount).ok_or(Full::All)?;
        let has = self.taken.get(tenant).copied().unwrap_or_default();
        if has > 0 && has + amount > left {
            return Err(Full::Share(has));
        }
        self.free = left;
        *self.taken.entry(tenant.clone()).or_default() += amount;
        Ok(())
    }

    /// Takes some of it back that a tenant had been given.
    pub fn give_back(&mut self, tenant: &K, amount: u64) {
        let Some(taken) = self.taken.get_mut(tenant) else { return };
        let amount = amount.min(*taken);
        *taken -= amount;
        self.free += amount;
        if *taken == 0 {
            self.taken.remove(tenant);
        }
    }
}

#[cfg(test)]
mod tests;

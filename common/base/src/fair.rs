//! Fairness between tenants that share something: whose turn it is, and how much of it each may have.
//!
//! Deliberately knows neither time nor locks: callers bring both.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
};

/// A queue of things of several tenants, which take turns. The things of one tenant stay in the order in which they
/// arrived.
#[derive(Debug)]
pub struct Turns<K, T> {
    /// The queue of each tenant, with at least one thing.
    waiting: HashMap<K, VecDeque<T>>,
    /// The tenants by turn, the next one first. Every tenant that has something is in it once.
    order: VecDeque<K>,
    count: usize,
}

impl<K: Hash + Eq + Clone, T> Turns<K, T> {
    /// Appends a thing to the queue of its tenant.
    pub fn push(&mut self, tenant: K, thing: T) {
        self.of(tenant).push_back(thing);
    }

    /// Puts a thing first in the queue of its tenant: it was there earlier, and comes back.
    pub fn push_first(&mut self, tenant: K, thing: T) {
        self.of(tenant).push_front(thing);
    }

    /// Removes and returns the first thing of the tenant whose turn it is.
    pub fn pop(&mut self) -> Option<(K, T)> {
        self.pop_of(|_| true)
    }

    /// Like [`Turns::pop`], but only among tenants that may have a turn. The others keep their position.
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

    /// Removes all things, in turns.
    pub fn drain(&mut self) -> impl Iterator<Item = T> {
        std::iter::from_fn(|| self.pop().map(|(_, thing)| thing))
    }

    /// Returns the number of things.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no things.
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

/// Room that tenants share. No tenant may have more of it than is left free: a greedy one leaves half of it, a second
/// one half of that, and as they come back for more, each of the two ends up with a third.
#[derive(Debug)]
pub struct Room<K> {
    free: u64,
    taken: HashMap<K, u64>,
}

/// Why there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// The tenant already has this much, and may have no more at the moment.
    Share(u64),
    /// No room is left for any tenant.
    All,
}

impl<K: Hash + Eq + Clone> Room<K> {
    /// Creates room of which no tenant has any.
    pub fn new(size: u64) -> Self {
        Self { free: size, taken: HashMap::new() }
    }

    /// Gives room to a tenant.
    ///
    /// # Errors
    /// If there is not enough, or if the tenant would then have more than is free. A tenant that has nothing may have
    /// all that is left.
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

    /// Takes back room that a tenant was given.
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

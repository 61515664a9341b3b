//! Limits of the pages that a node keeps up to date at a time. Tenants take no seats of operators, and each only a few.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The seats of operators.
const OF_SYSTEM: usize = 100;
/// The seats of administrators, of all instances and of one.
const OF_INSTANCES: usize = 200;
const OF_INSTANCE: usize = 10;

/// Seats for pages that update themselves.
pub(super) struct Seats {
    system: Arc<Semaphore>,
    instances: Arc<Semaphore>,
    /// The seats of each instance that has taken any.
    of_instance: Mutex<HashMap<String, Weak<Semaphore>>>,
}

/// A taken seat, which is freed on drop.
pub(super) struct Seat {
    _permits: Vec<OwnedSemaphorePermit>,
}

impl Default for Seats {
    fn default() -> Self {
        let [system, instances] = [OF_SYSTEM, OF_INSTANCES].map(|most| Arc::new(Semaphore::new(most)));
        Self { system, instances, of_instance: Mutex::default() }
    }
}

impl Seats {
    /// Takes a seat of operators, if one is left.
    pub(super) fn of_system(&self) -> Option<Seat> {
        acquire([self.system.clone()])
    }

    /// Takes a seat of an administrator of an instance, if one is left.
    pub(super) fn of_instance(&self, id: &str) -> Option<Seat> {
        let mut instances = self.of_instance.lock().unwrap_or_else(PoisonError::into_inner);
        instances.retain(|_, seats| seats.strong_count() > 0);
        let known = instances.get(id).and_then(Weak::upgrade);
        let own = known.unwrap_or_else(|| Arc::new(Semaphore::new(OF_INSTANCE)));
        instances.insert(id.to_owned(), Arc::downgrade(&own));
        acquire([own, self.instances.clone()])
    }
}

fn acquire<const N: usize>(all: [Arc<Semaphore>; N]) -> Option<Seat> {
    let permits = all.into_iter().map(Semaphore::try_acquire_owned).collect::<Result<_, _>>();
    Some(Seat { _permits: permits.ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_takes_nobody_elses_and_all_of_them_take_none_of_operators() {
        let seats = Seats::default();
        let mut taken: Vec<Seat> = (0..OF_INSTANCE).filter_map(|_| seats.of_instance("1")).collect();
        assert_eq!(taken.len(), OF_INSTANCE);
        assert!(seats.of_instance("1").is_none() && seats.of_instance("2").is_some());
        taken.pop();
        assert!(seats.of_instance("1").is_some(), "what was left is free");
        let others: Vec<Seat> = (0..OF_INSTANCES).filter_map(|number| seats.of_instance(&number.to_string())).collect();
        assert_eq!(taken.len() + others.len(), OF_INSTANCES, "there are so many in all");
        assert!(seats.of_system().is_some());
        drop((taken, others));
        assert!(seats.of_instance("3").is_some());
        assert_eq!(seats.of_instance.lock().unwrap().len(), 1, "nothing is kept of who has left");
    }
}

//! The bounds of the queue. It shares its disk with the log, so no instance may fill it with deliveries that its targets
//! do not take, and no target the part of its instance. Where there are many, deliveries are queued without bodies, which
//! are read from history when the target is called.

use std::{
    collections::HashMap,
    mem,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use base::{fault, metric::catalog::DELIVERIES};

use super::payload::Delivery;

/// The largest body of a delivery in the queue, in bytes, where the instance has more than a few.
const LARGEST_BODY: usize = 16 * 1024;
/// From how many bytes on deliveries are queued without bodies.
const MOST_BYTES: u64 = 1 << 30;
/// How old a count may be by which a delivery is refused.
const CURRENT: Duration = Duration::from_secs(1);
/// How often it is logged what was refused.
const LOGGED_EVERY: Duration = Duration::from_mins(1);

/// How many deliveries there may be, those that wait and those that were given up.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// Of one instance; beyond it, only targets with a few get more.
    of_instance: u64,
    /// Of one target.
    of_target: u64,
    /// Of one instance, with bodies.
    with_body: u64,
    /// Of all instances; beyond it, only those with a few get more.
    in_all: u64,
    /// What is a few.
    few: u64,
}

/// What is in the queue.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Used {
    /// How many bytes there are in all.
    pub(super) bytes: u64,
    in_all: u64,
    of_instances: HashMap<String, OfInstance>,
}

/// How many deliveries an instance has, and how many each of its targets.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct OfInstance {
    count: u64,
    of_targets: HashMap<String, u64>,
}

/// The room in the queue, as of the last count and what was put in since.
#[derive(Debug)]
pub(super) struct Room {
    bounds: Bounds,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    used: Used,
    counted_at: Instant,
    /// How many deliveries of each instance were refused since that was logged.
    refused: HashMap<String, u64>,
    logged_at: Option<Instant>,
}

/// Whether there is room for a delivery.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// There is, and it counts.
    Admitted,
    /// There seems to be none, but what was delivered meanwhile still counts.
    Uncertain,
    /// There is none.
    Refused,
}

impl Used {
    /// Adds deliveries to a target.
    pub(super) fn add(&mut self, instance_id: &str, target_id: &str, count: u64) {
        self.in_all += count;
        let instance = self.of_instances.entry(instance_id.to_owned()).or_default();
        instance.count += count;
        *instance.of_targets.entry(target_id.to_owned()).or_default() += count;
    }

    /// Returns how many deliveries an instance has, and one of its targets.
    fn of(&self, Delivery { instance_id, target_id, .. }: &Delivery) -> (u64, u64) {
        let Some(instance) = self.of_instances.get(instance_id) else { return (0, 0) };
        (instance.count, instance.of_targets.get(target_id).copied().unwrap_or_default())
    }
}

impl Bounds {
    fn new(of_instance: u64) -> Self {
        let few = (of_instance / 1000).max(1);
        Self { of_instance, of_target: of_instance / 10, with_body: of_instance / 20, in_all: of_instance * 10, few }
    }

    fn has_room(&self, used: &Used, delivery: &Delivery) -> bool {
        let (of_instance, of_target) = used.of(delivery);
        let most_of_target = if of_instance < self.of_instance { self.of_target } else { self.few };
        of_target < most_of_target && (used.in_all < self.in_all || of_instance < self.few)
    }

    /// Returns the largest body that a delivery may be queued with, in bytes.
    fn largest_body(&self, used: &Used, delivery: &Delivery) -> usize {
        match used.of(delivery).0 {
            _ if used.bytes >= MOST_BYTES => 0,
            few if few < self.few => usize::MAX,
            some if some < self.with_body => LARGEST_BODY,
            _ => 0,
        }
    }
}

impl Room {
    pub(super) fn new(used: Used) -> Self {
        let bounds = Bounds::new(fault::lowered("PLATFORM_MOST_DELIVERIES", 100_000));
        let state = State { used, counted_at: Instant::now(), refused: HashMap::new(), logged_at: None };
        Self { bounds, state: Mutex::new(state) }
    }

    /// Takes over a count, and logs now and then what was refused.
    pub(super) fn renew(&self, used: Used) {
        let now = Instant::now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (state.used, state.counted_at) = (used, now);
        if state.refused.is_empty() || state.logged_at.is_some_and(|at| at + LOGGED_EVERY > now) {
            return;
        }
        let refused = mem::take(&mut state.refused);
        state.logged_at = Some(now);
        drop(state);
        for (instance, count) in refused {
            tracing::error!(instance, count, "events are not delivered: the queue has no room for them");
        }
    }

    /// Counts a delivery that is to be put in, if there is room, and omits its body if there are many.
    pub(super) fn admit(&self, delivery: &mut Delivery) -> Admission {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.bounds.has_room(&state.used, delivery) {
            if state.counted_at.elapsed() > CURRENT {
                return Admission::Uncertain;
            }
            DELIVERIES.with(&["refused"]).count();
            *state.refused.entry(delivery.instance_id.clone()).or_default() += 1;
            return Admission::Refused;
        }
        let largest = self.bounds.largest_body(&state.used, delivery);
        delivery.body.take_if(|body| body.get().len() > largest);
        state.used.bytes += delivery.body.as_ref().map_or(0, |body| body.get().len() as u64);
        state.used.add(&delivery.instance_id, &delivery.target_id, 1);
        Admission::Admitted
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{json, value::to_raw_value};

    use super::*;

    const SMALL: usize = 100;
    const LARGE: usize = LARGEST_BODY + 1;

    /// Returns a room in which targets of instances have some deliveries.
    fn room(used: &[(&str, &str, u64)]) -> Room {
        let mut all = Used::default();
        for (instance_id, target_id, count) in used {
            all.add(instance_id, target_id, *count);
        }
        Room::new(all)
    }

    fn delivery(instance_id: &str, target_id: &str, size: usize) -> Delivery {
        let delivery = json!({
            "id": "1", "instanceId": instance_id, "targetId": target_id, "aggregate": "user/3", "eventType": "user.added",
            "sequence": 4, "depth": 0, "traceContext": "",
        });
        let body = to_raw_value(&"x".repeat(size - 2)).ok();
        Delivery { body, ..serde_json::from_value(delivery).unwrap() }
    }

    fn is_admitted(room: &Room, instance_id: &str, target_id: &str) -> bool {
        room.admit(&mut delivery(instance_id, target_id, SMALL)) == Admission::Admitted
    }

    #[test]
    fn bodies_are_omitted_where_there_are_many() {
        for (own, size, has_body) in [
            (99, LARGE, true),
            (100, LARGE, false),
            (100, LARGE - 1, true),
            (4_999, SMALL, true),
            (5_000, SMALL, false),
        ] {
            let mut delivery = delivery("a", "1", size);
            assert_eq!(room(&[("a", "1", own)]).admit(&mut delivery), Admission::Admitted);
            assert_eq!(delivery.body.is_some(), has_body, "{own} {size}");
        }
        let room = Room::new(Used { bytes: MOST_BYTES - 1, ..Used::default() });
        for has_body in [true, false] {
            let mut delivery = delivery("a", "1", SMALL);
            assert_eq!(room.admit(&mut delivery), Admission::Admitted);
            assert_eq!(delivery.body.is_some(), has_body);
        }
    }

    #[test]
    fn what_is_put_in_counts_until_it_is_counted_anew() {
        let room = room(&[("a", "1", 9_998)]);
        let admitted = [(); 3].map(|()| is_admitted(&room, "a", "1"));
        assert_eq!(admitted, [true, true, false]);
        room.renew(Used::default());
        assert!(is_admitted(&room, "a", "1"));
    }

    #[test]
    fn nothing_is_refused_by_an_old_count() {
        let room = room(&[("a", "1", 10_000)]);
        assert_eq!(room.admit(&mut delivery("a", "1", SMALL)), Admission::Refused);
        let old = Instant::now().checked_sub(2 * CURRENT).expect("the clock runs for longer");
        room.state.lock().unwrap().counted_at = old;
        assert_eq!(room.admit(&mut delivery("a", "1", SMALL)), Admission::Uncertain);
    }

    #[test]
    fn a_target_takes_no_room_from_others_and_an_instance_none_from_others() {
        let targets: Vec<String> = (0..10).map(|number| number.to_string()).collect();
        let mut full: Vec<_> = targets.iter().map(|target| ("a", target.as_str(), 10_000)).collect();
        assert!(!is_admitted(&room(&full[..1]), "a", "0") && is_admitted(&room(&full[..1]), "a", "other"));
        full.extend([("a", "some", 100), ("a", "few", 99), ("b", "0", 9_999)]);
        let room = room(&full);
        let admitted = ["some", "few", "none"].map(|target| is_admitted(&room, "a", target));
        assert_eq!(admitted, [false, true, true]);
        assert!(is_admitted(&room, "b", "0"));
    }

    #[test]
    fn the_queue_has_an_end_whoever_fills_it() {
        let room = Room { bounds: Bounds::new(1000), ..room(&[]) };
        let names: Vec<String> = (0..300).map(|number| number.to_string()).collect();
        for (instance, target) in names.iter().flat_map(|name| names[..20].iter().map(move |target| (name, target))) {
            while is_admitted(&room, instance, target) {}
        }
        let state = room.state.lock().unwrap();
        assert_eq!(state.used.of_instances["0"].count, 1000 + 10, "its last ten targets have one each");
        assert_eq!(state.used.in_all, 10_000 + 290, "the last instances have one each");
    }
}

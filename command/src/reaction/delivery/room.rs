//! The bounds of the queue. It shares its disk with the log, so no instance may fill it with deliveries that its targets
//! do not take: there are at most [`Bounds::of_instance`] of each, of which only some have bodies. The others get theirs
//! from history when the target is called.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use base::{fault, metric::catalog::DELIVERIES};

use super::payload::Delivery;

/// The largest body of a delivery in the queue, in bytes, where the instance has more than a few.
const LARGEST_BODY: usize = 16 * 1024;
/// From how many bytes on deliveries are queued without bodies.
const MOST_BYTES: u64 = 1 << 30;

/// How many deliveries there may be, those that wait and those that were given up.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// Of one instance.
    of_instance: u64,
    /// Of one instance, with bodies of any size.
    with_any_body: u64,
    /// Of one instance, with bodies.
    with_body: u64,
    /// Of all instances; beyond it each has the same share.
    in_all: u64,
}

/// What is in the queue.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Used {
    /// How many bytes there are in all.
    pub(super) bytes: u64,
    /// How many deliveries each instance has.
    pub(super) of_instances: HashMap<String, u64>,
}

/// The room in the queue, as of the last count and what was put in since.
#[derive(Debug)]
pub(super) struct Room {
    bounds: Bounds,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    used: Used,
    in_all: u64,
    /// How many deliveries of each instance were refused since the last count.
    refused: HashMap<String, u64>,
}

impl Bounds {
    fn of(of_instance: u64) -> Self {
        Self { of_instance, with_any_body: of_instance / 1000, with_body: of_instance / 10, in_all: of_instance * 10 }
    }
}

impl Room {
    pub(super) fn new(used: Used) -> Self {
        let room =
            Self { bounds: Bounds::of(fault::lowered("PLATFORM_MOST_DELIVERIES", 100_000)), state: Mutex::default() };
        room.renew(used);
        room
    }

    /// Takes over a count, and reports what was refused since the last one.
    pub(super) fn renew(&self, used: Used) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for (instance, count) in state.refused.drain() {
            tracing::error!(instance, count, "events are not delivered: the queue has no room for them");
        }
        (state.in_all, state.used) = (used.of_instances.values().sum(), used);
    }

    /// Counts a delivery that is to be put in, and omits its body if there are many; returns whether there is room.
    pub(super) fn admit(&self, delivery: &mut Delivery) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { used: Used { bytes, of_instances }, in_all, refused } = &mut *state;
        let instances = of_instances.len() as u64;
        let own = of_instances.entry(delivery.instance_id.clone()).or_default();
        let Bounds { of_instance, with_any_body, with_body, in_all: most } = self.bounds;
        let limit = if *in_all < most { of_instance } else { most / instances.max(1) };
        if *own >= limit {
            DELIVERIES.with(&["refused"]).count();
            *refused.entry(delivery.instance_id.clone()).or_default() += 1;
            return false;
        }
        let largest = match *own {
            _ if *bytes >= MOST_BYTES => 0,
            few if few < with_any_body => usize::MAX,
            some if some < with_body => LARGEST_BODY,
            _ => 0,
        };
        delivery.body.take_if(|body| body.get().len() > largest);
        *bytes += delivery.body.as_ref().map_or(0, |body| body.get().len() as u64);
        (*own, *in_all) = (*own + 1, *in_all + 1);
        true
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{json, value::to_raw_value};

    use super::*;

    const SMALL: usize = 100;
    const LARGE: usize = LARGEST_BODY + 1;

    fn room(used: &[(&str, u64)]) -> Room {
        let of_instances = used.iter().map(|(id, count)| ((*id).to_owned(), *count)).collect();
        Room::new(Used { bytes: 0, of_instances })
    }

    /// Returns whether a delivery with a body of a size is admitted, and whether it then still has its body.
    fn admit(room: &Room, instance_id: &str, size: usize) -> (bool, bool) {
        let delivery = json!({
            "id": "1", "instanceId": instance_id, "targetId": "2", "aggregate": "user/3", "eventType": "user.added",
            "sequence": 4, "depth": 0, "traceContext": "",
        });
        let mut delivery: Delivery = serde_json::from_value(delivery).unwrap();
        delivery.body = to_raw_value(&"x".repeat(size - 2)).ok();
        (room.admit(&mut delivery), delivery.body.is_some())
    }

    #[test]
    fn bodies_are_omitted_before_anything_is_refused() {
        for (own, size, expected) in [
            (0, LARGE, (true, true)),
            (99, LARGE, (true, true)),
            (100, LARGE, (true, false)),
            (100, LARGE - 1, (true, true)),
            (9_999, SMALL, (true, true)),
            (10_000, SMALL, (true, false)),
            (99_999, SMALL, (true, false)),
            (100_000, SMALL, (false, true)),
        ] {
            assert_eq!(admit(&room(&[("a", own)]), "a", size), expected, "{own} {size}");
        }
    }

    #[test]
    fn what_is_put_in_counts_until_it_is_counted_anew() {
        let room = room(&[("a", 99_998)]);
        let admitted = || admit(&room, "a", SMALL).0;
        assert_eq!([admitted(), admitted(), admitted()], [true, true, false]);
        room.renew(Used::default());
        assert!(admitted());
    }

    #[test]
    fn one_instance_takes_no_room_from_others_and_a_full_queue_is_shared() {
        let full = [("a", 100_000), ("b", 5)];
        assert_eq!((admit(&room(&full), "a", SMALL).0, admit(&room(&full), "b", SMALL).0), (false, true));
        let names: Vec<String> = (0..12).map(|number| number.to_string()).collect();
        let shared: Vec<_> = names.iter().map(|name| (name.as_str(), 83_333)).chain([("b", 83_000)]).collect();
        let shared = room(&shared);
        assert_eq!((admit(&shared, "0", SMALL).0, admit(&shared, "b", SMALL).0), (false, false));
        assert!(admit(&shared, "new", SMALL).0);
    }

    #[test]
    fn no_delivery_has_a_body_where_there_are_too_many_bytes() {
        let room = Room::new(Used { bytes: MOST_BYTES - 1, of_instances: HashMap::new() });
        assert_eq!(admit(&room, "a", SMALL), (true, true));
        assert_eq!(admit(&room, "b", SMALL), (true, false));
    }
}

use std::collections::HashMap;

use proptest::prelude::*;

use super::{Full, Room, Turns};

fn all(turns: &mut Turns<&'static str, u32>) -> Vec<u32> {
    turns.drain().collect()
}

#[test]
fn tenants_take_turns_and_each_has_its_own_order() {
    let mut turns = Turns::default();
    for number in 1..=4 {
        turns.push("greedy", number);
    }
    turns.push("quiet", 10);
    assert_eq!((turns.len(), all(&mut turns)), (5, vec![1, 10, 2, 3, 4]));
    assert!(turns.is_empty());
}

#[test]
fn what_comes_back_is_first_again() {
    let mut turns = Turns::default();
    turns.push("one", 1);
    turns.push("one", 2);
    let (tenant, first) = turns.pop().expect("there are two");
    turns.push_first(tenant, first);
    assert_eq!(all(&mut turns), [1, 2]);
}

#[test]
fn whoever_may_not_have_a_turn_keeps_its_place() {
    let mut turns = Turns::default();
    turns.push("busy", 1);
    turns.push("other", 2);
    turns.push("other", 3);
    assert_eq!(turns.pop_of(|tenant| *tenant != "busy"), Some(("other", 2)));
    assert_eq!(turns.pop_of(|tenant| *tenant == "nobody"), None);
    assert_eq!(all(&mut turns), [1, 3]);
}

#[test]
fn a_greedy_tenant_leaves_half_of_the_room() {
    let mut room = Room::new(100);
    let taken = (0..200).take_while(|_| room.take(&"greedy", 1).is_ok()).count();
    assert_eq!((taken, room.take(&"greedy", 1)), (50, Err(Full::Share(50))));
    assert_eq!(room.take(&"quiet", 10), Ok(()));
    assert_eq!(room.take(&"large", 41), Err(Full::All));
    room.give_back(&"greedy", 50);
    assert_eq!(room.take(&"large", 90), Ok(()), "whoever has nothing may have what there is");
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Push,
    Pop,
}

fn steps() -> impl Strategy<Value = Vec<(Step, u8)>> {
    proptest::collection::vec((prop_oneof![2 => Just(Step::Push), 1 => Just(Step::Pop)], 0_u8..6), 0..200)
}

proptest! {
    #[test]
    fn nobody_waits_longer_than_one_turn_of_each_other(steps in steps()) {
        let mut turns = Turns::default();
        let (mut next, mut sent, mut served) = (0, HashMap::<u8, Vec<u32>>::new(), HashMap::<u8, Vec<u32>>::new());
        // For each waiting tenant, the tenants that had turns since its last one.
        let mut passed = HashMap::<u8, Vec<u8>>::new();
        for (step, tenant) in steps {
            match step {
                Step::Push => {
                    turns.push(tenant, next);
                    sent.entry(tenant).or_default().push(next);
                    passed.entry(tenant).or_default();
                    next += 1;
                }
                Step::Pop => {
                    let Some((tenant, thing)) = turns.pop() else { continue };
                    served.entry(tenant).or_default().push(thing);
                    passed.remove(&tenant);
                    for others in passed.values_mut() {
                        prop_assert!(!others.contains(&tenant), "{tenant} had two turns while another waited");
                        others.push(tenant);
                    }
                    if sent[&tenant].len() > served[&tenant].len() {
                        passed.insert(tenant, vec![]);
                    }
                }
            }
        }
        while let Some((tenant, thing)) = turns.pop() {
            served.entry(tenant).or_default().push(thing);
        }
        prop_assert_eq!(served, sent);
    }

    #[test]
    fn every_further_tenant_finds_half_of_what_is_left(
        steps in proptest::collection::vec((0_u8..6, proptest::bool::ANY), 0..600),
        size in 1_u64..200,
    ) {
        let (mut room, mut taken) = (Room::new(size), HashMap::<u8, u64>::new());
        let mut most = 0;
        for (tenant, gives_back) in steps {
            let has = taken.entry(tenant).or_default();
            if gives_back && *has > 0 {
                room.give_back(&tenant, 1);
                *has -= 1;
            } else if !gives_back && room.take(&tenant, 1).is_ok() {
                *has += 1;
            }
            let used: u64 = taken.values().sum();
            most = most.max(taken.values().filter(|has| **has > 0).count());
            prop_assert!(size - used >= size >> most, "{taken:?} of {size}");
        }
        for (tenant, amount) in &taken {
            room.give_back(tenant, *amount);
        }
        prop_assert_eq!(room.take(&9, size), Ok(()), "all of it came back");
    }
}

//! What was removed within the last hour and has so many dependents that a sweep follows. Searches leave those out.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{PoisonError, RwLock},
    time::Duration,
};

use base::clock;
use domain::{
    resource::{app::App, project::Project, project_grant::ProjectGrant, user::User},
    standard::Resource,
};
use jiff::Timestamp;

use super::Ends;

/// How long dependents are left out. A sweep begins at once and takes seconds.
const LATELY: Duration = Duration::from_hours(1);
/// How many removed objects of a kind a search considers: the last ones.
const MOST: usize = 1_000;
/// The kinds that others depend on. What belongs to a removed context is left out separately, for ever.
const KINDS: [&str; 4] = [User::NAME, Project::NAME, ProjectGrant::NAME, App::NAME];

/// Recently removed objects, by instance and in the order of removal.
#[derive(Default)]
pub(super) struct Lately(RwLock<HashMap<String, BTreeSet<Removed>>>);

/// The time of a removal, and the kind and id of the removed object.
type Removed = (Timestamp, &'static str, String);

impl Lately {
    /// Notes that something was removed.
    pub(super) fn add(&self, instance_id: &str, kind: &'static str, id: &str, at: Timestamp) {
        if KINDS.contains(&kind) {
            let mut removed = self.0.write().unwrap_or_else(PoisonError::into_inner);
            removed.entry(instance_id.to_owned()).or_default().insert((at, kind, id.to_owned()));
        }
    }

    /// Notes recent removals of the read model: all of them, since only the log says whether a sweep follows.
    pub(super) fn add_all(&self, ends: &Ends) {
        let since = clock::now() - LATELY;
        for (instance_id, of_instance) in ends {
            for ((kind, id), end) in of_instance.iter().filter(|(_, end)| end.is_removed && end.at > since) {
                self.add(instance_id, kind, id, end.at);
            }
        }
    }

    /// The ids of what was removed of a kind, in these instances or in all of them.
    pub(super) fn of(&self, instances: Option<&[String]>, kind: &str) -> Vec<String> {
        let removed = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let of_kind = |of: &BTreeSet<Removed>| {
            let of_kind = of.iter().rev().filter(|(_, found, _)| *found == kind);
            of_kind.take(MOST).map(|(_, _, id)| id.clone()).collect::<Vec<_>>()
        };
        match instances {
            Some(instances) => instances.iter().filter_map(|id| removed.get(id)).flat_map(of_kind).collect(),
            None => removed.values().flat_map(of_kind).collect(),
        }
    }

    /// Forgets what is no longer left out.
    pub(super) fn forget(&self, now: Timestamp) {
        let mut removed = self.0.write().unwrap_or_else(PoisonError::into_inner);
        removed.retain(|_, of_instance| {
            of_instance.retain(|(at, _, _)| *at > now - LATELY);
            !of_instance.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use domain::{
        catalog::{self, Visitor},
        settings::Properties,
    };

    use super::*;

    #[test]
    fn it_is_told_by_instance_and_kind_for_an_hour() {
        let (lately, at) = (Lately::default(), Timestamp::UNIX_EPOCH);
        for (instance_id, kind, id) in [("1", User::NAME, "3"), ("1", Project::NAME, "4"), ("2", User::NAME, "5")] {
            lately.add(instance_id, kind, id, at);
        }
        lately.add("1", "personal_access_token", "6", at);
        let of = |instances: Option<&[&str]>, kind| {
            let instances = instances.map(|ids| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>());
            let mut found = lately.of(instances.as_deref(), kind);
            found.sort();
            found
        };
        assert_eq!(of(Some(&["1"]), User::NAME), ["3"]);
        assert_eq!(of(Some(&["1"]), Project::NAME), ["4"]);
        assert_eq!(of(Some(&["1", "2"]), User::NAME), ["3", "5"]);
        assert_eq!(of(None, User::NAME), ["3", "5"]);
        assert!(of(Some(&["1"]), "personal_access_token").is_empty(), "nothing stands on it");
        lately.forget(at + LATELY - Duration::from_secs(1));
        assert_eq!(of(None, User::NAME), ["3", "5"]);
        lately.forget(at + LATELY);
        assert!(of(None, User::NAME).is_empty());
    }

    #[test]
    fn whatever_can_be_searched_says_by_which_columns_it_names_what_it_stands_on() {
        struct Searched(Vec<&'static str>);
        impl Visitor for Searched {
            fn resource<R: Resource>(&mut self) {
                let named = R::LINKS.iter().map(|link| link.to).filter(|kind| KINDS.contains(kind));
                let (named, told): (BTreeSet<_>, BTreeSet<_>) =
                    (named.collect(), R::STANDS_ON.iter().map(|(kind, _)| *kind).collect());
                assert_eq!(R::INDEX.map_or(BTreeSet::new(), |_| named), told, "{}", R::NAME);
                for (_, column) in R::STANDS_ON {
                    let is_there = R::COLUMNS.iter().any(|other| other.definition == column.definition);
                    assert!(is_there, "{}: {}", R::NAME, column.definition.name);
                }
                self.0.extend(told);
            }

            fn settings<P: Properties>(&mut self) {}
        }
        let mut searched = Searched(vec![]);
        catalog::visit(&mut searched);
        assert!(KINDS.iter().all(|kind| searched.0.contains(kind)), "{:?}", searched.0);
    }

    #[test]
    fn a_search_leaves_out_the_last_thousand() {
        let lately = Lately::default();
        for number in 0..=MOST {
            let at = Timestamp::from_millisecond(i64::try_from(number).expect("it is small")).expect("it is a time");
            lately.add("1", User::NAME, &number.to_string(), at);
        }
        let found = lately.of(None, User::NAME);
        assert_eq!((found.len(), found.contains(&"0".to_owned())), (MOST, false));
    }
}

//! How many objects of a kind an instance or an organization may have.

use std::{
    collections::BTreeMap,
    str::FromStr,
    sync::{Arc, LazyLock},
};

use crate::{
    catalog::{self, Visitor},
    log_class::LogClass,
    resource::{data_key::DataKey, instance::Instance, signing_key::SigningKey, system::System},
    settings::Properties,
    standard::Resource,
};

/// How many objects of each kind may belong to one instance or organization. Of kinds that nodes keep in memory as a
/// whole, the number is limited by default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectLimits(Arc<BTreeMap<&'static str, u64>>);

impl ObjectLimits {
    /// Returns how many objects of a kind, such as `target`, may belong to one instance or organization; `None` for any
    /// number.
    pub fn of(&self, kind: &str) -> Option<u64> {
        self.0.get(kind).copied()
    }
}

impl Default for ObjectLimits {
    fn default() -> Self {
        Self(Arc::new(KINDS.iter().filter_map(|(kind, limit)| Some((*kind, (*limit)?))).collect()))
    }
}

/// Parses limits as in `target=2000,execution=0`, separated by commas; 0 is for any number. Kinds that are not named
/// keep their default.
impl FromStr for ObjectLimits {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut limits = BTreeMap::clone(&Self::default().0);
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (kind, limit) =
                part.split_once('=').ok_or_else(|| format!("{part} has no number, as in target=2000"))?;
            let Some((kind, _)) = KINDS.get_key_value(kind.trim()) else {
                let kinds = KINDS.keys().copied().collect::<Vec<_>>().join(", ");
                return Err(format!("no kind of objects is called {}: use {kinds}", kind.trim()));
            };
            let limit: u64 = limit.trim().parse().map_err(|_| format!("{part} has no number, as in target=2000"))?;
            if limit == 0 {
                limits.remove(kind);
            } else {
                limits.insert(kind, limit);
            }
        }
        Ok(Self(Arc::new(limits)))
    }
}

/// The kinds whose objects belong to an instance or an organization, with their default limits.
static KINDS: LazyLock<BTreeMap<&str, Option<u64>>> = LazyLock::new(|| {
    let mut found = Kinds::default();
    catalog::visit(&mut found);
    found.0
});

#[derive(Default)]
struct Kinds(BTreeMap<&'static str, Option<u64>>);

impl Visitor for Kinds {
    fn resource<R: Resource>(&mut self) {
        // An instance belongs to the system, and the platform itself creates the others when it has to.
        let is_of_platform = [Instance::NAME, System::NAME, DataKey::NAME, SigningKey::NAME].contains(&R::NAME);
        if R::CLASS == LogClass::Events && !is_of_platform {
            self.0.insert(R::NAME, R::LIMIT);
        }
    }

    fn settings<P: Properties>(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nodes_keep_in_memory_is_limited_unless_an_operator_says_otherwise() {
        let limits = ObjectLimits::default();
        assert_eq!(["target", "execution", "user"].map(|kind| limits.of(kind)), [Some(1000), Some(10_000), None]);
        assert_eq!("".parse(), Ok(limits));
        let limits: ObjectLimits = " user = 5 ,execution=0,".parse().unwrap();
        assert_eq!(["target", "execution", "user"].map(|kind| limits.of(kind)), [Some(1000), None, Some(5)]);
    }

    #[test]
    fn what_is_no_limit_is_named() {
        let failure = |text: &str| text.parse::<ObjectLimits>().unwrap_err();
        let unknown = failure("targets=5");
        assert!(unknown.starts_with("no kind of objects is called targets: use "), "{unknown}");
        let kinds: Vec<&str> = unknown.rsplit(" use ").next().unwrap().split(", ").collect();
        assert!(kinds.contains(&"target") && kinds.contains(&"project_role"), "{kinds:?}");
        let without: Vec<_> =
            ["session", "system", "instance", "signing_key"].into_iter().filter(|kind| kinds.contains(kind)).collect();
        assert_eq!(without, Vec::<&str>::new());
        for text in ["target", "target=many", "target=-1"] {
            assert_eq!(failure(text), format!("{text} has no number, as in target=2000"));
        }
    }
}

//! Aggregates that are found by a load, and are read in the same one.

use std::collections::HashMap;

use domain::{catalog::class_of, log_class::LogClass};
use eventlog::record::AggregateKey;

use super::{ClaimHash, Referred, Referrers};

/// The claims and references whose holders and referrers are read too, unless the referrers exceed a page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Followed {
    /// Some of the claims that are needed.
    pub claims: Vec<ClaimHash>,
    /// Some of the aggregates whose referrers are needed.
    pub referrers: Vec<Referred>,
}

impl Followed {
    pub(super) fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.referrers.is_empty()
    }

    /// The aggregates that were found, of the log `EVENTS`.
    pub(super) fn aggregates<'a>(
        &self,
        claims: &'a HashMap<ClaimHash, Option<AggregateKey>>,
        referrers: &'a HashMap<Referred, Referrers>,
    ) -> impl Iterator<Item = &'a AggregateKey> {
        let holders = self.claims.iter().filter_map(|claim| claims.get(claim)?.as_ref());
        let referring = self.referrers.iter().filter_map(|referred| referrers.get(referred));
        let referring = referring.filter(|found| !found.has_more).flat_map(|found| &found.keys);
        holders.chain(referring).filter(|key| class_of(&key.aggregate_type) == LogClass::Events)
    }
}

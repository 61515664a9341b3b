//! Completes the events of a command: their claims and references, and their size.

use base::fault;
use bytes::Bytes;
use domain::{claim::Claim, reference::Reference, resource::user::contact::CONTACT};
use eventlog::record::{AggregateKey, Event};
use view::{history::ClaimHash, keyring::claim_hash};

use super::ClaimKeys;

/// Puts the changes of claims into the last event of a command.
pub(super) fn note_claims(written: &mut [Event], claims: &[(ClaimHash, Option<AggregateKey>)]) {
    let Some(last) = written.last_mut() else { return };
    let with = |change: fn(&Option<AggregateKey>) -> bool| {
        let of = claims.iter().filter(|(_, holder)| change(holder));
        of.map(|(claim, _)| Bytes::copy_from_slice(claim)).collect()
    };
    (last.claims_taken, last.claims_released) = (with(Option::is_some), with(Option::is_none));
}

/// Puts the changes of references into the last event of a command.
pub(super) fn note_references(written: &mut [Event], before: &[Reference], after: &[Reference]) {
    let Some(last) = written.last_mut().filter(|_| !fault::is_before_references()) else { return };
    let missing = |these: &[Reference], those: &[Reference]| {
        let missing = these.iter().filter(|reference| !those.contains(reference) && is_known(reference));
        missing.map(in_the_log).collect::<Vec<_>>()
    };
    (last.references_taken, last.references_released) = (missing(after, before), missing(before, after));
}

fn is_known(reference: &Reference) -> bool {
    reference.link.to != CONTACT || !fault::is_before_contacts()
}

fn in_the_log(Reference { link, id }: &Reference) -> eventlog::record::Reference {
    let (name, to) = (link.name.to_owned(), link.to.to_owned());
    eventlog::record::Reference { link: name, aggregate_type: to, aggregate_id: id.clone() }
}

pub(super) fn hash_all(claims: &[Claim], keys: &ClaimKeys) -> Vec<ClaimHash> {
    let hash = |claim: &Claim| match claim.scope {
        domain::claim::Scope::Instance => claim_hash(&keys.instance, claim),
        domain::claim::Scope::System => claim_hash(&keys.system, claim),
    };
    claims.iter().map(hash).collect()
}

/// Returns about how many bytes an event adds to its record.
pub(super) fn written_bytes(event: &Event) -> usize {
    prost::Message::encoded_len(event) + 40
}

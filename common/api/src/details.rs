//! What answers say of an object, and of whom it belongs to.

use domain::{
    context::{Owner, OwnerType},
    resource::domain::Domain,
};
use proto::{domain::DomainChallenge, object};
use view::rows::Found;

/// The header of entity tags (RFC 9110, section 8.8.3).
pub const ETAG: &str = "etag";

/// The entity tag of an object: its sequence, which `If-Match` takes.
pub fn entity_tag(sequence: u64) -> String {
    format!("\"{sequence}\"")
}

/// A context in the words of the API.
pub fn owner(owner: &Owner) -> object::Owner {
    let r#type = match owner.kind {
        OwnerType::System => object::OwnerType::System,
        OwnerType::Instance => object::OwnerType::Instance,
        OwnerType::Organization => object::OwnerType::Org,
    };
    object::Owner { r#type: r#type.into(), id: owner.id.clone() }
}

/// What shows that a domain belongs to its context, while that is not known.
pub fn challenge(domain: &Domain) -> Option<DomainChallenge> {
    (!domain.is_verified).then(|| DomainChallenge {
        token: domain.challenge.clone(),
        dns_record: domain.dns_record(),
        http_url: domain.http_url(),
    })
}

/// What a read answers of an object.
pub fn of<R>(found: &Found<R>) -> object::Details {
    object::Details {
        id: found.id.clone(),
        sequence: found.sequence,
        change_date: Some(found.changed_at.into()),
        resource_owner: Some(owner(&found.owner)),
    }
}

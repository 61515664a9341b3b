//! Converts the details of objects and their owners to the API.

use domain::{
    context::{Owner, OwnerType},
    resource::domain::Domain,
};
use proto::{domain::DomainChallenge, object};
use view::rows::StoredResource;

/// The header of entity tags (RFC 9110, section 8.8.3).
pub const ETAG: &str = "etag";

/// Returns the entity tag of an object: its sequence, which `If-Match` accepts.
pub fn entity_tag(sequence: u64) -> String {
    format!("\"{sequence}\"")
}

/// Converts a context to the API.
pub fn owner(owner: &Owner) -> object::Owner {
    let r#type = match owner.kind {
        OwnerType::System => object::OwnerType::System,
        OwnerType::Instance => object::OwnerType::Instance,
        OwnerType::Organization => object::OwnerType::Org,
    };
    object::Owner { r#type: r#type.into(), id: owner.id.clone() }
}

/// Returns how to prove that a domain belongs to its context, unless it is verified.
pub fn challenge(domain: &Domain) -> Option<DomainChallenge> {
    (!domain.is_verified).then(|| DomainChallenge {
        token: domain.challenge.clone(),
        dns_record: domain.dns_record(),
        http_url: domain.http_url(),
    })
}

/// Returns the details of an object that a read found.
pub fn of<R>(found: &StoredResource<R>) -> object::Details {
    object::Details {
        id: found.id.clone(),
        sequence: found.sequence,
        change_date: Some(found.changed_at.into()),
        resource_owner: Some(owner(&found.owner)),
    }
}

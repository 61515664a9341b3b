//! References: which aggregates name which others, and by which link.
//!
//! They follow from the state, as claims do. What a command takes and releases is the difference between two states.

use crate::context::{Owner, OwnerType};

/// A link by which objects of one kind name those of another, such as an execution its targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Link {
    /// The name of the link. Links to the same kind have different names.
    pub name: &'static str,
    /// The kind that is named: the name of a resource.
    pub to: &'static str,
}

impl Link {
    /// The link from an object to the organization that it belongs to.
    pub const ORGANIZATION: Self = Self { name: "owner", to: "organization" };
    /// The link from an object to the instance that it belongs to.
    pub const INSTANCE: Self = Self { name: "owner", to: "instance" };
}

/// The naming of one aggregate by another one of its instance.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reference {
    /// The link.
    pub link: Link,
    /// The id of the aggregate that is named.
    pub id: String,
}

impl Reference {
    /// Creates a reference by this link.
    pub fn new(link: Link, id: impl Into<String>) -> Self {
        Self { link, id: id.into() }
    }

    /// Returns the reference to the context that an object belongs to; nothing names the system.
    pub fn to_owner(owner: &Owner) -> Option<Self> {
        let link = match owner.kind {
            OwnerType::System => return None,
            OwnerType::Instance => Link::INSTANCE,
            OwnerType::Organization => Link::ORGANIZATION,
        };
        Some(Self::new(link, &owner.id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_a_context_names_it_unless_that_is_the_system() {
        assert_eq!(Reference::to_owner(&Owner::system()), None);
        assert_eq!(Reference::to_owner(&Owner::instance("1")), Some(Reference::new(Link::INSTANCE, "1")));
        assert_eq!(Reference::to_owner(&Owner::organization("2")), Some(Reference::new(Link::ORGANIZATION, "2")));
    }
}

//! Conversions of standard resources. Each has a file of its own in this crate, for both directions: requests to the
//! core, and resources to the API.

use domain::standard::Resource;
use index::{Filter, SortKey};
use proto::shape::{Get, Identified, Search};
use view::rows::StoredResource;

/// Converts a standard resource for its readers.
pub trait Readable: Resource {
    /// The request for one resource.
    type Get: Get;
    /// The request for several.
    type Search: Search<Resource = <Self::Get as Get>::Resource>;

    /// Converts the column that a list is sorted by.
    fn key(column: <Self::Search as Search>::Column) -> SortKey<Self>;

    /// Converts a filter.
    fn filter(wanted: <Self::Search as Search>::Filter) -> Filter<Self>;

    /// Returns the filter for the resources of one holder, for searches below its path.
    fn of_holder(_id: &str) -> Filter<Self> {
        Filter::Ids(vec![])
    }

    /// Converts it to the API.
    fn to_proto(found: &StoredResource<Self>) -> <Self::Get as Get>::Resource;
}

/// A request that changes a standard resource and needs nothing else.
pub trait PatchRequest: Identified {
    /// The resource.
    type Resource: Resource;

    /// Converts the change to the core.
    fn patch(&self) -> <Self::Resource as Resource>::Patch;
}

//! How clients see a standard resource. Each has a file of its own in this crate, with both directions: what a request
//! says of it in the core's words, and what there is of it in the API's.

use domain::standard::Resource;
use index::{Filter, SortKey};
use proto::shape::{Get, Identified, Search};
use view::rows::Found;

/// How clients read a standard resource.
pub trait Shown: Resource {
    /// The request for one.
    type Get: Get;
    /// The request for several.
    type Search: Search<Resource = <Self::Get as Get>::Resource>;

    /// What a list is sorted by.
    fn key(column: <Self::Search as Search>::Column) -> SortKey<Self>;

    /// What a filter finds.
    fn filter(wanted: <Self::Search as Search>::Filter) -> Filter<Self>;

    /// What finds those that one object has, where they are searched below its path.
    fn of_holder(_id: &str) -> Filter<Self> {
        Filter::Ids(vec![])
    }

    /// What clients see of it.
    fn shown(found: &Found<Self>) -> <Self::Get as Get>::Resource;
}

/// A request that changes a standard resource by nothing but what it says.
pub trait PatchRequest: Identified {
    /// What it changes.
    type Resource: Resource;

    /// The change in the core's words.
    fn patch(&self) -> <Self::Resource as Resource>::Patch;
}

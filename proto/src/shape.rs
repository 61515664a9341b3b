//! What requests and responses of the standard shapes have in common, so that the shapes are handled once. The build
//! implements it for the messages of that shape; a response of a write that only has details is made `From` them.

use crate::object::{ListDetails, ListQuery};

/// A request that names an object.
pub trait Identified {
    /// The id of the object.
    fn id(&self) -> &str;
}

/// A request for one resource.
pub trait Get: Identified {
    /// The resource as clients read it.
    type Resource;
    /// The response.
    type Response;

    /// The response with it.
    fn response(resource: Self::Resource) -> Self::Response;
}

/// A request for a sorted page of what filters find.
pub trait Search {
    /// What can be sorted by.
    type Column: Copy + TryFrom<i32>;
    /// What can be found by.
    type Filter;
    /// A resource as clients read it.
    type Resource;
    /// The response.
    type Response;

    /// The part of the list, the column, and the filters, of which all must hold.
    fn list(self) -> (Option<ListQuery>, Self::Column, Vec<Self::Filter>);

    /// The response with what was found.
    fn response(details: ListDetails, column: Self::Column, result: Vec<Self::Resource>) -> Self::Response;
}

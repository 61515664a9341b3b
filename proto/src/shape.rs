//! Traits of the requests and responses of the standard shapes, so that each shape is handled once. The build
//! implements them for the messages of that shape; the response of a write that has only details implements `From`
//! them.

use std::fmt::Debug;

use prost::Message;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    Contextual, Validate,
    object::{ListDetails, ListQuery},
    object_settings as settings,
    operation::Operation,
};

/// A request. Every operation has a message of its own, so the type alone identifies the operation.
pub trait Request:
    Message + Serialize + DeserializeOwned + Validate + Contextual + Default + Debug + PartialEq + 'static
{
    /// The response.
    type Response: Message + Serialize + DeserializeOwned + Default + 'static;
    /// The operation.
    const OPERATION: &'static Operation<Self, Self::Response>;

    /// Returns the id of the holder that its path names, such as the user of a key.
    fn holder(&self) -> Option<&str> {
        None
    }
}

/// A request that names an object.
pub trait Identified: Request {
    /// Returns the id of the object.
    fn id(&self) -> &str;
}

/// A request for one resource.
pub trait Get: Identified {
    /// The resource as clients read it.
    type Resource;

    /// Makes the response.
    fn response(resource: Self::Resource) -> Self::Response;
}

/// A request for the effective settings of a context.
pub trait Resolve: Request {
    /// The settings as clients read them.
    type Settings;

    /// Returns the variant of the settings, where the context has several: one for each language.
    #[expect(clippy::unnecessary_literal_bound, reason = "others have one of their own")]
    fn variant(&self) -> &str {
        ""
    }

    /// Makes the response.
    fn response(details: settings::Details, settings: Self::Settings) -> Self::Response;
}

/// A request for a sorted page of what filters match.
pub trait Search: Request {
    /// The columns to sort by.
    type Column: Copy + Send + Sync + TryFrom<i32>;
    /// The filters.
    type Filter: Send;
    /// A resource as clients read it.
    type Resource;

    /// Returns the page, the column, and the filters, of which all must match.
    fn list(self) -> (Option<ListQuery>, Self::Column, Vec<Self::Filter>);

    /// Makes the response.
    fn response(details: ListDetails, column: Self::Column, result: Vec<Self::Resource>) -> Self::Response;
}

/// A visitor of the request types of all operations.
pub trait Visitor {
    /// Visits a request type.
    fn request<I: Request>(&mut self);
}

include!(concat!(env!("OUT_DIR"), "/requests.rs"));

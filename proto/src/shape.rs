//! What requests and responses of the standard shapes have in common, so that the shapes are handled once. The build
//! implements it for the messages of that shape; a response of a write that only has details is made `From` them.

use std::fmt::Debug;

use prost::Message;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    Contextual, Validate,
    object::{ListDetails, ListQuery},
    object_settings as settings,
    operation::Operation,
};

/// A request. Every operation has a message of its own, so that the type alone says what is asked for.
pub trait Request:
    Message + Serialize + DeserializeOwned + Validate + Contextual + Default + Debug + PartialEq + 'static
{
    /// What it is answered with.
    type Response: Message + Serialize + DeserializeOwned + Default + 'static;
    /// What it is for.
    const OPERATION: &'static Operation<Self, Self::Response>;

    /// The id of the object whose own its path is about, such as the user of a key.
    fn holder(&self) -> Option<&str> {
        None
    }
}

/// A request that names an object.
pub trait Identified: Request {
    /// The id of the object.
    fn id(&self) -> &str;
}

/// A request for one resource.
pub trait Get: Identified {
    /// The resource as clients read it.
    type Resource;

    /// The response with it.
    fn response(resource: Self::Resource) -> Self::Response;
}

/// A request for the settings of a context as they hold there.
pub trait Resolve: Request {
    /// The settings as clients read them.
    type Settings;

    /// Which of the settings of the context, where it has several of a kind: one for each language.
    #[expect(clippy::unnecessary_literal_bound, reason = "others have one of their own")]
    fn variant(&self) -> &str {
        ""
    }

    /// The response with them.
    fn response(details: settings::Details, settings: Self::Settings) -> Self::Response;
}

/// A request for a sorted page of what filters find.
pub trait Search: Request {
    /// What can be sorted by.
    type Column: Copy + Send + Sync + TryFrom<i32>;
    /// What can be found by.
    type Filter: Send;
    /// A resource as clients read it.
    type Resource;

    /// The part of the list, the column, and the filters, of which all must hold.
    fn list(self) -> (Option<ListQuery>, Self::Column, Vec<Self::Filter>);

    /// The response with what was found.
    fn response(details: ListDetails, column: Self::Column, result: Vec<Self::Resource>) -> Self::Response;
}

/// Something is made of each request, with its types.
pub trait Visitor {
    /// Makes it of a request.
    fn request<I: Request>(&mut self);
}

include!(concat!(env!("OUT_DIR"), "/requests.rs"));

//! A router that serves as a node does, without a node.

use std::sync::Arc;

use axum::Router;
use edge::{
    answer::Answer,
    error::{Error, Reason},
    mount::{Admit, fallbacks, mount, mount_unbuilt},
};
use http::{header, request::Parts};
use proto::{
    action::{CreateTargetRequest, CreateTargetResponse},
    object::Details,
    operation::{Facts, GET_TARGET},
};

/// Admits every request that has credentials.
struct Open;

impl Admit for Open {
    type Call = ();

    async fn admit(&self, _: &'static Facts, parts: &Parts) -> Result<(), Error> {
        let missing = || Error::new(Reason::TokenMissing, "who is there");
        parts.headers.contains_key(header::AUTHORIZATION).then_some(()).ok_or_else(missing)
    }
}

async fn create((): (), request: CreateTargetRequest) -> Result<Answer<CreateTargetResponse>, Error> {
    let signing_key = request.target.unwrap().name;
    let message = CreateTargetResponse { details: Some(Details::default()), signing_key };
    Ok(Answer { message, status: None, metadata: vec![("consistency-token", "abc".to_owned())] })
}

pub(super) fn router() -> Router {
    let edge = Arc::new(Open);
    let router = mount(Router::new(), &edge, create);
    fallbacks(mount_unbuilt(router, &edge, &GET_TARGET.facts))
}

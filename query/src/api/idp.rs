//! Reads of identity providers. Each type has a get request of its own, which finds no other types.

use std::sync::Arc;

use api::idp::{response, type_of};
use domain::resource::idp::Idp;
use edge::{answer::Answer, call::Call, error::Error, handler::Mounting};
use proto::{
    idp::{
        GetCodeHostAesidpRequest, GetCodeHostAidpRequest, GetCodeHostBSelfHostedIdpRequest, GetCodeHostBidpRequest,
        GetDirectoryAidpRequest, GetJwtidpRequest, GetLdapidpRequest, GetOAuthIdpRequest, GetOidcidpRequest,
        GetSamlidpRequest, GetSocialAidpRequest, GetSocialBidpRequest,
    },
    shape::Identified,
};

use crate::{
    Queries,
    reusable::{self, search},
};

/// Mounts the reads of this module.
pub(super) fn mount(mounting: Mounting<Queries>) -> Mounting<Queries> {
    mounting
        .on(get::<GetCodeHostBidpRequest>)
        .on(get::<GetOidcidpRequest>)
        .on(get::<GetJwtidpRequest>)
        .on(get::<GetLdapidpRequest>)
        .on(get::<GetOAuthIdpRequest>)
        .on(get::<GetDirectoryAidpRequest>)
        .on(get::<GetCodeHostAidpRequest>)
        .on(get::<GetCodeHostAesidpRequest>)
        .on(get::<GetCodeHostBSelfHostedIdpRequest>)
        .on(get::<GetSocialAidpRequest>)
        .on(get::<GetSocialBidpRequest>)
        .on(get::<GetSamlidpRequest>)
        .on(search::<Idp>)
}

async fn get<I: Identified>(queries: Arc<Queries>, call: Call, request: I) -> Result<Answer<I::Response>, Error> {
    let is_it = |idp: &Idp| idp.config.r#type() == type_of::<I>();
    let answer = |found: &_, seen: &_| response::<I>(found, seen).map_err(|error| Error::internal(&error));
    reusable::get_reusable(&queries, &call, &request, is_it, answer).await
}

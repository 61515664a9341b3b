//! Converts personal access tokens to the API. Their secrets are never shown.

use domain::resource::personal_access_token::{PersonalAccessToken, column};
use index::{Filter, Method, SortKey};
use proto::{
    token::{
        GetPersonalAccessToken, GetPersonalAccessTokenRequest, PersonalAccessTokenFieldName,
        SearchPersonalAccessTokensRequest, personal_access_token_search_filter::Filter as Wanted,
    },
    wellknown::Timestamp,
};
use view::rows::StoredResource;

use crate::{details, standard::Readable};

impl Readable for PersonalAccessToken {
    type Get = GetPersonalAccessTokenRequest;
    type Search = SearchPersonalAccessTokensRequest;

    fn key(column: PersonalAccessTokenFieldName) -> SortKey<Self> {
        match column {
            PersonalAccessTokenFieldName::Unspecified | PersonalAccessTokenFieldName::CreationDate => SortKey::Created,
            PersonalAccessTokenFieldName::Id => SortKey::Id,
            PersonalAccessTokenFieldName::ChangeDate => SortKey::Changed,
            PersonalAccessTokenFieldName::ExpirationDate => SortKey::Column(&column::EXPIRES_AT),
        }
    }

    fn filter(wanted: Wanted) -> Filter<Self> {
        match wanted {
            Wanted::InIds(ids) => Filter::Ids(ids.ids),
        }
    }

    fn of_holder(id: &str) -> Filter<Self> {
        Filter::text(&column::USER_ID, Method::Equals, id.to_owned())
    }

    fn to_proto(found: &StoredResource<Self>) -> GetPersonalAccessToken {
        let expiration_date = Timestamp::from_millisecond(found.state.expires_at);
        GetPersonalAccessToken { details: Some(details::of(found)), expiration_date }
    }
}

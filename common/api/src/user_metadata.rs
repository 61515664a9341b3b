//! Converts metadata of users to the API. An entry's id is its key.

use domain::resource::user_metadata::{UserMetadata, column};
use index::{Filter, Method, SortKey};
use proto::{
    metadata::{
        GetMetadata, GetUserMetadataRequest, MetadataFieldName, SearchUserMetadataRequest,
        metadata_search_filter::Filter as Wanted,
    },
    object::Details,
};
use view::rows::StoredResource;

use crate::{details, filter::named, standard::Readable};

impl Readable for UserMetadata {
    type Get = GetUserMetadataRequest;
    type Search = SearchUserMetadataRequest;

    fn key(column: MetadataFieldName) -> SortKey<Self> {
        match column {
            MetadataFieldName::Unspecified | MetadataFieldName::Key => SortKey::Column(&column::KEY),
            MetadataFieldName::CreationDate => SortKey::Created,
            MetadataFieldName::ChangeDate => SortKey::Changed,
        }
    }

    fn filter(wanted: Wanted) -> Filter<Self> {
        match wanted {
            Wanted::Key(key) => named(&column::KEY, key),
        }
    }

    fn of_holder(id: &str) -> Filter<Self> {
        Filter::text(&column::USER_ID, Method::Equals, id.to_owned())
    }

    fn to_proto(found: &StoredResource<Self>) -> GetMetadata {
        let details = Details { id: found.state.key.clone(), ..details::of(found) };
        GetMetadata { details: Some(details), value: found.state.value.clone().unwrap_or_default() }
    }
}

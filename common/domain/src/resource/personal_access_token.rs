//! Personal access tokens: what a service user sends instead of a token that it would have to request. They are opaque,
//! and are looked up by their ids.

use serde::{Deserialize, Serialize};

use super::user::User;
use crate::{
    column::Column,
    projection::{ACCESS, Name},
    reference::{Link, Reference},
    secret::Hashed,
    standard::{Resource, Unpatchable},
};

/// A personal access token. Its id is part of the token, which is returned to its creator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PersonalAccessToken {
    /// The user.
    pub user_id: String,
    /// The hash of the secret part.
    #[serde(flatten)]
    pub secret: Hashed,
    /// When it expires, in milliseconds since the Unix epoch.
    pub expires_at: i64,
}

/// The link from a token to its user.
pub const USER: Link = Link { name: "personal_access_token", to: User::NAME };

/// The columns of the read model.
pub mod column {
    use super::PersonalAccessToken;
    use crate::column::Column;

    /// The user.
    pub const USER_ID: Column<PersonalAccessToken> =
        Column::text("user_id", |token: &PersonalAccessToken| token.user_id.clone()).filterable();
    /// The expiry.
    pub const EXPIRES_AT: Column<PersonalAccessToken> =
        Column::integer("expires_at", |token: &PersonalAccessToken| token.expires_at);
}

impl Resource for PersonalAccessToken {
    const NAME: &'static str = "personal_access_token";
    const COLUMNS: &'static [Column<Self>] = &[column::USER_ID, column::EXPIRES_AT];
    const ROWS: Option<Name> = Some(ACCESS);
    const INDEX: Option<Name> = Some(Name::first("personal_access_tokens_index"));
    const LINKS: &'static [Link] = &[USER];
    const STANDS_ON: &'static [(&'static str, &'static Column<Self>)] = &[(User::NAME, &column::USER_ID)];
    type Patch = Unpatchable;

    fn patched(self, patch: Unpatchable) -> Self {
        match patch {}
    }

    fn holder(&self) -> Option<&str> {
        Some(&self.user_id)
    }

    fn references(&self) -> Vec<Reference> {
        vec![Reference::new(USER, &self.user_id)]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        standard::{Command, Event, Standard},
        testing::{assert_columns, given},
    };

    #[test]
    fn it_is_found_by_its_user_and_goes_with_that() {
        let token = PersonalAccessToken { user_id: "7".into(), secret: Hashed::new("hash"), expires_at: 10 };
        assert_columns(&token, &json!({ "user_id": "7", "expires_at": 10 }));
        let of_user = Reference::new(USER, "7");
        assert_eq!((token.references(), token.holder()), (vec![of_user.clone()], Some("7")));
        given::<Standard<PersonalAccessToken>>([Event::Added(token.into())])
            .when(Command::Unlink(of_user))
            .then([Event::Removed]);
    }
}

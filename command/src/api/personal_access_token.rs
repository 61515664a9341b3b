//! Personal access tokens as they are written.

use std::sync::Arc;

use base::secret::random_secret;
use domain::resource::{personal_access_token::PersonalAccessToken, user::User};
use edge::{
    answer::Answer, call::Call, caller::personal::token, consistency::unavailable, error::Error, handler::Mounting,
};
use proto::token::{
    CreatePersonalAccessTokenRequest, CreatePersonalAccessTokenResponse, DeletePersonalAccessTokenRequest,
    DeletePersonalAccessTokenResponse,
};

use view::keyring::{Purpose, secret_hash};

use crate::{
    execute::Commands,
    held::{Give, end, holder},
    standard::details,
    turn::Decided,
};

/// Mounts what is written here.
pub(super) fn mount(mounting: Mounting<Commands>) -> Mounting<Commands> {
    mounting.on(create).on(delete)
}

async fn create(
    commands: Arc<Commands>,
    call: Call,
    request: CreatePersonalAccessTokenRequest,
) -> Result<Answer<CreatePersonalAccessTokenResponse>, Error> {
    let expires_at = end("token.expiration_date", request.token.unwrap_or_default().expiration_date)?;
    let (user, id, secret) = (holder::<User>(&call, &request)?, commands.ids.next(), random_secret());
    let key = commands.keyring.key(&call.tenant.id, Purpose::ClientSecret).await.map_err(unavailable)?;
    let new = PersonalAccessToken { user_id: user.id.clone(), secret: secret_hash(&key, &id, &secret), expires_at };
    let command = Give::<User, _>::new(&call, user, (&id, new));
    let answer = move |decided: &Decided, (): &()| CreatePersonalAccessTokenResponse {
        details: Some(details(&id, decided)),
        token: token(&id, &secret),
    };
    commands.execute(&call, &request, command, answer).await
}

async fn delete(
    commands: Arc<Commands>,
    call: Call,
    request: DeletePersonalAccessTokenRequest,
) -> Result<Answer<DeletePersonalAccessTokenResponse>, Error> {
    commands.take::<User, PersonalAccessToken, _>(&call, &request).await
}

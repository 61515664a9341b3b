//! Handlers that create and delete personal access tokens.

use std::sync::Arc;

use domain::resource::{personal_access_token::PersonalAccessToken, user::User};
use edge::{answer::Answer, call::Call, error::Error, handler::Mounting, secret_token::PERSONAL};
use proto::token::{
    CreatePersonalAccessTokenRequest, CreatePersonalAccessTokenResponse, DeletePersonalAccessTokenRequest,
    DeletePersonalAccessTokenResponse,
};

use crate::{
    client_secret::draw,
    execute::Commands,
    holder::{self, Give, end, holder},
    standard::details,
    turn::Decided,
};

/// Mounts the operations of this module.
pub(super) fn mount(mounting: Mounting<Commands>) -> Mounting<Commands> {
    mounting.on(create).on(delete)
}

async fn create(
    commands: Arc<Commands>,
    call: Call,
    request: CreatePersonalAccessTokenRequest,
) -> Result<Answer<CreatePersonalAccessTokenResponse>, Error> {
    let expires_at = end("token.expiration_date", request.token.unwrap_or_default().expiration_date)?;
    let (user, id) = (holder::<User>(&call, &request)?, commands.ids.next());
    let (secret, hash) = draw(&commands, &call.tenant.id, &id).await?;
    let new = PersonalAccessToken { user_id: user.id.clone(), secret: hash, expires_at };
    let command = Give::<User, _>::new(&call, user, &id, new);
    let answer = move |decided: &Decided, (): &()| CreatePersonalAccessTokenResponse {
        details: Some(details(&id, decided)),
        token: PERSONAL.token(&id, &secret),
    };
    commands.execute(&call, &request, command, answer).await
}

async fn delete(
    commands: Arc<Commands>,
    call: Call,
    request: DeletePersonalAccessTokenRequest,
) -> Result<Answer<DeletePersonalAccessTokenResponse>, Error> {
    holder::take::<User, PersonalAccessToken, _>(&commands, &call, &request).await
}

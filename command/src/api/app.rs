//! Handlers that create, change and delete apps.

use std::sync::Arc;

use api::app as words;
use domain::{
    client_secret::ClientSecrets,
    rejection::Rejection,
    resource::{
        app::{App, AppPatch, ConfigPatch},
        project::Project,
    },
    standard::{Command as Asked, Resource, Standard},
};
use edge::{answer::Answer, call::Call, error::Error, handler::Mounting};
use eventlog::record::AggregateKey;
use proto::app::{
    CreateAppRequest, CreateAppResponse, DeactivateAppRequest, DeleteAppRequest, GenerateAppSecretRequest,
    GenerateAppSecretResponse, PatchAppRequest, PatchAppResponse, ReactivateAppRequest,
};

use crate::{
    client_secret::NewSecret,
    execute::{Command, Commands, Deciding},
    existence,
    granted::owner_of_project,
    new_user::unused,
    signing_keys::Choosing,
    standard::{self, details, key},
    turn::{Decided, Refusal, Turn},
};

/// Mounts the operations of this module.
pub(super) fn mount(mounting: Mounting<Commands>) -> Mounting<Commands> {
    mounting
        .on(create)
        .on(patch)
        .on(standard::delete::<App, DeleteAppRequest>)
        .on(standard::deactivate::<App, DeactivateAppRequest>)
        .on(standard::reactivate::<App, ReactivateAppRequest>)
        .on(generate_secret)
}

async fn create(
    commands: Arc<Commands>,
    call: Call,
    request: CreateAppRequest,
) -> Result<Answer<CreateAppResponse>, Error> {
    let (mut app, id) = (words::new(&request), commands.ids.next());
    let project = key::<Project>(&call, &app.project_id)?;
    let mut client_secret = String::new();
    if app.config.auth_method().has_secret() {
        let new = NewSecret::draw(&commands, &call, &id, None).await?;
        (app.secrets, client_secret) = (ClientSecrets::one(new.renewal.secret), new.secret);
    }
    let chosen = app.config.oidc().map(|oidc| [&oidc.access_token_alg, &oidc.id_token_alg].map(Clone::clone));
    let create = Create { key: AggregateKey::of::<Standard<App>>(&call.tenant.id, &id), project, app };
    let command = Choosing::new(&call, chosen.unwrap_or_default(), create);
    let answer = move |decided: &Decided, (): &()| CreateAppResponse {
        details: Some(details(&id, decided)),
        client_id: id.clone(),
        client_secret: client_secret.clone(),
    };
    commands.execute(&call, &request, command, answer).await
}

/// A new app.
struct Create {
    key: AggregateKey,
    project: AggregateKey,
    app: App,
}

impl Command for Create {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let owner = owner_of_project(turn, deciding, &self.project)?;
        let current = unused::<App>(turn, &self.key, &owner)?;
        Ok((deciding.decide(turn, current, Asked::Create(self.app.clone()))?, ()))
    }
}

async fn patch(
    commands: Arc<Commands>,
    call: Call,
    request: PatchAppRequest,
) -> Result<Answer<PatchAppResponse>, Error> {
    let patch = words::patch(&request);
    let chosen = match &patch.config {
        Some(ConfigPatch::Oidc(oidc)) => {
            [&oidc.access_token_alg, &oidc.id_token_alg].map(|chosen| chosen.clone().flatten())
        }
        _ => [None, None],
    };
    let command = Choosing::new(&call, chosen, Change { key: key::<App>(&call, &request.id)?, patch });
    let id = request.id.clone();
    commands.execute(&call, &request, command, move |decided, ()| details(&id, decided).into()).await
}

async fn generate_secret(
    commands: Arc<Commands>,
    call: Call,
    request: GenerateAppSecretRequest,
) -> Result<Answer<GenerateAppSecretResponse>, Error> {
    let new = NewSecret::draw(&commands, &call, &request.id, request.previous_expiration).await?;
    let NewSecret { secret: client_secret, renewal, previous_valid_until } = new;
    let patch = AppPatch { renewal: Some(renewal), ..AppPatch::default() };
    let (command, id) = (Change { key: key::<App>(&call, &request.id)?, patch }, request.id.clone());
    let answer = move |decided: &Decided, (): &()| GenerateAppSecretResponse {
        details: Some(details(&id, decided)),
        client_secret: client_secret.clone(),
        previous_valid_until: previous_valid_until.map(Into::into),
    };
    commands.execute(&call, &request, command, answer).await
}

/// A change of an app, or the renewal of its secret.
struct Change {
    key: AggregateKey,
    patch: AppPatch,
}

impl Command for Change {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let current = turn.get::<Standard<App>>(&self.key);
        existence::require_existing(turn, &current)?;
        let Some(before) = current.resource() else { return Err(Rejection::NotFound(App::NAME).into()) };
        deciding.permit_on(turn, &current)?;
        if self.patch.config.as_ref().is_some_and(|patch| !patch.fits(&before.config)) {
            return Err(Rejection::invalid("app.config", "must be of the app's type, which cannot be changed").into());
        }
        if self.patch.renewal.is_some() && !before.config.auth_method().has_secret() {
            return Err(Rejection::Precondition("it does not authenticate with a secret").into());
        }
        Ok((deciding.decide(turn, current, Asked::Patch(self.patch.clone()))?, ()))
    }
}

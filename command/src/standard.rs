//! Writes to any standard resource.

use std::{marker::PhantomData, sync::Arc};

use api::standard::PatchRequest;
use domain::{
    context::Owner,
    log_class::LogClass,
    rejection::Rejection,
    standard::{Command as Asked, Resource, Standard},
};
use edge::{answer::Answer, call::Call, error::Error};
use eventlog::record::AggregateKey;
use futures::future::BoxFuture;
use prost::Message;
use proto::{object::Details, shape::Identified};
use view::settings::instance_of;

use crate::{
    execute::{Command, Commands, Deciding},
    existence,
    removal::remove,
    turn::{Decided, Refusal, Turn},
};

/// The answer of a write that shows nothing but the details of the object.
pub(crate) trait Plain: Message + Default + From<Details> + 'static {}

impl<O: Message + Default + From<Details> + 'static> Plain for O {}

/// The future of a handler that is a closure, whose type cannot be written out.
pub(crate) type Answering<O> = BoxFuture<'static, Result<Answer<O>, Error>>;

/// A resource to create.
pub(crate) struct NewResource<R> {
    /// The context that it will belong to.
    pub(crate) owner: Owner,
    pub(crate) resource: R,
}

/// Creates a resource under a new id.
pub(crate) async fn create<R: Resource, I: Message, O: Message + Default>(
    commands: &Commands,
    call: &Call,
    request: &I,
    NewResource { owner, resource }: NewResource<R>,
    answer: impl Fn(Details) -> O + Send + Sync + 'static,
) -> Result<Answer<O>, Error> {
    let id = commands.ids.next();
    let key = AggregateKey::of::<Standard<R>>(instance_of(&call.tenant.id, &owner), &id);
    let command = Create { key, owner, resource };
    commands.execute(call, request, command, move |decided, ()| answer(details(&id, decided))).await
}

/// Changes the resource that a request names.
pub(crate) async fn patch_with<R: Resource, I: Identified, O: Message + Default>(
    commands: &Commands,
    call: &Call,
    request: &I,
    patch: R::Patch,
    answer: impl Fn(Details) -> O + Send + Sync + 'static,
) -> Result<Answer<O>, Error> {
    change::<R, _, _>(commands, call, request, Asked::Patch(patch), answer).await
}

async fn change<R: Resource, I: Identified, O: Message + Default>(
    commands: &Commands,
    call: &Call,
    request: &I,
    asked: Asked<R>,
    answer: impl Fn(Details) -> O + Send + Sync + 'static,
) -> Result<Answer<O>, Error> {
    let (key, id) = (named::<R>(call, request)?, request.id().to_owned());
    commands.execute(call, request, Change::<R> { key, asked }, move |decided, ()| answer(details(&id, decided))).await
}

/// Removes the resource that a request names, with what depends on it. Both are decided in one turn, so that no
/// concurrent command leaves a dangling name.
pub(crate) async fn delete_named<R: Resource, I: Identified, O: Plain>(
    commands: &Commands,
    call: &Call,
    request: &I,
) -> Result<Answer<O>, Error> {
    let (key, id) = (named::<R>(call, request)?, request.id().to_owned());
    let command = Delete::<R> { key, holder: request.holder().map(str::to_owned), resource: PhantomData };
    commands.execute(call, request, command, move |decided, ()| details(&id, decided).into()).await
}

/// A new resource.
pub(crate) struct Create<R> {
    pub(crate) key: AggregateKey,
    pub(crate) owner: Owner,
    pub(crate) resource: R,
}

impl<R: Resource> Command for Create<R> {
    type Outcome = ();

    fn class(&self) -> LogClass {
        R::CLASS
    }

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let current = turn.unborn::<Standard<R>>(&self.key, &self.owner)?;
        Ok((deciding.decide(turn, current, Asked::Create(self.resource.clone()))?, ()))
    }
}

/// A change of an existing resource.
struct Change<R: Resource> {
    key: AggregateKey,
    asked: Asked<R>,
}

impl<R: Resource> Command for Change<R> {
    type Outcome = ();

    fn class(&self) -> LogClass {
        R::CLASS
    }

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let current = turn.get::<Standard<R>>(&self.key);
        existence::require_existing(turn, &current)?;
        Ok((deciding.decide(turn, current, self.asked.clone())?, ()))
    }
}

/// The removal of a resource, with what depends on it.
struct Delete<R> {
    key: AggregateKey,
    /// The holder of the resource, if its path names one.
    holder: Option<String>,
    resource: PhantomData<fn() -> R>,
}

impl<R: Resource> Command for Delete<R> {
    type Outcome = ();

    fn class(&self) -> LogClass {
        R::CLASS
    }

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let current = turn.get::<Standard<R>>(&self.key);
        existence::require_existing(turn, &current)?;
        if current.resource().is_some_and(|found| self.holder.is_some() && found.holder() != self.holder.as_deref()) {
            return Err(Rejection::NotFound(R::NAME).into());
        }
        Ok((remove(turn, deciding, current)?, ()))
    }
}

/// Changes the resource that a request names, by nothing but what the request contains.
pub(crate) async fn patch<I>(commands: Arc<Commands>, call: Call, request: I) -> Result<Answer<I::Response>, Error>
where
    I: PatchRequest,
    I::Response: Plain,
{
    patch_with::<I::Resource, _, _>(&commands, &call, &request, request.patch(), Into::into).await
}

/// Removes the resource that a request names.
pub(crate) async fn delete<R, I>(commands: Arc<Commands>, call: Call, request: I) -> Result<Answer<I::Response>, Error>
where
    R: Resource,
    I: Identified,
    I::Response: Plain,
{
    delete_named::<R, _, _>(&commands, &call, &request).await
}

/// Switches the resource that a request names off.
pub(crate) async fn deactivate<R, I>(
    commands: Arc<Commands>,
    call: Call,
    request: I,
) -> Result<Answer<I::Response>, Error>
where
    R: Resource,
    I: Identified,
    I::Response: Plain,
{
    change::<R, _, _>(&commands, &call, &request, Asked::Switch(false), Into::into).await
}

/// Switches the resource that a request names on again.
pub(crate) async fn reactivate<R, I>(
    commands: Arc<Commands>,
    call: Call,
    request: I,
) -> Result<Answer<I::Response>, Error>
where
    R: Resource,
    I: Identified,
    I::Response: Plain,
{
    change::<R, _, _>(&commands, &call, &request, Asked::Switch(true), Into::into).await
}

/// Returns the key of the resource that a request names.
pub(crate) fn named<R: Resource>(call: &Call, request: &impl Identified) -> Result<AggregateKey, Error> {
    key::<R>(call, &R::id_below(request.holder().unwrap_or_default(), request.id()))
}

/// Returns the key of a resource that may exist.
pub(crate) fn key<R: Resource>(call: &Call, id: &str) -> Result<AggregateKey, Error> {
    // Postgres has no U+0000, so no id has one.
    let may_exist = !id.contains('\0');
    let instance_id = call.instance_of::<R>(id);
    may_exist.then(|| AggregateKey::of::<Standard<R>>(instance_id, id)).ok_or(Rejection::NotFound(R::NAME).into())
}

/// Returns the details of the object that a write answers.
pub(crate) fn details(id: &str, decided: &Decided) -> Details {
    Details {
        id: id.to_owned(),
        sequence: decided.sequence,
        change_date: Some(decided.changed_at.into()),
        resource_owner: Some(api::details::owner(&decided.owner)),
    }
}

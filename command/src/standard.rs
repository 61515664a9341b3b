//! The writes of any standard resource.

use std::sync::Arc;

use domain::{
    context::Owner,
    rejection::Rejection,
    standard::{Command as StandardCommand, Resource, Standard},
};
use edge::{answer::Answer, call::Call, error::Error};
use eventlog::record::Key;
use prost::Message;
use proto::{object::Details, shape::Identified};

use crate::{
    execute::{Command, Commands, Deciding},
    executions,
    turn::{Decided, Stop, Turn},
};

/// The answer of a write that shows nothing but the details of the object.
pub(crate) trait Plain: Message + Default + From<Details> + 'static {}

impl<O: Message + Default + From<Details> + 'static> Plain for O {}

impl Commands {
    /// Creates a resource under a new id.
    pub(crate) async fn create<R: Resource, I: Message, O: Message + Default>(
        &self,
        call: &Call,
        request: &I,
        (owner, resource): (Owner, R),
        answer: impl Fn(Details) -> O + Send + Sync + 'static,
    ) -> Result<Answer<O>, Error> {
        let id = self.ids.next();
        let key = Key::of::<Standard<R>>(&call.tenant.id, &id);
        let command = Command { key, is_new: true, owner, asked: StandardCommand::Create(resource) };
        self.execute::<Standard<R>, _, _>(call, request, command, move |decided| answer(details(&id, decided))).await
    }

    /// Changes the resource that a request names.
    pub(crate) async fn patch<R: Resource, I: Message + Identified, O: Message + Default>(
        &self,
        call: &Call,
        request: &I,
        patch: R::Patch,
        answer: impl Fn(Details) -> O + Send + Sync + 'static,
    ) -> Result<Answer<O>, Error> {
        self.change::<R, _, _>(call, request, StandardCommand::Patch(patch), answer).await
    }

    async fn change<R: Resource, I: Message + Identified, O: Message + Default>(
        &self,
        call: &Call,
        request: &I,
        asked: StandardCommand<R>,
        answer: impl Fn(Details) -> O + Send + Sync + 'static,
    ) -> Result<Answer<O>, Error> {
        let (key, id) = (key::<R>(call, request.id())?, request.id().to_owned());
        // An existing resource keeps its owner; one that does not exist is refused.
        let owner = Owner::instance(&call.tenant.id);
        let command = Command { key, is_new: false, owner, asked };
        self.execute::<Standard<R>, _, _>(call, request, command, move |decided| answer(details(&id, decided))).await
    }

    /// Removes the resource that a request names, and takes it out of all executions that name it: nothing that races with
    /// it leaves a name behind, because both are decided in one turn.
    pub(crate) async fn delete<R: Resource, I: Message + Identified, O: Plain>(
        &self,
        call: &Call,
        request: &I,
    ) -> Result<Answer<O>, Error> {
        let (key, gone) = (key::<R>(call, request.id())?, R::taken_out(request.id()));
        let executions = if gone.is_some() { executions::keys(self, call) } else { vec![] };
        let (id, owner) = (request.id().to_owned(), Owner::instance(&call.tenant.id));
        let decide = move |turn: &mut Turn<'_>, deciding: &Deciding| {
            let known = turn.get::<Standard<R>>(&key)?;
            let executions = executions::of(turn, &executions)?;
            turn.complete()?;
            let Some(known) = known else { return Err(Stop::Missing) };
            let decided = deciding.decide(turn, (&key, &owner), known, StandardCommand::Delete)?;
            if let Some(gone) = &gone {
                executions::without(turn, deciding, executions, (&key, gone))?;
            }
            Ok(decided)
        };
        self.execute_with(call, request, decide, move |decided| details(&id, decided).into()).await
    }
}

/// Removes the resource that a request names.
pub(crate) async fn delete<R, I, O>(commands: Arc<Commands>, call: Call, request: I) -> Result<Answer<O>, Error>
where
    R: Resource,
    I: Message + Identified,
    O: Plain,
{
    commands.delete::<R, _, _>(&call, &request).await
}

/// Switches the resource that a request names off.
pub(crate) async fn deactivate<R, I, O>(commands: Arc<Commands>, call: Call, request: I) -> Result<Answer<O>, Error>
where
    R: Resource,
    I: Message + Identified,
    O: Plain,
{
    commands.change::<R, _, _>(&call, &request, StandardCommand::Switch(false), Into::into).await
}

/// Switches the resource that a request names on again.
pub(crate) async fn reactivate<R, I, O>(commands: Arc<Commands>, call: Call, request: I) -> Result<Answer<O>, Error>
where
    R: Resource,
    I: Message + Identified,
    O: Plain,
{
    commands.change::<R, _, _>(&call, &request, StandardCommand::Switch(true), Into::into).await
}

/// The key of a resource that may exist.
pub(crate) fn key<R: Resource>(call: &Call, id: &str) -> Result<Key, Error> {
    // Postgres has no U+0000, so no id has one.
    let may_exist = !id.contains('\0');
    let instance_id = call.instance_of::<R>(id);
    may_exist.then(|| Key::of::<Standard<R>>(instance_id, id)).ok_or(Rejection::NotFound(R::NAME).into())
}

/// What a write answers of the object.
pub(crate) fn details(id: &str, decided: &Decided) -> Details {
    Details {
        id: id.to_owned(),
        sequence: decided.sequence,
        change_date: Some(decided.changed_at.into()),
        resource_owner: Some(api::details::owner(&decided.owner)),
    }
}

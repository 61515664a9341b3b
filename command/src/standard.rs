//! The three operations of any standard resource.

use domain::{
    context::Owner,
    rejection::Rejection,
    standard::{Command as StandardCommand, Resource, Standard},
};
use prost::Message;
use proto::object::Details;
use store::record::Key;
use transport::{edge::Call, error::Error, mount::Answer};

use crate::{
    execute::{Command, Commands},
    turn::Decided,
};

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

    /// Changes a resource.
    pub(crate) async fn patch<R: Resource, I: Message, O: Message + Default>(
        &self,
        call: &Call,
        request: &I,
        (id, patch): (&str, R::Patch),
        answer: impl Fn(Details) -> O + Send + Sync + 'static,
    ) -> Result<Answer<O>, Error> {
        self.change::<R, _, _>(call, request, id, StandardCommand::Patch(patch), answer).await
    }

    /// Removes a resource.
    pub(crate) async fn delete<R: Resource, I: Message, O: Message + Default>(
        &self,
        call: &Call,
        request: &I,
        id: &str,
        answer: impl Fn(Details) -> O + Send + Sync + 'static,
    ) -> Result<Answer<O>, Error> {
        self.change::<R, _, _>(call, request, id, StandardCommand::Delete, answer).await
    }

    async fn change<R: Resource, I: Message, O: Message + Default>(
        &self,
        call: &Call,
        request: &I,
        id: &str,
        asked: StandardCommand<R>,
        answer: impl Fn(Details) -> O + Send + Sync + 'static,
    ) -> Result<Answer<O>, Error> {
        if id.contains('\0') {
            // Postgres has no U+0000, so no id has one.
            return Err(Rejection::NotFound(R::NAME).into());
        }
        let (key, id) = (Key::of::<Standard<R>>(&call.tenant.id, id), id.to_owned());
        // An existing resource keeps its owner; one that does not exist is refused.
        let command = Command { key, is_new: false, owner: Owner::instance(&call.tenant.id), asked };
        self.execute::<Standard<R>, _, _>(call, request, command, move |decided| answer(details(&id, decided))).await
    }
}

/// What a write answers of the object.
pub(crate) fn details(id: &str, decided: &Decided) -> Details {
    Details {
        id: id.to_owned(),
        sequence: decided.sequence,
        change_date: Some(decided.changed_at.into()),
        resource_owner: Some(transport::details::owner(&decided.owner)),
    }
}

//! Handlers that create, change and delete projects. The platform's own project cannot be deleted or switched off,
//! because tokens for its API come from it.

use std::sync::Arc;

use api::project as words;
use domain::{
    context::{Owner, Part},
    rejection::Rejection,
    resource::{instance::Instance, membership::Membership, project::Project},
    role::PROJECT_OWNER,
    standard::{Command as Asked, Resource, Standard},
};
use edge::{answer::Answer, call::Call, error::Error, handler::Mounting};
use eventlog::record::AggregateKey;
use futures::FutureExt;
use proto::{
    project::{
        CreateProjectRequest, CreateProjectResponse, DeactivateProjectRequest, DeleteProjectRequest,
        PatchProjectRequest, ReactivateProjectRequest,
    },
    shape::Identified,
};

use crate::{
    execute::{Command, Commands, Deciding},
    removal::remove,
    standard::{Answering, Plain, details, key},
    turn::{Decided, Refusal, Turn},
};

/// Mounts the operations of this module.
pub(super) fn mount(mounting: Mounting<Commands>) -> Mounting<Commands> {
    mounting
        .on(create)
        .on(handler(|request: &PatchProjectRequest| Asked::Patch(words::patch(request))))
        .on(handler(|_: &DeleteProjectRequest| Asked::Delete))
        .on(handler(|_: &DeactivateProjectRequest| Asked::Switch(false)))
        .on(handler(|_: &ReactivateProjectRequest| Asked::Switch(true)))
}

async fn create(
    commands: Arc<Commands>,
    call: Call,
    request: CreateProjectRequest,
) -> Result<Answer<CreateProjectResponse>, Error> {
    let [id, membership_id] = [(); 2].map(|()| commands.ids.next());
    let (instance_id, owner) = (call.tenant.id.as_str(), call.context.clone());
    let key = AggregateKey::of::<Standard<Project>>(instance_id, &id);
    let membership = AggregateKey::of::<Standard<Membership>>(instance_id, &membership_id);
    let is_home = !call.is_system && call.home.id == call.tenant.id;
    let creator = is_home.then(|| call.caller.owner.clone()).map(|home| Creator {
        user_id: call.caller.id.clone(),
        home,
        membership,
    });
    let command = Create { key, owner, project: words::new(&request), creator };
    commands.execute(&call, &request, command, move |decided, ()| details(&id, decided).into()).await
}

/// A new project.
struct Create {
    key: AggregateKey,
    owner: Owner,
    project: Project,
    /// The caller, if it can hold roles in the instance.
    creator: Option<Creator>,
}

/// The user who creates a project.
struct Creator {
    user_id: String,
    /// The organization that the user belongs to.
    home: Owner,
    /// The membership by which the user gets roles in the project, if it needs some.
    membership: AggregateKey,
}

impl Command for Create {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let current = turn.unborn::<Standard<Project>>(&self.key, &self.owner)?;
        let decided = deciding.decide(turn, current, Asked::Create(self.project.clone()))?;
        if let Some(Creator { user_id, home, membership }) = &self.creator
            && !deciding.authority.may(turn, "project.write", &self.owner)
        {
            let roles = vec![PROJECT_OWNER.name.to_owned()];
            let own = Membership::new(user_id, home, self.owner.clone(), roles).within(Part::project(&self.key.id));
            let current = turn.unborn::<Standard<Membership>>(membership, &self.owner)?;
            deciding.follow(turn, current, Asked::Create(own))?;
        }
        Ok((decided, ()))
    }
}

/// Returns a handler of requests whose type or content determines what happens to a project.
fn handler<I>(asked: fn(&I) -> Asked<Project>) -> impl Fn(Arc<Commands>, Call, I) -> Answering<I::Response>
where
    I: Identified,
    I::Response: Plain,
{
    move |commands, call, request| {
        async move {
            let (key, id) = (key::<Project>(&call, request.id())?, request.id().to_owned());
            let instance = AggregateKey::of::<Standard<Instance>>(&call.tenant.id, &call.tenant.id);
            let command = Change { key, instance, asked: asked(&request) };
            commands.execute(&call, &request, command, move |decided, ()| details(&id, decided).into()).await
        }
        .boxed()
    }
}

/// A change of a project.
struct Change {
    key: AggregateKey,
    instance: AggregateKey,
    asked: Asked<Project>,
}

impl Command for Change {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let instance = turn.get::<Standard<Instance>>(&self.instance);
        let current = turn.get::<Standard<Project>>(&self.key);
        let is_own = instance.resource().is_some_and(|instance| instance.platform_project_id == self.key.id);
        let faults = current.resource().filter(|_| is_own).and_then(|before| self.locks_out(before));
        let decided = match &self.asked {
            Asked::Delete => remove(turn, deciding, current)?,
            asked => deciding.decide(turn, current, asked.clone())?,
        };
        // Only a caller who may change it learns why it cannot be changed.
        faults.map_or(Ok((decided, ())), |reason| Err(Rejection::Precondition(reason).into()))
    }
}

impl Change {
    /// Returns why this cannot be done to the platform's own project, if nobody would get a token for the API
    /// afterwards.
    fn locks_out(&self, before: &Project) -> Option<&'static str> {
        match &self.asked {
            Asked::Delete => Some("it is the platform's own project, which cannot be deleted"),
            Asked::Switch(false) => Some("it is the platform's own project, which cannot be switched off"),
            Asked::Patch(patch) if before.clone().patched(patch.clone()).policies.keeps_users_out() => {
                Some("it is the platform's own project, which everybody may use: only roles decide what users may do")
            }
            _ => None,
        }
    }
}

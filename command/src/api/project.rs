//! Projects as they are written. The platform's own is where tokens for its API come from, so it stays.

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

/// Mounts what is written here.
pub(super) fn mount(mounting: Mounting<Commands>) -> Mounting<Commands> {
    mounting
        .on(create)
        .on(asks(|request: &PatchProjectRequest| Asked::Patch(words::patch(request))))
        .on(asks(|_: &DeleteProjectRequest| Asked::Delete))
        .on(asks(|_: &DeactivateProjectRequest| Asked::Switch(false)))
        .on(asks(|_: &ReactivateProjectRequest| Asked::Switch(true)))
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
    /// Who creates it, where that one can hold roles.
    creator: Option<Creator>,
}

/// Who creates a project.
struct Creator {
    user_id: String,
    /// The organization that the user belongs to.
    home: Owner,
    /// The roles that the user gets on the project, where it needs some.
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

/// A handler of requests that say by their type, or by what is in them, what is asked of a project.
fn asks<I>(asked: fn(&I) -> Asked<Project>) -> impl Fn(Arc<Commands>, Call, I) -> Answering<I::Response>
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

/// What is asked of a project.
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
        // Only who may change it is told why it does not change.
        faults.map_or(Ok((decided, ())), |reason| Err(Rejection::Precondition(reason).into()))
    }
}

impl Change {
    /// Why this cannot be done to the platform's own project, if it cannot: nobody would get a token for the API.
    fn locks_out(&self, before: &Project) -> Option<&'static str> {
        match &self.asked {
            Asked::Delete => Some("it is the platform's own project, which cannot be deleted"),
            Asked::Switch(false) => Some("it is the platform's own project, which cannot be switched off"),
            Asked::Patch(patch) if before.clone().patched(patch.clone()).policies.keeps_users_out() => {
                Some("it is the platform's own project, which everybody may use: only roles say who may do what")
            }
            _ => None,
        }
    }
}

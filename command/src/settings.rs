//! Writes to any settings service.

use std::sync::Arc;

use api::settings::{SetSettings, check_level};
use domain::{
    context::Owner,
    settings::{Command as Asked, Properties, Settings},
};
use edge::{answer::Answer, call::Call, error::Error, handler::Mounting};
use view::settings::key;

use crate::{
    execute::{Command, Commands, Deciding},
    turn::{Decided, Refusal, Turn},
};

/// Mounts the write operation of a settings service.
pub(crate) fn mount<I: SetSettings>(mounting: Mounting<Commands>) -> Mounting<Commands> {
    mounting.on(set::<I>)
}

/// Sets and resets the properties that a request names, in the context that it names.
async fn set<I: SetSettings>(commands: Arc<Commands>, call: Call, request: I) -> Result<Answer<I::Response>, Error> {
    check_level::<I::Properties>(&call.context)?;
    let (context, instance_id) = (call.context.clone(), call.tenant.id.clone());
    let command = Change::<I::Properties> {
        context,
        instance_id,
        variant: request.variant().to_owned(),
        change: request.change(),
    };
    commands.execute(&call, &request, command, |decided, ()| details(decided).into()).await
}

/// A change of settings in a context.
pub(crate) struct Change<P: Properties> {
    pub(crate) context: Owner,
    pub(crate) instance_id: String,
    /// Which of its settings, as in [`SetSettings::variant`].
    pub(crate) variant: String,
    pub(crate) change: P::Change,
}

impl<P: Properties> Command for Change<P> {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let mut get = |context: &Owner| turn.get::<Settings<P>>(&key::<P>(&self.instance_id, context, &self.variant));
        let current = get(&self.context).owned_by(&self.context);
        let above = self.context.chain(&self.instance_id).into_iter().skip(1);
        let above = above.map(|context| {
            let set = get(&context).set();
            (context, set)
        });
        let above = above.collect();
        Ok((deciding.decide(turn, current, Asked::Change { change: self.change.clone(), above })?, ()))
    }
}

/// Returns the details of the settings that a write answers.
pub(crate) fn details(decided: &Decided) -> proto::object_settings::Details {
    api::settings::details(&decided.owner, decided.sequence, decided.changed_at)
}

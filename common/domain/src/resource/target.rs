//! Targets: the endpoints that executions call.

use serde::{Deserialize, Serialize};

use crate::{
    column::Column,
    context::OwnerType,
    permission::{Permissions, STANDARD},
    projection::Name,
    secret::Sealed,
    standard::Resource,
};

/// The default time until a call is cancelled, in milliseconds.
pub const DEFAULT_TIMEOUT_MS: u64 = 10_000;

/// An endpoint that executions call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// The display name; need not be unique.
    pub name: String,
    /// How the endpoint is called, and how its answer is treated.
    pub kind: TargetKind,
    /// The address of the endpoint.
    pub url: String,
    /// The time until the call is cancelled, in milliseconds.
    pub timeout_ms: u64,
    /// What an error means for the rest of the execution.
    pub mode: Mode,
    /// The keys that sign calls, the newest last.
    pub signing_keys: Vec<SignatureKey>,
}

/// How a target is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetKind {
    /// The answer is ignored.
    RestWebhook,
    /// The answer changes the request or response.
    RestRequestResponse,
}

impl TargetKind {
    /// The name by which lists are sorted.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RestWebhook => "rest_webhook",
            Self::RestRequestResponse => "rest_request_response",
        }
    }
}

/// What an error means for the rest of the execution.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Later targets still run.
    #[default]
    Continue,
    /// Nobody waits for the call.
    Async,
    /// The execution stops.
    InterruptOnError,
}

/// A key that signs calls to a target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignatureKey {
    /// The key, encrypted under the instance's data key.
    #[serde(flatten)]
    pub sealed: Sealed,
    /// Until when it also signs after it was replaced, in milliseconds since the Unix epoch.
    pub valid_until: Option<i64>,
}

impl SignatureKey {
    /// Whether it signs at a time, in milliseconds since the Unix epoch.
    pub fn signs_at(&self, now: i64) -> bool {
        self.valid_until.is_none_or(|until| now < until)
    }
}

/// A partial update of a [`Target`].
#[derive(Debug, Clone, Default)]
pub struct TargetPatch {
    /// See [`Target::name`].
    pub name: Option<String>,
    /// See [`Target::kind`].
    pub kind: Option<TargetKind>,
    /// See [`Target::url`].
    pub url: Option<String>,
    /// See [`Target::timeout_ms`].
    pub timeout_ms: Option<u64>,
    /// See [`Target::mode`].
    pub mode: Option<Mode>,
    /// See [`Target::signing_keys`].
    pub rotation: Option<Rotation>,
}

/// The replacement of a key by a new one.
#[derive(Debug, Clone)]
pub struct Rotation {
    /// The new key, encrypted.
    pub sealed: Sealed,
    /// The time of the replacement, in milliseconds since the Unix epoch.
    pub now: i64,
    /// Until when the previous key also signs.
    pub previous_until: i64,
}

/// The longest that a request may wait for the targets of one execution in total, in milliseconds: the rest of its time
/// is for the request itself.
pub const LONGEST_WAIT_MS: u64 = 50_000;

/// Returns how long the targets of an execution may be waited for in total, in milliseconds. They are called one after
/// another.
pub fn waited_for<'a>(targets: impl IntoIterator<Item = &'a Target>) -> u64 {
    let waited_for = targets.into_iter().filter(|target| target.mode != Mode::Async);
    waited_for.map(|target| target.timeout_ms).fold(0, u64::saturating_add)
}

/// The columns of the read model.
pub mod column {
    use super::{Mode, Target};
    use crate::column::Column;

    /// The display name.
    pub const NAME: Column<Target> = Column::text("name", |target: &Target| target.name.clone()).filterable();
    /// How it is called.
    pub const TARGET_TYPE: Column<Target> =
        Column::text("target_type", |target: &Target| target.kind.as_str().to_owned());
    /// The address.
    pub const URL: Column<Target> = Column::text("url", |target: &Target| target.url.clone());
    /// The time until the call is cancelled, in milliseconds.
    pub const TIMEOUT_MS: Column<Target> =
        Column::integer("timeout_ms", |target: &Target| target.timeout_ms.cast_signed());
    /// Whether nobody waits for the call.
    pub const IS_ASYNC: Column<Target> = Column::bool("is_async", |target: &Target| target.mode == Mode::Async);
    /// Whether an error stops the execution.
    pub const INTERRUPT_ON_ERROR: Column<Target> =
        Column::bool("interrupt_on_error", |target: &Target| target.mode == Mode::InterruptOnError);
}

impl Resource for Target {
    const NAME: &'static str = "target";
    const COLUMNS: &'static [Column<Self>] = &[
        column::NAME,
        column::TARGET_TYPE,
        column::URL,
        column::TIMEOUT_MS,
        column::IS_ASYNC,
        column::INTERRUPT_ON_ERROR,
    ];
    const ROWS: Option<Name> = Some(Name::first("targets"));
    const LIMIT: Option<u64> = Some(1000);
    const INDEX: Option<Name> = Some(Name::first("targets_index"));
    const PERMISSIONS: &'static [Permissions] =
        &[Permissions::new("action.target", STANDARD).at(&[OwnerType::Instance])];
    type Patch = TargetPatch;

    fn patched(self, patch: TargetPatch) -> Self {
        Self {
            name: patch.name.unwrap_or(self.name),
            kind: patch.kind.unwrap_or(self.kind),
            url: patch.url.unwrap_or(self.url),
            timeout_ms: patch.timeout_ms.unwrap_or(self.timeout_ms),
            mode: patch.mode.unwrap_or(self.mode),
            signing_keys: match patch.rotation {
                Some(rotation) => rotation.apply(self.signing_keys),
                None => self.signing_keys,
            },
        }
    }
}

impl Rotation {
    fn apply(self, mut keys: Vec<SignatureKey>) -> Vec<SignatureKey> {
        // At most one key signs beside the new one, and a key that was to end earlier still does.
        let mut previous = keys.pop();
        if let Some(key) = &mut previous {
            key.valid_until = Some(key.valid_until.map_or(self.previous_until, |until| until.min(self.previous_until)));
        }
        keys = previous.into_iter().filter(|key| key.valid_until.is_some_and(|until| until > self.now)).collect();
        keys.push(SignatureKey { sealed: self.sealed, valid_until: None });
        keys
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        rejection::Rejection,
        standard::{Command, Event, Standard},
        testing::{assert_columns, assert_patches, given},
    };

    fn hook() -> Target {
        Target {
            name: "hook".into(),
            kind: TargetKind::RestWebhook,
            url: "https://a.example".into(),
            timeout_ms: DEFAULT_TIMEOUT_MS,
            mode: Mode::Continue,
            signing_keys: vec![SignatureKey { sealed: Sealed::new("first"), valid_until: None }],
        }
    }

    fn rename(name: &str) -> Command<Target> {
        Command::Patch(TargetPatch { name: Some(name.into()), ..TargetPatch::default() })
    }

    #[test]
    fn what_nobody_waits_for_takes_no_time() {
        let targets = [Mode::Continue, Mode::Async, Mode::InterruptOnError].map(|mode| Target { mode, ..hook() });
        assert_eq!(waited_for(&targets), 2 * DEFAULT_TIMEOUT_MS);
    }

    #[test]
    fn create_adds() {
        given::<Standard<Target>>([]).when(Command::Create(hook())).then([Event::Added(hook().into())]);
    }

    #[test]
    fn an_existing_target_cannot_be_created() {
        given::<Standard<Target>>([Event::Added(hook().into())])
            .when(Command::Create(hook()))
            .then_rejected(&Rejection::AlreadyExists("target"));
    }

    #[test]
    fn patch_names_what_changed() {
        let changed =
            Event::Changed { to: Target { name: "bell".into(), ..hook() }.into(), fields: vec!["name".into()] };
        given::<Standard<Target>>([Event::Added(hook().into())]).when(rename("bell")).then([changed]);
    }

    #[test]
    fn patch_without_change_is_no_event() {
        given::<Standard<Target>>([Event::Added(hook().into())]).when(rename("hook")).then([]);
    }

    #[test]
    fn removed_is_gone() {
        given::<Standard<Target>>([Event::Added(hook().into()), Event::Removed])
            .when(Command::Delete)
            .then_rejected(&Rejection::NotFound("target"));
    }

    #[test]
    fn the_old_key_signs_until_its_time_and_then_goes() {
        let rotate = |sealed: &str, now| Rotation { sealed: Sealed::new(sealed), now, previous_until: now + 60 };
        let keys = rotate("second", 1000).apply(hook().signing_keys);
        assert_eq!(keys[0], SignatureKey { sealed: Sealed::new("first"), valid_until: Some(1060) });
        let keys = rotate("third", 1010).apply(keys);
        let left: Vec<_> = keys.iter().map(|key| key.sealed.expose()).collect();
        assert_eq!(left, ["second", "third"], "one old key beside the new one");
        let signing = |now| keys.iter().filter(|key| key.signs_at(now)).count();
        assert_eq!((signing(1069), signing(1070), signing(1071)), (2, 1, 1), "to the millisecond");
        let at_once = Rotation { sealed: Sealed::new("fourth"), now: 1020, previous_until: 1020 };
        assert_eq!(at_once.apply(keys).len(), 1);
    }

    #[test]
    fn each_member_has_its_column_and_its_patch() {
        let columns = |mode: Mode, is_async: bool, interrupt_on_error: bool| {
            let columns = json!({
                "name": "hook", "target_type": "rest_webhook", "url": "https://a.example", "timeout_ms": 10_000,
                "is_async": is_async, "interrupt_on_error": interrupt_on_error,
            });
            assert_columns(&Target { mode, ..hook() }, &columns);
        };
        columns(Mode::Continue, false, false);
        columns(Mode::Async, true, false);
        columns(Mode::InterruptOnError, false, true);
        let patch = TargetPatch::default;
        let patches = vec![
            (TargetPatch { name: Some("b".into()), ..patch() }, json!({ "name": "b" })),
            (
                TargetPatch { kind: Some(TargetKind::RestRequestResponse), ..patch() },
                json!({ "kind": "rest_request_response" }),
            ),
            (TargetPatch { url: Some("https://b.example".into()), ..patch() }, json!({ "url": "https://b.example" })),
            (TargetPatch { timeout_ms: Some(1), ..patch() }, json!({ "timeout_ms": 1 })),
            (TargetPatch { mode: Some(Mode::Async), ..patch() }, json!({ "mode": "async" })),
        ];
        assert_patches(&hook(), patches, &["signing_keys"]);
    }

    #[test]
    fn a_new_key_changes_the_keys_alone() {
        let rotation = Some(Rotation { sealed: Sealed::new("second"), now: 1000, previous_until: 1060 });
        let key = |sealed: &str, valid_until| SignatureKey { sealed: Sealed::new(sealed), valid_until };
        let to = Target { signing_keys: vec![key("first", Some(1060)), key("second", None)], ..hook() };
        given::<Standard<Target>>([Event::Added(hook().into())])
            .when(Command::Patch(TargetPatch { rotation, ..TargetPatch::default() }))
            .then([Event::Changed { to: to.into(), fields: vec!["signing_keys".into()] }]);
    }
}

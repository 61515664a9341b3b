//! A read model in Postgres, made of a resource's COLUMNS: its table, its rows, and how events become rows.
//!
//! A row is written by one aggregate's events only. What joins aggregates is joined when reading.

pub mod aged;
pub(crate) mod layout;

use std::{collections::HashSet, sync::Arc};

use base::fault;
use domain::{
    aggregate::Aggregate,
    column::{Column, Definition, Value},
    context::Owner,
    log_class::LogClass,
    settings::{Properties, Settings},
    standard::{self, Resource, Standard},
    with_unknown::WithUnknown,
};
use eventlog::record::{Recorded, Undecodable, decode};
use jiff::Timestamp;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// The field for whether a resource is switched on, if it can be switched off.
const ACTIVITY: &str = "is_active";

/// What the events of one aggregate in a batch add up to.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The instance of the aggregate.
    pub instance_id: String,
    /// The id of the aggregate.
    pub id: String,
    /// The row after the batch; `None` when it is gone.
    pub row: Option<Row>,
}

/// A row without its key.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The context that the resource belongs to.
    pub owner: Owner,
    /// The sequence of its last event.
    pub sequence: u64,
    /// When the resource began to exist.
    pub created_at: Timestamp,
    /// When its last event was committed.
    pub changed_at: Timestamp,
    /// The resource as JSON.
    pub state: String,
    /// The values of the columns, in their order.
    pub values: Vec<Value>,
}

/// The definition of one table, without the type of its resource.
#[derive(Clone, Copy)]
pub struct Table {
    /// Its name in its schema.
    pub name: fn() -> String,
    /// The aggregate whose events it follows.
    pub aggregate_type: &'static str,
    /// The newest revision of its events that this build reads.
    pub revision: u32,
    /// The columns beyond those that every table has.
    pub columns: fn() -> Vec<Definition>,
    /// The column with the id of an organization whose readers see a resource, too.
    pub also_seen_by: fn() -> Option<Definition>,
    /// The column with the end of a resource that ages out with its log, in milliseconds since the Unix epoch.
    pub ends_at: fn() -> Option<Definition>,
    /// Whether inherited values hold where a row is missing.
    pub inherits: bool,
    /// The context in which roles are required for a resource, given its id and its owner.
    pub context: fn(&str, &Owner) -> Owner,
    /// What one event means for the row.
    pub apply: fn(&Recorded) -> Result<Effect, Undecodable>,
    /// Writes a state as this build does, with the members that an earlier build did not know; `None` if it is none.
    pub rewritten: fn(&str) -> Option<String>,
}

/// What one event means for its row.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// The row gets this content.
    Set(Content),
    /// The row stays as it is.
    Keep,
    /// The row is deleted.
    End,
}

/// What a row has of its resource.
#[derive(Debug, Clone, PartialEq)]
pub struct Content {
    state: String,
    values: Vec<Value>,
}

/// The state in a row of [`ended`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct HowEnded {
    /// Whether the resource was removed.
    pub(crate) is_removed: bool,
}

/// The table of a standard resource.
pub const fn standard<R: Resource>() -> Table {
    Table {
        name: || plural(R::NAME),
        aggregate_type: R::NAME,
        revision: <Standard<R> as Aggregate>::REVISION,
        columns: || R::COLUMNS.iter().map(|column| column.definition).collect(),
        also_seen_by: || R::ALSO_SEEN_BY.map(|column| column.definition),
        ends_at: || R::EXPIRES_AT.filter(|_| R::CLASS == LogClass::Sessions).map(|column| column.definition),
        inherits: false,
        context: R::context,
        apply: |recorded| {
            let after = decode::<Standard<R>>(recorded)?.into_state();
            Ok(after.map_or(Effect::End, |to| Effect::Set(content(&to, R::COLUMNS))))
        },
        rewritten: rewritten::<WithUnknown<R>>,
    }
}

/// The plural of a name.
fn plural(name: &str) -> String {
    match name.strip_suffix("cy") {
        Some(stem) => format!("{stem}cies"),
        None if name.ends_with("data") => name.to_owned(),
        None => format!("{name}s"),
    }
}

/// The table of a settings service: one row per context, whose id it carries.
pub const fn settings<P: Properties>() -> Table {
    Table {
        name: || P::NAME.to_owned(),
        aggregate_type: P::NAME,
        revision: <Settings<P> as Aggregate>::REVISION,
        columns: Vec::new,
        also_seen_by: || None,
        ends_at: || None,
        inherits: true,
        context: <Settings<P> as Aggregate>::context,
        apply: |recorded| {
            let after = decode::<Settings<P>>(recorded)?.into_state();
            Ok(after.map_or(Effect::End, |to| Effect::Set(content(&to, &[]))))
        },
        rewritten: rewritten::<WithUnknown<P>>,
    }
}

/// The table of when resources of a kind ended, or granted something else than before: one row for each that ever did,
/// with the sequence of the last time. The row stays when the resource is removed.
pub const fn ended<R: Resource>() -> Table {
    Table {
        name: || format!("ended_{}s", R::NAME),
        aggregate_type: R::NAME,
        revision: <Standard<R> as Aggregate>::REVISION,
        columns: Vec::new,
        also_seen_by: || None,
        ends_at: || None,
        inherits: false,
        context: R::context,
        apply: |recorded| {
            let is_removed = match decode::<Standard<R>>(recorded)? {
                standard::Event::Removed => true,
                standard::Event::Deactivated(_) | standard::Event::Locked(_) | standard::Event::SessionsEnded(_) => {
                    false
                }
                standard::Event::Changed { to, fields } => {
                    let gives_else = fields.iter().any(|field| R::GIVES.contains(&field.as_str()));
                    // Earlier events of deactivation look like this: there was no event of its own.
                    let is_off = to.into_known().activity().is_some_and(|is_active| !*is_active);
                    let has_ended = gives_else || is_off && fields.iter().any(|field| field == ACTIVITY);
                    if !has_ended {
                        return Ok(Effect::Keep);
                    }
                    false
                }
                standard::Event::Added(_)
                | standard::Event::Reactivated(_)
                | standard::Event::Unlocked(_)
                | standard::Event::Impersonated { .. } => return Ok(Effect::Keep),
            };
            let state = serde_json::to_string(&HowEnded { is_removed }).expect("it is plain data");
            Ok(Effect::Set(Content { state, values: vec![] }))
        },
        rewritten: rewritten::<HowEnded>,
    }
}

fn rewritten<T: Serialize + DeserializeOwned>(state: &str) -> Option<String> {
    serde_json::to_string(&serde_json::from_str::<T>(state).ok()?).ok()
}

fn content<R: Serialize>(resource: &WithUnknown<R>, columns: &[Column<R>]) -> Content {
    let state = serde_json::to_string(resource).expect("resources are plain data");
    Content { state, values: columns.iter().map(|column| column.value(resource)).collect() }
}

impl Table {
    /// Folds a batch to one change per resource. Pure: the same events in any batches give the same rows. An event that a
    /// later one of the batch makes needless is not even decoded, so it cannot fail.
    ///
    /// # Errors
    /// When an event cannot be decoded.
    pub fn fold(&self, events: &[Arc<Recorded>]) -> Result<Vec<Change>, Undecodable> {
        let (mut changes, mut settled) = (vec![], HashSet::new());
        for recorded in events.iter().rev().filter(|recorded| recorded.event.aggregate_type == self.aggregate_type) {
            let key = (recorded.event.instance_id.as_str(), recorded.event.aggregate_id.as_str());
            if settled.contains(&key) {
                continue;
            }
            fault::point_of("table.folding", &recorded.event.aggregate_id);
            let row = match (self.apply)(recorded)? {
                Effect::Keep => continue,
                Effect::End => None,
                Effect::Set(content) => Some(Row::of(recorded, content)),
            };
            settled.insert(key);
            let (instance_id, id) = (recorded.event.instance_id.clone(), recorded.event.aggregate_id.clone());
            changes.push(Change { instance_id, id, row });
        }
        changes.reverse();
        Ok(changes)
    }
}

impl Row {
    fn of(recorded: &Recorded, Content { state, values }: Content) -> Self {
        Self {
            owner: recorded.owner(),
            sequence: recorded.sequence,
            created_at: recorded.created_at(),
            changed_at: recorded.committed_at,
            state,
            values,
        }
    }
}

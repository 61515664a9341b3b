//! The projections: their names, versions and tables.
//!
//! Each has a schema of its own, named with its version, so that a new version can be built beside the live one. So can
//! another generation of the same version, in a schema that is named by its place: see [`crate::generation`].

use std::sync::LazyLock;

use base::fault;
use domain::{
    catalog::{self, Visitor},
    log_class::{LogClass, OfEach},
    projection::{self, Name},
    resource::{
        app::App, execution::Execution, instance::Instance, key::Key, organization::Organization,
        personal_access_token::PersonalAccessToken, project::Project, project_grant::ProjectGrant,
        project_role::ProjectRole, session::Session, signing_key::SigningKey, target::Target, user::User,
        user_grant::UserGrant,
    },
    settings::Properties,
    standard::Resource,
};

use crate::{
    history::tables,
    table::{Table, ended, layout, settings, standard},
};

/// The text of a statement, made when it is first needed; see [`Projection::sql`].
pub type Sql = LazyLock<String>;

/// A projection that the code refers to by name.
pub type ProjectionRef = LazyLock<&'static Projection>;

/// The definition of a projection: what is kept up to date from a log, in Postgres or in a search index.
pub struct Projection {
    /// The name, for example `targets`, or `targets_next` for the generation that is built beside it.
    pub name: &'static str,
    /// The name by which operators know it and every generation of it.
    pub view: &'static str,
    /// The version; a change of tables or of their meaning needs a new one.
    pub version: i32,
    /// The log that it follows.
    pub class: LogClass,
    /// The kind, with what it stores.
    pub kind: Kind,
}

/// The place of a generation beside the one that answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GenerationSlot {
    /// The generation that is built to answer next.
    Next,
    /// The generation that answered before, and is kept up to date to go back to.
    Previous,
}

/// The kinds of projections.
#[derive(Clone)]
pub enum Kind {
    /// What the writer reads: envelopes of all events, claims, answers. It interprets no payload and never parks.
    History,
    /// Rows of resources.
    Rows(Vec<Table>),
    /// A search index of one table, in files.
    Index(Table),
}

/// Every projection: those that follow from the catalog, and a few others.
pub static PROJECTIONS: LazyLock<Vec<Projection>> = LazyLock::new(|| {
    let ended = vec![
        ended::<Instance>(),
        ended::<Organization>(),
        ended::<User>(),
        ended::<Project>(),
        ended::<App>(),
        ended::<Key<User>>(),
        ended::<Key<App>>(),
        ended::<PersonalAccessToken>(),
        ended::<SigningKey>(),
        ended::<ProjectRole>(),
        ended::<ProjectGrant>(),
        ended::<UserGrant>(),
    ];
    let mut found = Tables { rows: vec![], indexes: vec![] };
    catalog::visit(&mut found);
    found.rows.push((WHAT_HAS_ENDED, LogClass::Events, ended));
    let histories = [
        Projection::new(ENVELOPES, LogClass::Events, Kind::History),
        Projection::new(SESSION_ENVELOPES, LogClass::Sessions, Kind::History),
    ];
    let rows = found.rows.into_iter().map(|(name, class, tables)| Projection::new(name, class, Kind::Rows(tables)));
    histories.into_iter().chain(rows).chain(found.indexes).collect()
});

/// The generations that can exist beside the projections.
static BESIDE: LazyLock<Vec<(GenerationSlot, Projection)>> = LazyLock::new(|| {
    let of = |projection: &Projection| GenerationSlot::ALL.map(|place| (place, projection.at_slot(place)));
    PROJECTIONS.iter().flat_map(of).collect()
});

/// The generation of a projection at a place beside it.
pub fn generation_at(projection: &Projection, place: GenerationSlot) -> &'static Projection {
    let is_it = |(at, generation): &&(GenerationSlot, Projection)| *at == place && generation.view == projection.view;
    BESIDE.iter().find(is_it).map(|(_, generation)| generation).expect("each projection has one at each place")
}

/// Every projection, and every generation that can exist beside one.
pub(crate) fn with_beside() -> impl Iterator<Item = &'static Projection> {
    PROJECTIONS.iter().chain(BESIDE.iter().map(|(_, generation)| generation))
}

const ENVELOPES: Name = Name { name: "history", version: 2 };
const SESSION_ENVELOPES: Name = Name { name: "session_history", version: 1 };
const WHAT_HAS_ENDED: Name = Name { name: "ended", version: 7 };

/// The history of `EVENTS`, which the writer reads.
pub static HISTORY: ProjectionRef = LazyLock::new(|| named(Some(ENVELOPES)));

/// The history of `SESSIONS`, the log that ages out.
pub static SESSION_HISTORY: ProjectionRef = LazyLock::new(|| named(Some(SESSION_ENVELOPES)));

/// The history of a log, which the writer reads.
pub fn history_of(class: LogClass) -> &'static Projection {
    match class {
        LogClass::Events => *HISTORY,
        LogClass::Sessions => *SESSION_HISTORY,
    }
}

/// A statement on each history.
pub(crate) type OfHistories = LazyLock<OfEach<String>>;

/// The text of a statement on each history; see [`Projection::sql`].
pub(crate) fn of_histories(text: &str) -> OfEach<String> {
    OfEach { events: HISTORY.sql(text), sessions: SESSION_HISTORY.sql(text) }
}

/// The projections that follow a log, whose progress is given as sequences of that log.
pub fn following(class: LogClass) -> impl Iterator<Item = &'static Projection> {
    PROJECTIONS.iter().filter(move |projection| projection.class == class)
}

/// The rows by which requests are admitted and tokens are issued: tenants, users, roles, keys.
pub static ACCESS: ProjectionRef = LazyLock::new(|| named(Some(projection::ACCESS)));

/// What has ended, of what tokens may depend on.
pub static ENDED: ProjectionRef = LazyLock::new(|| named(Some(WHAT_HAS_ENDED)));

/// The targets of executions.
pub static TARGETS: ProjectionRef = LazyLock::new(rows_of::<Target>);

/// The sessions.
pub static SESSIONS: ProjectionRef = LazyLock::new(rows_of::<Session>);

/// The executions.
pub static EXECUTIONS: ProjectionRef = LazyLock::new(rows_of::<Execution>);

/// The projection of the rows of a resource.
pub fn rows_of<R: Resource>() -> &'static Projection {
    named(R::ROWS)
}

/// The projection of the rows of a settings service.
pub(crate) fn rows_of_settings<P: Properties>() -> &'static Projection {
    named(Some(P::ROWS))
}

/// The projection of the search index of a resource.
pub fn index_of<R: Resource>() -> &'static Projection {
    named(R::INDEX)
}

fn named(wanted: Option<Name>) -> &'static Projection {
    let is_it = |projection: &&Projection| wanted.is_some_and(|wanted| wanted.name == projection.name);
    PROJECTIONS.iter().find(is_it).expect("what is read is kept")
}

struct Tables {
    rows: Vec<(Name, LogClass, Vec<Table>)>,
    indexes: Vec<Projection>,
}

impl Tables {
    /// # Panics
    /// When a projection would have rows of both logs, of which it follows one: such a node must not start.
    fn row(&mut self, name: Name, class: LogClass, table: Table) {
        match self.rows.iter_mut().find(|(known, ..)| *known == name) {
            Some((_, of, tables)) => {
                assert!(*of == class, "the projection {} follows one log", name.name);
                tables.push(table);
            }
            None => self.rows.push((name, class, vec![table])),
        }
    }
}

impl Visitor for Tables {
    fn resource<R: Resource>(&mut self) {
        if let Some(name) = R::ROWS {
            self.row(name, R::CLASS, standard::<R>());
        }
        self.indexes.extend(R::INDEX.map(|name| Projection::new(name, R::CLASS, Kind::Index(standard::<R>()))));
    }

    fn settings<P: Properties>(&mut self) {
        self.row(P::ROWS, LogClass::Events, settings::<P>());
    }
}

impl GenerationSlot {
    /// The other place.
    pub(crate) const fn opposite(self) -> Self {
        match self {
            Self::Next => Self::Previous,
            Self::Previous => Self::Next,
        }
    }

    /// Both places.
    pub const ALL: [Self; 2] = [Self::Next, Self::Previous];

    /// The name of the place.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Next => "next",
            Self::Previous => "previous",
        }
    }
}

impl Projection {
    fn new(Name { name, version }: Name, class: LogClass, kind: Kind) -> Self {
        Self { name, view: name, version: version + fault::raised_version(name), class, kind }
    }

    fn at_slot(&self, place: GenerationSlot) -> Self {
        let Self { view, version, class, ref kind, .. } = *self;
        Self { name: format!("{view}_{}", place.name()).leak(), view, version, class, kind: kind.clone() }
    }

    /// The tables that events are folded into. History has tables of its own, and indexes are stored in files.
    pub fn row_tables(&self) -> &[Table] {
        if let Kind::Rows(tables) = &self.kind { tables } else { &[] }
    }

    /// The table that an aggregate has a row in.
    pub fn table(&self, aggregate_type: &str) -> Option<&Table> {
        self.row_tables().iter().find(|table| table.aggregate_type == aggregate_type)
    }

    /// Whether it is a generation beside the one that answers.
    pub fn is_beside(&self) -> bool {
        self.name != self.view
    }

    /// The name of this version: of its schema in Postgres, or of its index.
    pub fn schema_name(&self) -> String {
        format!("{}_{}", self.name, self.version)
    }

    /// Its name among the parts of a node.
    pub fn part(&self) -> String {
        format!("projection.{}", self.name)
    }

    /// Completes a statement on the tables of this version. Its text names the table of a resource as in `{user}`, and
    /// any other one as in `{schema}.events`.
    pub fn sql(&self, text: &str) -> String {
        let schema = self.schema_name();
        let text = text.replace("{schema}", &schema);
        let Kind::Rows(tables) = &self.kind else { return text };
        tables.iter().fold(text, |text, table| {
            text.replace(&format!("{{{}}}", table.aggregate_type), &layout::qualified(&schema, table))
        })
    }

    /// The tables of this version.
    pub fn tables(&self) -> Vec<String> {
        let schema = self.schema_name();
        match &self.kind {
            Kind::History => tables::names(self.class).iter().map(|name| format!("{schema}.{name}")).collect(),
            Kind::Rows(rows) => rows.iter().map(|table| layout::qualified(&schema, table)).collect(),
            Kind::Index(_) => vec![],
        }
    }

    /// The indexes of its tables.
    pub fn indexes(&self) -> Vec<String> {
        let schema = self.schema().unwrap_or_default();
        let names =
            schema.lines().filter_map(|line| line.strip_prefix("create index if not exists ")?.split(' ').next());
        names.map(|name| format!("{}.{name}", self.schema_name())).collect()
    }

    /// The SQL that creates what is missing; `None` for a projection that is not in Postgres.
    pub fn schema(&self) -> Option<String> {
        let schema = self.schema_name();
        let tables = match &self.kind {
            Kind::History => tables::create(self.class, &schema),
            Kind::Rows(tables) => {
                tables.iter().map(|table| layout::create(&schema, table)).collect::<Vec<_>>().join("\n")
            }
            Kind::Index(_) => return None,
        };
        Some(format!("create schema if not exists {schema};\n\n{tables}"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn indexes_are_found_in_the_schema() {
        let indexes = ["events_by_sequence", "events_in_order", "answers_by_time"];
        assert_eq!(HISTORY.indexes(), indexes.map(|name| format!("history_2.{name}")));
    }

    #[test]
    fn each_name_is_that_of_one_projection() {
        let all: Vec<_> = with_beside().collect();
        let names: HashSet<&str> = all.iter().map(|projection| projection.name).collect();
        assert_eq!(names.len(), all.len());
    }
}

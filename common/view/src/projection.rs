//! The projections: their names, versions and tables.
//!
//! Each has a schema of its own, named with its version, so that a new version can be built beside the live one.

use std::sync::LazyLock;

use domain::{
    resource::{
        data_key::DataKey, domain::Domain, execution::Execution, instance::Instance, membership::Membership,
        organization::Organization, project::Project, signing_key::SigningKey, target::Target, user::User,
    },
    setting::features::Features,
};

use crate::{
    history::tables,
    table::{Table, ended, layout, settings, standard},
};

/// The text of a statement, made when it is first needed; see [`Projection::sql`].
pub type Sql = LazyLock<String>;

/// What keeps a set of tables up to date.
pub struct Projection {
    /// The name, for example `targets`.
    pub name: &'static str,
    /// The version; a change of tables or of their meaning needs a new one.
    pub version: i32,
    /// What it keeps.
    pub kind: Kind,
}

/// The classes of projections.
pub enum Kind {
    /// What the write node reads: envelopes of all events, claims, answers. It interprets no payload and never parks.
    History,
    /// Rows of resources.
    Rows(&'static [Table]),
    /// A search index of one table, in files.
    Index(&'static Table),
}

/// What the write node reads.
pub const HISTORY: Projection = Projection { name: "history", version: 1, kind: Kind::History };

/// What admits requests and issues tokens: tenants, users, roles, keys.
pub const ACCESS: Projection = Projection {
    name: "access",
    version: 3,
    kind: Kind::Rows(&[
        standard::<Instance>(),
        standard::<Domain>(),
        standard::<Organization>(),
        standard::<Project>(),
        standard::<User>(),
        standard::<Membership>(),
        standard::<SigningKey>(),
        standard::<DataKey>(),
        settings::<Features>(),
    ]),
};

/// What searches of instances read.
pub const INSTANCES_INDEX: Projection =
    Projection { name: "instances_index", version: 1, kind: Kind::Index(&standard::<Instance>()) };

/// What searches of organizations read.
pub const ORGANIZATIONS_INDEX: Projection =
    Projection { name: "organizations_index", version: 1, kind: Kind::Index(&standard::<Organization>()) };

/// What searches of domains read.
pub const DOMAINS_INDEX: Projection =
    Projection { name: "domains_index", version: 1, kind: Kind::Index(&standard::<Domain>()) };

/// What searches of users read.
pub const USERS_INDEX: Projection =
    Projection { name: "users_index", version: 1, kind: Kind::Index(&standard::<User>()) };

/// What searches of memberships read.
pub const MEMBERSHIPS_INDEX: Projection =
    Projection { name: "memberships_index", version: 1, kind: Kind::Index(&standard::<Membership>()) };

/// What has ended, on which tokens may stand.
pub const ENDED: Projection = Projection {
    name: "ended",
    version: 1,
    kind: Kind::Rows(&[ended::<Instance>(), ended::<Organization>(), ended::<User>()]),
};

/// The targets of executions.
pub const TARGETS: Projection = Projection { name: "targets", version: 1, kind: Kind::Rows(&[standard::<Target>()]) };

/// What searches of targets read.
pub const TARGETS_INDEX: Projection =
    Projection { name: "targets_index", version: 1, kind: Kind::Index(&standard::<Target>()) };

/// The executions.
pub const EXECUTIONS: Projection =
    Projection { name: "executions", version: 1, kind: Kind::Rows(&[standard::<Execution>()]) };

/// What searches of executions read.
pub const EXECUTIONS_INDEX: Projection =
    Projection { name: "executions_index", version: 1, kind: Kind::Index(&standard::<Execution>()) };

/// Every projection there is.
pub const PROJECTIONS: &[Projection] = &[
    HISTORY,
    ACCESS,
    ENDED,
    INSTANCES_INDEX,
    ORGANIZATIONS_INDEX,
    DOMAINS_INDEX,
    USERS_INDEX,
    MEMBERSHIPS_INDEX,
    TARGETS,
    TARGETS_INDEX,
    EXECUTIONS,
    EXECUTIONS_INDEX,
];

impl Projection {
    /// The name of this version: of its schema in Postgres, or of its index.
    pub fn schema_name(&self) -> String {
        format!("{}_{}", self.name, self.version)
    }

    /// What it is called among the parts of a node.
    pub fn part(&self) -> String {
        format!("projection.{}", self.name)
    }

    /// A statement on the tables of this version. Its text names the table of a resource by that, as in `{user}`, and any
    /// other as in `{schema}.events`.
    pub fn sql(&self, text: &str) -> String {
        let schema = self.schema_name();
        let text = text.replace("{schema}", &schema);
        let Kind::Rows(tables) = self.kind else { return text };
        tables.iter().fold(text, |text, table| {
            text.replace(&format!("{{{}}}", table.aggregate_type), &layout::qualified(&schema, table))
        })
    }

    /// The tables of this version.
    pub fn tables(&self) -> Vec<String> {
        let schema = self.schema_name();
        match self.kind {
            Kind::History => tables::NAMES.map(|name| format!("{schema}.{name}")).to_vec(),
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

    /// The SQL that creates what is missing; `None` for what is not in Postgres.
    pub fn schema(&self) -> Option<String> {
        let schema = self.schema_name();
        let tables = match &self.kind {
            Kind::History => tables::create(&schema),
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
    use domain::catalog::AGGREGATES;

    use super::*;

    #[test]
    fn indexes_are_found_in_the_schema() {
        let indexes = ["events_by_sequence", "events_in_order", "answers_by_time"];
        assert_eq!(HISTORY.indexes(), indexes.map(|name| format!("history_1.{name}")));
    }

    #[test]
    fn the_catalog_has_every_aggregate_that_is_kept() {
        let tables = PROJECTIONS.iter().flat_map(|projection| match projection.kind {
            Kind::Rows(tables) => tables.iter().collect(),
            Kind::Index(table) => vec![table],
            Kind::History => vec![],
        });
        for table in tables {
            assert!(AGGREGATES.iter().any(|(name, _)| *name == table.aggregate_type), "{}", table.aggregate_type);
        }
    }
}

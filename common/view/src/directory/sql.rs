//! The statements of the directory. Each returns one row: what it finds, how far the read model was, and whether rows of it
//! lack events that could not be processed.

use std::sync::LazyLock;

use domain::{resource::signing_key::SigningKey, standard::Resource};

use crate::{projection::ACCESS, read_model::Select};

/// A statement that looks something up, and the kinds of objects whose rows it reads.
pub struct Query {
    pub(super) text: String,
    pub(super) kinds: Vec<&'static str>,
}

/// A statement, made when it is first needed.
pub(super) type Statement = LazyLock<Query>;

pub(super) static TENANT_BY_ID: Statement = Statement::new(|| with_processed(&format!("{TENANT} where i.id = $4")));

pub(super) static TENANT_BY_DOMAIN: Statement = Statement::new(|| {
    with_processed(&format!(
        "{TENANT} join {{domain}} d on d.instance_id = i.instance_id and d.owner_id = i.id \
         where d.name = $4 and d.is_verified"
    ))
});

/// An instance with its issuer's host.
const TENANT: &str = "select i.id, i.state::text, p.name as primary_domain from {instance} i \
                      join {domain} p on p.instance_id = i.instance_id and p.owner_id = i.id and p.is_primary";

pub(super) static ORGANIZATION_BY_ID: Statement =
    Statement::new(|| with_processed(&format!("{ORGANIZATION} where o.instance_id = $4 and o.id = $5")));

pub(super) static ORGANIZATION_BY_DOMAIN: Statement = Statement::new(|| {
    with_processed(&format!(
        "{ORGANIZATION} join {{domain}} d on d.instance_id = o.instance_id and d.owner_id = o.id \
         where d.instance_id = $4 and d.name = $5 and d.is_verified"
    ))
});

const ORGANIZATION: &str = "select o.id, o.state::text from {organization} o";

pub(super) static KEYS: Select<SigningKey> =
    Select::new(&ACCESS, SigningKey::NAME, "where instance_id = $1 order by id");

pub(super) static USER_BY_ID: Statement = Statement::new(|| with_processed(&format!("{USER} and u.id = $5")));

/// If nobody has the name, this finds the first user of the instance, whom the caller discards, so that a missing user
/// takes no less time.
pub(super) static USER_BY_NAME: Statement = Statement::new(|| {
    let first = "u.id = (select min(first.id) from {user} first where first.instance_id = $4)";
    with_processed(&format!("({USER} and u.username = $5) union all ({USER} and {first}) limit 1"))
});

/// A user with its roles. In one statement, so that a name that exists takes no longer than one that does not.
const USER: &str = "select u.id, u.owner_id, u.state::text, o.is_active as is_open, (select \
                    coalesce(json_agg(m.state), '[]')::text from {membership} m where \
                    m.instance_id = u.instance_id and m.user_id = u.id) as memberships from {user} u join \
                    {organization} o on o.instance_id = u.instance_id and o.id = u.owner_id where u.instance_id = $4";

/// An app with its project and their organization.
pub(super) static APP: Statement = Statement::new(|| {
    with_processed(
        "select a.id, a.owner_id, a.state::text, a.is_active and p.is_active and o.is_active as is_live from {app} a \
         join {project} p on p.instance_id = a.instance_id and p.id = a.project_id \
         join {organization} o on o.instance_id = a.instance_id and o.id = a.owner_id \
         where a.instance_id = $4 and a.id = $5",
    )
});

/// Finds a key of an app or of a user, if its holder exists, too.
pub(super) static APP_KEY: Statement = Statement::new(|| key("{app_key}", "{app}"));
pub(super) static USER_KEY: Statement = Statement::new(|| key("{user_key}", "{user}"));

/// Finds a personal access token, if its user exists, too.
pub(super) static PERSONAL_ACCESS_TOKEN: Statement = Statement::new(|| {
    with_processed(
        "select t.id, t.state::text, floor(extract(epoch from t.created_at))::bigint as made_at from {personal_access_token} t \
         join {user} u on u.instance_id = t.instance_id and u.id = t.user_id where t.instance_id = $4 and t.id = $5",
    )
});

fn key(keys: &str, holders: &str) -> Query {
    with_processed(&format!(
        "select k.id, k.state::text from {keys} k \
         join {holders} h on h.instance_id = k.instance_id and h.id = k.holder_id where k.instance_id = $4 and k.id = $5"
    ))
}

/// A project, its first 100 apps, whether the organization `$6` owns it, and the project grants to that organization.
pub(super) static PROJECT: Statement = Statement::new(|| {
    with_processed(
        "select p.id, p.owner_id, p.state::text, p.is_active and o.is_active as is_live, p.owner_id = $6 as is_own, array \
         (select g.id from {project_grant} g where g.instance_id = p.instance_id and g.organization_id = $6 \
         and g.project_id = p.id and g.is_active) as project_grants, array \
         (select a.id from {app} a where a.instance_id = p.instance_id and a.project_id = p.id and a.is_active \
         order by a.id limit 100) as apps from {project} p \
         join {organization} o on o.instance_id = p.instance_id and o.id = p.owner_id \
         where p.instance_id = $4 and p.id = $5",
    )
});

/// The user grants of a user that are in force: the project, its organization, the organization that granted it and the
/// project grant exist and are switched on. Only roles that exist, and that the project grant includes, are returned.
pub(super) static GRANTS: Statement = Statement::new(|| {
    with_processed(
        "select coalesce(json_agg(json_build_object('id', g.id, 'project_id', g.project_id, 'organization_id', g.owner_id, \
         'project_grant_id', by.id, 'primary_domain', o.state->>'primary_domain', 'roles', (\
         select coalesce(json_agg(json_build_object('id', r.id, 'key', r.role_key) order by r.role_key), '[]') \
         from json_array_elements(g.state->'roles') as given \
         join {project_role} r on r.instance_id = g.instance_id and r.id = given->>'id' \
         where g.project_grant_id = '' or position(' ' || r.role_key || ' ' in by.role_keys) > 0))), '[]')::text as grants \
         from {user_grant} g \
         join {project} p on p.instance_id = g.instance_id and p.id = g.project_id and p.is_active \
         join {organization} po on po.instance_id = p.instance_id and po.id = p.owner_id and po.is_active \
         join {organization} o on o.instance_id = g.instance_id and o.id = g.owner_id and o.is_active \
         left join {project_grant} by on by.instance_id = g.instance_id and by.id = g.project_grant_id \
         and by.organization_id = g.owner_id and by.project_id = g.project_id and by.is_active \
         where g.instance_id = $4 and g.user_id = $5 and g.is_active and (g.project_grant_id = '' or by.id is not null)",
    )
});

/// How much of a user's metadata is read, in bytes of keys and values and [`OF_ENTRY`] for each: more than fits a
/// token, and as much as the longest entry.
pub(super) const MOST_METADATA: usize = 32 * 1024;
/// How many bytes an entry counts in addition to its text.
pub(super) const OF_ENTRY: usize = 32;
/// How many entries are read at most: so many always exceed [`MOST_METADATA`].
const MOST_ENTRIES: usize = MOST_METADATA / OF_ENTRY + 1;

/// The entries of a user's metadata in the order of their keys, as many as fit [`MOST_METADATA`]. Their ids begin with
/// the id of the user and a slash, and sort like the keys, so no other rows are read.
pub(super) static METADATA: Statement = Statement::new(|| {
    with_processed(&format!(
        "select coalesce(json_agg(json_build_array(m.metadata_key, m.value) order by m.metadata_key) \
         filter (where m.size <= {MOST_METADATA}), '[]')::text as entries, \
         coalesce(bool_and(m.size <= {MOST_METADATA}), true) as is_all from \
         (select metadata_key, value, sum(octet_length(metadata_key) + octet_length(value) + {OF_ENTRY}) \
         over (order by metadata_key) as size from (select metadata_key, coalesce(state->>'value', '') as value \
         from {{user_metadata}} where instance_id = $4 and id >= $5::text || '/' and id < $5::text || '0' \
         order by id limit {MOST_ENTRIES}) as e) as m"
    ))
});

/// Makes a statement return one row: what it finds, if anything, the sequence that the read model had processed, and
/// whether events failed there, which may be processed later. The sequence is read with or before the data, so that it
/// promises no more than the data holds. The checkpoints are named first: a reader that waits for them during an exchange of generations must hold no tables that the exchange needs.
fn with_processed(statement: &str) -> Query {
    let text = ACCESS.sql(&format!(
        "select c.*, found.* from (select coalesce(max(sequence), 0) as processed, exists (select from platform.failed_events \
         where projection = $1 and version = $2 and shard = $3) as lacks_events from platform.checkpoints \
         where projection = $1 and version = $2 and shard = $3) as c left join ({statement}) as found on true"
    ));
    let kinds = ACCESS.row_tables().iter().map(|table| table.aggregate_type);
    Query { text, kinds: kinds.filter(|kind| statement.contains(&format!("{{{kind}}}"))).collect() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn checkpoints_are_named_before_tables() {
        for statement in [&METADATA, &TENANT_BY_ID, &USER_BY_NAME, &GRANTS] {
            let [checkpoints, table] =
                ["platform.checkpoints", &ACCESS.schema_name()].map(|name| statement.text.find(name));
            assert!(checkpoints.is_some_and(|checkpoints| Some(checkpoints) < table), "{}", statement.text);
        }
    }

    #[test]
    fn a_statement_names_the_kinds_of_all_its_tables() {
        assert_eq!(USER_BY_NAME.kinds, ["organization", "user", "membership"]);
        assert_eq!(METADATA.kinds, ["user_metadata"]);
        let all = [
            &TENANT_BY_ID,
            &TENANT_BY_DOMAIN,
            &ORGANIZATION_BY_ID,
            &ORGANIZATION_BY_DOMAIN,
            &USER_BY_ID,
            &USER_BY_NAME,
            &APP,
            &APP_KEY,
            &USER_KEY,
            &PERSONAL_ACCESS_TOKEN,
            &PROJECT,
            &GRANTS,
            &METADATA,
        ];
        for Query { text, kinds } in all.map(|statement| &**statement) {
            let schema = format!("{}.", ACCESS.schema_name());
            let is_of_name = |char: char| char.is_ascii_lowercase() || char == '_';
            let tables = text.split(&schema).skip(1).map(|rest| &rest[..rest.find(|char| !is_of_name(char)).unwrap()]);
            let of_kinds = kinds.iter().map(|kind| (ACCESS.table(kind).expect("it is one of its kinds").name)());
            let (tables, of_kinds): (BTreeSet<_>, BTreeSet<_>) =
                (tables.map(str::to_owned).collect(), of_kinds.collect());
            assert_eq!(tables, of_kinds, "{text}");
        }
    }
}

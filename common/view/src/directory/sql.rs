//! The statements of the directory. Each says in one row what it finds and how far the read model was.

use domain::{resource::signing_key::SigningKey, standard::Resource};

use crate::{
    projection::{ACCESS, Sql},
    read_model::Select,
};

pub(super) static TENANT_BY_ID: Sql = Sql::new(|| with_processed(&format!("{TENANT} where i.id = $4")));

pub(super) static TENANT_BY_DOMAIN: Sql = Sql::new(|| {
    with_processed(&format!(
        "{TENANT} join {{domain}} d on d.instance_id = i.instance_id and d.owner_id = i.id \
         where d.name = $4 and d.is_verified"
    ))
});

/// An instance with its issuer's host.
const TENANT: &str = "select i.id, i.state::text, p.name as primary_domain from {instance} i \
                      join {domain} p on p.instance_id = i.instance_id and p.owner_id = i.id and p.is_primary";

pub(super) static ORGANIZATION_BY_ID: Sql =
    Sql::new(|| with_processed(&format!("{ORGANIZATION} where o.instance_id = $4 and o.id = $5")));

pub(super) static ORGANIZATION_BY_DOMAIN: Sql = Sql::new(|| {
    with_processed(&format!(
        "{ORGANIZATION} join {{domain}} d on d.instance_id = o.instance_id and d.owner_id = o.id \
         where d.instance_id = $4 and d.name = $5 and d.is_verified"
    ))
});

const ORGANIZATION: &str = "select o.id, o.state::text from {organization} o";

pub(super) static KEYS: Select<SigningKey> =
    Select::new(&ACCESS, SigningKey::NAME, "where instance_id = $1 order by id");

pub(super) static USER_BY_ID: Sql = Sql::new(|| with_processed(&format!("{USER} and u.id = $5")));

/// Where nobody has the name, this finds the first user of the instance, who is not the one that was asked for: so that it
/// is no quicker to find nobody.
pub(super) static USER_BY_NAME: Sql = Sql::new(|| {
    let first = "u.id = (select min(first.id) from {user} first where first.instance_id = $4)";
    with_processed(&format!("({USER} and u.username = $5) union all ({USER} and {first}) limit 1"))
});

/// A user with its roles. In one statement, so that a name that exists takes no longer than one that does not.
const USER: &str = "select u.id, u.owner_id, u.state::text, o.is_active as is_open, (select \
                    coalesce(json_agg(m.state), '[]')::text from {membership} m where \
                    m.instance_id = u.instance_id and m.user_id = u.id) as memberships from {user} u join \
                    {organization} o on o.instance_id = u.instance_id and o.id = u.owner_id where u.instance_id = $4";

/// One row: what the statement finds, if it finds something, and the sequence that the read model had processed. That is
/// read with or before the data, so that it promises no more than the data holds.
fn with_processed(statement: &str) -> String {
    ACCESS.sql(&format!(
        "select (select coalesce(max(sequence), 0) from platform.checkpoints \
         where projection = $1 and version = $2 and shard = $3) as processed, found.* \
         from (values (1)) as one left join ({statement}) as found on true"
    ))
}

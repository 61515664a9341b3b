//! The auditor: reads the complete log, checks its invariants, and compares the read models with it.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt::Display,
    sync::Arc,
};

use base::secret::sha256;
use domain::log_class::LogClass;
use eventlog::{
    log::Log,
    record::{AggregateKey, Position, Record, Recorded, owner_type},
};
use futures::{StreamExt, TryStreamExt};
use serde_json::Value;
use tokio_postgres::NoTls;
use view::{
    history::{Referred, fold_claims, fold_references, hashes},
    projection::{HISTORY, Kind, PROJECTIONS, Projection},
    table::Table,
};

use crate::{
    eventually,
    fold::{FoldKey, Living, fold, without_people},
    hex,
    load::Requested,
};

/// A log that was read from its first message to its last, and that holds its invariants.
#[derive(Debug)]
pub struct Audit {
    /// The records.
    pub records: Vec<Arc<Record>>,
    /// Their events.
    pub events: Vec<Arc<Recorded>>,
}

impl Audit {
    /// Reads the log of shard 0 and checks it.
    pub async fn of(client: async_nats::Client) -> Self {
        let log = Log::open(client, LogClass::Events, 0, 1).await.expect("the log can be opened");
        let last = log.last().await.expect("the log can be read").map_or(0, |record| record.stream_sequence);
        // Following checks that messages, sequences and digests are an unbroken chain.
        let records = log.follow(Position::default()).await.expect("the log can be read");
        let length = usize::try_from(last).expect("a short log");
        let records: Vec<_> = records.take(length).try_collect().await.expect("the log is an unbroken chain");
        let events = records.iter().flat_map(|record| record.events.clone()).collect();
        let audit = Self { records, events };
        audit.check_records();
        audit.check_events();
        audit
    }

    fn check_records(&self) {
        let mut ids = HashSet::new();
        for record in &self.records {
            assert!(ids.insert(&record.commit.record_id), "message {} is in the log twice", record.stream_sequence);
        }
        for pair in self.records.windows(2) {
            let (before, after) = (&pair[0].commit, &pair[1].commit);
            let place = pair[1].stream_sequence;
            assert_eq!(
                (&before.log_id, before.incarnation),
                (&after.log_id, after.incarnation),
                "message {place} is of another log"
            );
            assert!(before.epoch <= after.epoch, "message {place} is of an older writer than the one before it");
            assert!(before.committed_at <= after.committed_at, "message {place} is older than the one before it");
            if before.epoch != after.epoch {
                assert!(
                    pair[1].events.is_empty() && after.answers.is_empty(),
                    "message {place} begins an epoch and is no barrier"
                );
            }
        }
    }

    fn check_events(&self) {
        let (mut ids, mut versions, mut claims) = (HashSet::new(), HashMap::new(), HashMap::new());
        let (mut owners, mut removed) = (HashMap::new(), HashSet::new());
        for (recorded, sequence) in self.events.iter().zip(1..) {
            let key = recorded.key();
            assert_eq!(recorded.sequence, sequence, "sequences are dense");
            assert!(ids.insert(&recorded.event.id), "event {sequence} has the id of an earlier one");
            let version = versions.entry(key.clone()).or_insert(0);
            *version += 1;
            assert_eq!(recorded.event.version, *version, "the versions of {key:?} are dense, event {sequence}");
            for released in hashes(&recorded.event.claims_released) {
                assert_eq!(claims.remove(&released).as_ref(), Some(&key), "event {sequence} releases what it holds");
            }
            for taken in hashes(&recorded.event.claims_taken) {
                let is_gone =
                    |holder: AggregateKey| removed.contains(&holder.instance_id) || removed.contains(&owners[&holder]);
                assert!(claims.insert(taken, key.clone()).is_none_or(is_gone), "event {sequence} takes what is free");
            }
            if ["instance.removed", "organization.removed"].contains(&recorded.event.r#type.as_str()) {
                removed.insert(key.id.clone());
            }
            owners.insert(key, recorded.event.owner_id.clone());
        }
    }

    /// Returns the position after the record with this stream sequence; 0 is before the first.
    pub fn position(&self, stream_sequence: u64) -> Position {
        let before = stream_sequence.checked_sub(1).and_then(|index| usize::try_from(index).ok());
        before.map_or_else(Position::default, |index| self.records[index].position())
    }

    /// Returns the position of the end of the log.
    pub fn end(&self) -> Position {
        self.records.last().map(|record| record.position()).unwrap_or_default()
    }

    /// Returns the events of the aggregate with this id.
    pub fn events_of(&self, id: &str) -> Vec<&Recorded> {
        self.events.iter().map(AsRef::as_ref).filter(|recorded| recorded.event.aggregate_id == id).collect()
    }

    /// Returns the ids of the targets that were created, by name.
    pub fn created(&self) -> HashMap<String, Vec<String>> {
        let mut created: HashMap<String, Vec<String>> = HashMap::new();
        for recorded in self.events.iter().filter(|recorded| recorded.event.r#type == "target.added") {
            let payload: Value = serde_json::from_slice(&recorded.event.payload).expect("payloads are JSON");
            let name = payload["name"].as_str().expect("a target has a name").to_owned();
            created.entry(name).or_default().push(recorded.event.aggregate_id.clone());
        }
        created
    }

    /// Checks that the log has everything that was acknowledged, once, and nothing that was not requested.
    pub fn assert_told(&self, told: &Requested) {
        let created = self.created();
        for (name, id) in &told.acknowledged {
            assert_eq!(created.get(name), Some(&vec![id.clone()]), "{name} was acknowledged, so it exists, once");
        }
        for (name, ids) in &created {
            assert!(told.attempted.contains(name), "{name} was never asked for");
            assert_eq!(ids.len(), 1, "{name} was asked for once");
        }
    }

    /// Waits until the read models have caught up with the log, and compares them with a fold of it.
    pub async fn assert_projected(&self, postgres_url: &str) {
        self.wait_projected(postgres_url).await;
        self.assert_equal_rows(&connect(postgres_url).await).await;
    }

    /// Waits until the read models have caught up with the end of the log, or are further.
    pub async fn wait_projected(&self, postgres_url: &str) {
        let client = &connect(postgres_url).await;
        let end = signed(self.end().stream_sequence);
        for projection in PROJECTIONS.iter().filter(|it| it.class == LogClass::Events && it.schema().is_some()) {
            let reached = || async move {
                let text = "select stream_sequence from platform.checkpoints where projection = $1 and version = $2";
                let row = client.query_opt(text, &[&projection.name, &projection.version]).await.ok()??;
                (row.get::<_, i64>(0) >= end).then_some(())
            };
            eventually(&format!("the projection {} at message {end}", projection.name), reached).await;
        }
    }

    /// Compares the read models with a fold of the log.
    pub async fn assert_equal_rows(&self, client: &tokio_postgres::Client) {
        for projection in PROJECTIONS.iter().filter(|it| it.class == LogClass::Events) {
            let schema = projection.schema_name();
            match &projection.kind {
                Kind::History => self.assert_history(client).await,
                Kind::Rows(tables) => {
                    for table in tables {
                        let found = lines(client, &select(&schema, table)).await;
                        let name = format!("{schema}.{}", (table.name)());
                        assert_same(&name, without_people(self.fold(table)), without_people(found));
                        // Such a table has removed objects.
                        if !(table.name)().starts_with("ended_") {
                            assert_eq!(living(client, &name).await, fold(&self.events, table.aggregate_type), "{name}");
                        }
                    }
                }
                // An index is not in Postgres; tests of searches cover its contents.
                Kind::Index(_) => {}
            }
        }
    }

    /// Resets history to the position after a message, as if Postgres had lost what it has committed since, and the
    /// targets to the beginning, where they have no rows.
    pub async fn set_back(&self, client: &tokio_postgres::Client, stream_sequence: u64) {
        let position = self.position(stream_sequence);
        let (sequence, stream_sequence) = (signed(position.sequence), signed(position.stream_sequence));
        let digest = hex(&position.digest);
        let kept: Vec<_> = self.events.iter().filter(|event| event.sequence <= position.sequence).cloned().collect();
        let claims = fold_claims(&kept).into_iter().filter_map(|(claim, holder)| Some((claim, holder?)));
        let claims = claims.map(|(claim, AggregateKey { instance_id, aggregate_type, id })| {
            let claim = hex(&claim);
            format!("insert into history_2.claims values ('\\x{claim}', '{instance_id}', '{aggregate_type}', '{id}'); ")
        });
        let claims: String = claims.collect();
        let referrers = Self::referrers(&kept).into_iter().map(|[instance, to, to_id, link, of, id]| {
            let values = format!("('{instance}', '{to}', '{to_id}', '{link}', '{of}', '{id}')");
            format!("insert into history_2.referrers values {values}; ")
        });
        let referrers: String = referrers.collect();
        let text = format!(
            "begin; \
             delete from history_2.events where sequence > {sequence}; \
             delete from history_2.answers where sequence > {sequence}; \
             delete from history_2.claims; {claims} \
             delete from history_2.referrers; {referrers} \
             update platform.checkpoints set sequence = {sequence}, stream_sequence = {stream_sequence}, \
               digest = decode('{digest}', 'hex') where projection = 'history'; \
             delete from targets_1.targets; \
             update platform.checkpoints set sequence = 0, stream_sequence = 0, digest = decode(repeat('00', 32), 'hex') \
               where projection = 'targets'; \
             commit;"
        );
        client.batch_execute(&text).await.expect("Postgres is there");
    }

    /// Returns the references after these events, each as the columns of a row.
    fn referrers(events: &[Arc<Recorded>]) -> Vec<[String; 6]> {
        let folded = fold_references(events.iter().map(AsRef::as_ref));
        let taken = folded.into_iter().filter(|(_, is_taken)| *is_taken);
        let row = |((Referred { key, link }, referrer), _): ((Referred, AggregateKey), bool)| {
            [key.instance_id, key.aggregate_type, key.id, link, referrer.aggregate_type, referrer.id]
        };
        taken.map(row).collect()
    }

    fn fold(&self, table: &Table) -> Vec<String> {
        let changes = table.fold(&self.events).expect("events can be read");
        let rows = changes.iter().filter_map(|change| Some((change, change.row.as_ref()?)));
        rows.map(|(change, row)| {
            let values = row.values.iter().map(ToString::to_string);
            let common = line(&[
                &change.instance_id,
                &change.id,
                &owner_type(row.owner.kind),
                &row.owner.id,
                &row.sequence,
                &row.created_at.as_microsecond(),
                &row.changed_at.as_microsecond(),
                &row.state,
            ]);
            std::iter::once(common).chain(values).collect::<Vec<_>>().join("|")
        })
        .collect()
    }

    async fn assert_history(&self, client: &tokio_postgres::Client) {
        let schema = HISTORY.schema_name();
        let events = self.events.iter().map(|recorded| {
            let event = &recorded.event;
            line(&[
                &event.instance_id,
                &event.aggregate_type,
                &event.aggregate_id,
                &event.version,
                &recorded.sequence,
                &event.id,
                &event.r#type,
                &event.revision,
                &event.restores,
                &event.owner_type,
                &event.owner_id,
                &event.actor,
                &recorded.committed_at.as_microsecond(),
                &hex(&sha256(&event.payload)),
            ])
        });
        let text = format!(
            "select concat_ws('|', instance_id, aggregate_type, aggregate_id, version, sequence, event_id, type, revision, \
             restores::text, owner_type, owner_id, actor, {}, encode(sha256(payload), 'hex')) from {schema}.events",
            micros("committed_at")
        );
        assert_same("the events of history", events.collect(), lines(client, &text).await);

        let claims = fold_claims(&self.events).into_iter().filter_map(|(claim, holder)| Some((claim, holder?)));
        let claims = claims.map(|(claim, AggregateKey { instance_id, aggregate_type, id })| {
            line(&[&hex(&claim), &instance_id, &aggregate_type, &id])
        });
        let text = format!(
            "select concat_ws('|', encode(claim, 'hex'), instance_id, aggregate_type, aggregate_id) from {schema}.claims"
        );
        assert_same("the claims of history", claims.collect(), lines(client, &text).await);

        let referrers = Self::referrers(&self.events).into_iter().map(|row| row.join("|")).collect();
        let text = format!(
            "select concat_ws('|', instance_id, referred_type, referred_id, link, aggregate_type, aggregate_id) from \
             {schema}.referrers"
        );
        assert_same("the referrers of history", referrers, lines(client, &text).await);
        self.assert_answers(client, &schema).await;
    }

    async fn assert_answers(&self, client: &tokio_postgres::Client, schema: &str) {
        let mut answers = HashMap::new();
        for record in &self.records {
            for answer in &record.commit.answers {
                let text = line(&[
                    &hex(&answer.command_id),
                    &hex(&answer.request_digest),
                    &hex(&answer.answer),
                    &answer.instance_id,
                    &answer.sequence,
                    &record.commit.committed_at,
                ]);
                answers.insert(&answer.command_id, text);
            }
        }
        let text = format!(
            "select concat_ws('|', encode(command_id, 'hex'), encode(request_digest, 'hex'), encode(answer, 'hex'), \
             instance_id, sequence, {}) from {schema}.answers",
            micros("committed_at")
        );
        assert_same("the answers of history", answers.into_values().collect(), lines(client, &text).await);
    }
}

/// Returns the live rows of a table.
async fn living(client: &tokio_postgres::Client, name: &str) -> BTreeMap<FoldKey, Living> {
    let text = format!(
        "select instance_id, id, owner_type::int, owner_id, sequence, {}, {}, state::text from {name}",
        micros("created_at"),
        micros("changed_at")
    );
    let rows = client.query(&text, &[]).await.expect("the read models can be read");
    let living = rows.iter().map(|row| {
        let (sequence, state): (i64, &str) = (row.get(4), row.get(7));
        let living = Living {
            owner: (row.get(2), row.get(3)),
            sequence: sequence.unsigned_abs(),
            created_at: row.get(5),
            changed_at: row.get(6),
            state: serde_json::from_str(state).expect("it is JSON"),
        };
        ((row.get(0), row.get(1)), living)
    });
    living.filter(|(_, living): &(FoldKey, Living)| !living.is_person()).collect()
}

/// Returns every row of every read model as text, by table.
pub async fn dump(postgres_url: &str) -> BTreeMap<String, Vec<String>> {
    let client = connect(postgres_url).await;
    let schemas: Vec<String> = PROJECTIONS.iter().map(Projection::schema_name).collect();
    let text = "select schemaname || '.' || tablename from pg_tables where schemaname = any($1)";
    let tables = client.query(text, &[&schemas]).await.expect("Postgres is there");
    let mut rows = BTreeMap::new();
    for table in tables.iter().map(|row| row.get::<_, String>(0)) {
        let found = lines(&client, &format!("select t::text from {table} as t order by 1")).await;
        rows.insert(table, found);
    }
    rows
}

/// Connects to Postgres.
pub async fn connect(postgres_url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(postgres_url, NoTls).await.expect("Postgres is there");
    tokio::spawn(connection);
    client
}

async fn lines(client: &tokio_postgres::Client, text: &str) -> Vec<String> {
    client.query(text, &[]).await.expect("the read models can be read").iter().map(|row| row.get(0)).collect()
}

fn select(schema: &str, table: &Table) -> String {
    let columns: String = (table.columns)().iter().map(|column| format!(", {}::text", column.name)).collect();
    let (created, changed) = (micros("created_at"), micros("changed_at"));
    format!(
        "select concat_ws('|', instance_id, id, owner_type, owner_id, sequence, {created}, {changed}, state::text{columns}) \
         from {schema}.{}",
        (table.name)()
    )
}

fn micros(column: &str) -> String {
    format!("(extract(epoch from {column}) * 1000000)::bigint")
}

fn assert_same(what: &str, mut wanted: Vec<String>, mut found: Vec<String>) {
    wanted.sort_unstable();
    found.sort_unstable();
    let difference = wanted.iter().zip(&found).find(|(wanted, found)| wanted != found);
    assert_eq!(difference, None, "{what}: what is wanted and what is there");
    assert_eq!(wanted.len(), found.len(), "{what}");
}

fn line(parts: &[&dyn Display]) -> String {
    parts.iter().map(ToString::to_string).collect::<Vec<_>>().join("|")
}

fn signed(sequence: u64) -> i64 {
    i64::try_from(sequence).expect("a short log")
}

//! Deliveries to targets that were given up: failed events of a reaction. They are kept in the queue of deliveries; Postgres has a
//! copy, in which they are found beside the others, and which decides nothing.

use deadpool_postgres::GenericClient;
use domain::failed_event::Filter;
use eventlog::record::AggregateKey;
use jiff::Timestamp;
use serde::Deserialize;

use super::{ParkedAt, finds, legible};
use crate::{
    checkpoint::{signed, unsigned},
    database::DatabaseFailure,
};

/// The name of the view that they are of.
pub const VIEW: &str = "actions";

/// A delivery that was given up.
#[derive(Debug, Clone)]
pub struct GivenUp {
    /// Where it is in the queue.
    pub place: u64,
    /// The id by which operators name it.
    pub id: u64,
    /// The event, and why it was not delivered.
    pub parked: ParkedAt,
    /// To whom.
    pub target_id: String,
    /// How often it was tried.
    pub tries: u32,
}

/// As it is in the queue.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kept {
    delivery: Delivery,
    tries: u32,
    error: String,
    failed_at: Timestamp,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Delivery {
    id: String,
    instance_id: String,
    target_id: String,
    aggregate: String,
    sequence: u64,
}

impl GivenUp {
    /// Reads one as the queue has it; `None` where it cannot be read.
    pub fn read(shard: u16, (place, payload): (u64, &[u8])) -> Option<Self> {
        let Kept { delivery, tries, error, failed_at } = serde_json::from_slice(payload).ok()?;
        let Delivery { id, instance_id, target_id, aggregate, sequence } = delivery;
        // A target that is named twice has two, which the end of their ids tells apart.
        let of_target = id.split_once('.').map_or(target_id.as_str(), |(_, rest)| rest);
        let hash = base::secret::sha256(format!("{VIEW}/{shard}/{sequence}/{of_target}").as_bytes());
        let id = u64::from_be_bytes(std::array::from_fn(|place| hash[place])) & i64::MAX.unsigned_abs();
        let (aggregate_type, aggregate_id) = aggregate.split_once('/')?;
        let key = AggregateKey { instance_id, aggregate_type: aggregate_type.to_owned(), id: aggregate_id.to_owned() };
        let parked = ParkedAt { key, sequence, committed_at: None, error, last_failed: Some(failed_at) };
        Some(Self { place, id, parked, target_id, tries })
    }

    /// Whether it fulfils a condition.
    pub fn meets(&self, filter: &Filter) -> bool {
        finds(filter, (self.id, VIEW), &self.parked)
    }
}

/// How many Postgres knows of, and the place of the last one.
///
/// # Errors
/// When Postgres does not answer.
pub async fn known(client: &impl GenericClient, shard: u16) -> Result<(u64, u64), DatabaseFailure> {
    let text = "select count(*), coalesce(max(place), 0) from platform.failed_deliveries where shard = $1";
    let row = client.query_one(text, &[&i32::from(shard)]).await?;
    Ok((unsigned(row.get(0)), unsigned(row.get(1))))
}

/// Notes one.
///
/// # Errors
/// When Postgres does not answer.
pub async fn note(client: &impl GenericClient, shard: u16, given_up: &GivenUp) -> Result<(), DatabaseFailure> {
    let text = "insert into platform.failed_deliveries values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) \
                on conflict do nothing";
    let statement = client.prepare_cached(text).await?;
    let GivenUp { place, id, parked, target_id, tries } = given_up;
    let AggregateKey { instance_id, aggregate_type, id: aggregate_id } = &parked.key;
    let (place, id, sequence, tries) = (signed(*place), signed(*id), signed(parked.sequence), i64::from(*tries));
    let (shard, error) = (i32::from(shard), legible(&parked.error));
    client
        .execute(
            &statement,
            &[
                &shard,
                &place,
                &instance_id,
                &aggregate_type,
                &aggregate_id,
                &id,
                &sequence,
                &tries,
                &error,
                &parked.last_failed,
                &target_id,
            ],
        )
        .await?;
    Ok(())
}

/// Forgets all up to a place save those at these places.
///
/// # Errors
/// When Postgres does not answer.
pub async fn retain(
    client: &impl GenericClient,
    shard: u16,
    (to, places): (u64, &[u64]),
) -> Result<(), DatabaseFailure> {
    let text = "delete from platform.failed_deliveries f where shard = $1 and place <= $2 \
                and not exists (select from unnest($3::bigint[]) p (place) where p.place = f.place)";
    let places: Vec<i64> = places.iter().copied().map(signed).collect();
    client.execute(text, &[&i32::from(shard), &signed(to), &places]).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kept(id: &str, target: &str) -> GivenUp {
        let delivery = json!({
            "id": id, "instanceId": "1", "targetId": target, "aggregate": "user/7", "eventType": "user.added",
            "sequence": 9, "depth": 0, "traceContext": "", "body": {},
        });
        let kept = json!({ "delivery": delivery, "tries": 3, "error": "503", "failedAt": "2026-11-24T00:00:00Z" });
        GivenUp::read(0, (4, kept.to_string().as_bytes())).expect("it can be read")
    }

    #[test]
    fn an_id_names_event_and_target_and_which_of_two() {
        let (first, again) = (kept("e.5", "5"), kept("e.5.1", "5"));
        assert_eq!(first.id, kept("e.5", "5").id);
        assert!(first.id != again.id && first.id != kept("e.6", "6").id && i64::try_from(first.id).is_ok());
        let key = &first.parked.key;
        assert_eq!((first.place, first.tries, first.parked.sequence, key.id.as_str()), (4, 3, 9, "7"));
    }

    #[test]
    fn it_is_found_like_others() {
        let given_up = kept("e.5", "5");
        for (filter, is_met) in [
            (Filter::View(VIEW.into()), true),
            (Filter::View("targets".into()), false),
            (Filter::AggregateType("user".into()), true),
            (Filter::Error("503".into()), true),
            (Filter::Id(given_up.id), true),
            (Filter::InstanceId("2".into()), false),
        ] {
            assert_eq!(given_up.meets(&filter), is_met, "{filter:?}");
        }
    }

    #[test]
    fn what_is_none_is_left_alone() {
        assert!(GivenUp::read(0, (1, b"{}")).is_none());
    }
}

//! Checkpoints that move together: one that is held, or not where it is expected, does not hold up the others.

use eventlog::record::Position;
use jiff::Timestamp;
use tests::servers::Servers;
use view::{
    checkpoint::{Checkpoint, Expected, Move, move_all},
    database::Database,
    projection::{PROJECTIONS, Projection},
    read_model::ReadModel,
    schema,
};

/// Returns a move of a checkpoint to the second record.
fn to_the_second(projection: &'static Projection, checkpoint: Checkpoint) -> Move {
    let position = Position { sequence: 4, stream_sequence: 2, digest: [7; 32] };
    let committed_at = Timestamp::from_second(1).expect("it is a time");
    Move { from: Expected { projection, checkpoint }, to: Checkpoint { position, committed_at, ..checkpoint } }
}

#[tokio::test]
async fn checkpoints_move_together_except_those_that_are_held_or_elsewhere() {
    let servers = Servers::start().await;
    let database = Database::new(&servers.places.postgres_url, 4).expect("an address");
    schema::prepare(&database).await.expect("the tables are made");
    let mut connection = database.connection().await.expect("it is there");
    let mut moves = vec![];
    for projection in PROJECTIONS.iter().filter(|projection| projection.schema().is_some()).take(5) {
        let taken = ReadModel::new(projection, 0).take_over(&mut connection).await.expect("nobody else has it");
        moves.push(to_the_second(projection, taken));
    }
    let [first, held, other_epoch, elsewhere, last] = [0, 1, 2, 3, 4].map(|number| moves[number].from.projection);
    moves[2].from.checkpoint.epoch += 1;
    moves[3].from.checkpoint.position.stream_sequence += 1;
    let mut other = database.connection().await.expect("it is there");
    let holding = other.transaction().await.expect("it begins");
    let lock = "select from platform.checkpoints where projection = $1 for update";
    holding.execute(lock, &[&held.name]).await.expect("nobody holds it");

    let answers = move_all(&*connection, 0, &moves).await.expect("Postgres answers at once");
    assert_eq!(answers, [true, false, false, false, true]);
    holding.rollback().await.expect("it ends");
    for (projection, expected) in [(first, 2), (held, 0), (other_epoch, 0), (elsewhere, 0), (last, 2)] {
        let found = ReadModel::new(projection, 0).checkpoint(&*connection).await.expect("it can be read");
        assert_eq!(found.map(|found| found.position.stream_sequence), Some(expected), "{}", projection.name);
    }
    assert_eq!(move_all(&*connection, 0, &moves[..2]).await.expect("it is free now"), [false, true]);
    assert!(
        schema::are_intact(&database, 0, &[Expected { projection: first, checkpoint: moves[0].to }]).await.unwrap()
    );
    let both = [moves[0].to, moves[2].from.checkpoint].into_iter().zip([first, other_epoch]);
    let both: Vec<_> = both.map(|(checkpoint, projection)| Expected { projection, checkpoint }).collect();
    assert!(!schema::are_intact(&database, 0, &both).await.unwrap(), "one of them is not where it is expected");
}

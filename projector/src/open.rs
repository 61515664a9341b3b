//! Opens personal data for the projections of people.

use std::sync::Arc;

use domain::{
    resource::{session::Session, user::User},
    standard::Resource,
};
use eventlog::record::Recorded;
use view::{
    persons::{PersonFailure, Persons, is_of_people},
    projection::{Kind, Projection},
};

use crate::batch::Batch;

impl Batch {
    /// Opens the personal data in the batch, if the projection stores that.
    pub(crate) async fn opened(self, persons: &Persons, projection: &Projection) -> Result<Self, PersonFailure> {
        let events = opened(persons, projection, self.events).await?;
        Ok(Self { events, ..self })
    }
}

/// Opens the personal data in events, if the projection stores that.
pub(crate) async fn opened(
    persons: &Persons,
    projection: &Projection,
    events: Vec<Arc<Recorded>>,
) -> Result<Vec<Arc<Recorded>>, PersonFailure> {
    let keeps_people = match &projection.kind {
        Kind::Rows(_) => [User::ROWS, Session::ROWS].iter().flatten().any(|rows| rows.name == projection.view),
        Kind::Index(table) => is_of_people(table.aggregate_type),
        Kind::History => false,
    };
    if keeps_people { persons.open_events(&events).await } else { Ok(events) }
}

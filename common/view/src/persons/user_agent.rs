//! The devices of sessions, for whoever reads sessions: rows and documents have them sealed.

use std::collections::{BTreeSet, HashMap};

use base::explain::explain;
use domain::{secret::Sealed, user_agent::UserAgent};
use futures::{StreamExt, TryStreamExt, stream};

use super::{PersonFailure, Persons, name, slot_of};
use crate::keyring::Purpose;

/// How many blocks are asked for at a time.
const AT_ONCE: usize = 16;

/// What is sealed of a session.
pub struct OfSession<'a> {
    /// The instance of both.
    pub instance_id: &'a str,
    /// The session.
    pub session_id: &'a str,
    /// The user whose session it is.
    pub user_id: &'a str,
    /// The device.
    pub sealed: &'a Sealed,
}

impl Persons {
    /// The devices of these sessions, in the same order; nothing of a person whose key was destroyed or is lost.
    ///
    /// # Errors
    /// When keys cannot be had now.
    pub async fn user_agents(&self, of: &[OfSession<'_>]) -> Result<Vec<Option<UserAgent>>, PersonFailure> {
        let names: BTreeSet<String> = of.iter().map(|it| slot_of(it.sealed.expose()).block).collect();
        let read = |block: String| {
            let blocks = self.blocks.clone();
            async move {
                let values = blocks.values(&block).await?;
                Ok::<_, PersonFailure>((block, values))
            }
        };
        let blocks: HashMap<_, _> = stream::iter(names).map(read).buffer_unordered(AT_ONCE).try_collect().await?;
        let mut found = Vec::with_capacity(of.len());
        for OfSession { instance_id, session_id, user_id, sealed } in of {
            let slot = slot_of(sealed.expose());
            let values = blocks.get(&slot.block).and_then(Option::as_ref);
            let data_key = self.keyring.key(instance_id, Purpose::Resource).await?;
            let key = self.unwrap(&data_key, (slot, values), &name(instance_id, user_id));
            let opened = key.and_then(|key| key.map(|key| key.open_user_agent(session_id, sealed)).transpose());
            found.push(opened.unwrap_or_else(|failure| {
                // Whoever reads the session can do without it.
                tracing::error!(error = explain(&failure), session_id, "the device of a session is left out");
                None
            }));
        }
        Ok(found)
    }
}

//! The settings services of the catalog, without the types of their properties.

use std::sync::{Arc, LazyLock};

use domain::{
    catalog::{self, Visitor},
    settings::{Properties, Settings},
    standard::Resource,
};
use eventlog::record::{Recorded, Undecodable, decode};
use serde_json::Value;

use super::AnySettings;
use crate::projection::{Projection, rows_of_settings};

/// A settings service.
pub(super) struct Kind {
    pub(super) name: &'static str,
    /// The projection of its rows.
    pub(super) projection: fn() -> &'static Projection,
    /// Reads a row.
    pub(super) read: fn(Value) -> Result<AnySettings, serde_json::Error>,
    /// Returns the settings after an event; `None` where the context is gone.
    pub(super) apply: fn(&Recorded) -> Result<Option<AnySettings>, Undecodable>,
}

/// All settings services.
pub(super) static KINDS: LazyLock<Vec<Kind>> = LazyLock::new(|| {
    let mut found = Kinds(vec![]);
    catalog::visit(&mut found);
    found.0
});

struct Kinds(Vec<Kind>);

impl Visitor for Kinds {
    fn resource<R: Resource>(&mut self) {}

    fn settings<P: Properties>(&mut self) {
        self.0.push(Kind {
            name: P::NAME,
            projection: rows_of_settings::<P>,
            read: |row| Ok(Arc::new(serde_json::from_value::<P>(row)?)),
            apply: |recorded| {
                let after = decode::<Settings<P>>(recorded)?.into_state();
                Ok(after.map(|to| Arc::new(to.into_known()) as AnySettings))
            },
        });
    }
}

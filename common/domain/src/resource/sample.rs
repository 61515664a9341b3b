//! Kinds of objects without meaning, for the measurement of what a kind costs; see the benchmark `kinds`.

use std::str;

use serde::{Deserialize, Serialize};

use super::active;
use crate::{
    column::Column,
    projection::Name,
    standard::{Resource, Unpatchable},
};

/// An object of the kind with this number, whose tens and ones are types so that each kind has code of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample<const TENS: usize, const ONES: usize> {
    /// A name.
    pub name: String,
    /// Something that a filter can be about.
    #[serde(default = "active")]
    pub is_active: bool,
}

impl<const TENS: usize, const ONES: usize> Sample<TENS, ONES> {
    const KIND: [u8; 9] = numbered(*b"sample_00", 7, TENS, ONES);
    const TABLE: [u8; 10] = numbered(*b"samples_00", 8, TENS, ONES);
    const SEARCHED: [u8; 16] = numbered(*b"samples_00_index", 8, TENS, ONES);
}

const fn numbered<const LENGTH: usize>(mut name: [u8; LENGTH], place: usize, tens: usize, ones: usize) -> [u8; LENGTH] {
    const DIGITS: &[u8; 10] = b"0123456789";
    name[place] = DIGITS[tens];
    name[place + 1] = DIGITS[ones];
    name
}

const fn text(name: &'static [u8]) -> &'static str {
    match str::from_utf8(name) {
        Ok(text) => text,
        Err(_) => panic!("it is ASCII"),
    }
}

impl<const TENS: usize, const ONES: usize> Resource for Sample<TENS, ONES> {
    const NAME: &'static str = text(&Self::KIND);
    const COLUMNS: &'static [Column<Self>] = &[
        Column::text("name", |sample: &Self| sample.name.clone()).filterable(),
        Column::bool("is_active", |sample: &Self| sample.is_active).filterable(),
    ];
    const ROWS: Option<Name> = Some(Name::first(text(&Self::TABLE)));
    const INDEX: Option<Name> = Some(Name::first(text(&Self::SEARCHED)));
    type Patch = Unpatchable;

    fn patched(self, patch: Unpatchable) -> Self {
        match patch {}
    }
}

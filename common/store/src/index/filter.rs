//! Filters: what of an index is asked for.

use std::ops::Not;

use tantivy::{
    Term,
    query::{AllQuery, BooleanQuery, EmptyQuery, Occur, Query, TermQuery, TermSetQuery},
    schema::IndexRecordOption,
};

use super::{
    grams::{self, Anchor},
    layout::{IndexedColumn, Layout},
};
use crate::{fold::fold, record::owner_type};

/// How a text is compared: code point by code point, as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// It is the same.
    Equals,
    /// It begins with it.
    StartsWith,
    /// It has it somewhere.
    Contains,
    /// It ends with it.
    EndsWith,
}

/// One condition; a search has all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filter {
    /// A text column compares.
    Text {
        /// The column.
        column: &'static str,
        /// How it is compared.
        method: Method,
        /// Whether both sides are folded before.
        ignores_case: bool,
        /// With what it is compared.
        text: String,
    },
    /// The id is one of these.
    Ids(Vec<String>),
    /// It belongs to one of these contexts.
    Owners(Vec<domain::context::Owner>),
}

/// What trigrams of folded texts cannot tell: whether the case is right.
#[derive(Debug, Clone)]
pub(super) struct CaseCheck {
    /// The fast field of the raw text.
    pub(super) column: &'static str,
    method: Method,
    text: String,
}

impl CaseCheck {
    /// Whether the raw text is right.
    pub(super) fn is_met(&self, raw: &str) -> bool {
        self.method.compare(raw, &self.text)
    }
}

impl Method {
    /// Compares as stored.
    pub fn compare(self, text: &str, with: &str) -> bool {
        match self {
            Self::Equals => text == with,
            Self::StartsWith => text.starts_with(with),
            Self::Contains => text.contains(with),
            Self::EndsWith => text.ends_with(with),
        }
    }
}

/// The query of all filters within an instance, and what remains to be checked of each match.
pub(super) fn query(layout: &Layout, instance_id: &str, filters: &[Filter]) -> (BooleanQuery, Vec<CaseCheck>) {
    let mut checks = vec![];
    let mut all: Vec<(Occur, Box<dyn Query>)> =
        vec![(Occur::Must, term(Term::from_field_text(layout.instance, instance_id)))];
    for filter in filters {
        all.push((Occur::Must, one(layout, filter, &mut checks)));
    }
    (BooleanQuery::new(all), checks)
}

fn one(layout: &Layout, filter: &Filter, checks: &mut Vec<CaseCheck>) -> Box<dyn Query> {
    match filter {
        Filter::Ids(ids) => {
            let known = ids.iter().filter_map(|id| id.parse().ok().filter(|number: &u64| number.to_string() == **id));
            Box::new(TermSetQuery::new(known.map(|id| Term::from_field_u64(layout.id, id)).collect::<Vec<_>>()))
        }
        Filter::Owners(owners) => {
            let name = |owner: &domain::context::Owner| format!("{}/{}", owner_type(owner.kind), owner.id);
            let terms = owners.iter().map(|owner| Term::from_field_text(layout.owner, &name(owner)));
            Box::new(TermSetQuery::new(terms.collect::<Vec<_>>()))
        }
        Filter::Text { column, method, ignores_case, text } => {
            let found = layout.column(column).filter(|_| text.chars().any(|char| char <= '\u{1f}').not());
            let Some(found) = found else { return Box::new(EmptyQuery) };
            if !ignores_case && *method != Method::Equals && !text.is_empty() {
                checks.push(CaseCheck { column: found.name, method: *method, text: text.clone() });
            }
            compare(found, *method, *ignores_case, text)
        }
    }
}

fn compare(column: &IndexedColumn, method: Method, ignores_case: bool, text: &str) -> Box<dyn Query> {
    let Some((whole, grams)) = column.folded else { return Box::new(EmptyQuery) };
    let anchored = |anchor| grams::query(grams, &fold(text), anchor);
    match method {
        Method::Equals if ignores_case => term(Term::from_field_text(whole, &fold(text))),
        Method::Equals => term(Term::from_field_text(column.value, text)),
        _ if text.is_empty() => Box::new(AllQuery),
        Method::StartsWith => anchored(Anchor::Start),
        Method::Contains => anchored(Anchor::Nowhere),
        Method::EndsWith => anchored(Anchor::End),
    }
}

fn term(term: Term) -> Box<dyn Query> {
    Box::new(TermQuery::new(term, IndexRecordOption::Basic))
}

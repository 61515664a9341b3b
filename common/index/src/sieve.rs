//! Filters that are decided match by match, in what the other filters, that of the instance among them, have left of a
//! segment: those with a needle that is too short to be looked up, and those with a *not*. tantivy 0.27 would be asked whether a
//! phrase, which a needle is there, is not in a document before the one that it is at, which its phrases do not expect.

use domain::standard::Resource;
use tantivy::{
    DocId, SegmentReader,
    query::{EnableScoring, Query},
};

use crate::{
    bounds::Bounds, failure::IndexFailure, filter::Filter, layout::Layout, needle::Needle, query::one, select::Match,
};

/// What is left of the matches of a segment.
pub(crate) enum Sieve {
    /// What has a needle.
    Needle(Needle),
    /// What the index finds by itself.
    Query(Box<dyn Query>),
    /// What all of these leave.
    All(Vec<Self>),
    /// What at least one of these leaves.
    Any(Vec<Self>),
    /// What this does not leave.
    Not(Box<Self>),
}

impl Sieve {
    /// That of a filter, if one is needed.
    pub(crate) fn of<R: Resource>(layout: &Layout, filter: &Filter<R>) -> Result<Option<Self>, IndexFailure> {
        is_needed(filter).then(|| Self::within(layout, filter)).transpose()
    }

    fn within<R: Resource>(layout: &Layout, filter: &Filter<R>) -> Result<Self, IndexFailure> {
        let each = |filters: &[Filter<R>]| {
            filters.iter().map(|filter| Self::within(layout, filter)).collect::<Result<_, IndexFailure>>()
        };
        Ok(match filter {
            filter if !is_needed(filter) => Self::Query(one(layout, filter)?),
            Filter::All(filters) => Self::All(each(filters)?),
            Filter::Any(filters) => Self::Any(each(filters)?),
            Filter::Not(filter) => Self::Not(Box::new(Self::within(layout, filter)?)),
            filter => Needle::of(filter).map(Self::Needle).ok_or(IndexFailure::Inconsistent)?,
        })
    }

    /// Leaves those of the matches, which are in the order of their documents.
    pub(crate) fn retain(
        &self,
        reader: &SegmentReader,
        found: &mut Vec<Match>,
        bounds: &Bounds,
    ) -> tantivy::Result<()> {
        bounds.count(0)?;
        match self {
            Self::Needle(needle) => needle.retain(reader, found)?,
            Self::Query(query) => {
                let weight = query.weight(EnableScoring::disabled_from_schema(reader.schema()))?;
                let mut matches = weight.scorer(reader, 1.0)?;
                found.retain(|Match { doc, .. }| {
                    let next = matches.doc();
                    *doc == if next < *doc { matches.seek(*doc) } else { next }
                });
            }
            Self::All(sieves) => {
                for sieve in sieves {
                    sieve.retain(reader, found, bounds)?;
                }
            }
            Self::Any(sieves) => {
                let mut left = std::mem::take(found);
                for sieve in sieves {
                    let mut fitting = left.clone();
                    sieve.retain(reader, &mut fitting, bounds)?;
                    left.retain(|one| !has(&fitting, one.doc));
                    found.append(&mut fitting);
                }
                found.sort_unstable_by_key(|one| one.doc);
            }
            Self::Not(sieve) => {
                let mut fitting = found.clone();
                sieve.retain(reader, &mut fitting, bounds)?;
                found.retain(|one| !has(&fitting, one.doc));
            }
        }
        Ok(())
    }
}

fn is_needed<R>(filter: &Filter<R>) -> bool {
    matches!(filter, Filter::Not(_)) || Needle::of(filter).is_some() || filter.inner().iter().any(is_needed)
}

fn has(matches: &[Match], doc: DocId) -> bool {
    matches.binary_search_by_key(&doc, |one| one.doc).is_ok()
}

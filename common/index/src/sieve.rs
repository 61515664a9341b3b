//! Filters that are decided match by match, among what the other filters, including that of the instance, have left of
//! a segment: those with a needle that is too short to be looked up, and those with a *not*. tantivy is not used for a
//! *not*: its `Exclude` (0.27) asks a phrase about documents before the one that it stands at, which an assertion of
//! phrases forbids.

use domain::standard::Resource;
use tantivy::{
    DocId, SegmentReader,
    query::{EnableScoring, Query},
};

use crate::{
    bounds::Bounds, failure::IndexFailure, filter::Filter, layout::Layout, needle::Needle, query::one, select::Match,
};

/// A filter of the matches of a segment.
pub(crate) enum Sieve {
    /// Retains matches with a needle.
    Needle(Needle),
    /// Retains matches of a query.
    Query(Box<dyn Query>),
    /// Retains matches that all of these retain.
    All(Vec<Self>),
    /// Retains matches that at least one of these retains.
    Any(Vec<Self>),
    /// Retains matches that this does not retain.
    Not(Box<Self>),
}

impl Sieve {
    /// Returns the sieve of a filter, if one is needed.
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

    /// Retains the fitting matches, which are in the order of their documents.
    pub(crate) fn retain(
        &self,
        reader: &SegmentReader,
        found: &mut Vec<Match>,
        bounds: &Bounds,
    ) -> tantivy::Result<()> {
        let mut fits = self.fits(reader, found, bounds)?.into_iter();
        found.retain(|_| fits.next().unwrap_or_default());
        Ok(())
    }

    /// Returns which of the matches fit.
    fn fits(&self, reader: &SegmentReader, found: &[Match], bounds: &Bounds) -> tantivy::Result<Vec<bool>> {
        bounds.count(0)?;
        let combined = |sieves: &[Self], first: bool, combine: fn(bool, bool) -> bool| {
            sieves.iter().try_fold(vec![first; found.len()], |mut all, sieve| {
                let fits = sieve.fits(reader, found, bounds)?;
                all.iter_mut().zip(fits).for_each(|(one, fits)| *one = combine(*one, fits));
                Ok(all)
            })
        };
        match self {
            Self::Needle(needle) => needle.fits(reader, found),
            Self::Query(query) => {
                let weight = query.weight(EnableScoring::disabled_from_schema(reader.schema()))?;
                let mut matches = weight.scorer(reader, 1.0)?;
                let mut is_among = |doc: DocId| {
                    let next = matches.doc();
                    doc == if next < doc { matches.seek(doc) } else { next }
                };
                Ok(found.iter().map(|one| is_among(one.doc)).collect())
            }
            Self::All(sieves) => combined(sieves, true, |one, other| one && other),
            Self::Any(sieves) => combined(sieves, false, |one, other| one || other),
            Self::Not(sieve) => Ok(sieve.fits(reader, found, bounds)?.into_iter().map(|fits| !fits).collect()),
        }
    }
}

fn is_needed<R>(filter: &Filter<R>) -> bool {
    matches!(filter, Filter::Not(_)) || Needle::of(filter).is_some() || filter.inner().iter().any(is_needed)
}

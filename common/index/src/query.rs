//! Translates filters to queries of tantivy.

use std::{collections::HashMap, ops::Bound};

use base::fold::fold;
use domain::{
    column::Column,
    context::{Owner, OwnerType, PartKind},
    standard::{PartOf, Resource},
};
use tantivy::{
    Term,
    query::{AllQuery, BooleanQuery, EmptyQuery, Occur, Query, RangeQuery, TermQuery, TermSetQuery},
    schema::IndexRecordOption,
};

use crate::{
    failure::IndexFailure,
    filter::{Filter, Method},
    grams::{self, Anchor},
    layout::{Layout, Tags, Terms, as_term, context},
    tag::Tag,
};

/// Returns the query of all filters within these instances, or in the entire system.
pub(crate) fn query<R: Resource>(
    layout: &Layout,
    instances: Option<&[String]>,
    filters: &[Filter<R>],
) -> Result<BooleanQuery, IndexFailure> {
    let of = |id: &String| layout.terms.of(Tag::INSTANCE, id);
    let instance = match instances {
        Some(ids) => any_of(ids.iter().map(of).collect()),
        None => Box::new(AllQuery),
    };
    let mut all = vec![(Occur::Must, instance)];
    for filter in filters {
        all.push((Occur::Must, one(layout, filter)?));
    }
    Ok(BooleanQuery::new(all))
}

/// Returns the query of one filter. If that is [decided match by match](crate::sieve), the query is broader: it finds
/// all candidates.
pub(crate) fn one<R: Resource>(layout: &Layout, filter: &Filter<R>) -> Result<Box<dyn Query>, IndexFailure> {
    let each = |occur, filters: &[Filter<R>]| {
        let queries = filters.iter().map(|filter| Ok((occur, one(layout, filter)?)));
        Ok::<_, IndexFailure>(BooleanQuery::new(queries.collect::<Result<_, IndexFailure>>()?))
    };
    Ok(match filter {
        Filter::Ids(ids) => any_of(id_terms(layout, ids)),
        Filter::Above { column, value } => {
            let than = Term::from_field_i64(layout.column(column.definition)?.value, *value);
            Box::new(RangeQuery::new(Bound::Excluded(than), Bound::Unbounded))
        }
        Filter::Is { column, value } => is(layout, column, *value)?,
        Filter::IsUnless { column, value, found, passed } => {
            let is = BooleanQuery::new(vec![
                (Occur::Must, is(layout, column, *value)?),
                (Occur::MustNot, any_of(id_terms(layout, passed))),
            ]);
            let found = any_of(id_terms(layout, found));
            Box::new(BooleanQuery::new(vec![(Occur::Should, Box::new(is)), (Occur::Should, found)]))
        }
        Filter::In(contexts) => any_of(within(layout, contexts)),
        Filter::Within { contexts, parts } => {
            let mut any = vec![(Occur::Should, any_of(within(layout, contexts)))];
            let mut ids: HashMap<(&Owner, PartKind), Vec<&str>> = HashMap::new();
            for (context, part) in parts {
                ids.entry((context, part.kind)).or_default().push(&part.id);
            }
            for ((context, kind), ids) in ids {
                any.extend(in_parts::<R>(layout, context, kind, &ids)?.into_iter().map(|query| (Occur::Should, query)));
            }
            Box::new(BooleanQuery::new(any))
        }
        Filter::NotIn(contexts) => not(within(layout, contexts)),
        Filter::NoneOf { column, texts } => not(one_of(layout, column, texts)?),
        Filter::All(filters) if filters.is_empty() => Box::new(AllQuery),
        Filter::All(filters) => Box::new(each(Occur::Must, filters)?),
        Filter::Any(filters) => Box::new(each(Occur::Should, filters)?),
        Filter::Not(_) => Box::new(AllQuery),
        Filter::Text { column, method, ignores_case, text } => {
            let tags = layout.column(column.definition)?.tags()?;
            if text.chars().any(|char| char <= '\u{1f}') {
                Box::new(EmptyQuery)
            } else if *ignores_case {
                compare(layout.terms, tags.folded, *method, &fold(text))
            } else {
                compare(layout.terms, tags.exact, *method, text)
            }
        }
    })
}

fn is<R>(layout: &Layout, column: &Column<R>, value: bool) -> Result<Box<dyn Query>, IndexFailure> {
    let Tags { exact, .. } = layout.column(column.definition)?.tags()?;
    Ok(term(layout.terms.of(exact, as_term(value))))
}

/// Matches documents with at least one of these terms. A few terms are looked up one by one; a set of terms reads
/// through the terms of the index, which takes several times as long for a few.
fn any_of(mut terms: Vec<Term>) -> Box<dyn Query> {
    const FEW: usize = 16;
    match terms.len() {
        1 => term(terms.remove(0)),
        ..=FEW => {
            let terms = terms.into_iter().map(|one| (Occur::Should, term(one)));
            Box::new(BooleanQuery::new(terms.collect()))
        }
        _ => Box::new(TermSetQuery::new(terms)),
    }
}

/// Matches everything except for documents with one of these terms.
fn not(terms: Vec<Term>) -> Box<dyn Query> {
    let all: Box<dyn Query> = Box::new(AllQuery);
    Box::new(BooleanQuery::new(vec![(Occur::Must, all), (Occur::MustNot, any_of(terms))]))
}

/// Returns the terms of a text column for these texts.
fn one_of<R>(layout: &Layout, column: &Column<R>, texts: &[impl AsRef<str>]) -> Result<Vec<Term>, IndexFailure> {
    let Tags { exact, .. } = layout.column(column.definition)?.tags()?;
    Ok(texts.iter().map(|text| layout.terms.of(exact, text.as_ref())).collect())
}

fn id_terms(layout: &Layout, ids: &[impl AsRef<str>]) -> Vec<Term> {
    ids.iter().map(|id| layout.terms.of(Tag::ID, id.as_ref())).collect()
}

fn within(layout: &Layout, contexts: &[Owner]) -> Vec<Term> {
    let terms = contexts.iter().map(|owner| layout.terms.of(Tag::OWNER, &context(owner)));
    let organizations = contexts.iter().filter(|context| context.kind == OwnerType::Organization);
    let seen = organizations.filter_map(|owner| Some(layout.terms.of(layout.also_seen_by?, &owner.id)));
    terms.chain(seen).collect()
}

/// Matches what is in some parts of a context, by each column that may name them.
fn in_parts<R: Resource>(
    layout: &Layout,
    owner: &Owner,
    kind: PartKind,
    ids: &[&str],
) -> Result<Vec<Box<dyn Query>>, IndexFailure> {
    let of_kind = |of: &&PartOf<R>| match of {
        PartOf::Itself(of) | PartOf::Named(of, _) => *of == kind,
    };
    let named = |of: &PartOf<R>| {
        let is_it = match of {
            PartOf::Itself(_) => id_terms(layout, ids),
            PartOf::Named(_, column) => one_of(layout, column, ids)?,
        };
        let here = any_of(within(layout, std::slice::from_ref(owner)));
        let both: Box<dyn Query> = Box::new(BooleanQuery::new(vec![(Occur::Must, here), (Occur::Must, any_of(is_it))]));
        Ok(both)
    };
    R::PARTS.iter().filter(of_kind).map(named).collect()
}

fn compare(terms: Terms, tag: Tag, method: Method, text: &str) -> Box<dyn Query> {
    let grams = |anchor| grams::query(terms.grams, tag, text, anchor);
    match method {
        Method::Equals => term(terms.of(tag, text)),
        Method::StartsWith => grams(Anchor::Start),
        Method::Contains => grams(Anchor::Nowhere),
        Method::EndsWith => grams(Anchor::End),
    }
}

fn term(term: Term) -> Box<dyn Query> {
    Box::new(TermQuery::new(term, IndexRecordOption::Basic))
}

#[cfg(test)]
mod tests {
    use domain::resource::target::{Target, column};
    use view::table::standard;

    use super::*;

    #[test]
    fn no_filter_reads_the_terms_of_all_instances() {
        let layout = Layout::of(&standard::<Target>());
        for text in ["a", "ab", "abc", "abcdefg"] {
            for method in [Method::Equals, Method::StartsWith, Method::Contains, Method::EndsWith] {
                let filter = Filter::text(&column::NAME, method, text.to_owned());
                let query = format!("{:?}", query(&layout, Some(&["1".to_owned()]), &[filter]).unwrap());
                assert!(!query.contains("Range"), "{text} {method:?}: {query}");
            }
        }
    }
}

//! The schema of an index, derived from a table's columns.

use base::{
    fold::{self, fold},
    id::number_from_hash,
    secret::sha256,
};
use domain::{
    column::{Definition, Kind, Value},
    context::Owner,
};
use eventlog::record::owner_type;
use jiff::Timestamp;
use tantivy::{
    TantivyDocument, Term,
    schema::{FAST, Field, IndexRecordOption, STORED, Schema, SchemaBuilder, TextFieldIndexing, TextOptions},
};
use view::{
    projection::Projection,
    table::{Row, Table},
};

use crate::{failure::IndexFailure, grams, tag::Tag};

/// Returns the name of an index of a shard, for its publication and its folder. The name contains the layout, so that
/// nodes of two versions have an index each.
pub fn name(projection: &Projection, table: &Table, shard: u16) -> String {
    format!("{}_{}.{}.{shard}", projection.view, projection.version, Layout::of(table).digest())
}

/// Returns the name of a generation beside the index with this name. Each that is begun has a name of its own, by its
/// time, so that nothing of an earlier one is taken for it.
pub fn generation_name(of: &str, since: Timestamp) -> String {
    format!("{of}.{}", since.as_microsecond())
}

/// The fields of an index.
#[derive(Debug, Clone)]
pub struct Layout {
    /// The schema for tantivy.
    pub schema: Schema,
    pub(crate) terms: Terms,
    /// The id as a number, to break ties.
    id: Field,
    context: fn(&str, &Owner) -> Owner,
    /// Writes a state as this build does.
    pub(crate) rewritten: fn(&str) -> Option<String>,
    /// Names an organization whose readers see it, too.
    pub(crate) also_seen_by: Option<Tag>,
    /// The column with the expiry of a resource that ages out.
    pub(crate) ends_at: Option<Definition>,
    created: Field,
    changed: Field,
    pub(crate) document: Field,
    columns: Vec<IndexedColumn>,
}

/// How one column is stored.
#[derive(Debug, Clone)]
pub(crate) struct IndexedColumn {
    definition: Definition,
    /// The value of each document, by which it is sorted.
    pub(crate) value: Field,
    /// The tags of its terms, if it can be filtered by.
    pub(crate) tags: Option<Tags>,
}

/// The tags of a column's terms.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tags {
    /// Of its value.
    pub(crate) exact: Tag,
    /// Of its value without case, if it is a text.
    pub(crate) folded: Tag,
}

/// The fields whose terms begin with a tag.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    /// Values as a whole.
    pub(crate) whole: Field,
    /// Texts in trigrams.
    pub(crate) grams: Field,
}

impl Terms {
    pub(crate) fn add(builder: &mut SchemaBuilder) -> Self {
        let field = |tokenizer, option| {
            // No match is scored, so no lengths are needed.
            let indexing = TextFieldIndexing::default().set_tokenizer(tokenizer).set_index_option(option);
            TextOptions::default().set_indexing_options(indexing.set_fieldnorms(false))
        };
        Self {
            whole: builder.add_text_field("terms", field("raw", IndexRecordOption::Basic)),
            grams: builder.add_text_field("grams", field(grams::TOKENIZER, IndexRecordOption::WithFreqsAndPositions)),
        }
    }

    /// Returns the term of a whole value with its tag.
    pub(crate) fn of(self, tag: Tag, text: &str) -> Term {
        Term::from_field_text(self.whole, &tag.of(text))
    }
}

/// The names of the fast fields that every index has.
pub(crate) const ID: &str = "id";
pub(crate) const CREATED: &str = "created_at";
pub(crate) const CHANGED: &str = "changed_at";

impl Layout {
    /// Derives the layout of a table.
    pub fn of(table: &Table) -> Self {
        let mut builder = Schema::builder();
        let terms = Terms::add(&mut builder);
        let id = builder.add_u64_field(ID, FAST);
        let created = builder.add_i64_field(CREATED, FAST);
        let changed = builder.add_i64_field(CHANGED, FAST);
        let document = builder.add_bytes_field("document", STORED);
        let mut tags = Tag::of_columns();
        let columns = (table.columns)().into_iter().map(|column| IndexedColumn::add(&mut builder, &mut tags, column));
        let columns: Vec<IndexedColumn> = columns.collect();
        let (context, seen_by) = (table.context, (table.also_seen_by)());
        let seen_by = columns.iter().find(|column| seen_by.is_some_and(|seen_by| column.definition == seen_by));
        let also_seen_by = seen_by.and_then(|column| Some(column.tags?.exact));
        let (schema, ends_at) = (builder.build(), (table.ends_at)());
        let rewritten = table.rewritten;
        Self { schema, terms, id, context, rewritten, also_seen_by, ends_at, created, changed, document, columns }
    }

    /// Returns a digest that distinguishes this layout from every other, by what it stores, and how texts are folded
    /// and split.
    pub fn digest(&self) -> String {
        let schema = serde_json::to_string(&self.schema).expect("a schema is plain data");
        let tags = self.columns.iter().map(|column| {
            let tags =
                column.tags.map(|Tags { exact, folded }| [exact.char(), folded.char()].iter().collect::<String>());
            format!("{} {};", column.definition.name, tags.unwrap_or_default())
        });
        let parts = std::iter::once(schema).chain(tags).chain([grams::VERSION.to_owned()]);
        let parts: String = parts.collect();
        hex::encode(&sha256(&[parts.as_bytes(), &fold::version()].concat())[..4])
    }

    /// Creates the document of a row.
    pub(crate) fn document(&self, instance_id: &str, id: &str, row: &Row, stored: &[u8]) -> TantivyDocument {
        let mut document = TantivyDocument::new();
        let mut add = |tag: Tag, text: &str| document.add_text(self.terms.whole, tag.of(text));
        add(Tag::KEY, &key(instance_id, id));
        add(Tag::INSTANCE, instance_id);
        add(Tag::ID, id);
        add(Tag::OWNER, &context(&(self.context)(id, &row.owner)));
        document.add_u64(self.id, number(id));
        document.add_i64(self.created, row.created_at.as_microsecond());
        document.add_i64(self.changed, row.changed_at.as_microsecond());
        document.add_bytes(self.document, stored);
        for (column, value) in self.columns.iter().zip(&row.values) {
            column.add_value(self.terms, &mut document, value);
        }
        document
    }

    /// Returns the definitions of the columns.
    pub(crate) fn definitions(&self) -> impl Iterator<Item = Definition> {
        self.columns.iter().map(|column| column.definition)
    }

    /// Returns how a column is stored, if it is one of this table.
    pub(crate) fn column(&self, wanted: Definition) -> Result<&IndexedColumn, IndexFailure> {
        self.columns.iter().find(|column| column.definition == wanted).ok_or(IndexFailure::NoColumn(wanted.name))
    }
}

/// Formats a context as a term.
pub(crate) fn context(context: &Owner) -> String {
    format!("{}/{}", owner_type(context.kind), context.id)
}

/// Returns the number for an id: a generated id is a number of 63 bits itself, others are above these.
pub(crate) fn number(id: &str) -> u64 {
    let generated = id.parse().ok().filter(|number: &u64| *number < FIRST_HASHED && number.to_string() == id);
    generated.unwrap_or_else(|| FIRST_HASHED | number_from_hash(id))
}

/// The first number above all generated ids.
const FIRST_HASHED: u64 = 1 << 63;

/// Returns the key by which a document is replaced.
pub(crate) fn key(instance_id: &str, id: &str) -> String {
    format!("{instance_id}/{id}")
}

impl IndexedColumn {
    fn add(builder: &mut SchemaBuilder, tags: &mut impl Iterator<Item = Tag>, definition: Definition) -> Self {
        let value = match definition.kind {
            Kind::Text => builder.add_text_field(definition.name, FAST),
            Kind::Integer => builder.add_i64_field(definition.name, FAST),
            Kind::Bool => builder.add_bool_field(definition.name, FAST),
        };
        let is_looked_up = definition.is_filterable && definition.kind != Kind::Integer;
        let tags = is_looked_up.then(|| tags.next().zip(tags.next())).flatten();
        Self { definition, value, tags: tags.map(|(exact, folded)| Tags { exact, folded }) }
    }

    /// Returns the tags of its terms.
    pub(crate) fn tags(&self) -> Result<Tags, IndexFailure> {
        self.tags.ok_or(IndexFailure::NoColumn(self.definition.name))
    }

    fn add_value(&self, terms: Terms, document: &mut TantivyDocument, value: &Value) {
        match value {
            Value::Text(text) => {
                document.add_text(self.value, text);
                if let Some(Tags { exact, folded }) = self.tags {
                    for tagged in [exact.of(text), folded.of(&fold(text))] {
                        document.add_text(terms.grams, &tagged);
                        document.add_text(terms.whole, tagged);
                    }
                }
            }
            Value::Integer(integer) => document.add_i64(self.value, *integer),
            Value::Bool(bool) => {
                document.add_bool(self.value, *bool);
                if let Some(Tags { exact, .. }) = self.tags {
                    document.add_text(terms.whole, exact.of(as_term(*bool)));
                }
            }
        }
    }
}

/// Formats a bool as a term.
pub(crate) fn as_term(bool: bool) -> &'static str {
    if bool { "1" } else { "0" }
}

#[cfg(test)]
mod tests {
    use domain::resource::target::Target;
    use view::{
        projection::{Kind, PROJECTIONS},
        table::standard,
    };

    use super::*;

    #[test]
    fn no_column_is_named_as_what_every_index_has() {
        let tables = PROJECTIONS.iter().filter_map(|projection| match &projection.kind {
            Kind::Index(table) => Some(table),
            Kind::History | Kind::Rows(_) => None,
        });
        // tantivy panics if two fields have the same name.
        let fields = tables.map(|table| Layout::of(table).schema.num_fields());
        assert!(fields.min() > Some(6), "there are indexes, and each has columns");
    }

    /// Another digest makes every node build this index again.
    #[test]
    fn the_digest_of_a_layout_stays() {
        assert_eq!(Layout::of(&standard::<Target>()).digest(), "686fbca9");
    }

    #[test]
    fn ids_that_are_no_numbers_have_numbers_of_their_own() {
        assert_eq!(number("117486514211913728"), 117_486_514_211_913_728);
        let others = ["", "0117", "7/plan", "7/role", "person-1", "9223372036854775808", "18446744073709551616"];
        let numbers: std::collections::HashSet<u64> = others.map(number).into();
        assert_eq!(numbers.len(), others.len());
        assert!(numbers.iter().all(|number| *number >= FIRST_HASHED));
    }
}

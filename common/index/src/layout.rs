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
use tantivy::{
    TantivyDocument,
    schema::{
        FAST, Field, INDEXED, IndexRecordOption, STORED, STRING, Schema, SchemaBuilder, TextFieldIndexing, TextOptions,
    },
};
use view::{
    projection::Projection,
    table::{Row, Table},
};

use crate::{failure::IndexFailure, grams};

/// Returns the name of an index of a shard, for its publication and its folder. The name contains the layout, so that
/// nodes of two versions have an index each.
pub fn name(projection: &Projection, table: &Table, shard: u16) -> String {
    format!("{}.{}.{shard}", projection.schema_name(), Layout::of(table).digest())
}

/// The fields of an index.
#[derive(Debug, Clone)]
pub struct Layout {
    /// The schema for tantivy.
    pub schema: Schema,
    /// Instance and id, by which a document is replaced.
    pub(crate) key: Field,
    pub(crate) instance: Field,
    /// The id as a number, for filters and to break ties.
    pub(crate) id: Field,
    /// Level and id of the context in which roles for it must be held.
    pub(crate) owner: Field,
    context: fn(&str, &Owner) -> Owner,
    /// The id of an organization whose readers see it, too.
    pub(crate) also_seen_by: Option<Field>,
    /// The column with the expiry of a resource that ages out.
    pub(crate) ends_at: Option<Definition>,
    pub(crate) created: Field,
    pub(crate) changed: Field,
    pub(crate) document: Field,
    pub(crate) columns: Vec<IndexedColumn>,
}

/// The fields of one column.
#[derive(Debug, Clone)]
pub(crate) struct IndexedColumn {
    definition: Definition,
    pub(crate) value: Field,
    /// The fields for filters by text.
    pub(crate) texts: Option<Texts>,
}

/// The fields for filters by text, with case and without.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Texts {
    /// The trigrams of the value.
    pub(crate) grams: Field,
    /// The folded value.
    pub(crate) folded: Text,
}

/// A text, as one term and in trigrams.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Text {
    pub(crate) whole: Field,
    pub(crate) grams: Field,
}

/// The names of the fast fields that every index has.
pub(crate) const ID: &str = "id";
pub(crate) const CREATED: &str = "created_at";
pub(crate) const CHANGED: &str = "changed_at";

impl Layout {
    /// Derives the layout of a table.
    pub fn of(table: &Table) -> Self {
        let mut builder = Schema::builder();
        let key = builder.add_text_field("key", STRING);
        let instance = builder.add_text_field("instance_id", STRING);
        let id = builder.add_u64_field(ID, INDEXED | FAST);
        let owner = builder.add_text_field("owner", STRING);
        let created = builder.add_i64_field(CREATED, FAST);
        let changed = builder.add_i64_field(CHANGED, FAST);
        let document = builder.add_bytes_field("document", STORED);
        let columns = (table.columns)().into_iter().map(|column| IndexedColumn::add(&mut builder, column));
        let columns: Vec<IndexedColumn> = columns.collect();
        let (context, seen_by) = (table.context, (table.also_seen_by)());
        let seen_by = columns.iter().find(|column| seen_by.is_some_and(|seen_by| column.definition == seen_by));
        let also_seen_by = seen_by.map(|column| column.value);
        let (schema, ends_at) = (builder.build(), (table.ends_at)());
        Self { schema, key, instance, id, owner, context, also_seen_by, ends_at, created, changed, document, columns }
    }

    /// Returns a digest that distinguishes this layout from every other, by what it stores, and how texts are folded
    /// and split.
    pub fn digest(&self) -> String {
        let schema = serde_json::to_vec(&self.schema).expect("a schema is plain data");
        hex::encode(&sha256(&[&schema[..], grams::VERSION, &fold::version()].concat())[..4])
    }

    /// Creates the document of a row.
    pub(crate) fn document(&self, instance_id: &str, id: &str, row: &Row, stored: &[u8]) -> TantivyDocument {
        let mut document = TantivyDocument::new();
        document.add_text(self.key, key(instance_id, id));
        document.add_text(self.instance, instance_id);
        document.add_u64(self.id, number(id));
        document.add_text(self.owner, context(&(self.context)(id, &row.owner)));
        document.add_i64(self.created, row.created_at.as_microsecond());
        document.add_i64(self.changed, row.changed_at.as_microsecond());
        document.add_bytes(self.document, stored);
        for (column, value) in self.columns.iter().zip(&row.values) {
            match value {
                Value::Text(text) => column.add_text(&mut document, text),
                Value::Integer(integer) => document.add_i64(column.value, *integer),
                Value::Bool(bool) => document.add_bool(column.value, *bool),
            }
        }
        document
    }

    /// Returns the fields of a column, if it is one of this table.
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
    fn add(builder: &mut SchemaBuilder, definition: Definition) -> Self {
        let Definition { name, kind, is_filterable: filter, .. } = definition;
        let value = match kind {
            Kind::Text if filter => builder.add_text_field(name, STRING | FAST),
            // A column that is only sorted by needs no terms.
            Kind::Text => builder.add_text_field(name, FAST),
            Kind::Integer => builder.add_i64_field(name, FAST),
            Kind::Bool if filter => builder.add_bool_field(name, INDEXED | FAST),
            Kind::Bool => builder.add_bool_field(name, FAST),
        };
        let texts = (filter && kind == Kind::Text).then(|| {
            let positions = TextFieldIndexing::default()
                .set_tokenizer(grams::TOKENIZER)
                .set_index_option(IndexRecordOption::WithFreqsAndPositions)
                .set_fieldnorms(false);
            let cut = TextOptions::default().set_indexing_options(positions);
            Texts {
                grams: builder.add_text_field(&format!("{name}_grams"), cut.clone()),
                folded: Text {
                    whole: builder.add_text_field(&format!("{name}_folded"), STRING),
                    grams: builder.add_text_field(&format!("{name}_folded_grams"), cut),
                },
            }
        });
        Self { definition, value, texts }
    }

    fn add_text(&self, document: &mut TantivyDocument, text: &str) {
        document.add_text(self.value, text);
        if let Some(Texts { grams, folded }) = self.texts {
            let without_case = fold(text);
            document.add_text(grams, text);
            document.add_text(folded.whole, &without_case);
            document.add_text(folded.grams, without_case);
        }
    }
}

#[cfg(test)]
mod tests {
    use view::projection::{Kind, PROJECTIONS};

    use super::*;

    #[test]
    fn no_column_is_named_as_what_every_index_has() {
        let tables = PROJECTIONS.iter().filter_map(|projection| match &projection.kind {
            Kind::Index(table) => Some(table),
            Kind::History | Kind::Rows(_) => None,
        });
        // tantivy panics if two fields have the same name.
        let fields = tables.map(|table| Layout::of(table).schema.num_fields());
        assert!(fields.min() > Some(7), "there are indexes, and each has columns");
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

//! Finds out in memory, beside the index, which documents end the threads that write it.

use tantivy::{Index, IndexWriter, TantivyDocument};
use view::table::Change;

use crate::{failure::IndexFailure, layout::Layout, search::tokenizers};

/// The memory of a writer, in bytes: the least that tantivy accepts.
const MEMORY: usize = 15_000_000;

/// A change with its document; `None` if it is deleted.
type PreparedChange<'a> = (&'a Change, Option<TantivyDocument>);

/// Returns the changes whose documents cannot be written even by themselves, by bisection.
pub(crate) fn fatal<'a>(layout: &Layout, made: &[PreparedChange<'a>]) -> Result<Vec<&'a Change>, IndexFailure> {
    // A failure of memory or threads, before or meanwhile, must not be taken for a failure of a document.
    let works = || if is_written(layout, &[]) { Ok(()) } else { Err(IndexFailure::NoRehearsal) };
    works()?;
    let (mut parts, mut found) = (vec![made], vec![]);
    while let Some(part) = parts.pop() {
        match part {
            part if is_written(layout, part) => {}
            [(change, _)] => found.push(*change),
            part => {
                let (first, second) = part.split_at(part.len() / 2);
                parts.extend([second, first]);
            }
        }
    }
    works()?;
    Ok(found)
}

fn is_written(layout: &Layout, made: &[PreparedChange<'_>]) -> bool {
    let index = Index::create_in_ram(layout.schema.clone());
    tokenizers(&index);
    let written = || {
        let mut writer: IndexWriter = index.writer_with_num_threads(1, MEMORY)?;
        for document in made.iter().filter_map(|(_, document)| document.as_ref()) {
            writer.add_document(document.clone())?;
        }
        writer.commit()
    };
    written().is_ok()
}

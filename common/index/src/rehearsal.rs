//! Which documents end the threads that write an index, found out beside it, in memory.

use tantivy::{Index, IndexWriter, TantivyDocument};
use view::table::Change;

use crate::{failure::IndexFailure, layout::Layout, search::tokenizers};

/// The memory of a writer, in bytes: the least that it takes.
const MEMORY: usize = 15_000_000;

/// A change with its document; `None` where that is deleted.
type Made<'a> = (&'a Change, Option<TantivyDocument>);

/// The changes whose documents cannot be written even by themselves. They are looked for in halves, and halves of these.
pub(crate) fn fatal<'a>(layout: &Layout, made: &[Made<'a>]) -> Result<Vec<&'a Change>, IndexFailure> {
    // Nothing that is wrong with memory or threads, before or meanwhile, is taken for something that is wrong with documents.
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

fn is_written(layout: &Layout, made: &[Made<'_>]) -> bool {
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

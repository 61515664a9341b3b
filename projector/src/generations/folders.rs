//! The folders of generations of search indexes on this machine: they are caches, and go with their generations.

use std::{fs, io, path::PathBuf, time::Duration};

use ::index::{Folder, generation_name};
use base::explain::explain;
use tokio::time::sleep;
use view::{
    generation::Generation,
    projection::{Kind, PROJECTIONS},
};

use crate::{Projector, index::name_of};

/// How often the removal of a folder is tried: a merge of its last writer may still make a file there.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_secs(1);

/// Removes the folder of a generation that is gone.
pub(super) async fn remove(folder: &Folder) {
    for attempt in 1.. {
        match folder.remove().await {
            Ok(()) => return,
            Err(_) if attempt < TRIES => sleep(PAUSE).await,
            Err(failure) => {
                tracing::warn!(error = explain(&failure), "the folder of a dropped generation cannot be removed");
                return;
            }
        }
    }
}

/// Removes the folders that an earlier process left of generations that are gone, and returns whether that worked.
pub(super) async fn remove_others(projector: &Projector, generations: &[Generation]) -> bool {
    match others(projector, generations) {
        Ok(others) => {
            // One that another process uses is left to that one.
            for folder in others.iter().filter_map(|path| Folder::open(path).ok()) {
                remove(&folder).await;
            }
            true
        }
        Err(error) => {
            tracing::warn!(error = explain(&error), "the folders of search indexes cannot be listed");
            false
        }
    }
}

/// Returns the folders of generations other than these.
fn others(projector: &Projector, generations: &[Generation]) -> io::Result<Vec<PathBuf>> {
    let indexes = PROJECTIONS.iter().filter(|projection| matches!(projection.kind, Kind::Index(_)));
    let active: Vec<String> = indexes.filter_map(|projection| name_of(projector, projection)).collect();
    let beside: Vec<String> = generations
        .iter()
        .filter_map(|generation| Some(generation_name(&name_of(projector, generation.projection)?, generation.since)))
        .collect();
    let is_other = |name: &str| {
        let is_of = |active: &String| {
            let rest = name.strip_prefix(active.as_str()).and_then(|rest| rest.strip_prefix('.'));
            rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
        };
        active.iter().any(is_of) && !beside.iter().any(|beside| beside == name)
    };
    let entries = fs::read_dir(&projector.indexing.folder)?.collect::<io::Result<Vec<_>>>()?;
    let others = entries.iter().filter(|entry| is_other(&entry.file_name().to_string_lossy()));
    Ok(others.map(fs::DirEntry::path).collect())
}

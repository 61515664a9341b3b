//! The folders of generations of search indexes on this machine: they are caches, and go with their generations.

use std::{fs, io};

use ::index::{Folder, generation_name};
use base::explain::explain;
use view::{
    generation::Generation,
    projection::{Kind, PROJECTIONS},
};

use crate::{Projector, index::name_of};

/// Removes the folder of a generation that is gone.
pub(super) async fn remove(folder: &Folder) {
    if let Err(failure) = folder.remove().await {
        tracing::warn!(error = explain(&failure), "the folder of a dropped generation cannot be removed");
    }
}

/// Removes the folders that an earlier process left of generations that are gone.
pub(super) fn remove_others(projector: &Projector, generations: &[Generation]) {
    if let Err(error) = try_remove_others(projector, generations) {
        tracing::warn!(error = explain(&error), "the folders of dropped generations cannot be removed");
    }
}

fn try_remove_others(projector: &Projector, generations: &[Generation]) -> io::Result<()> {
    let indexes = PROJECTIONS.iter().filter(|projection| matches!(projection.kind, Kind::Index(_)));
    let active: Vec<String> = indexes.filter_map(|projection| name_of(projector, projection)).collect();
    let beside: Vec<String> = generations
        .iter()
        .filter_map(|generation| Some(generation_name(&name_of(projector, generation.projection)?, generation.since)))
        .collect();
    for entry in fs::read_dir(&projector.indexing.folder)? {
        let (path, name) = (entry.as_ref().map(fs::DirEntry::path), entry.as_ref().map(fs::DirEntry::file_name));
        let (Ok(path), Ok(name)) = (path, name) else { continue };
        let name = name.to_string_lossy();
        let is_beside = active.iter().any(|active| {
            let rest = name.strip_prefix(active.as_str()).and_then(|rest| rest.strip_prefix('.'));
            rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
        });
        if is_beside && !beside.iter().any(|beside| **beside == *name) {
            fs::remove_dir_all(path)?;
        }
    }
    Ok(())
}

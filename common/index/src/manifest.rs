//! The manifest of an index: a list of files in packs, as last published by its writer.

use std::collections::HashSet;

use eventlog::record::Position;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::failure::IndexFailure;

/// The format of manifests. A reader leaves an index with an unknown format alone.
const FORMAT: u32 = 1;
/// The format for an index that omits something: a build that does not know of that might take it over and never
/// notice.
const FORMAT_WITH_OMITTED: u32 = 2;

/// The files of an index at one moment, and the packs that contain them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The format.
    pub(crate) format: u32,
    /// The epoch of the writer that published it; every take-over raises it.
    pub epoch: u64,
    /// tantivy's own list of segments, which carries the position in the log; empty before the first commit.
    pub meta: String,
    /// The packs, each of which is fetched as a unit.
    pub packs: Vec<Pack>,
}

/// Files that were published with one commit, one after the other in one immutable object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pack {
    /// The name of the object: the index and a digest of the files.
    pub id: String,
    /// The files of it that the index still has, in their order.
    pub files: Vec<File>,
}

/// One immutable file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// The name in the folder of the index.
    pub name: String,
    /// The offset in the pack, in bytes.
    pub offset: u64,
    /// The size in bytes.
    pub size: u64,
    /// SHA-256 of its contents, in hex.
    pub digest: String,
}

/// A resource whose document was left as it was, because an event of it could not be processed: that event and all
/// later ones are missing in the index.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Omitted {
    /// The instance.
    pub instance_id: String,
    /// The id.
    pub id: String,
    /// The sequence of that event.
    pub sequence: u64,
}

/// The payload of a commit, in tantivy's list of segments.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Payload {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) omitted: Vec<Omitted>,
    sequence: u64,
    stream_sequence: u64,
    digest: String,
    committed_at: i64,
}

#[derive(Deserialize)]
struct Meta {
    payload: Option<String>,
}

impl Default for Manifest {
    fn default() -> Self {
        Self { format: FORMAT, epoch: 0, meta: String::new(), packs: vec![] }
    }
}

impl Manifest {
    /// Parses a manifest; `None` if it has another format.
    pub(crate) fn read(text: &[u8]) -> Option<Self> {
        serde_json::from_slice(text)
            .ok()
            .filter(|manifest: &Self| [FORMAT, FORMAT_WITH_OMITTED].contains(&manifest.format) && manifest.is_sound())
    }

    /// Returns the position of the last record in the index.
    pub fn position(&self) -> Position {
        self.payload().position()
    }

    /// Returns what the index omits.
    pub(crate) fn omitted(&self) -> Vec<Omitted> {
        self.payload().omitted
    }

    pub(crate) fn payload(&self) -> Payload {
        let meta: Option<Meta> = serde_json::from_str(&self.meta).ok();
        Payload::of(meta.and_then(|meta| meta.payload).as_deref())
    }

    /// Returns the format for an index that omits this.
    pub(crate) const fn format(omitted: &[Omitted]) -> u32 {
        if omitted.is_empty() { FORMAT } else { FORMAT_WITH_OMITTED }
    }

    /// Returns every file of the index.
    pub fn files(&self) -> impl Iterator<Item = &File> {
        self.packs.iter().flat_map(|pack| &pack.files)
    }

    /// Whether its names are plain names of files in one folder.
    fn is_sound(&self) -> bool {
        let is_plain = |name: &str| {
            let is_allowed = |char: char| char.is_ascii_alphanumeric() || char == '.';
            name.starts_with(|char: char| char.is_ascii_alphanumeric()) && name.chars().all(is_allowed)
        };
        let mut seen = HashSet::new();
        self.files().all(|file| is_plain(&file.name) && file.name != "meta.json" && seen.insert(&file.name))
    }
}

impl Payload {
    pub(crate) fn new(position: Position, committed_at: Timestamp, omitted: &[Omitted]) -> Self {
        Self {
            omitted: omitted.to_vec(),
            sequence: position.sequence,
            stream_sequence: position.stream_sequence,
            digest: hex::encode(position.digest),
            committed_at: committed_at.as_microsecond(),
        }
    }

    pub(crate) fn write(&self) -> Result<String, IndexFailure> {
        serde_json::to_string(self).map_err(|_| IndexFailure::Inconsistent)
    }

    /// Parses the payload of a commit; without a readable one, nothing of the log is in it.
    pub(crate) fn of(text: Option<&str>) -> Self {
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    pub(crate) fn position(&self) -> Position {
        let mut digest = [0; 32];
        if hex::decode_to_slice(&self.digest, &mut digest).is_err() {
            return Position::default();
        }
        Position { sequence: self.sequence, stream_sequence: self.stream_sequence, digest }
    }

    pub(crate) fn committed_at(&self) -> Timestamp {
        Timestamp::from_microsecond(self.committed_at).unwrap_or(Timestamp::UNIX_EPOCH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(names: &[&str]) -> Manifest {
        let file = |name: &&str| File { name: (*name).to_owned(), offset: 0, size: 0, digest: String::new() };
        let packs = vec![Pack { id: String::new(), files: names.iter().map(file).collect() }];
        Manifest { packs, ..Manifest::default() }
    }

    #[test]
    fn names_cannot_leave_the_folder_or_stand_for_something_else() {
        assert!(manifest(&["0a1b.idx", "0a1b.7.del"]).is_sound());
        assert_eq!(Manifest::read(br#"{"format":3,"epoch":1,"meta":"","packs":[]}"#), None);
        for name in ["../x", "/x", "a/b", ".managed.json", "meta.json", "", "..", "a\0"] {
            assert!(!manifest(&[name]).is_sound(), "{name}");
        }
        assert!(!manifest(&["a.idx", "a.idx"]).is_sound());
    }

    #[test]
    fn the_position_is_that_of_the_commit() {
        let position = Position { sequence: 7, stream_sequence: 3, digest: [9; 32] };
        let payload = serde_json::to_string(&Payload::new(position, Timestamp::UNIX_EPOCH, &[])).unwrap();
        let meta = serde_json::json!({ "segments": [], "payload": payload }).to_string();
        assert_eq!(Manifest { meta, ..Manifest::default() }.position(), position);
        assert_eq!(Manifest::default().position(), Position::default());
    }
}

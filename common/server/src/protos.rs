//! The proto files of the platform, for authors of clients: their text, and a descriptor set.

use std::sync::Arc;

use axum::{
    Router,
    http::header,
    response::{IntoResponse, Response},
    routing::get,
};
use bytes::Bytes;
use edge::observe::{Meter, observed};

/// The size of a block of an archive.
const BLOCK: usize = 512;

/// Serves these descriptors ([`restricted`](crate::reflection::restricted)), and the text of all files as an archive,
/// to anybody.
pub fn routes(descriptors: Vec<u8>) -> Router {
    let descriptors = Bytes::from(descriptors);
    let sources = Bytes::from(archive(proto::SOURCES));
    let file =
        |content: Bytes, kind: &'static str, name: &'static str| get(async move || answer(content.clone(), kind, name));
    Router::new()
        .route("/protos/descriptors.binpb", file(descriptors, "application/octet-stream", "descriptors.binpb"))
        .route("/protos/sources.tar", file(sources, "application/x-tar", "sources.tar"))
        .layer(axum::middleware::from_fn_with_state(Arc::new(Meter::new("none", "protos")), observed))
}

fn answer(content: Bytes, kind: &'static str, name: &str) -> Response {
    let disposition = format!("attachment; filename=\"{name}\"");
    let headers = [
        (header::CONTENT_TYPE, kind.to_owned()),
        (header::CONTENT_DISPOSITION, disposition),
        (header::CACHE_CONTROL, "no-cache".to_owned()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
    ];
    (headers, content).into_response()
}

/// Packs files as an archive (POSIX.1-1988, ustar). Their paths must have less than 100 characters.
fn archive(files: &[(&str, &str)]) -> Vec<u8> {
    let mut archive = vec![];
    for (path, text) in files {
        archive.extend(head(path, text.len()));
        archive.extend(text.as_bytes());
        archive.resize(archive.len().next_multiple_of(BLOCK), 0);
    }
    archive.resize(archive.len() + 2 * BLOCK, 0);
    archive
}

fn head(path: &str, size: usize) -> [u8; BLOCK] {
    let mut head = [0; BLOCK];
    let mut put = |at: usize, text: &str| head[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, path);
    put(100, "0000644\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{size:011o}\0"));
    put(136, "00000000000\0");
    // The checksum is computed as if its field had spaces.
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\x0000");
    let sum: u32 = head.iter().map(|byte| u32::from(*byte)).sum();
    head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    head
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write as _,
        process::{Command, Stdio},
    };

    use super::*;

    #[test]
    fn tar_unpacks_what_compilers_of_all_ages_take() {
        let folder = std::env::temp_dir().join(format!("protos-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut tar = Command::new("tar").args(["-x", "-C"]).arg(&folder).stdin(Stdio::piped()).spawn().unwrap();
        tar.stdin.take().unwrap().write_all(&archive(proto::SOURCES)).unwrap();
        assert!(tar.wait().unwrap().success());
        for (path, text) in proto::SOURCES {
            assert_eq!(std::fs::read_to_string(folder.join(path)).unwrap(), *text);
            // protoc 3.21 of Debian 12 stops at an option that it does not know.
            assert!(!text.contains("debug_redact ="), "{path}");
        }
        assert!(!folder.join("platform/log.proto").exists(), "it is the nodes' own");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

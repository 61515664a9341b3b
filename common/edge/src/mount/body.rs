//! Reads bodies within bounds of size and time.

use std::{pin::pin, time::Duration};

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use http_body::Body as _;
use http_body_util::BodyExt;
use tokio::{sync::Semaphore, task::spawn_blocking, time::timeout};

use crate::error::{Error, Reason};

/// The largest body that is processed.
pub(super) const LIMIT: usize = 1 << 20;
/// How much of a rejected body is read, because most clients read the answer only after they have sent everything.
const DISCARDED: usize = 16 << 20;
/// How long a body may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(30);
/// How long a rejected body may take to arrive.
const REFUSED_ARRIVAL: Duration = Duration::from_secs(5);

/// A larger body is parsed on a thread of its own, so that other requests do not wait for it, and only a few at a time:
/// a message may take many times the memory of its body.
const LARGE: usize = 16 << 10;
static LARGE_AT_ONCE: Semaphore = Semaphore::const_new(4);

/// Parses a body as a message.
pub(super) async fn parse<T: Send + 'static>(
    size: usize,
    read: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    if size <= LARGE {
        return read();
    }
    let _seat = LARGE_AT_ONCE.acquire().await.map_err(|failure| Error::internal(&failure))?;
    spawn_blocking(read).await.map_err(|failure| Error::internal(&failure))?
}

/// Reads a body of at most `limit` bytes. More is read and discarded, within bounds, too, so that a client that keeps
/// sending gets its answer.
pub async fn read(body: Body, limit: usize) -> Result<Bytes, Error> {
    if body.size_hint().lower() > DISCARDED as u64 {
        return Err(too_large());
    }
    let collected = timeout(ARRIVAL, collect(body, limit)).await;
    collected.unwrap_or_else(|_| Err(Error::new(Reason::BodyTimeout, "the body did not arrive in time")))
}

/// Whether a body is sent as it is, neither compressed nor coded otherwise (RFC 9110, section 8.4).
pub fn is_plain(headers: &HeaderMap) -> bool {
    let plain = |coding: &str| coding.trim().is_empty() || coding.trim().eq_ignore_ascii_case("identity");
    let mut values = headers.get_all(header::CONTENT_ENCODING).iter();
    values.all(|value| value.to_str().is_ok_and(|codings| codings.split(',').all(plain)))
}

/// Reads a body only for its client's sake: not if the client waits for `100 Continue`, nor if it is too long.
pub(super) async fn discard(headers: &HeaderMap, body: Body) {
    if !headers.contains_key(header::EXPECT) && body.size_hint().lower() <= DISCARDED as u64 {
        // Nobody is left to whom a failure could be reported.
        let _ = timeout(REFUSED_ARRIVAL, collect(body, 0)).await;
    }
}

fn too_large() -> Error {
    Error::new(Reason::BodyTooLarge, format!("the body must have at most {LIMIT} bytes"))
}

async fn collect(body: Body, limit: usize) -> Result<Bytes, Error> {
    let mut body = pin!(body);
    let (mut kept, mut seen) = (BytesMut::new(), 0);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Error::new(Reason::InvalidRequest, "the body ended early"))?;
        let Ok(data) = frame.into_data() else { continue };
        seen += data.len();
        if seen <= limit {
            kept.extend_from_slice(&data);
        } else if seen > DISCARDED {
            break;
        }
    }
    if seen > limit {
        return Err(too_large());
    }
    Ok(kept.freeze())
}

//! Resets an HTTP/2 stream whose answer the client does not read.
//!
//! If the client leaves no window, hyper does not poll the answer's body, and nothing else would end the stream. Time
//! in which the body itself has nothing to send does not count, so that an answer may go on for ever.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use hyper::rt::Executor;
use tokio::time::{Sleep, sleep};

use super::activity::InFlight;

/// How much of an answer is passed on at a time. It is buffered until the client reads it.
const PIECE: usize = 16 * 1024;
/// The largest answer that ends with its last piece. After a larger one, the next poll shows whether that was read.
const SMALL: u64 = 4 * 1024;

/// How long an answer over HTTP/1 may have nothing to send. HTTP/2 pings the client; here, a client that has gone
/// cannot be told from one that has sent everything.
const SILENCE: Duration = Duration::from_mins(5);

tokio::task_local! {
    /// The state of the stream that is being polled, for the body of its answer.
    static TAKEN: Arc<ReadProgress>;
}

/// How far the answer of a stream was read: 0 if nothing waits, otherwise the number of the waiting piece.
#[derive(Debug, Default)]
struct ReadProgress(AtomicU64);

impl ReadProgress {
    fn nothing_waits(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    fn piece(&self, number: u64) {
        self.0.store(number, Ordering::Relaxed);
    }
}

/// Runs the streams of HTTP/2 connections.
#[derive(Debug, Clone, Copy)]
pub(super) struct Streams {
    /// How long the next piece of an answer may wait.
    pub(super) limit: Duration,
}

impl<F> Executor<F> for Streams
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, stream: F) {
        tokio::spawn(run(stream, self.limit));
    }
}

/// Runs a stream to its end, or drops it at the timeout, which resets it.
async fn run(stream: impl Future, limit: Duration) {
    let taken = Arc::new(ReadProgress::default());
    let mut stream = pin!(TAKEN.scope(taken.clone(), stream));
    let mut deadline: Option<(u64, Pin<Box<Sleep>>)> = None;
    poll_fn(|context| {
        if stream.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        let piece = taken.0.load(Ordering::Relaxed);
        if piece == 0 {
            deadline = None;
            return Poll::Pending;
        }
        if deadline.as_ref().is_none_or(|(of, _)| *of != piece) {
            deadline = Some((piece, Box::pin(sleep(limit))));
        }
        deadline.as_mut().map_or(Poll::Pending, |(_, deadline)| deadline.as_mut().poll(context))
    })
    .await;
}

/// An answer over HTTP/1 has had nothing to send for too long.
#[derive(Debug, thiserror::Error)]
#[error("the answer does not go on")]
struct Silent;

/// The body of an answer that is being sent.
#[derive(Debug)]
pub(super) struct Answer {
    body: Body,
    /// What the body has produced and the stream does not have yet.
    rest: Bytes,
    /// The state of an HTTP/2 stream, in which each piece has a deadline.
    taken: Option<Arc<ReadProgress>>,
    pieces: u64,
    ends_at_once: bool,
    /// The timeout of an answer over HTTP/1 that has nothing to send.
    silence: Option<Pin<Box<Sleep>>>,
    _in_flight: InFlight,
}

impl Answer {
    /// Wraps a body that is about to be sent.
    pub(super) fn new(body: Body, in_flight: InFlight) -> Self {
        let taken = TAKEN.try_with(Arc::clone).ok();
        if let Some(taken) = &taken {
            taken.piece(1);
        }
        let ends_at_once = taken.is_none() || body.size_hint().exact().is_some_and(|size| size <= SMALL);
        Self { body, rest: Bytes::new(), taken, pieces: 1, ends_at_once, silence: None, _in_flight: in_flight }
    }
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        let frame = if this.rest.is_empty() {
            Pin::new(&mut this.body).poll_frame(context)
        } else {
            Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut this.rest)))))
        };
        let Some(taken) = &this.taken else {
            if frame.is_ready() {
                this.silence = None;
                return frame;
            }
            let silence = this.silence.get_or_insert_with(|| Box::pin(sleep(SILENCE)));
            return silence.as_mut().poll(context).map(|()| Some(Err(axum::Error::new(Silent))));
        };
        let Poll::Ready(frame) = frame else {
            taken.nothing_waits();
            return Poll::Pending;
        };
        this.pieces += 1;
        taken.piece(this.pieces);
        Poll::Ready(frame.map(|frame| {
            frame.map(|frame| match frame.into_data() {
                Ok(mut data) => {
                    this.rest = data.split_off(data.len().min(PIECE));
                    Frame::data(data)
                }
                Err(other) => other,
            })
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.ends_at_once && self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (hint, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut whole = SizeHint::new();
        whole.set_lower(hint.lower() + rest);
        if let Some(upper) = hint.upper() {
            whole.set_upper(upper + rest);
        }
        whole
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use tokio::time::Instant;

    use super::*;
    use crate::connections::activity::Activity;

    #[tokio::test(start_paused = true)]
    async fn an_answer_over_http_1_does_not_wait_for_ever() {
        let begun = Instant::now();
        let endless = Body::from_stream(futures::stream::pending::<Result<Bytes, std::io::Error>>());
        let ended = Answer::new(endless, Activity::new().request()).frame().await;
        assert!(ended.is_some_and(|frame| frame.is_err()));
        assert_eq!(begun.elapsed(), SILENCE);
    }
}

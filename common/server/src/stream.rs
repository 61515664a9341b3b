//! Bounds for third-party gRPC services with streaming calls: how long a call lasts, and how much is sent and answered
//! in it. A client that wants more calls again.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::Frame;
use tokio::time::{Sleep, sleep};
use tonic::{Code, Status, body::Body};

/// How long a call lasts.
const LONGEST: Duration = Duration::from_mins(5);
/// How many bytes the messages of a call may have: those of a client, which are short, and those of the answer, which
/// may describe everything.
const MOST_ASKED: usize = 64 * 1024;
const MOST_ANSWERED: usize = 8 * 1024 * 1024;

/// Limits what a client sends in a call.
pub(crate) fn bound_request(request: Request<Body>) -> Request<Body> {
    request.map(|body| Bounded::of(body, MOST_ASKED, Err))
}

/// Limits what a client receives in a call. The end is reported in trailers, as gRPC requires.
pub(crate) fn bound_response(response: Response<Body>) -> Response<Body> {
    response.map(|body| {
        Bounded::of(body, MOST_ANSWERED, |status| {
            let code = HeaderValue::from(i32::from(status.code()));
            let mut trailers = HeaderMap::from_iter([(Status::GRPC_STATUS, code)]);
            if let Ok(message) = HeaderValue::from_str(status.message()) {
                trailers.insert(Status::GRPC_MESSAGE, message);
            }
            Ok(Frame::trailers(trailers))
        })
    })
}

/// Makes the last frame of a body that was cut off.
type Farewell = fn(Status) -> Result<Frame<Bytes>, Status>;

/// A body that is limited in time and size.
struct Bounded {
    /// The body; `None` after the end.
    body: Option<Body>,
    /// How many bytes it may still have.
    left: usize,
    until: Pin<Box<Sleep>>,
    farewell: Farewell,
}

impl Bounded {
    fn of(body: Body, left: usize, farewell: Farewell) -> Body {
        Body::new(Self { body: Some(body), left, until: Box::pin(sleep(LONGEST)), farewell })
    }

    fn cut_off(&mut self, code: Code, message: &str) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.body = None;
        Poll::Ready(Some((self.farewell)(Status::new(code, message))))
    }
}

impl http_body::Body for Bounded {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.body.is_some() && self.until.as_mut().poll(context).is_ready() {
            return self.cut_off(Code::DeadlineExceeded, "a call lasts five minutes at most; call again");
        }
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(body).poll_frame(context));
        let size = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref().map(Bytes::len)).unwrap_or_default();
        match self.left.checked_sub(size) {
            Some(left) => self.left = left,
            None => return self.cut_off(Code::ResourceExhausted, "the call is too large; ask for less in each"),
        }
        Poll::Ready(frame)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::StreamExt;
    use http_body_util::{BodyExt, StreamBody};
    use tokio::time::Instant;

    use super::*;

    fn endless() -> Body {
        let data = futures::stream::repeat_with(|| Ok::<_, Infallible>(Frame::data(Bytes::from_static(&[0; 1024]))));
        Body::new(StreamBody::new(data.take(1_000_000)))
    }

    #[tokio::test(start_paused = true)]
    async fn what_never_ends_is_ended() {
        let begun = Instant::now();
        let silent = Body::new(StreamBody::new(futures::stream::pending::<Result<Frame<Bytes>, Infallible>>()));
        let answer = bound_response(Response::new(silent)).into_body().collect().await.unwrap();
        assert_eq!(answer.trailers().unwrap()["grpc-status"], "4");
        assert_eq!(begun.elapsed(), LONGEST);
        let silent = Body::new(StreamBody::new(futures::stream::pending::<Result<Frame<Bytes>, Infallible>>()));
        let status = bound_request(Request::new(silent)).into_body().collect().await.unwrap_err();
        assert_eq!(status.code(), Code::DeadlineExceeded);
    }

    #[tokio::test]
    async fn nobody_sends_or_gets_more_than_the_most() {
        let answer = bound_response(Response::new(endless())).into_body().collect().await.unwrap();
        assert_eq!(answer.trailers().unwrap()["grpc-status"], "8");
        assert!(answer.to_bytes().len() <= MOST_ANSWERED);
        let status = bound_request(Request::new(endless())).into_body().collect().await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted);
    }
}

//! A connection that ends when the client does not read what is written to it for too long.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

use super::activity::Activity;

/// A stream whose writes time out.
pub(super) struct Patient<S> {
    stream: S,
    limit: Duration,
    activity: Arc<Activity>,
    /// The timeout of the write that waits, if any.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S: AsyncWrite + Unpin> Patient<S> {
    pub(super) fn new(stream: S, limit: Duration, activity: Arc<Activity>) -> Self {
        Self { stream, limit, activity, deadline: None }
    }

    fn within<T>(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let written = write(Pin::new(&mut self.stream), context);
        if written.is_ready() {
            // A connection with a slow reader is not idle.
            if self.deadline.take().is_some() {
                self.activity.touch();
            }
            return written;
        }
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(self.limit)));
        ready!(deadline.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().within(context, |stream, context| stream.poll_write(context, data))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().within(context, |stream, context| stream.poll_write_vectored(context, data))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().within(context, AsyncWrite::poll_flush)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().within(context, AsyncWrite::poll_shutdown)
    }
}

//! Accepts connections, HTTP/1.1 and HTTP/2 on one port, with TLS or without, within bounds, until it is told to stop.

use std::{io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use axum::{Router, extract::Request};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use store::explain::explain;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt;

use crate::tls::Certificate;

/// How every HTTP/2 connection begins (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The bounds of a server.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How many connections there may be; more wait to be accepted.
    pub connections: usize,
    /// How many requests an HTTP/2 connection may have at a time.
    pub streams: u32,
    /// How long a TLS handshake or the head of a request may take, and how long a connection may be idle.
    pub head: Duration,
    /// How large the head of a request may be, in bytes.
    pub head_size: u32,
    /// How many requests a client may reset on an HTTP/2 connection before the server has taken them up
    /// (CVE-2023-44487); then the connection is closed.
    pub resets: usize,
    /// How often an HTTP/2 connection that says nothing is asked whether it is still there, and how long it has for that.
    pub keep_alive: Duration,
    /// How long requests may go on after the server was told to stop.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            streams: 256,
            head: Duration::from_secs(30),
            head_size: 32 * 1024,
            resets: 20,
            keep_alive: Duration::from_secs(30),
            drain: Duration::from_secs(10),
        }
    }
}

/// Where a server listens, and what it shows to clients that speak TLS; without a certificate there is no TLS.
#[derive(Debug)]
pub struct Listening {
    /// The socket.
    pub listener: TcpListener,
    /// The certificate.
    pub certificate: Option<Certificate>,
}

/// The address that a request came from, among the request's extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

/// Serves until `shutdown` is ready; then accepts nothing more, and gives the requests that are under way some time.
pub async fn serve(listening: Listening, router: Router, shutdown: impl Future<Output = ()>, limits: Limits) {
    let Listening { listener, certificate } = listening;
    // Puts the layers around the routes once; without it axum does so for every request.
    let router = router.with_state(());
    let stopping = CancellationToken::new();
    let renewing = certificate
        .clone()
        .map(|certificate| tokio::spawn(stopping.clone().run_until_cancelled_owned(certificate.keep_current())));
    let server = Arc::new(Server { builder: builder(limits), router, limits, certificate, stopping });
    let connections = TaskTracker::new();
    let seats = Arc::new(Semaphore::new(limits.connections));
    let accepting = async {
        // The semaphore is never closed.
        while let Ok(seat) = seats.clone().acquire_owned().await {
            match listener.accept().await {
                Ok((stream, peer)) => {
                    connections.spawn(server.clone().connection(stream, Peer(peer), seat));
                }
                Err(failure) => pause(&failure).await,
            }
        }
    };
    tokio::select! {
        () = accepting => {}
        () = shutdown => {}
    }
    drop(listener);
    server.stopping.cancel();
    connections.close();
    if timeout(limits.drain, connections.wait()).await.is_err() {
        tracing::warn!(connections = connections.len(), "the time to finish requests is over");
    }
    if let Some(renewing) = renewing {
        // It was cancelled above.
        let _ = renewing.await;
    }
}

struct Server {
    builder: auto::Builder<TokioExecutor>,
    router: Router,
    limits: Limits,
    certificate: Option<Certificate>,
    stopping: CancellationToken,
}

impl Server {
    async fn connection(self: Arc<Self>, stream: TcpStream, peer: Peer, _seat: OwnedSemaphorePermit) {
        // Small answers must not wait for the acknowledgement of what was sent before.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(error = %explain(&error), "a connection keeps its delay");
        }
        if let Some(certificate) = &self.certificate {
            let shaken = timeout(self.limits.head, certificate.accept(stream));
            match self.stopping.run_until_cancelled(shaken).await {
                Some(Ok(Ok(stream))) => {
                    // Both sides have agreed on a protocol, so none has to be guessed.
                    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                    let builder = self.builder.clone();
                    let builder = if is_http2 { builder.http2_only() } else { builder.http1_only() };
                    self.answer(&builder, stream, peer).await;
                }
                Some(Ok(Err(error))) => tracing::debug!(error = %explain(&error), "a TLS handshake failed"),
                Some(Err(_)) | None => {}
            }
        } else {
            let begun = timeout(self.limits.head, has_protocol(&stream));
            if matches!(self.stopping.run_until_cancelled(begun).await, Some(Ok(Ok(true)))) {
                self.answer(&self.builder, stream, peer).await;
            }
        }
    }

    async fn answer(
        &self,
        builder: &auto::Builder<TokioExecutor>,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        peer: Peer,
    ) {
        let router = self.router.clone().map_request(move |mut request: Request<_>| {
            request.extensions_mut().insert(peer);
            request
        });
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)));
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.stopping.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(error = %explain(&*error), "a connection ended badly");
        }
    }
}

fn builder(limits: Limits) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(limits.head_size.try_into().unwrap_or(usize::MAX));
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(limits.head_size)
        .max_pending_accept_reset_streams(limits.resets)
        .keep_alive_interval(limits.keep_alive)
        .keep_alive_timeout(limits.keep_alive);
    builder
}

/// Waits until the client has sent enough to tell HTTP/1 from HTTP/2, which hyper would wait for without end. False when
/// the client has gone.
async fn has_protocol(stream: &TcpStream) -> io::Result<bool> {
    let mut head = [0; PREFACE.len()];
    loop {
        let length = stream.peek(&mut head).await?;
        if length == 0 || length == head.len() || !PREFACE.starts_with(&head[..length]) {
            return Ok(length > 0);
        }
        // What was seen stays readable, so there is nothing to wait for but time.
        sleep(Duration::from_millis(10)).await;
    }
}

/// A connection that was gone before it was accepted concerns nobody; out of file descriptors, waiting helps.
async fn pause(failure: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    if !matches!(failure.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
        tracing::warn!(error = %explain(failure), "no connection can be accepted");
        sleep(Duration::from_millis(100)).await;
    }
}

#[cfg(test)]
mod tests;

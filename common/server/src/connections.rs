//! Accepts connections, HTTP/1.1 and HTTP/2 on one port, with TLS or without, within bounds, until it is shut down.

mod activity;
mod headers;
mod patient;
mod preface;
mod proxy;
mod seats;
mod unread;

use std::{convert::Infallible, io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use axum::{Router, body::Body};
use base::explain::explain;
use domain::address::Networks;
use http::{Request, Response};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt;

use self::{
    activity::Activity,
    patient::Patient,
    preface::has_protocol,
    seats::{Seat, Seats},
    unread::{Answer, Streams},
};
use crate::tls::Certificate;

pub(crate) use seats::network;
pub use seats::site;

/// How long an idle connection may take to end after it was asked to.
const FAREWELL: Duration = Duration::from_secs(5);

/// The bounds of a server.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How many connections there may be; more wait to be accepted.
    pub connections: usize,
    /// How many of them may come from one address, or one /64 of IPv6; more are closed at once.
    pub connections_per_address: usize,
    /// How many requests an HTTP/2 connection may have at a time.
    pub streams: u32,
    /// How long a TLS handshake or the head of a request may take, how long a connection may be idle, and how long
    /// written data may wait for a client that does not read.
    pub head: Duration,
    /// How long the next piece of an answer may wait for an HTTP/2 client that reads other answers.
    pub unread: Duration,
    /// How large the head of a request may be, in bytes.
    pub head_size: u32,
    /// How many requests a client may reset on an HTTP/2 connection before the server has accepted them
    /// (CVE-2023-44487); then the connection is closed.
    pub resets: usize,
    /// How often a silent HTTP/2 connection is pinged, and how long the client has to reply.
    pub keep_alive: Duration,
    /// How long requests may go on after the server was asked to stop.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            connections_per_address: 1000,
            streams: 100,
            head: Duration::from_secs(30),
            unread: Duration::from_mins(1),
            head_size: 32 * 1024,
            resets: 20,
            keep_alive: Duration::from_secs(30),
            drain: Duration::from_secs(10),
        }
    }
}

/// The socket of a server, and its certificate for TLS; without one there is no TLS.
#[derive(Debug)]
pub struct Listening {
    /// The socket.
    pub listener: TcpListener,
    /// The certificate.
    pub certificate: Option<Certificate>,
    /// The proxies whose forwarding headers are trusted.
    pub proxies: Networks,
}

/// The address that a request came from, among the request's extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

/// Serves until `shutdown` is ready; then accepts nothing more, and gives the requests in flight some time.
pub async fn serve(listening: Listening, router: Router, shutdown: impl Future<Output = ()>, limits: Limits) {
    let Listening { listener, certificate, proxies } = listening;
    // Applies the layers to the routes once; axum would do so for every request otherwise.
    let router = router.with_state(());
    let stopping = CancellationToken::new();
    let renewing = certificate
        .clone()
        .map(|certificate| tokio::spawn(stopping.clone().run_until_cancelled_owned(certificate.keep_current())));
    let server = Arc::new(Server { builder: builder(limits), router, limits, certificate, proxies, stopping });
    let connections = TaskTracker::new();
    let room = Arc::new(Semaphore::new(limits.connections));
    let seats = Seats::new(limits.connections_per_address);
    let accepting = async {
        // The semaphore is never closed.
        while let Ok(place) = room.clone().acquire_owned().await {
            match listener.accept().await {
                Ok((stream, peer)) => {
                    // A proxy has the connections of many clients.
                    let seat = if server.proxies.has(peer.ip()) { None } else { Some(seats.take(peer.ip())) };
                    if let Some(None) = seat {
                        tracing::debug!(%peer, "an address has all the connections that it may have");
                        continue;
                    }
                    connections.spawn(server.clone().connection(stream, Peer(peer), place, seat.flatten()));
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
        // The task was cancelled above.
        let _ = renewing.await;
    }
}

struct Server {
    builder: auto::Builder<Streams>,
    router: Router,
    limits: Limits,
    certificate: Option<Certificate>,
    proxies: Networks,
    stopping: CancellationToken,
}

impl Server {
    async fn connection(
        self: Arc<Self>,
        stream: TcpStream,
        peer: Peer,
        _place: OwnedSemaphorePermit,
        _seat: Option<Seat>,
    ) {
        // Small answers must not wait for the acknowledgement of earlier data.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(error = %explain(&error), "TCP_NODELAY could not be set");
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
        builder: &auto::Builder<Streams>,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        peer: Peer,
    ) {
        let activity = Activity::new();
        let service = service_fn(|request| self.request(request, peer, &activity));
        let stream = TokioIo::new(Patient::new(stream, self.limits.head, activity.clone()));
        let mut connection = pin!(builder.serve_connection(stream, service));
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.stopping.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
            () = activity.idle(self.limits.head) => {
                connection.as_mut().graceful_shutdown();
                activity.touch();
                tokio::select! {
                    ended = connection => ended,
                    () = activity.idle(FAREWELL.min(self.limits.head)) => Ok(()),
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(error = %explain(&*error), "a connection ended badly");
        }
    }

    fn request(
        &self,
        mut request: Request<Incoming>,
        peer: Peer,
        activity: &Arc<Activity>,
    ) -> impl Future<Output = Result<Response<Answer>, Infallible>> + use<> {
        proxy::believe(&self.proxies, peer, &mut request);
        let in_flight = activity.request();
        let known = headers::none_match(&request);
        let answer = self.router.clone().oneshot(request.map(Body::new));
        let has_tls = self.certificate.is_some();
        async move {
            let mut answer = answer.await?;
            if let Some(known) = known {
                headers::leave_out(&known, &mut answer);
            }
            headers::complete(answer.headers_mut(), has_tls);
            Ok(answer.map(|body| Answer::new(body, in_flight)))
        }
    }
}

fn builder(limits: Limits) -> auto::Builder<Streams> {
    let mut builder = auto::Builder::new(Streams { limit: limits.unread });
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        // A client that closes its side before it has the answer counts as gone: what is done for it is given up.
        .half_close(false)
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

/// Waits after a failure to accept, unless the connection was gone: if file descriptors ran out, waiting helps.
async fn pause(failure: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    if !matches!(failure.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
        tracing::warn!(error = %explain(failure), "no connection can be accepted");
        sleep(Duration::from_millis(100)).await;
    }
}

#[cfg(test)]
mod tests;

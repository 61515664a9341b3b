//! The first bytes of a connection without TLS, which tell HTTP/1 from HTTP/2.

use std::{io, time::Duration};

use tokio::{
    net::TcpStream,
    time::{Instant, sleep},
};

/// The client preface of HTTP/2 connections (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// How long the rest of a preface may take. It fits in one packet.
const REST: Duration = Duration::from_secs(2);
/// The first and the longest pause between looks at a partial preface.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// Waits until the client has sent enough to tell HTTP/1 from HTTP/2, for which hyper would wait without end. Returns
/// `false` if the client has gone, or sends nothing more.
pub(super) async fn has_protocol(stream: &TcpStream) -> io::Result<bool> {
    let mut head = [0; PREFACE.len()];
    let (mut pause, longest) = PAUSES;
    let mut begun = None;
    loop {
        let length = stream.peek(&mut head).await?;
        if length == 0 || length == head.len() || !PREFACE.starts_with(&head[..length]) {
            return Ok(length > 0);
        }
        if begun.get_or_insert_with(Instant::now).elapsed() >= REST {
            return Ok(false);
        }
        // Peeked data stays readable, so there is nothing to wait for but time.
        sleep(pause).await;
        pause = (pause * 2).min(longest);
    }
}

//! The costs that a connection may cause: seats, time without a request, and answers that nobody reads.

use axum::{body::Bytes, response::IntoResponse, routing::get};
use futures::StreamExt;
use h2::client::{Builder, SendRequest};
use tokio::net::TcpSocket;

use super::*;

/// What an HTTP/2 client sends first: the preface and an empty SETTINGS.
const HELLO: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00";
const LARGE: usize = 64 * 1024;
const SHORT: Duration = Duration::from_millis(300);

async fn serve_all(limits: Limits) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let slow = async || {
        sleep(3 * SHORT).await;
        "late"
    };
    let late = async || {
        let piece = async {
            sleep(3 * SHORT).await;
            Ok::<_, Infallible>(Bytes::from_static(b"late"))
        };
        Body::from_stream(futures::stream::once(piece)).into_response()
    };
    let router = Router::new()
        .route("/small", get("small"))
        .route("/large", get(async || vec![b'x'; LARGE]))
        .route("/slow", get(slow))
        .route("/late", get(late));
    let listening = Listening { listener, certificate: None, proxies: Networks::default() };
    tokio::spawn(serve(listening, router, std::future::pending(), limits));
    address
}

async fn connect_from(source: &str, address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{source}:0").parse().unwrap()).unwrap();
    socket.connect(address).await.unwrap()
}

async fn get_raw(stream: &mut TcpStream, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    timeout(Duration::from_secs(5), stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    answer
}

async fn h2(address: SocketAddr, window: u32) -> SendRequest<Bytes> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (client, connection) = Builder::new().initial_window_size(window).handshake(stream).await.unwrap();
    tokio::spawn(connection);
    client.ready().await.unwrap()
}

async fn answer(client: &mut SendRequest<Bytes>, path: &str) -> h2::RecvStream {
    let request = http::Request::get(format!("http://x{path}")).body(()).unwrap();
    client.send_request(request, true).unwrap().0.await.unwrap().into_body()
}

#[tokio::test]
async fn one_address_takes_its_share_and_loses_what_it_does_not_use() {
    let limits = Limits { connections: 4, connections_per_address: 3, head: SHORT, ..Limits::default() };
    let address = serve_all(limits).await;
    let mut idle = Vec::new();
    for _ in 0..3 {
        let mut stream = connect_from("127.0.0.2", address).await;
        stream.write_all(HELLO).await.unwrap();
        idle.push(stream);
    }
    let mut one_more = connect_from("127.0.0.2", address).await;
    let refused = timeout(Duration::from_secs(5), one_more.read(&mut [0])).await.unwrap();
    assert!(matches!(refused, Ok(0) | Err(_)), "{refused:?}");
    let answer = get_raw(&mut connect_from("127.0.0.1", address).await, "/small").await;
    assert!(answer.ends_with("small"), "{answer}");
    for mut stream in idle {
        timeout(Duration::from_secs(5), stream.read_to_end(&mut Vec::new())).await.unwrap().unwrap();
    }
    let answer = get_raw(&mut connect_from("127.0.0.2", address).await, "/small").await;
    assert!(answer.ends_with("small"), "{answer}");
}

#[tokio::test]
async fn a_request_that_takes_long_is_no_idle_connection() {
    let address = serve_all(Limits { head: SHORT, ..Limits::default() }).await;
    let answered = get_raw(&mut TcpStream::connect(address).await.unwrap(), "/slow").await;
    assert!(answered.ends_with("late"), "{answered}");
    let mut client = h2(address, 65_535).await;
    assert_eq!(answer(&mut client, "/slow").await.data().await.unwrap().unwrap(), "late");
}

#[tokio::test]
async fn an_http_1_client_that_reads_nothing_is_sent_away() {
    let address = serve_all(Limits { head: SHORT, ..Limits::default() }).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(address).await.unwrap();
    let requests = "GET /large HTTP/1.1\r\nhost: x\r\n\r\n".repeat(200);
    stream.write_all(requests.as_bytes()).await.unwrap();
    sleep(4 * SHORT).await;
    let mut taken = Vec::new();
    let _ = timeout(Duration::from_secs(5), stream.read_to_end(&mut taken)).await.unwrap();
    assert!(taken.len() < 190 * LARGE, "{}", taken.len());
}

#[tokio::test]
async fn an_http_2_answer_that_nobody_takes_is_reset() {
    let address = serve_all(Limits { unread: SHORT, ..Limits::default() }).await;
    // One byte is enough for hyper to give the piece away, and none for the rest.
    for window in [0, 1] {
        let mut client = h2(address, window).await;
        let mut body = answer(&mut client, "/large").await;
        let ended = timeout(Duration::from_secs(5), async {
            loop {
                match body.data().await {
                    Some(Ok(_)) => {}
                    ended => break ended,
                }
            }
        });
        let ended = ended.await.unwrap();
        assert_eq!(ended.unwrap().unwrap_err().reason(), Some(h2::Reason::CANCEL), "{window}");
    }
}

#[tokio::test]
async fn an_http_2_answer_that_is_taken_comes_whole_however_long_it_takes() {
    let address = serve_all(Limits { unread: SHORT, ..Limits::default() }).await;
    let mut client = h2(address, 65_535).await;
    for (path, length) in [("/late", 4), ("/large", LARGE), ("/small", 5)] {
        let mut body = answer(&mut client, path).await;
        let mut taken = 0;
        while let Some(piece) = body.data().await {
            let piece = piece.unwrap();
            taken += piece.len();
            body.flow_control().release_capacity(piece.len()).unwrap();
        }
        assert_eq!(taken, length, "{path}");
    }
}

#[tokio::test]
async fn half_a_preface_has_less_time_than_nothing() {
    let address = serve_all(Limits::default()).await;
    let ends = futures::stream::iter(["P", "PRI * HTTP/2.0\r\n"]).map(async |said| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(said.as_bytes()).await.unwrap();
        timeout(Duration::from_secs(8), stream.read_to_end(&mut Vec::new())).await.is_ok()
    });
    assert_eq!(ends.buffer_unordered(2).collect::<Vec<_>>().await, [true, true]);
}

#[tokio::test]
async fn whoever_closes_before_the_answer_has_gone() {
    let address = serve_all(Limits::default()).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = String::new();
    timeout(Duration::from_secs(5), stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert_eq!(answer, "", "what was done for it is given up");
}

mod bounds;
mod router;

use std::{net::SocketAddr, time::Duration};

use prost::Message;
use proto::{
    action::{self, CreateTargetRequest, CreateTargetResponse, GetTargetRequest, GetTargetResponse},
    operation::{CREATE_TARGET, Facts, GET_TARGET},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::oneshot,
    task::JoinHandle,
    time::Instant,
};
use tonic::{Code, Request, Status, transport::Channel};
use tonic_prost::ProstCodec;
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
};

use super::*;
use crate::reflection::{reflection, restricted};

struct Running {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<()>,
}

async fn start(limits: Limits) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let router = router::router().merge(reflection(&restricted(&[&CREATE_TARGET.facts])));
    let stopped = async { stopped.await.unwrap_or_default() };
    Running {
        address,
        stop,
        ended: tokio::spawn(serve(
            Listening { listener, certificate: None, proxies: Networks::default() },
            router,
            stopped,
            limits,
        )),
    }
}

async fn connect(address: SocketAddr) -> Channel {
    Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap()
}

async fn call<I: Message + 'static, O: Message + Default + 'static>(
    channel: Channel,
    facts: &'static Facts,
    message: I,
) -> Result<tonic::Response<O>, Status> {
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.unwrap();
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", "me".parse().unwrap());
    let path = http::uri::PathAndQuery::from_static(facts.grpc);
    client.unary(request, path, ProstCodec::default()).await
}

#[tokio::test]
async fn a_grpc_client_is_served() {
    let running = start(Limits::default()).await;
    let channel = connect(running.address).await;
    let webhook = action::SetRestWebhook { url: "https://example.com".to_owned() };
    let target = action::Target {
        name: "hook".to_owned(),
        target_type: Some(action::target::TargetType::RestWebhook(webhook)),
        ..Default::default()
    };
    let request = CreateTargetRequest { target: Some(target) };
    let answer = call::<_, CreateTargetResponse>(channel.clone(), &CREATE_TARGET.facts, request).await.unwrap();
    assert_eq!(answer.metadata().get("consistency-token").unwrap(), "abc");
    assert_eq!(answer.into_inner().signing_key, "hook");
    let refused = call::<_, GetTargetResponse>(channel, &GET_TARGET.facts, GetTargetRequest::default()).await;
    assert_eq!(refused.unwrap_err().code(), Code::Unimplemented);
}

#[tokio::test]
async fn reflection_lists_what_is_mounted() {
    let running = start(Limits::default()).await;
    let mut client = ServerReflectionClient::new(connect(running.address).await);
    let ask = MessageRequest::ListServices(String::new());
    let asked = ServerReflectionRequest { host: String::new(), message_request: Some(ask) };
    let mut answers = client.server_reflection_info(futures::stream::iter([asked])).await.unwrap().into_inner();
    let answer = answers.message().await.unwrap().unwrap().message_response.unwrap();
    let MessageResponse::ListServicesResponse(list) = answer else { panic!("{answer:?}") };
    let names: Vec<_> = list.service.into_iter().map(|service| service.name).collect();
    assert_eq!(names, [CREATE_TARGET.facts.service, "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"]);
}

#[tokio::test]
async fn an_http_1_client_gets_its_answer_after_a_body_that_is_too_large() {
    let running = start(Limits::default()).await;
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nauthorization: me\r\ncontent-length: {}\r\n\r\n",
        CREATE_TARGET.facts.path,
        4 << 20
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&vec![b' '; 4 << 20]).await.unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
}

#[tokio::test]
async fn whoever_says_nothing_or_half_of_it_is_sent_away() {
    let running = start(Limits { head: Duration::from_millis(200), ..Limits::default() }).await;
    for said in ["", "PRI * HT", "GET / HTTP/1.1\r\n"] {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        stream.write_all(said.as_bytes()).await.unwrap();
        let mut rest = Vec::new();
        let ended = timeout(Duration::from_secs(5), stream.read_to_end(&mut rest)).await;
        assert!(ended.is_ok(), "{said:?}");
    }
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_for_a_seat() {
    let running = start(Limits { connections: 1, ..Limits::default() }).await;
    let first = TcpStream::connect(running.address).await.unwrap();
    let mut second = TcpStream::connect(running.address).await.unwrap();
    second.write_all(b"GET /nowhere HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut answer = [0; 12];
    assert!(timeout(Duration::from_millis(200), second.read_exact(&mut answer)).await.is_err());
    drop(first);
    timeout(Duration::from_secs(5), second.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(&answer, b"HTTP/1.1 404");
}

#[tokio::test]
async fn stopping_waits_for_requests_but_not_for_ever() {
    let running = start(Limits { drain: Duration::from_millis(300), ..Limits::default() }).await;
    // A request whose body never comes keeps the connection busy.
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    let head = "POST /resources/v3alpha/targets HTTP/1.1\r\nhost: x\r\nauthorization: me\r\ncontent-length: 5\r\nexpect: 100-continue\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut went_on = [0; 12];
    stream.read_exact(&mut went_on).await.unwrap();
    assert_eq!(&went_on, b"HTTP/1.1 100");
    let begun = Instant::now();
    running.stop.send(()).unwrap();
    timeout(Duration::from_secs(5), running.ended).await.unwrap().unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(300));
    assert!(TcpStream::connect(running.address).await.is_err());
}

#[tokio::test]
async fn stopping_does_not_wait_for_idle_connections() {
    let running = start(Limits::default()).await;
    let _silent = TcpStream::connect(running.address).await.unwrap();
    let idle = connect(running.address).await;
    let _ = call::<_, GetTargetResponse>(idle.clone(), &GET_TARGET.facts, GetTargetRequest::default()).await;
    running.stop.send(()).unwrap();
    timeout(Duration::from_secs(1), running.ended).await.unwrap().unwrap();
}

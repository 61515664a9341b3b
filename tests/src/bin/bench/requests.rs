//! Reads: the cost of `GetTarget` over each transport in comparison with bare handlers on the same transport, which
//! look up the token among the verified ones, and make the same read by primary key.

mod bare;

use std::{process::Stdio, time::Duration};

use proto::{
    action::{GetTargetRequest, GetTargetResponse},
    operation::GET_TARGET,
};
use reqwest::{Method, RequestBuilder, header};
use rustix::process::Pid;
use tests::{
    client::{Client, TARGETS, send, target},
    grpc::Grpc,
    platform::Platform,
};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use crate::{cpu, load};

pub(crate) use bare::serve;

const CLIENTS: usize = 16;
const ROUNDS: usize = 5;
const SECONDS: u64 = 3;

/// A server to measure: the platform, or the bare handlers.
struct Server {
    pid: Pid,
    json: String,
    grpc: Grpc,
}

/// The transports of a request.
#[derive(Clone, Copy)]
enum Transport {
    Json,
    Web,
    Grpc,
}

/// Measures all transports in turns, and prints the median of the ratios.
pub(crate) async fn measure(platform: &mut Platform) {
    platform.ready().await;
    let client = platform.client().await;
    let created = send(client.request(Method::POST, TARGETS).json(&target("bench"))).await;
    let id = created.id();
    client.get_target(&id, Some(&created.consistency())).await;
    let mut child = start(platform, &client.token);
    let stdout = child.stdout.take().expect("it is piped");
    let line = BufReader::new(stdout).lines().next_line().await.expect("it starts").expect("it says where it is");
    let (json, grpc) = line.split_once(' ').expect("there are two addresses");
    let bare_pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw).expect("it runs");
    let token = Some(client.token.as_str());
    let bare = Server {
        pid: bare_pid,
        json: format!("http://{json}"),
        grpc: Grpc::connect(&format!("http://{grpc}"), token).await,
    };
    let issuer = platform.bootstrap.issuer.clone();
    let grpc = Grpc::connect(&issuer, token).await;
    let ours = Server { pid: platform.process().pid(), json: issuer, grpc };

    println!("\nrequests: GetTarget, {CLIENTS} clients, {ROUNDS} rounds of {SECONDS} s in turns; us CPU a request");
    println!("round     JSON  bare axum  ratio   gRPC-web  ratio to axum     gRPC  bare tonic  ratio");
    let mut ratios: [Vec<f64>; 3] = Default::default();
    for round in 1..=ROUNDS {
        let [json, web, grpc] =
            [Transport::Json, Transport::Web, Transport::Grpc].map(|way| ask(&ours, way, &client, &id));
        let (json, bare_json) = (json.await, ask(&bare, Transport::Json, &client, &id).await);
        let web = web.await;
        let (grpc, bare_grpc) = (grpc.await, ask(&bare, Transport::Grpc, &client, &id).await);
        let now = [json / bare_json, web / bare_json, grpc / bare_grpc];
        println!(
            "{round:>5} {json:>8.0} {bare_json:>10.0} {:>6.2} {web:>10.0} {:>14.2} {grpc:>8.0} {bare_grpc:>11.0} {:>6.2}",
            now[0], now[1], now[2]
        );
        ratios.iter_mut().zip(now).for_each(|(ratios, ratio)| ratios.push(ratio));
    }
    let [json, web, grpc] = ratios.map(|mut ratios| {
        ratios.sort_by(f64::total_cmp);
        ratios[ROUNDS / 2]
    });
    println!("JSON {json:.2} (to reach: 2), gRPC {grpc:.2} (to reach: 2.5), gRPC-web {web:.2} of bare JSON");
    let _ = child.kill().await;
}

fn start(platform: &Platform, token: &str) -> Child {
    let mut bare = Command::new(std::env::current_exe().expect("it knows where it is"));
    bare.args(["bare-requests", &platform.postgres_url(), &platform.bootstrap.instance_id, token]);
    bare.stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("it starts")
}

/// Returns the CPU time of a request, in microseconds.
async fn ask(server: &Server, way: Transport, client: &Client, id: &str) -> f64 {
    let before = cpu::of(server.pid);
    let client = client.at(&server.json);
    let outcome = match way {
        Transport::Json => {
            let path = format!("{TARGETS}/{id}");
            over_http(move || client.request(Method::GET, &path), 200).await
        }
        Transport::Web => {
            let message = prost::Message::encode_to_vec(&GetTargetRequest { id: id.to_owned() });
            let length = u32::try_from(message.len()).expect("it is small").to_be_bytes();
            let frame = [&[0], &length[..], &message].concat();
            let request = move || {
                let request = client.request(Method::POST, GET_TARGET.facts.grpc).body(frame.clone());
                request.header(header::CONTENT_TYPE, "application/grpc-web+proto")
            };
            over_http(request, 80).await
        }
        Transport::Grpc => {
            let (grpc, id) = (server.grpc.clone(), id.to_owned());
            load::run(CLIENTS, SECONDS, move |_| {
                let (grpc, request) = (grpc.clone(), GetTargetRequest { id: id.clone() });
                async move {
                    let answer = grpc.call(&GET_TARGET, request).await;
                    answer.is_ok_and(|answer| is_whole(answer.get_ref()))
                }
            })
            .await
        }
    };
    assert_eq!(outcome.failed, 0, "reads fail under load");
    outcome.ms_each(cpu::of(server.pid).saturating_sub(before)) * 1000.0
}

fn is_whole(answer: &GetTargetResponse) -> bool {
    answer.target.as_ref().is_some_and(|it| it.details.is_some() && it.target.is_some())
}

async fn over_http(request: impl Fn() -> RequestBuilder + Send + Sync + 'static, least: usize) -> load::Outcome {
    load::run(CLIENTS, SECONDS, move |_| {
        let request = request().timeout(Duration::from_secs(30));
        async move {
            let Ok(answer) = request.send().await else { return false };
            answer.status() == 200 && answer.bytes().await.is_ok_and(|body| body.len() > least)
        }
    })
    .await
}

//! Tokens: what `client_credentials` costs beside a bare handler that only checks and signs.

use std::process::Stdio;

use rustix::process::Pid;
use tests::{client::SCOPE, platform::Platform};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
};

use crate::{bare, cpu, load};

const CLIENTS: usize = 16;
const ROUNDS: usize = 3;
const SECONDS: u64 = 2;

/// Measures both in turns, and prints the middle of the ratios.
pub(crate) async fn measure(platform: &mut Platform) {
    let binary = std::env::current_exe().expect("it knows where it is");
    let mut floor =
        Command::new(binary).arg("bare").stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("it starts");
    let stdout = floor.stdout.take().expect("it is piped");
    let address = BufReader::new(stdout).lines().next_line().await.expect("it starts").expect("it says where it is");
    let floor_pid = floor.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw).expect("it runs");

    println!("\ntokens: client_credentials, ES256, {CLIENTS} clients, {ROUNDS} rounds in turns");
    println!("round    per s   ms CPU   bare per s   bare ms CPU   ratio");
    let user = platform.bootstrap.service_user.clone();
    let form = |secret: &str| {
        let pairs = [
            ("grant_type", "client_credentials"),
            ("client_id", &user.client_id),
            ("client_secret", secret),
            ("scope", SCOPE),
        ];
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
    };
    let mut ratios = vec![];
    for round in 1..=ROUNDS {
        let url = format!("{}/oauth/v2/token", platform.bootstrap.issuer);
        let (ours, rate) = one(url, form(&user.client_secret), platform.process().pid()).await;
        let (bare, bare_rate) = one(format!("http://{address}/token"), form(bare::SECRET), floor_pid).await;
        println!("{round:>5} {rate:>8.0} {ours:>8.4} {bare_rate:>12.0} {bare:>13.4} {:>7.2}", ours / bare);
        ratios.push(ours / bare);
    }
    ratios.sort_by(f64::total_cmp);
    println!("ratio {:.2} (to reach: 2)", ratios[ROUNDS / 2]);
    let _ = floor.kill().await;
}

async fn one(url: String, form: Vec<(String, String)>, pid: Pid) -> (f64, f64) {
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let before = cpu::of(pid);
    let outcome = load::run(CLIENTS, SECONDS, move |_| {
        let request = http.post(&url).form(&form);
        async move {
            let Ok(answer) = request.send().await else { return false };
            answer.status() == 200 && answer.bytes().await.is_ok_and(|body| body.len() > 300)
        }
    });
    let outcome = outcome.await;
    assert_eq!(outcome.failed, 0, "tokens fail under load");
    (outcome.ms_each(cpu::of(pid).saturating_sub(before)), outcome.rate())
}

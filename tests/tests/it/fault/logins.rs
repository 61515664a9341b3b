//! Logins while nodes are killed: people whose request was not being handled by a killed node notice nothing, and
//! nobody gets the account of somebody else.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use futures::{StreamExt, stream};
use reqwest::{Method, StatusCode};
use serde_json::Value;
use tests::{
    browser::{Browser, Page},
    cluster::{Cluster, Node},
};

use crate::oidc::{
    flow::{App, CALLBACK, Flow, PASSWORD, VERIFIER, answered, person},
    pages::on_pages,
};

/// How many people log in; `LOGINS` overrides it.
const LOGINS: usize = 100;
/// How many people log in at a time, and so the most requests that all nodes handle together.
const AT_ONCE: usize = 8;

/// Why a login has failed.
#[derive(Debug)]
enum Broken {
    /// A node was killed while it handled a request: the connection was closed, or a password was at the writer, and is
    /// not sent again because each is a try.
    Lost,
    /// A node answered something unexpected.
    Refused(String),
}

/// The state of a proxy in front of oidc nodes: their addresses, and the next one.
struct Front {
    nodes: Mutex<Vec<String>>,
    next: AtomicUsize,
}

impl Front {
    fn add(&self, node: &Node) {
        self.nodes.lock().expect("nobody panics with it").push(node.url.clone());
    }

    fn next(&self) -> String {
        let nodes = self.nodes.lock().expect("nobody panics with it");
        nodes[self.next.fetch_add(1, Ordering::Relaxed) % nodes.len()].clone()
    }

    /// Sends a request to one node after the other until one accepts it.
    async fn ask<T>(&self, mut ask: impl AsyncFnMut(String) -> reqwest::Result<T>) -> Result<T, Broken> {
        for _ in 0..20 {
            match ask(self.next()).await {
                Ok(shown) => return Ok(shown),
                Err(error) if error.is_connect() => tokio::time::sleep(Duration::from_millis(20)).await,
                Err(_) => return Err(Broken::Lost),
            }
        }
        Err(Broken::Refused("no node takes it".to_owned()))
    }
}

/// A person at a browser.
struct Visitor<'a> {
    flow: &'a Flow<Cluster>,
    front: &'a Front,
    browser: Browser,
}

impl Visitor<'_> {
    async fn get(&mut self, path: &str) -> Result<Page, Broken> {
        let browser = &mut self.browser;
        let ask = async |node: String| {
            browser.led_to(&node);
            browser.try_get(path).await
        };
        self.front.ask(ask).await
    }

    async fn sends(&mut self, shown: &Page, fields: &[(&str, &str)]) -> Result<Page, Broken> {
        let (browser, form, action) = (&mut self.browser, shown.form(fields), shown.action());
        let ask = async |node: String| {
            browser.led_to(&node);
            browser.try_post(&action, &form).await
        };
        let shown = self.front.ask(ask).await?;
        self.follow(shown).await
    }

    /// Follows redirects until a page asks something, or the browser is back at the app.
    async fn follow(&mut self, mut shown: Page) -> Result<Page, Broken> {
        for _ in 0..5 {
            let location = shown.location().to_owned();
            let path = location.strip_prefix(&self.flow.tenant.bootstrap.issuer).unwrap_or(&location);
            if !path.starts_with('/') {
                break;
            }
            shown = self.get(path).await?;
        }
        Ok(shown)
    }

    /// Logs in by the pages, and returns whose tokens the app gets.
    async fn log_in(&mut self, name: &str) -> Result<String, Broken> {
        let query = serde_urlencoded::to_string(self.flow.authorize_parameters(&[])).expect("it is a query");
        let shown = self.get(&format!("/oauth/v2/authorize?{query}")).await?;
        let mut shown = self.follow(shown).await?;
        if shown.text.contains("id=\"username\"") {
            shown = self.sends(&shown, &[("username", name)]).await?;
        }
        if shown.status == StatusCode::OK {
            shown = self.sends(&shown, &[("username", name), ("password", PASSWORD)]).await?;
        }
        if shown.status == StatusCode::SERVICE_UNAVAILABLE {
            return Err(Broken::Lost);
        }
        let told = answered(if shown.location().is_empty() { "x:" } else { shown.location() });
        let code = told.get("code").ok_or_else(|| Broken::Refused(format!("{} {}", shown.status, shown.text)))?;
        self.redeem(code).await
    }

    async fn redeem(&self, code: &str) -> Result<String, Broken> {
        let form = [
            ("grant_type", "authorization_code"),
            ("client_id", &self.flow.app.id),
            ("redirect_uri", CALLBACK),
            ("code_verifier", VERIFIER),
            ("code", code),
        ];
        let ask = async |node: String| {
            let request = self.flow.admin.at(&node).anonymous(Method::POST, "/oauth/v2/token").form(&form);
            let response = request.send().await?;
            Ok((response.status(), response.text().await?))
        };
        let (status, text) = self.front.ask(ask).await?;
        if status != StatusCode::OK {
            return Err(Broken::Refused(text));
        }
        let tokens: Value = serde_json::from_str(&text).expect("it is JSON");
        let claims = tokens["id_token"].as_str().and_then(|token| token.split('.').nth(1)).expect("there is one");
        let claims: Value =
            serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).expect("it is base64")).expect("JSON");
        Ok(claims["sub"].as_str().expect("there is one").to_owned())
    }
}

/// Logs a person in, again where a node was killed with a request, and returns how often that was.
async fn logs_in(flow: &Flow<Cluster>, front: &Front, (id, name): &(String, String)) -> usize {
    let browser = Browser::behind_proxy(&flow.tenant.bootstrap.issuer);
    let mut visitor = Visitor { flow, front, browser };
    let mut lost = 0;
    loop {
        match visitor.log_in(name).await {
            Ok(subject) => {
                assert_eq!(subject, *id, "nobody ends in another account");
                return lost;
            }
            Err(Broken::Lost) => lost += 1,
            Err(Broken::Refused(told)) if lost == 0 => panic!("{name} was in nobody's hands: {told}"),
            // What was lost may have been done: the code used, or the request ended.
            Err(Broken::Refused(_)) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
        assert!(lost < 4, "{name} comes to an end");
    }
}

#[tokio::test]
async fn a_hundred_people_log_in_while_nodes_of_every_role_are_killed() {
    let cluster = Cluster::start_with_short_leases().await;
    let node = |role: &str, name: &str| cluster.node(role, name, &[], &[]);
    let (mut writer, projector) = (node("command", "writer"), node("projector", "one"));
    let (_other, oidc) = (node("projector", "other"), [node("oidc", "x"), node("oidc", "y")]);
    cluster.writes(&writer).await;
    let standby = cluster.node("command", "standby", &[("--node-number", "1")], &[]);
    for node in oidc.iter().chain([&standby]) {
        cluster.is_ready(node).await;
    }
    let admin = cluster.client(&writer);
    let flow = Flow::on(cluster, admin, on_pages(&App::public())).await;
    let logins = tests::how_many("LOGINS", LOGINS);
    let people: Vec<_> = stream::iter(0..logins).map(|_| person(&flow.admin)).buffered(AT_ONCE).collect().await;
    let front = Front { nodes: Mutex::default(), next: AtomicUsize::new(0) };
    for node in &oidc {
        front.add(node);
    }
    let [mut x, _y] = oidc;
    let mut projector = projector;
    let ended = AtomicUsize::new(0);
    let killing = async {
        let reached = async |percent| {
            while ended.load(Ordering::Relaxed) < logins * percent / 100 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        reached(15).await;
        x.process.kill().await;
        let again = flow.tenant.node("oidc", "x", &[], &[]);
        flow.tenant.is_ready(&again).await;
        front.add(&again);
        reached(45).await;
        writer.process.kill().await;
        reached(70).await;
        projector.process.kill().await;
        again
    };
    let logging_in = stream::iter(&people).map(|person| async {
        let lost = logs_in(&flow, &front, person).await;
        ended.fetch_add(1, Ordering::Relaxed);
        lost
    });
    let (lost, _again) = tokio::join!(logging_in.buffer_unordered(AT_ONCE).collect::<Vec<_>>(), killing);
    let lost = lost.into_iter().filter(|lost| *lost > 0).count();
    println!("{logins} logins, {lost} of them with a request in the hands of a node that was killed");
    assert!(
        lost <= 2 * AT_ONCE,
        "{lost} were in the hands of the node that people speak to, or of the one that writes"
    );
}

//! Checks that the time of an answer does not disclose who exists: the same request is sent in turns for existing and
//! for missing objects, and Welch's test compares the times.

use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use reqwest::Url;
use serde_json::json;
use tests::{
    browser::{Browser, Page},
    client::{Client, done},
    eventually,
    platform::Platform,
};

use crate::{pair, passwords};

const API: &str = "/resources/v3alpha";
const CALLBACK: &str = "https://shop.example/callback";
/// The number of samples of each kind.
const SAMPLES: usize = 1_000;
/// The id of no app. It is requested again and again, like that of the app: the first lookup of an id takes longer,
/// which shows only that nobody has requested it lately, and ids of apps are no secrets (RFC 6749, section 2.2).
const NOWHERE: &str = "1";
/// How many people are created at the same time.
const AT_ONCE: usize = 16;
/// The bound of the statistic below which nothing is disclosed.
const BOUND: f64 = 4.5;

/// The times of answers for existing and for missing objects, in milliseconds.
#[derive(Default)]
struct Times {
    there: Vec<f64>,
    nowhere: Vec<f64>,
}

impl Times {
    fn add(&mut self, is_there: bool, took: Duration) {
        if is_there { &mut self.there } else { &mut self.nowhere }.push(took.as_secs_f64() * 1000.0);
    }

    /// Prints both medians, and the statistic without the slowest twentieth of all times, which are caused by other
    /// work of the machine.
    fn print(mut self, name: &str) {
        let mut all: Vec<f64> = self.there.iter().chain(&self.nowhere).copied().collect();
        all.sort_by(f64::total_cmp);
        let most = all[all.len() * 19 / 20];
        for times in [&mut self.there, &mut self.nowhere] {
            times.retain(|took| *took <= most);
            times.sort_by(f64::total_cmp);
        }
        let middle = |times: &[f64]| times[times.len() / 2];
        let (there, nowhere) = (middle(&self.there), middle(&self.nowhere));
        println!("{name:<36} {there:>9.3} {nowhere:>9.3} {:>7.2}", welch(&self.there, &self.nowhere).abs());
    }
}

/// Measures the requests that strangers can send.
pub(crate) async fn measure(platform: &mut Platform) {
    platform.ready().await;
    let (admin, issuer) = (platform.client().await, platform.bootstrap.issuer.clone());
    let app = shop(&admin).await;
    // Each person is tried once: a second try is counted in another way.
    let people = stream::iter(0..2 * SAMPLES).map(|number| person(&admin, number));
    assert_eq!(people.buffer_unordered(AT_ONCE).count().await, 2 * SAMPLES);
    let http = pair::client();
    let [mut clients, mut names, mut secrets, mut addresses] = [(); 4].map(|()| Times::default());
    let last = &name_of(true, 2 * SAMPLES - 1);
    eventually("the last person is known", async || {
        let found = json!([{ "username": { "name": last } }]);
        let found = tests::client::post(&admin, &format!("{API}/users/_search"), found).await;
        (found.body["details"]["totalResult"] == "1").then_some(())
    })
    .await;
    for number in 0..SAMPLES {
        // In alternating order, so that the order has no effect.
        for is_there in [number % 2 == 0, number % 2 == 1] {
            let id = if is_there { &app.confidential } else { NOWHERE };
            let request = http.post(format!("{issuer}/oauth/v2/token")).basic_auth(id, Some("not-the-secret"));
            let begin = Instant::now();
            let answer = request.form(&[("grant_type", "client_credentials")]).send().await.expect("it answers");
            clients.add(is_there, begin.elapsed());
            assert_eq!(answer.status(), 401);
            let (name, secret) = visit(&issuer, &app.public, &name_of(is_there, number)).await;
            names.add(is_there, name);
            secrets.add(is_there, secret);
            let (_, secret) = visit(&issuer, &app.public, &address_of(is_there, SAMPLES + number)).await;
            addresses.add(is_there, secret);
        }
    }
    println!("\nenumeration: what is there and what is not, {SAMPLES} of each in turns");
    println!("{:<36} {:>9} {:>9} {:>7}", "", "ms there", "ms not", "|t|");
    clients.print("an app with a wrong secret");
    names.print("a login name");
    secrets.print("a wrong password");
    addresses.print("the same with an e-mail address");
    println!("(to reach: |t| below {BOUND})");
}

/// The id of an app that people log in to, and that of an app with a secret.
struct Apps {
    public: String,
    confidential: String,
}

async fn shop(admin: &Client) -> Apps {
    let project = done(admin, &format!("{API}/projects"), json!({ "name": "Shop" })).await.id();
    let oidc = json!({
        "redirectUris": [CALLBACK], "appType": "OIDC_APP_TYPE_USER_AGENT", "authMethodType": "OIDC_AUTH_METHOD_TYPE_NONE",
    });
    let public = json!({ "projectId": project, "name": "Shop", "oidc": oidc });
    let confidential = json!({ "projectId": project, "name": "Till", "oidc": {
        "redirectUris": [CALLBACK], "appType": "OIDC_APP_TYPE_WEB", "authMethodType": "OIDC_AUTH_METHOD_TYPE_BASIC",
    } });
    let apps = format!("{API}/apps");
    Apps { public: done(admin, &apps, public).await.id(), confidential: done(admin, &apps, confidential).await.id() }
}

/// Returns the login name of an existing or of a missing person.
fn name_of(is_there: bool, number: usize) -> String {
    format!("{}-{number:04}", if is_there { "somebody" } else { "whomever" })
}

/// Returns the e-mail address of an existing or of a missing person.
fn address_of(is_there: bool, number: usize) -> String {
    format!("{}@mail.example", name_of(is_there, number))
}

async fn person(admin: &Client, number: usize) {
    let data = json!({ "given_name": "Ada", "family_name": "Lovelace" });
    let email = json!({ "address": address_of(true, number) });
    let human = json!({ "data": data, "email": email, "password": { "hash": passwords::imported() } });
    done(admin, &format!("{API}/users"), json!({ "username": name_of(true, number), "human": human })).await;
}

/// Returns how long it takes until a page asks for the password of a name, and until it refuses one.
async fn visit(issuer: &str, app: &str, name: &str) -> (Duration, Duration) {
    let mut browser = Browser::new(issuer);
    let mut url: Url = format!("{issuer}/oauth/v2/authorize").parse().expect("it is a URL");
    url.query_pairs_mut().extend_pairs([
        ("client_id", app),
        ("redirect_uri", CALLBACK),
        ("response_type", "code"),
        ("scope", "openid"),
        ("code_challenge", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"),
        ("code_challenge_method", "S256"),
    ]);
    let mut shown = browser.get(&url.as_str()[issuer.len()..]).await;
    while shown.status.is_redirection() {
        shown = browser.get(&path(&shown)).await;
    }
    let begin = Instant::now();
    let mut next = send(&mut browser, &shown, &[("username", name)]).await;
    while next.status.is_redirection() {
        next = browser.get(&path(&next)).await;
    }
    let asked = begin.elapsed();
    assert!(next.text.contains("type=\"password\""), "a password is asked for: {}", next.text);
    let begin = Instant::now();
    let refused = send(&mut browser, &next, &[("username", name), ("password", "not-the-password")]).await;
    let took = begin.elapsed();
    assert_eq!(refused.status, 422, "{}", refused.text);
    (asked, took)
}

async fn send(browser: &mut Browser, shown: &Page, fields: &[(&str, &str)]) -> Page {
    browser.post(&shown.action(), &shown.form(fields)).await
}

/// Returns the path that a page redirects to.
fn path(shown: &Page) -> String {
    let location = shown.location();
    location.find("/ui/").map_or(location, |at| &location[at..]).to_owned()
}

/// Returns the statistic of Welch's test.
#[expect(clippy::cast_precision_loss, reason = "there are a thousand")]
fn welch(one: &[f64], other: &[f64]) -> f64 {
    let of = |times: &[f64]| {
        let count = times.len() as f64;
        let mean = times.iter().sum::<f64>() / count;
        let variance = times.iter().map(|took| (took - mean).powi(2)).sum::<f64>() / (count - 1.0);
        (mean, variance / count)
    };
    let ((one, of_one), (other, of_other)) = (of(one), of(other));
    (one - other) / (of_one + of_other).sqrt()
}

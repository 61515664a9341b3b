//! Live pages: the updates that they get, and who may follow.

use reqwest::StatusCode;
use serde_json::{Map, Value};
use tests::{
    browser::{Browser, Page},
    eventually,
};

use super::{mending::Failing, open};

/// The most streams of an instance.
const OF_INSTANCE: usize = 10;

/// The updates that a page has received.
pub(super) struct Live {
    page: String,
    answer: reqwest::Response,
    unread: String,
    texts: Map<String, Value>,
    /// The values of bars.
    pub(super) values: Map<String, Value>,
}

impl Live {
    /// Opens the stream that a page follows.
    pub(super) async fn of(browser: &Browser, shown: &Page) -> Self {
        let path = shown.text.split("data-live=\"").nth(1).and_then(|rest| rest.split('"').next());
        let path = path.expect("it keeps itself up to date").replace("&amp;", "&").replace("&#38;", "&");
        let answer = browser.follow(&path).await;
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
        Self { page: shown.text.clone(), answer, unread: String::new(), texts: Map::new(), values: Map::new() }
    }

    /// Waits until a part of the page has a text.
    pub(super) async fn wait_for_text(&mut self, id: &str, wanted: &str) {
        while self.texts.get(id).is_none_or(|text| text != wanted) {
            let chunk = self.answer.chunk().await.expect("it goes on");
            let chunk = chunk.unwrap_or_else(|| panic!("it ended before {id} was {wanted}: {:?}", self.texts));
            self.unread.push_str(std::str::from_utf8(&chunk).expect("it is text"));
            while let Some((message, rest)) = self.unread.split_once("\n\n") {
                let told: Value = serde_json::from_str(message.trim_start_matches("data: ")).expect("it is JSON");
                for (id, text) in told["t"].as_object().cloned().unwrap_or_default() {
                    assert!(self.page.contains(&format!("id=\"{id}\"")), "the page has no {id}: {}", self.page);
                    self.texts.insert(id, text);
                }
                self.values.extend(told["v"].as_object().cloned().unwrap_or_default());
                let rest = rest.to_owned();
                self.unread = rest;
            }
        }
    }
}

#[tokio::test]
async fn pages_are_told_what_fails_and_what_is_mended() {
    let mut failing = Failing::start().await;
    failing.park(&["a"]).await;
    let browser = failing.browser().clone();
    let opened = async |path: &str| {
        let shown = open(&mut browser.clone(), path).await;
        Live::of(&browser, &shown).await
    };
    // What has just begun says so for a moment.
    let is_settled = async || {
        let shown = open(&mut browser.clone(), "/ui/operate").await.text;
        (shown.contains("2 failed events wait") && !shown.contains("lags by") && !shown.contains("no report"))
            .then_some(())
    };
    eventually("nothing but what failed is told of", is_settled).await;
    // A node is heard of within a second of its start.
    let is_heard = async || {
        let shown = open(&mut browser.clone(), "/ui/operate/nodes").await.text;
        Some(shown.split("id=\"b-").nth(1)?.split('"').next()?.to_owned())
    };
    let node = eventually("a node has said that it is there", is_heard).await;
    let (mut list, mut overview) = (opened("/ui/operate/failed").await, opened("/ui/operate").await);
    let (mut nodes, mut projections) = (opened("/ui/operate/nodes").await, opened("/ui/operate/projections").await);
    assert_refuses(&browser).await;
    list.wait_for_text("fresh", "Refresh").await;
    overview.wait_for_text("failed", "2").await;
    overview.wait_for_text("fresh", "Refresh").await;
    nodes.wait_for_text(&format!("b-{node}"), "● Ready").await;
    nodes.wait_for_text("fresh", "Refresh").await;
    projections.wait_for_text("f-targets", "1").await;

    failing.park_more("b").await;
    list.wait_for_text("fresh", "Show 2 new").await;
    overview.wait_for_text("failed", "4").await;
    overview.wait_for_text("said-0", "4 failed events wait to be retried or discarded.").await;
    projections.wait_for_text("f-targets", "2").await;

    // One that fails again is new on a page that was opened since, though there are as many.
    let shown = failing.wait_for_count(4).await;
    let mut list = Live::of(&browser, &shown).await;
    list.wait_for_text("fresh", "Refresh").await;
    failing.retries_one(&shown).await;
    list.wait_for_text("fresh", "Show 1 new").await;

    failing.heal();
    failing.retries_all().await;
    projections.wait_for_text("f-targets", "0").await;
    projections.wait_for_text("b-targets", "● Current").await;
    overview.wait_for_text("failed", "0").await;
    overview.wait_for_text("fresh", "Show what has changed").await;
}

/// Checks that an administrator of an instance can follow its failed events, in a number of pages, and nothing else.
pub(crate) async fn follows_the_instance(browser: &Browser, shown: &Page) {
    for page in ["overview", "nodes", "projections", "projection", "log"] {
        let refused = browser.follow(&format!("/ui/operate/live?page={page}")).await;
        assert_eq!(refused.status(), StatusCode::FORBIDDEN, "{page}");
    }
    let mut followed = vec![];
    for _ in 0..OF_INSTANCE {
        let mut live = Live::of(browser, shown).await;
        live.wait_for_text("fresh", "Refresh").await;
        followed.push(live);
    }
    let too_many = browser.follow("/ui/operate/live?page=failed").await;
    assert_eq!(too_many.status(), StatusCode::SERVICE_UNAVAILABLE);
}

/// Checks that invalid requests are refused: pages reopen a stream that ends within seconds.
async fn assert_refuses(browser: &Browser) {
    for (asked, status) in [
        ("page=nothing", StatusCode::NOT_FOUND),
        ("page=projection&name=nothing", StatusCode::NOT_FOUND),
        ("page=failed&newest=yesterday", StatusCode::BAD_REQUEST),
        ("page=failed&view=nothing", StatusCode::BAD_REQUEST),
        ("page=log&type=%00", StatusCode::BAD_REQUEST),
    ] {
        let refused = browser.follow(&format!("/ui/operate/live?{asked}")).await;
        assert_eq!(refused.status(), status, "{asked}");
    }
}

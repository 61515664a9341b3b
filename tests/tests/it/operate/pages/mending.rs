//! Failed events on pages, and the forms for them.

use reqwest::{Method, StatusCode};
use serde_json::json;
use tests::{
    auditor::connect,
    browser::{Browser, Page, link},
    client::{Client, TARGETS, post, send},
    eventually,
    platform::Platform,
    servers::Servers,
};

use super::{assert_closed, open};
use crate::fault::failed_events::note;

const LIST: &str = "/ui/operate/failed";

/// A platform whose views fail at everything while a file exists, with the browser of an operator.
pub(super) struct Failing {
    servers: Servers,
    pub(super) platform: Platform,
    client: Client,
    browser: Browser,
    switch: tempfile::TempPath,
}

impl Failing {
    pub(super) async fn start() -> Self {
        let switch = tempfile::NamedTempFile::new().expect("a temporary file can be made").into_temp_path();
        std::fs::remove_file(&switch).expect("it was just made");
        let servers = Servers::start().await;
        let fault = format!("table.folding/*:1:panic-while={}", switch.display());
        let platform = Platform::start_with(&servers.flags(), &[("PLATFORM_FAULT", &fault)]).await;
        platform.ready().await;
        let client = platform.client().await;
        let browser = Browser::signed_in(&platform.bootstrap.issuer, &link(&platform.data(), &[])).await;
        Self { servers, platform, client, browser, switch }
    }

    /// Returns the browser.
    pub(super) fn browser(&self) -> &Browser {
        &self.browser
    }

    /// Creates a target at which both views fail from the first event on.
    pub(super) async fn park_more(&self, name: &str) {
        self.client.create_target(name).await.expect("it is made");
    }

    /// Retries one event of a list.
    pub(super) async fn retries_one(&mut self, list: &Page) {
        let form = list.form(&[("id", &boxes(list)[0])]);
        let retried = self.browser.post(&format!("{LIST}/retry"), &form).await;
        assert_eq!(retried.status, StatusCode::SEE_OTHER, "{}", retried.text);
    }

    /// Retries all events.
    pub(super) async fn retries_all(&mut self) {
        let confirm = open(&mut self.browser, &format!("{LIST}/retry?all=1")).await;
        let retried = self.browser.post(&format!("{LIST}/retry"), &confirm.hidden()).await;
        assert_eq!(retried.status, StatusCode::SEE_OTHER, "{}", retried.text);
    }

    /// Creates targets, and lets both of their views fail at a change of each.
    pub(super) async fn park(&mut self, names: &[&str]) -> Vec<String> {
        let mut ids = vec![];
        for name in names {
            ids.push(self.client.create_target(name).await.expect("it is made"));
        }
        let last = self.client.get_target(ids.last().expect("there is one"), None);
        assert_eq!(last.await.status, StatusCode::OK);
        let wanted = ids.len().to_string();
        let shown = async || {
            let answer = post(&self.client, &format!("{TARGETS}/_search"), json!([])).await;
            (answer.body["details"]["totalResult"] == wanted.as_str()).then_some(())
        };
        eventually("the index has them", shown).await;
        std::fs::write(&self.switch, "").expect("the folder can be written");
        for id in &ids {
            let patch = self.client.request(Method::PATCH, &format!("{TARGETS}/{id}"));
            assert_eq!(send(patch.json(&json!({ "name": "<script>alert(1)</script>" }))).await.status, StatusCode::OK);
        }
        self.wait_for_count(ids.len() * 2).await;
        ids
    }

    /// Waits until the list shows a number of events, and returns it.
    pub(super) async fn wait_for_count(&mut self, number: usize) -> Page {
        let mut browser = self.browser.clone();
        loop {
            let shown = open(&mut browser, LIST).await;
            let found = shown.text.matches("name=\"id\"").count();
            if found == number {
                return shown;
            }
            let changes = async || {
                (open(&mut browser.clone(), LIST).await.text.matches("name=\"id\"").count() != found).then_some(())
            };
            eventually(&format!("{number} failed events, now {found}"), changes).await;
        }
    }

    /// Retries an event that fails again, and finds the new failure one link away.
    async fn fails_again(&mut self, list: &Page, id: &str) {
        let form = list.form(&[("id", id)]);
        let retried = self.browser.post(&format!("{LIST}/retry"), &form).await;
        let told = retried.location().to_owned();
        let mut browser = self.browser.clone();
        let again = async || {
            let text = open(&mut browser.clone(), &told).await.text;
            text.contains("Show the 1 that failed since").then_some(text)
        };
        let text = eventually("it failed again", again).await;
        let path = text.split("that failed since").next().and_then(|before| before.rsplit("<a href=\"").next());
        let path = path
            .and_then(|rest| rest.split('"').next())
            .expect("it is a link")
            .replace("&amp;", "&")
            .replace("&#38;", "&");
        let shown = open(&mut browser, &path).await;
        assert_eq!(boxes(&shown), [id], "{path}: {}", shown.text);
    }

    /// Returns the URL of the platform's database.
    pub(super) fn postgres_url(&self) -> &str {
        &self.servers.places.postgres_url
    }

    pub(super) fn heal(&self) {
        std::fs::remove_file(&self.switch).expect("it is there");
    }
}

/// Returns the ids of the checkboxes of a list.
fn boxes(shown: &Page) -> Vec<String> {
    let values = shown.text.split("name=\"id\" value=\"").skip(1);
    values.map(|rest| rest.split('"').next().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn what_failed_is_retried_from_forms_and_goes_on() {
    let mut failing = Failing::start().await;
    let ids = failing.park(&["a", "b", "c"]).await;
    let list = failing.wait_for_count(6).await;
    let overview = open(&mut failing.browser, "/ui/operate").await;
    assert!(overview.text.contains("6 failed events wait"), "{}", overview.text);
    let first = &boxes(&list)[0];
    let one = open(&mut failing.browser, &format!("{LIST}/{first}")).await;
    assert!(one.text.contains("target.changed") && one.text.contains("No later event"), "{}", one.text);
    assert!(one.text.contains("&#60;script&#62;alert(1)") && !one.text.contains("<script>alert"), "{}", one.text);
    let file = failing.browser.get(&format!("{LIST}/{first}/payload")).await;
    assert_eq!(
        (&file.headers["content-type"], file.status),
        (&"application/json".parse().expect("it is one"), StatusCode::OK)
    );
    assert!(file.headers["content-disposition"].to_str().is_ok_and(|value| value.starts_with("attachment")));

    // Nothing is done without boxes, and nothing without the token of the page.
    let nothing = failing.browser.post(&format!("{LIST}/retry"), &list.hidden()).await;
    assert!(open(&mut failing.browser, nothing.location()).await.text.contains("select failed events first"));
    let untold = failing.browser.post(&format!("{LIST}/retry"), &[("id".to_owned(), first.clone())]).await;
    assert_eq!(untold.status, StatusCode::FORBIDDEN, "{}", untold.text);
    assert_closed(&untold);

    failing.fails_again(&list, first).await;
    failing.heal();
    let list = failing.wait_for_count(6).await;
    let form = list.form(&[("id", first)]);
    let retried = failing.browser.post(&format!("{LIST}/retry"), &form).await;
    assert_eq!(retried.status, StatusCode::SEE_OTHER, "{}", retried.text);
    assert!(open(&mut failing.browser, retried.location()).await.text.contains("1 failed event was retried"));
    failing.wait_for_count(5).await;
    // The same form once more is the same command, or one about what is gone.
    let again = failing.browser.post(&format!("{LIST}/retry"), &form).await;
    assert_eq!(again.status, StatusCode::SEE_OTHER, "{}", again.text);

    let confirm = open(&mut failing.browser, &format!("{LIST}/retry?all=1&view=targets_index")).await;
    assert!(confirm.text.contains("targets_index") && confirm.text.contains("Retry "), "{}", confirm.text);
    let all = failing.browser.post(&format!("{LIST}/retry"), &confirm.hidden()).await;
    assert_eq!(all.status, StatusCode::SEE_OTHER, "{}", all.text);
    failing.retries_all().await;
    failing.wait_for_count(0).await;
    for id in ids {
        let target = failing.client.get_target(&id, None).await;
        assert_eq!(target.body["target"]["target"]["name"], "<script>alert(1)</script>", "{}", target.body);
    }
    let log = open(&mut failing.browser, "/ui/operate/log?type=failed_event").await;
    assert!(log.text.contains("operator") && log.text.contains("failed_event.retried"), "{}", log.text);
}

#[tokio::test]
async fn what_fails_after_the_page_was_shown_is_not_retried_with_all() {
    let mut failing = Failing::start().await;
    failing.park(&["a", "b"]).await;
    failing.wait_for_count(4).await;
    let all = open(&mut failing.browser, &format!("{LIST}/retry?all=1")).await;
    assert!(all.text.contains("Retry 4 failed events?") && all.text.contains("fail later stay"), "{}", all.text);
    let later = failing.client.create_target("c").await.expect("it is made");
    failing.wait_for_count(6).await;
    failing.heal();
    let retried = failing.browser.post(&format!("{LIST}/retry"), &all.hidden()).await;
    assert!(retried.location().contains("done=4"), "{} {}", retried.location(), retried.text);
    let left = failing.wait_for_count(2).await;
    assert_eq!(left.text.matches(&format!(">{later}</bdi>")).count(), 2, "{}", left.text);
}

#[tokio::test]
async fn what_is_discarded_has_a_reason_and_is_what_was_confirmed() {
    let mut failing = Failing::start().await;
    failing.park(&["a", "b"]).await;
    let database = connect(&failing.servers.places.postgres_url).await;
    let hostile = "update platform.failed_events set error = '\"><script>alert(2)</script>' || repeat('x', 2000)";
    database.execute(hostile, &[]).await.expect("it can be changed");
    let list = failing.wait_for_count(4).await;
    assert!(list.text.contains("&#60;script&#62;alert(2)") && !list.text.contains("<script>alert"), "{}", list.text);
    let first = boxes(&list)[0].clone();
    let mark = "insert into platform.retries values ($1, 'system', 'somebody', now())";
    let number: i64 = first.parse().expect("an id is a number");
    database.execute(mark, &[&number]).await.expect("the table is there");
    let retried = open(&mut failing.browser, &format!("{LIST}?state=FAILED_EVENT_STATE_RETRYING")).await;
    assert_eq!((boxes(&retried), retried.text.matches("Being retried</span>").count()), (vec![first.clone()], 1));
    let one = open(&mut failing.browser, &format!("{LIST}/{first}")).await;
    assert!(one.text.contains("Being retried by <bdi class=\"code\">somebody</bdi> since"), "{}", one.text);
    let asked = failing.browser.post(&format!("{LIST}/discard"), &list.form(&[("id", &first)])).await;
    assert_eq!(asked.status, StatusCode::SEE_OTHER, "{}", asked.text);
    let confirm = open(&mut failing.browser, asked.location()).await;
    assert!(confirm.text.contains("Discard 1 failed event?") && !confirm.text.contains("<script>"), "{}", confirm.text);

    for (reason, told) in
        [("", "Enter the reason"), ("  ", "Enter the reason"), (&"x".repeat(1001), "1,000 characters")]
    {
        let wrong = failing.browser.post(&format!("{LIST}/discard"), &confirm.form(&[("reason", reason)])).await;
        assert_eq!(wrong.status, StatusCode::BAD_REQUEST, "{}", wrong.text);
        assert!(wrong.text.contains(told) && wrong.text.contains("aria-invalid"), "{told}: {}", wrong.text);
        assert_closed(&wrong);
    }
    failing.wait_for_count(4).await;
    let form = confirm.form(&[("reason", "known <b>bug</b>")]);
    let done = failing.browser.post(&format!("{LIST}/discard"), &form).await;
    assert!(open(&mut failing.browser, done.location()).await.text.contains("1 failed event was discarded"));
    let left = boxes(&failing.wait_for_count(3).await);
    assert!(!left.contains(&first));
    let discarded = open(&mut failing.browser, &format!("{LIST}?state=FAILED_EVENT_STATE_DISCARDED")).await;
    assert!(discarded.text.contains(&format!("{LIST}/{first}\"")) && !discarded.text.contains("Retry selected"));
    let one = open(&mut failing.browser, &format!("{LIST}/{first}")).await;
    assert!(one.text.contains("known &#60;b&#62;bug") && !one.text.contains("Discard…"), "{}", one.text);

    // What fails after the page was shown stays.
    let all = open(&mut failing.browser, &format!("{LIST}/discard?all=1")).await;
    let later = "update platform.failed_events set last_failed = last_failed + interval '1 hour' where id = $1";
    let one: i64 = left[0].parse().expect("an id is a number");
    assert_eq!(database.execute(later, &[&one]).await.expect("it can be changed"), 1);
    let done = failing.browser.post(&format!("{LIST}/discard"), &all.form(&[("reason", "known")])).await;
    assert!(done.location().contains("done=2"), "{} {}", done.location(), done.text);
    assert_eq!(boxes(&failing.wait_for_count(1).await), [left[0].clone()]);
    let log = open(&mut failing.browser, "/ui/operate/log?event=failed_event.discarded").await;
    assert_eq!(log.text.matches("failed_event.discarded</bdi>").count(), 3, "{}", log.text);

    // What somebody has retried already is retried once more.
    assert_eq!(database.execute(mark, &[&one]).await.expect("the table is there"), 1);
    failing.heal();
    let list = failing.wait_for_count(1).await;
    assert!(list.text.contains("Being retried</span>"), "{}", list.text);
    let retried = failing.browser.post(&format!("{LIST}/retry"), &list.form(&[("id", &left[0])])).await;
    assert!(retried.location().contains("done=1"), "{} {}", retried.location(), retried.text);
    failing.wait_for_count(0).await;
}

#[tokio::test]
async fn more_than_a_hundred_are_discarded_only_by_who_types_their_number() {
    let mut failing = Failing::start().await;
    let (url, instance_id) = (&failing.servers.places.postgres_url, &failing.platform.bootstrap.instance_id);
    note(url, instance_id, "select 'target', n::text, n from generate_series(1, 101) as n").await;
    let confirm = open(&mut failing.browser, &format!("{LIST}/discard?all=1")).await;
    assert!(confirm.text.contains("Discard 101 failed events"), "{}", confirm.text);
    for number in ["", "100", "all"] {
        let form = confirm.form(&[("reason", "known"), ("count", number)]);
        let wrong = failing.browser.post(&format!("{LIST}/discard"), &form).await;
        assert_eq!(wrong.status, StatusCode::BAD_REQUEST, "{}", wrong.text);
        assert!(wrong.text.contains("Enter 101, the number of failed events"), "{}", wrong.text);
        assert_closed(&wrong);
    }
    let form = confirm.form(&[("reason", "known"), ("count", "101")]);
    let done = failing.browser.post(&format!("{LIST}/discard"), &form).await;
    assert!(done.location().contains("done=101"), "{} {}", done.location(), done.text);
    // The projection knows none of them, which were made by hand.
    let is_told = async || {
        let log = open(&mut failing.browser.clone(), "/ui/operate/log?event=failed_event.discarded").await;
        log.text.contains("of 101<").then_some(())
    };
    eventually("each has an event in the log", is_told).await;
}

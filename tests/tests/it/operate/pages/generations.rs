//! Generations of a projection on its page, and the effects of its buttons.

use reqwest::StatusCode;
use tests::{
    browser::{Browser, Page, link},
    eventually,
    platform::Platform,
};

use super::{assert_closed, live::Live, open};

const TARGETS: &str = "/ui/operate/projections/targets";

/// Presses a button of the page of a projection.
async fn press(browser: &mut Browser, path: &str, shown: &Page, what: &str) -> Page {
    let answer = browser.post(path, &shown.form(&[("what", what)])).await;
    assert_eq!((answer.status, answer.location()), (StatusCode::SEE_OTHER, path), "{what}: {}", answer.text);
    open(browser, path).await
}

#[tokio::test]
async fn a_page_has_a_projection_built_anew_and_exchanged() {
    let platform = Platform::start().await;
    platform.ready().await;
    let mut browser = Browser::signed_in(&platform.bootstrap.issuer, &link(&platform.data(), &[])).await;
    let shown = open(&mut browser, TARGETS).await;
    assert!(
        shown.text.contains("There is only the active generation")
            && !shown.text.contains("<table>\n<caption><span id=\"generations")
    );
    let shown = press(&mut browser, TARGETS, &shown, "replay").await;
    assert!(
        shown.text.contains("<th scope=\"row\">next</th>") && !shown.text.contains("value=\"replay\""),
        "{}",
        shown.text
    );
    let mut live = Live::of(&browser, &shown).await;
    live.wait_for_text("gb-next", "100 %").await;
    live.wait_for_text("fresh", "Show what has changed").await;
    assert_eq!(live.values["gv-next"], 100, "the bar is full");
    let mut looking = browser.clone();
    let equal = async || {
        let shown = open(&mut looking.clone(), TARGETS).await;
        shown.text.contains("<td>Equal</td>").then_some(shown)
    };
    let shown = eventually("it is compared", equal).await;
    assert!(
        shown.text.contains("value=\"switch\" class=\"primary\"") && shown.text.contains(">100 %<"),
        "{}",
        shown.text
    );
    let shown = press(&mut browser, TARGETS, &shown, "switch").await;
    assert!(shown.text.contains("<th scope=\"row\">previous</th>"), "{}", shown.text);
    let shown = press(&mut browser, TARGETS, &shown, "rollback").await;
    assert!(shown.text.contains("<th scope=\"row\">next</th>"), "{}", shown.text);
    let shown = press(&mut browser, TARGETS, &shown, "drop-next").await;
    assert!(shown.text.contains("There is only the active generation"), "{}", shown.text);

    // What is not there, or not of this page, changes nothing.
    let refused = browser.post(TARGETS, &shown.form(&[("what", "switch")])).await;
    assert_closed(&refused);
    assert!(refused.status == StatusCode::BAD_REQUEST && refused.text.contains("replay it first"), "{}", refused.text);
    let unknown = browser.post(TARGETS, &shown.form(&[("what", "anything")])).await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
    let nothing = browser.post("/ui/operate/projections/nothing", &shown.form(&[("what", "replay")])).await;
    assert_eq!(nothing.status, StatusCode::NOT_FOUND);
    let foreign =
        browser.post(TARGETS, &[("what".to_owned(), "replay".to_owned()), ("token".to_owned(), "x".to_owned())]).await;
    assert_eq!(foreign.status, StatusCode::FORBIDDEN, "{}", foreign.text);
    looking = browser.clone();
    assert!(open(&mut looking, TARGETS).await.text.contains("There is only the active generation"));
}

#[tokio::test]
async fn a_page_has_a_search_index_built_anew_and_exchanged() {
    let platform = Platform::start().await;
    platform.ready().await;
    let mut browser = Browser::signed_in(&platform.bootstrap.issuer, &link(&platform.data(), &[])).await;
    let index = "/ui/operate/projections/targets_index";
    let shown = open(&mut browser, index).await;
    assert!(shown.text.contains("There is only the active generation"), "{}", shown.text);
    press(&mut browser, index, &shown, "replay").await;
    let looking = browser.clone();
    let equal = async || {
        let shown = open(&mut looking.clone(), index).await;
        shown.text.contains("<td>Equal</td>").then_some(shown)
    };
    let shown = eventually("it is compared", equal).await;
    let shown = press(&mut browser, index, &shown, "switch").await;
    assert!(shown.text.contains("<th scope=\"row\">previous</th>"), "{}", shown.text);
    let shown = press(&mut browser, index, &shown, "drop-previous").await;
    assert!(shown.text.contains("There is only the active generation"), "{}", shown.text);
}

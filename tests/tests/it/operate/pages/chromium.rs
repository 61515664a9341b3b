//! The pages in a browser: used, and checked by axe in light and dark, narrow and wide, with and without scripts.

use tests::{
    auditor::connect,
    browser::link,
    chromium::{
        Chromium, ENTER, SHIFT, TAB,
        appearance::{DESKTOP, long_names},
    },
    eventually, tools,
};

use super::mending::Failing;
use crate::fault::failed_events::note;

/// Inserts many failed events of aggregates with long ids, and with long errors.
async fn note_many(failing: &Failing) {
    let (url, instance_id) = (failing.postgres_url(), &failing.platform.bootstrap.instance_id);
    let found =
        "select 'target', repeat('W', 196) || to_char(n, 'FM0000'), 1000 * n from generate_series(1, 1284) as n";
    note(url, instance_id, found).await;
    let long = "update platform.failed_events set error = repeat('w', 400) where error = 'made by hand'";
    assert_eq!(connect(url).await.execute(long, &[]).await.expect("the table is there"), 1284);
}

#[tokio::test]
async fn what_is_long_and_what_is_many_fits_into_narrow_windows() {
    let Some((chromium, axe)) = Chromium::with_axe().await else { return };
    let mut failing = Failing::start().await;
    let at = |path: &str| format!("{}/ui/operate{path}", failing.platform.bootstrap.issuer);
    let (list, all) = (at("/failed"), [at("/failed/retry?all=1"), at("/failed/discard?all=1"), at("/projections")]);
    failing.park(&["a"]).await;
    let mut ids = vec![];
    for name in long_names() {
        ids.push(failing.platform.client().await.create_target(&name).await.expect("it is made"));
    }
    failing.wait_for_count(8).await;
    chromium.visit(&link(&failing.platform.data(), &[])).await;
    chromium.click("main button").await;
    chromium.wait_for_text("8 failed events wait").await;
    for ((id, name), kind) in ids.iter().zip(long_names()).zip(["word", "hebrew", "picture"]) {
        chromium.visit(&format!("{list}?aggregate={id}")).await;
        chromium.click("td a").await;
        chromium.wait_for_text(&name).await;
        chromium.assert_usable(&axe, &format!("one-long-{kind}")).await;
    }
    note_many(&failing).await;
    for (name, path, says) in [
        ("many", &list, "25 of 1,292"),
        ("many-retry", &all[0], "Retry 1,292 failed events?"),
        ("many-discard", &all[1], "discards 1,000; 1,292 match"),
        ("many-projections", &all[2], "Reactions"),
    ] {
        chromium.visit(path).await;
        chromium.wait_for_text(says).await;
        chromium.assert_usable(&axe, name).await;
    }
}

#[tokio::test]
async fn failed_events_are_discarded_and_retried_by_keyboard() {
    let Some(chromium) = Chromium::open().await else { return tools::skip_unless_root("Chromium") };
    let mut failing = Failing::start().await;
    failing.park(&["a"]).await;
    let list = format!("{}/ui/operate/failed", failing.platform.bootstrap.issuer);
    chromium.set_appearance(DESKTOP).await;
    chromium.visit(&link(&failing.platform.data(), &[])).await;
    chromium.press(&[ENTER]).await;
    chromium.wait_for_text("2 failed events wait").await;

    selects(&chromium, &list).await;
    chromium.press_until(&[SHIFT, TAB], "form button.dangerous").await;
    chromium.press(&[ENTER]).await;
    chromium.wait_for_text("Discard 1 failed event?").await;
    chromium.press_until(&[TAB], "main form button").await;
    chromium.press(&[ENTER]).await;
    chromium.wait_for_text("Enter the reason").await;
    assert_eq!(chromium.run("return document.activeElement.id").await, "reason", "it is where the mistake is");
    for key in "known".chars() {
        chromium.press(&[key]).await;
    }
    chromium.press_until(&[TAB], "main form button").await;
    chromium.press(&[' ']).await;
    chromium.wait_for_text("1 failed event was discarded").await;

    failing.wait_for_count(1).await;
    failing.heal();
    selects(&chromium, &list).await;
    chromium.press_until(&[SHIFT, TAB], "form button.primary").await;
    assert_eq!(chromium.run("return document.activeElement.textContent").await, "Retry selected");
    chromium.press(&[ENTER]).await;
    chromium.wait_for_text("1 failed event was retried").await;
    failing.wait_for_count(0).await;
}

/// Moves past the menu to the first failed event of the list, and selects it.
async fn selects(chromium: &Chromium, list: &str) {
    chromium.visit(list).await;
    chromium.press_until(&[TAB], "a.skip").await;
    chromium.press(&[ENTER]).await;
    chromium.press_until(&[TAB], "input[name=id]").await;
    chromium.press(&[' ']).await;
    assert_eq!(chromium.run("return document.querySelectorAll('input:checked').length").await, 1);
}

#[tokio::test]
async fn everybody_can_use_the_pages_in_a_browser_with_and_without_scripts() {
    let Some((chromium, axe)) = Chromium::with_axe().await else { return };
    let mut failing = Failing::start().await;
    let base = failing.platform.bootstrap.issuer.clone();
    let at = |path: &str| format!("{base}/ui/operate{path}");

    chromium.visit(&at("")).await;
    chromium.assert_usable(&axe, "signed-out").await;
    chromium.visit(&link(&failing.platform.data(), &[])).await;
    chromium.assert_usable(&axe, "sign-in").await;
    chromium.click("main button").await;
    chromium.wait_for_text("All ").await;
    chromium.visit(&at("/failed")).await;
    chromium.assert_usable(&axe, "failed-none").await;
    failing.park(&["a", "b", "c"]).await;
    for (name, path) in [
        ("overview", ""),
        ("nodes", "/nodes"),
        ("projections", "/projections"),
        ("projection", "/projections/targets"),
        ("failed", "/failed?aggregate=&view=targets"),
        ("retry", "/failed/retry?all=1&view=targets"),
        ("discard", "/failed/discard?all=1"),
        ("log", "/log"),
        ("event", "/log/1"),
        ("nowhere", "/nowhere"),
    ] {
        chromium.visit(&at(path)).await;
        chromium.assert_usable(&axe, name).await;
    }

    // It keeps itself up to date, and says nothing of rules that it breaks.
    chromium.visit(&at("/projections")).await;
    let shown = chromium.run("return document.getElementById('as-of').textContent").await;
    let moves = async || {
        let now = chromium.run("return document.getElementById('as-of').textContent").await;
        (now != shown).then_some(())
    };
    eventually("numbers that move", moves).await;
    chromium.click("#pause").await;
    chromium.wait_for_text("Resume").await;
    let complaints = chromium.complaints().await;
    let breaks = |line: &&String| line.contains("Content Security Policy") || line.contains("TrustedHTML");
    assert_eq!(complaints.iter().find(breaks), None);

    discards(&chromium, &at("/failed"), &axe).await;
    failing.wait_for_count(5).await;
    failing.heal();
    retries(&chromium, &at("/failed")).await;
    failing.wait_for_count(4).await;
    chromium.runs_scripts(false).await;
    retries(&chromium, &at("/failed")).await;
    failing.wait_for_count(3).await;
    chromium.click(".who button").await;
    chromium.wait_for_text("You are signed out").await;
}

/// Discards the first failed event, with a mistake on the way.
async fn discards(chromium: &Chromium, list: &str, axe: &str) {
    chromium.visit(list).await;
    chromium.click("td a").await;
    chromium.wait_for_text("failed in").await;
    chromium.assert_usable(axe, "one").await;
    chromium.click("a.dangerous").await;
    chromium.wait_for_text("Discard 1 failed event?").await;
    chromium.click("main form button").await;
    chromium.wait_for_text("Enter the reason").await;
    chromium.assert_usable(axe, "discard-error").await;
    assert_eq!(chromium.run("return document.activeElement.id").await, "reason");
    chromium.fill("#reason", "known").await;
    chromium.click("main form button").await;
    chromium.wait_for_text("1 failed event was discarded").await;
}

/// Retries the first failed event of the list.
async fn retries(chromium: &Chromium, list: &str) {
    chromium.visit(list).await;
    chromium.click("input[name=id]").await;
    chromium.click("main form[method=post] button.primary").await;
    chromium.wait_for_text("1 failed event was retried").await;
}

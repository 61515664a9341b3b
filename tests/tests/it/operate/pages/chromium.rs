//! The pages in a browser with scripts: clicked, looked at by axe in light and dark, narrow and wide, and without scripts too.

use std::fs;

use tests::{browser::link, chromium::Chromium, eventually, tools};

use super::mending::Failing;

#[tokio::test]
async fn everybody_can_use_the_pages_in_a_browser_with_and_without_scripts() {
    let Some(chromium) = Chromium::open().await else { return tools::skip_unless_root("Chromium") };
    let Some(axe) = tools::installed("axe") else { return tools::skip("axe") };
    let axe = fs::read_to_string(axe.join("node_modules/axe-core/axe.min.js")).expect("it is there");
    let mut failing = Failing::start().await;
    let base = failing.platform.bootstrap.issuer.clone();
    let at = |path: &str| format!("{base}/ui/operate{path}");

    chromium.visit(&at("")).await;
    chromium.assert_usable(&axe, "signed-out").await;
    chromium.visit(&link(&failing.platform.data(), &[])).await;
    chromium.assert_usable(&axe, "sign-in").await;
    chromium.click("main button").await;
    chromium.says("All ").await;
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
    chromium.says("Resume").await;
    let complaints = chromium.complaints().await;
    let breaks = |line: &&String| line.contains("Content Security Policy") || line.contains("TrustedHTML");
    assert_eq!(complaints.iter().find(breaks), None);

    discards(&chromium, &at("/failed"), &axe).await;
    failing.shows(5).await;
    failing.heal();
    retries(&chromium, &at("/failed")).await;
    failing.shows(4).await;
    chromium.runs_scripts(false).await;
    retries(&chromium, &at("/failed")).await;
    failing.shows(3).await;
    chromium.click(".who button").await;
    chromium.says("You are signed out").await;
}

/// Discards the first failed event, with a mistake on the way.
async fn discards(chromium: &Chromium, list: &str, axe: &str) {
    chromium.visit(list).await;
    chromium.click("td a").await;
    chromium.says("failed in").await;
    chromium.assert_usable(axe, "one").await;
    chromium.click("a.dangerous").await;
    chromium.says("Discard 1 failed event?").await;
    chromium.click("main form button").await;
    chromium.says("Enter the reason").await;
    chromium.assert_usable(axe, "discard-error").await;
    assert_eq!(chromium.run("return document.activeElement.id").await, "reason");
    chromium.fill("#reason", "known").await;
    chromium.click("main form button").await;
    chromium.says("1 failed event was discarded").await;
}

/// Retries the first failed event of the list.
async fn retries(chromium: &Chromium, list: &str) {
    chromium.visit(list).await;
    chromium.click("input[name=id]").await;
    chromium.click("main form[method=post] button.primary").await;
    chromium.says("1 failed event was tried again").await;
}

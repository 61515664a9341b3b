//! Names that were chosen to do harm: every page shows them as text.

use reqwest::Method;
use serde_json::{Value, json};
use tests::{
    chromium::{
        Chromium,
        appearance::{NARROW, PHONE},
    },
    client::{done, send},
    eventually,
};

use super::{
    super::super::flow::{API, Flow, PASSWORD},
    SUBMIT, callback, flow, sent_to,
};

/// How many characters a name may have.
const LONGEST: usize = 200;
/// How many characters the text of a link may have.
const LONGEST_LINK: usize = 64;

/// Returns names with markup, with characters that reverse what follows, without a space, and with many marks on a
/// letter.
fn names() -> Vec<(&'static str, String)> {
    let marks: String = "\u{301}\u{323}\u{489}\u{20dd}".chars().cycle().take(LONGEST - 4).collect();
    vec![
        ("a script", "<script>window.hacked=1</script>".to_owned()),
        ("an image", "\"'><img src=x onerror=window.hacked=1>".to_owned()),
        ("an end", "</title></h1></bdi><style>*{display:none}</style>&lt;b&gt;{app}".to_owned()),
        ("reversed", "\u{202e}drawkcab".to_owned()),
        ("isolated", "\u{2069}\u{202e}drawkcab".to_owned()),
        ("embedded", "\u{202b}\u{202b}drawkcab".to_owned()),
        ("right to left", "חנות \u{202e}(1)".to_owned()),
        ("long", "\u{fdfd}W".repeat(LONGEST / 2)),
        ("marks", format!("Zalg{marks}")),
    ]
}

/// Returns a text without the characters that only set directions, which pages may leave away.
fn readable(text: &str) -> String {
    text.chars().filter(|char| !matches!(char, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')).collect()
}

/// Fails unless the page shows texts as they are, and has nothing of its own from them.
async fn assert_shows(chromium: &Chromium, case: &str, texts: &[&str]) {
    let page = chromium
        .run(
            "return {
                text: document.querySelector('main').innerText,
                hacked: typeof window.hacked,
                elements: document.querySelectorAll('main script, main style, main b, img[src=x]').length,
            };",
        )
        .await;
    assert_eq!((&page["hacked"], &page["elements"]), (&json!("undefined"), &json!(0)), "{case}: {page}");
    let shown = readable(page["text"].as_str().unwrap_or_default());
    for text in texts {
        assert!(shown.contains(&readable(text)), "{case}: {text:?} is missing: {shown:?}");
    }
    for appearance in [PHONE, NARROW] {
        chromium.set_appearance(appearance).await;
        let width = chromium.run("return document.documentElement.scrollWidth").await;
        assert_eq!(width, appearance.width, "{case} does not fit: {}", chromium.url().await);
    }
}

/// Fails unless the characters of a text of the page stand one after the other, from left to right.
async fn assert_reads_forward(chromium: &Chromium, case: &str, sentence: &str) {
    let script = format!(
        "const sentence = {};
        const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
        while (walker.nextNode()) {{
            const node = walker.currentNode, at = node.data.indexOf(sentence);
            if (at < 0) continue;
            const boxes = [...sentence].map((_, index) => {{
                const range = document.createRange();
                range.setStart(node, at + index);
                range.setEnd(node, at + index + 1);
                return range.getBoundingClientRect();
            }});
            return boxes.every((box, index) => index === 0 || box.top > boxes[index - 1].top + box.height / 2
                || box.left >= boxes[index - 1].left);
        }}
        return 'missing';",
        json!(sentence)
    );
    assert_eq!(chromium.run(&script).await, json!(true), "{case}: {sentence:?}");
}

/// Opens a page until it has a text, which has just been changed.
async fn visit_until(chromium: &Chromium, url: &str, text: &str) {
    eventually(text, async || {
        chromium.visit(url).await;
        let shown = chromium.run("return document.querySelector('main').innerText").await;
        readable(shown.as_str().unwrap_or_default()).contains(&readable(text)).then_some(())
    })
    .await;
}

/// Changes something.
async fn change(flow: &Flow, path: &str, body: &Value) {
    let changed = flow.admin.request(Method::PATCH, path).header("prefer", "wait=10").json(body);
    let changed = send(changed).await;
    assert!(changed.status.is_success(), "{path}: {}", changed.body);
}

/// Creates a person whose login name and name are this one.
async fn person(flow: &Flow, name: &str) {
    let user = json!({ "username": name, "human": {
        "data": { "given_name": name, "family_name": name }, "email": { "address": "ada@example.com" },
        "password": { "password": PASSWORD },
    } });
    done(&flow.admin, &format!("{API}/users"), user).await;
}

/// Logs somebody in on pages that all show the name of an app, an organization and a person.
async fn assert_logs_in(chromium: &Chromium, flow: &Flow, case: &str, name: &str) {
    let issuer = &flow.tenant.bootstrap.issuer;
    visit_until(chromium, &sent_to(flow, &[]), &format!("Sign in to {name}")).await;
    assert_shows(chromium, &format!("{case}: name"), &[name]).await;
    assert_reads_forward(chromium, case, "Sign in to").await;
    chromium.fill("#username", name).await;
    chromium.click(SUBMIT).await;
    chromium.wait_for_text("Enter your password").await;
    assert_shows(chromium, &format!("{case}: password"), &[name]).await;
    chromium.fill("#password", PASSWORD).await;
    chromium.click(SUBMIT).await;
    chromium.wait_for_text("API").await;
    assert!(chromium.url().await.starts_with(&callback(flow)), "{case}: {}", chromium.url().await);

    chromium.visit(&sent_to(flow, &[("prompt", "select_account")])).await;
    chromium.wait_for_text("Choose an account").await;
    assert_shows(chromium, &format!("{case}: accounts"), &[name]).await;
    chromium.click("a[href^='/ui/login/remove']").await;
    chromium.wait_for_text("Remove an account").await;
    assert_shows(chromium, &format!("{case}: remove"), &[name]).await;

    let of_organization = format!("The app belongs to {name} and takes you to");
    visit_until(chromium, &sent_to(flow, &[("prompt", "consent")]), &of_organization).await;
    assert_shows(chromium, &format!("{case}: consent"), &[name, &format!("{name} asks for access")]).await;
    assert_reads_forward(chromium, case, "asks for access").await;
    assert_reads_forward(chromium, case, "and takes you to").await;

    chromium.visit(issuer).await;
    chromium.wait_for_text("You are signed in").await;
    assert_shows(chromium, &format!("{case}: home"), &[name]).await;
    chromium.visit(&format!("{issuer}/ui/logout")).await;
    chromium.wait_for_text("Sign out?").await;
    assert_shows(chromium, &format!("{case}: logout"), &[name]).await;
    chromium.click(SUBMIT).await;
    chromium.wait_for_text("You are signed out").await;
}

#[tokio::test]
async fn names_of_people_apps_and_organizations_are_text() {
    let Some(chromium) = Chromium::open().await else { return tests::tools::skip_unless_root("Chromium") };
    let flow = flow().await;
    let organization = &flow.tenant.bootstrap.organization_id;
    for (case, name) in names() {
        change(&flow, &format!("{API}/apps/{}", flow.app.id), &json!({ "name": name })).await;
        change(&flow, &format!("{API}/organizations/{organization}"), &json!({ "name": name })).await;
        person(&flow, &name).await;
        assert_logs_in(&chromium, &flow, case, &name).await;
    }
    let complaints = chromium.complaints().await;
    let is_of_rules = |line: &&String| line.contains("Content Security Policy") || line.contains("Trusted");
    assert!(!complaints.iter().any(|line| is_of_rules(&line)), "nothing was even tried: {complaints:#?}");
}

#[tokio::test]
async fn names_and_texts_of_an_instance_are_text() {
    let Some(chromium) = Chromium::open().await else { return tests::tools::skip_unless_root("Chromium") };
    let flow = flow().await;
    let operator = flow.tenant.operator().await;
    let instance = format!("{API}/instances/{}", flow.tenant.bootstrap.instance_id);
    for (case, name) in names() {
        let renamed = operator.request(Method::PATCH, &instance).header("prefer", "wait=10");
        let renamed = send(renamed.json(&json!({ "name": name }))).await;
        assert!(renamed.status.is_success(), "{case}: {}", renamed.body);
        let link: String = name.chars().take(LONGEST_LINK).collect();
        let help = json!({ "customLink": { "set": "https://shop.example/more" }, "customLinkText": { "set": link } });
        change(&flow, "/settings/v3alpha/help", &help).await;
        let texts = json!({ "texts": { "name.label": { "set": name }, "name.label_email": { "set": name } } });
        change(&flow, "/settings/v3alpha/texts?language=en", &texts).await;
        eventually(case, async || {
            chromium.visit(&sent_to(&flow, &[])).await;
            let shown = chromium.run(
                "return [document.querySelector('img').alt, document.querySelector('label').textContent,
                    document.querySelector('footer a[href*=more]')?.textContent];",
            );
            (shown.await == json!([name, name, link])).then_some(())
        })
        .await;
        assert_shows(&chromium, case, &[&name, "Sign in to Shop"]).await;
        assert_reads_forward(&chromium, case, "Sign in to Shop").await;
        assert_reads_forward(&chromium, case, "Identity Platform").await;
    }
}

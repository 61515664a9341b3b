//! Forged forms, which the platform has not given to this browser for this request: none of them logs anybody in.

use reqwest::StatusCode;
use tests::{browser::Page, tenant::Tenant};

use super::{
    super::flow::{CALLBACK, Flow, PASSWORD},
    back, browser, on_pages, start, title,
};

/// Asserts that nobody was logged in.
fn assert_out(case: &str, shown: &Page) {
    assert!(!shown.location().starts_with(CALLBACK), "{case}: {}", shown.location());
    let is_told = [StatusCode::FORBIDDEN, StatusCode::BAD_REQUEST, StatusCode::NOT_FOUND].contains(&shown.status);
    let is_refused = is_told || ["/ui/login?", "/ui/login/accounts?"].iter().any(|it| shown.location().starts_with(it));
    assert!(is_refused, "{case}: {} {}", shown.status, shown.text);
}

#[tokio::test]
async fn a_form_is_of_one_browser_one_request_and_one_origin() {
    let flow = start().await;
    let fields = [("username", flow.person.1.as_str()), ("password", PASSWORD)];
    let mut own = browser(&flow.tenant);
    let asked = flow.sent_by(&mut own, &[]).await;
    let asked = flow.send(&mut own, &asked, &[("username", &flow.person.1)]).await;
    let mut other = browser(&flow.tenant);
    let others = flow.sent_by(&mut other, &[]).await;
    let others = flow.send(&mut other, &others, &[("username", &flow.person.1)]).await;
    let path = "/ui/login/password";

    assert_out("a form of another browser", &own.clone().post(path, &others.form(&fields)).await);
    assert_out("a browser without cookies", &browser(&flow.tenant).post(path, &asked.form(&fields)).await);
    let mut mixed = asked.form(&fields);
    mixed[0].1.clone_from(&others.hidden()[0].1);
    assert_out("another request", &own.clone().post(path, &mixed).await);
    let mut without = asked.form(&fields);
    without.remove(1);
    assert_out("no token", &own.clone().post(path, &without).await);
    for (case, sent_from) in [
        ("a page of another site", vec![("sec-fetch-site", "cross-site"), ("origin", "https://evil.example")]),
        ("a page of a sibling", vec![("sec-fetch-site", "same-site"), ("origin", "null")]),
        ("another origin", vec![("origin", "https://evil.example")]),
        ("nothing that says where from", vec![]),
    ] {
        let mut forger = own.clone();
        forger.sent_from = sent_from.into_iter().map(|(name, value)| (name, value.to_owned())).collect();
        assert_out(case, &forger.post(path, &asked.form(&fields)).await);
    }
    let tab = flow.sent_by(&mut own, &[]).await;
    let tab = flow.send(&mut own, &tab, &[("username", &flow.person.1)]).await;
    let mut fixed = own.clone();
    let shown = flow.send(&mut own, &asked, &fields).await;
    back(&shown);
    assert_out("146: a form from before the login", &own.clone().post(path, &tab.form(&fields)).await);
    let hint = flow.sent_by(&mut fixed, &[("prompt", "none")]).await;
    assert_eq!(back(&hint)["error"], "login_required", "146: who knew the cookie from before is nobody");
    let told = back(&flow.sent_by(&mut own, &[("prompt", "none")]).await);
    assert_eq!(told.get("error"), None, "who has logged in is still logged in");
}

/// Security class S13: forms from another page, of another browser, or without a token.
#[tokio::test]
async fn no_form_of_a_login_is_taken_from_anywhere_else() {
    let flow = start().await;
    let (mut own, mut other) = (browser(&flow.tenant), browser(&flow.tenant));
    for browser in [&mut own, &mut other] {
        back(&flow.logs_in(browser, &flow.person.1, &[]).await);
    }
    let asked = flow.sent_by(&mut own, &[("prompt", "select_account")]).await;
    let others = flow.sent_by(&mut other, &[("prompt", "select_account")]).await;
    let fields = [
        ("account", flow.person.0.as_str()),
        ("username", &flow.person.1),
        ("password", PASSWORD),
        ("current", PASSWORD),
    ];
    let right = asked.form(&fields);
    let (mut foreign, mut without) = (right.clone(), right.clone());
    foreign[1].1.clone_from(&others.hidden()[1].1);
    without.remove(1);
    let mut forger = own.clone();
    forger.sent_from = vec![("sec-fetch-site", "cross-site".to_owned()), ("origin", "https://evil.example".to_owned())];
    let nobody = browser(&flow.tenant);
    let mut cells = 0;
    for step in ["name", "accounts", "remove", "password", "register", "change", "consent", "cancel"] {
        let path = format!("/ui/login/{step}");
        for (case, sender, form) in [
            ("a token of another browser", &own, &foreign),
            ("no token", &own, &without),
            ("nothing", &own, &vec![]),
            ("a page of another site", &forger, &right),
            ("a browser without cookies", &nobody, &right),
        ] {
            assert_out(&format!("{step}: {case}"), &sender.clone().post(&path, form).await);
            cells += 1;
        }
    }
    println!("{cells} forms that are not taken");
    let told = back(&flow.sent_by(&mut own, &[("prompt", "none")]).await);
    assert_eq!(told.get("error"), None, "who has logged in is still logged in");
    back(&own.post("/ui/login/accounts", &right).await);
}

#[tokio::test]
async fn nobody_registers_by_a_form_of_somebody_else() {
    let flow = start().await;
    let name = tests::tenant::new_name();
    let all = [("given_name", "Eve"), ("family_name", "X"), ("email", "eve@example.com"), ("username", name.as_str())];
    let fields = [&all[..], &[("password", PASSWORD)]].concat();
    let mut own = browser(&flow.tenant);
    let asked = flow.sent_by(&mut own, &[("prompt", "create")]).await;
    let mut other = browser(&flow.tenant);
    let others = flow.sent_by(&mut other, &[("prompt", "create")]).await;
    let path = "/ui/login/register";
    assert_eq!(asked.action(), path);
    assert_out("a form of another browser", &own.clone().post(path, &others.form(&fields)).await);
    assert_out("a browser without cookies", &browser(&flow.tenant).post(path, &asked.form(&fields)).await);
    let mut forger = own.clone();
    forger.sent_from = vec![("sec-fetch-site", "cross-site".to_owned()), ("origin", "https://evil.example".to_owned())];
    assert_out("a page of another site", &forger.post(path, &asked.form(&fields)).await);
    back(&flow.send(&mut own, &asked, &fields).await);
}

#[tokio::test]
async fn who_guesses_an_id_is_told_nothing_of_it() {
    let flow = start().await;
    let mut browser = browser(&flow.tenant);
    let shown = flow.sent_by(&mut browser, &[]).await;
    let request = shown.hidden()[0].1.clone();
    for page in ["refused", "consent", "change", "password"] {
        let path = format!("/ui/login/{page}?authRequest={request}&account={}", flow.person.0);
        let sent = browser.get(&path).await;
        let shown = flow.follow(&mut browser, sent).await;
        assert_eq!(title(&shown), "Sign in to Shop", "{page}");
        assert!(!shown.text.contains(&flow.person.1), "{page}: {}", shown.text);
    }
    let sent = browser.post("/ui/login/consent", &shown.form(&[("account", &flow.person.0)])).await;
    let shown = flow.follow(&mut browser, sent).await;
    assert!(!shown.text.contains(&flow.person.1), "{}", shown.text);
}

#[tokio::test]
async fn a_request_of_an_app_with_login_pages_of_its_own_ends_there() {
    let flow = Flow::with(super::App::public()).await;
    let request = flow.waiting(&[]).await;
    let mut browser = browser(&flow.tenant);
    for page in ["", "/name", "/password"] {
        let shown = browser.get(&format!("/ui/login{page}?authRequest={request}")).await;
        assert_eq!((shown.status, title(&shown)), (StatusCode::NOT_FOUND, "This sign-in has expired"), "{page}");
    }
}

#[tokio::test]
async fn a_cookie_is_of_one_instance_and_cannot_be_changed() {
    let flow = start().await;
    let mut own = browser(&flow.tenant);
    back(&flow.logs_in(&mut own, &flow.person.1, &[]).await);
    let other = Tenant::start().await;
    let admin = other.client().await;
    let elsewhere = Flow::on(other, admin, on_pages(&super::App::public())).await;
    let mut replayed = browser(&elsewhere.tenant);
    replayed.cookies.clone_from(&own.cookies);
    let shown = elsewhere.sent_by(&mut replayed, &[("prompt", "none")]).await;
    assert_eq!(back(&shown)["error"], "login_required", "another instance");
    let shown = elsewhere.sent_by(&mut replayed, &[]).await;
    assert_eq!(title(&shown), "Sign in to Shop");
    // The request of one instance is none of another.
    let request = shown.hidden()[0].1.clone();
    let foreign = own.get(&format!("/ui/login?authRequest={request}")).await;
    assert_eq!((foreign.status, title(&foreign)), (StatusCode::NOT_FOUND, "This sign-in has expired"));
    let (name, sealed) = own.cookies.iter().next().map(|(name, value)| (name.clone(), value.clone())).unwrap();
    for at in [0, sealed.len() / 2, sealed.len() - 1] {
        let mut changed = own.clone();
        let mut text = sealed.clone().into_bytes();
        text[at] = if text[at] == b'A' { b'B' } else { b'A' };
        changed.cookies.insert(name.clone(), String::from_utf8(text).unwrap());
        let shown = flow.sent_by(&mut changed, &[("prompt", "none")]).await;
        assert_eq!(back(&shown)["error"], "login_required", "{at}");
    }
}

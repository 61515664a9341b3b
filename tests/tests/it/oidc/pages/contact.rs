//! Logins with an e-mail address or a phone number instead of the login name.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    browser::Page,
    client::{done, send},
    eventually,
    tenant::new_name,
};

use super::{
    super::flow::{API, Flow, PASSWORD},
    back, browser, id_token_claims, set, start, title,
};

/// Creates a person with an e-mail address and a phone number, and returns the id and the user name.
async fn person(flow: &Flow, path: &str, email: &str, is_verified: bool) -> (String, String) {
    let name = new_name();
    let user = json!({ "username": name, "human": {
        "data": { "given_name": "Ada", "family_name": "Lovelace" },
        "email": { "address": email, "isVerified": is_verified },
        "phone": { "number": "+441632960123", "isVerified": is_verified },
        "password": { "password": PASSWORD },
    } });
    (done(&flow.admin, &format!("{API}/users{path}"), user).await.id(), name)
}

/// Returns who is logged in by a name in a new browser; nobody where that is refused.
async fn logged_in(flow: &Flow, name: &str, others: &[(&str, &str)]) -> Option<Value> {
    let shown = flow.logs_in(&mut browser(&flow.tenant), name, others).await;
    if is_refused(&shown) {
        return None;
    }
    Some(id_token_claims(&flow.redeemed(&back(&shown)["code"]).await)["sub"].clone())
}

fn is_refused(shown: &Page) -> bool {
    shown.status == StatusCode::UNPROCESSABLE_ENTITY
        && shown.text.contains("The login name or the password is wrong. Check both and try again.")
}

async fn change(flow: &Flow, id: &str, human: Value) {
    set(&flow.admin, &format!("{API}/users/{id}"), json!({ "human": human })).await;
}

async fn set_state(flow: &Flow, id: &str, verb: &str) {
    done(&flow.admin, &format!("{API}/users/{id}/{verb}"), json!({})).await;
}

#[tokio::test]
async fn whoever_says_the_e_mail_address_or_the_phone_number_is_let_in() {
    let flow = start().await;
    let email = format!("{}@Mail.example", new_name());
    let (id, name) = person(&flow, "", &email, true).await;
    for way in [email.as_str(), &email.to_uppercase(), "+441632960123", "+44 (1632) 960-123"] {
        assert_eq!(logged_in(&flow, way, &[]).await, Some(json!(id)), "{way}");
    }
    let mut browser = browser(&flow.tenant);
    let asked = flow.sent_by(&mut browser, &[]).await;
    assert!(asked.text.contains(">Login name or e-mail address</label>"), "{}", asked.text);
    let asked = flow.send(&mut browser, &asked, &[("username", &email)]).await;
    let wrong = flow.send(&mut browser, &asked, &[("username", &email), ("password", "not-the-password")]).await;
    assert!(is_refused(&wrong), "{}", wrong.text);
    let shown = flow.send(&mut browser, &asked, &[("username", &email), ("password", PASSWORD)]).await;
    let first = id_token_claims(&flow.redeemed(&back(&shown)["code"]).await);

    // It is one account, by whichever name.
    let hinted = flow.sent_by(&mut browser, &[("login_hint", &email)]).await;
    assert_eq!(id_token_claims(&flow.redeemed(&back(&hinted)["code"]).await)["sub"], json!(id));
    let silent = flow.sent_by(&mut browser, &[("prompt", "none"), ("login_hint", &email)]).await;
    assert_eq!(back(&silent)["error"], "login_required", "apps do not find out whose it is");
    let shown = flow.sent_by(&mut browser, &[("prompt", "select_account")]).await;
    let shown = browser.get(&format!("/ui/login/name?authRequest={}", shown.hidden()[0].1)).await;
    let shown = flow.send(&mut browser, &shown, &[("username", &email)]).await;
    let shown = flow.send(&mut browser, &shown, &[("username", &email), ("password", PASSWORD)]).await;
    let again = id_token_claims(&flow.redeemed(&back(&shown)["code"]).await);
    assert_eq!((&again["sub"], &again["sid"]), (&first["sub"], &first["sid"]), "in the session that there is");

    let other = format!("{}@mail.example", new_name());
    change(&flow, &id, json!({ "email": { "address": other, "isVerified": true } })).await;
    assert_eq!(logged_in(&flow, &email, &[]).await, None, "it is the address of nobody any more");
    assert_eq!(logged_in(&flow, &other, &[]).await, Some(json!(id)));
    let gone = send(flow.admin.request(Method::DELETE, &format!("{API}/users/{id}"))).await;
    assert_eq!(gone.status, StatusCode::OK, "{}", gone.body);
    for way in [other.as_str(), &name, "+441632960123"] {
        assert_eq!(logged_in(&flow, way, &[]).await, None, "{way}");
    }
}

#[tokio::test]
async fn of_several_with_one_address_it_is_whoever_is_known_to_have_it() {
    let flow = start().await;
    let email = format!("{}@mail.example", new_name());
    let (first, name) = person(&flow, "", &email, false).await;
    assert_eq!(logged_in(&flow, &email, &[]).await, None, "that it is theirs is not known");
    assert_eq!(logged_in(&flow, &name, &[]).await, Some(json!(first)));
    let (second, _) = person(&flow, "", &email, false).await;
    assert_eq!(logged_in(&flow, &email, &[]).await, None, "nor whose it is");
    assert_eq!(logged_in(&flow, "+441632960123", &[]).await, None);
    change(&flow, &second, json!({ "email": { "address": email, "isVerified": true } })).await;
    assert_eq!(logged_in(&flow, &email, &[]).await, Some(json!(second)));

    let acme = done(&flow.admin, &format!("{API}/organizations"), json!({ "name": new_name() })).await.id();
    let (third, _) = person(&flow, &format!("?ctx.orgId={acme}"), &email, true).await;
    assert_eq!(logged_in(&flow, &email, &[]).await, None, "it is known of two");
    set_state(&flow, &second, "_deactivate").await;
    let shown = flow.logs_in(&mut browser(&flow.tenant), &email, &[]).await;
    assert_eq!(title(&shown), "Shop asks for access", "the other may not log in: {}", shown.text);
    set_state(&flow, &second, "_reactivate").await;
    let own = format!("openid urn:platform:iam:org:id:{}", flow.tenant.bootstrap.organization_id);
    assert_eq!(logged_in(&flow, &email, &[("scope", &own)]).await, Some(json!(second)), "the app asks for one of them");
    let theirs = format!("openid urn:platform:iam:org:id:{acme}");
    let shown = flow.logs_in(&mut browser(&flow.tenant), &email, &[("scope", &theirs)]).await;
    assert_eq!(title(&shown), "Shop asks for access", "{third}: {}", shown.text);

    // A login name comes before an address.
    let named = json!({ "username": email, "human": {
        "data": { "given_name": "Eve", "family_name": "X" }, "password": { "password": "a-hive-of-27-busy-bees" },
    } });
    done(&flow.admin, &format!("{API}/users"), named).await;
    assert_eq!(logged_in(&flow, &email, &[("scope", &own)]).await, None);
}

#[tokio::test]
async fn addresses_are_no_login_names_where_that_is_switched_off() {
    let flow = start().await;
    let email = format!("{}@mail.example", new_name());
    let (id, name) = person(&flow, "", &email, true).await;
    set(&flow.admin, "/settings/v3alpha/login", json!({ "disableLoginWithEmail": { "set": true } })).await;
    let label = |text: &str| text.contains(">Login name</label>");
    eventually("the page asks for the login name", async || {
        label(&flow.sent_by(&mut browser(&flow.tenant), &[]).await.text).then_some(())
    })
    .await;
    assert_eq!(logged_in(&flow, &email, &[]).await, None);
    assert_eq!(logged_in(&flow, "+441632960123", &[]).await, Some(json!(id)));
    set(&flow.admin, "/settings/v3alpha/login", json!({ "disableLoginWithPhone": { "set": true } })).await;
    eventually("nor by the phone number", async || {
        logged_in(&flow, "+441632960123", &[]).await.is_none().then_some(())
    })
    .await;
    assert_eq!(logged_in(&flow, &name, &[]).await, Some(json!(id)));
}

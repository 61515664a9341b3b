//! Actors: people by their logins, those whom a token names, and those without the right, who learn and cause nothing.

use reqwest::{Method, StatusCode};
use serde_json::json;
use tests::{
    client::{done, send},
    endpoint::{Endpoint, execute},
    eventually,
    tenant::new_name,
};

use super::{
    super::{
        exchange::{ACCESS, ID, JWT, USER_ID, exchange, exchanged, is_over},
        flow::{self, API, access_token},
        shop,
        signer::Signer,
        token::{assert_error, parts},
    },
    Stage,
};

const BAD_ACTOR: &str = "the actor token is not valid for the client, or somebody acts by it";

#[tokio::test]
async fn whoever_may_not_act_causes_nothing_and_learns_of_nobody() {
    let stage = Stage::with(&[]).await;
    let (admin, person) = (&stage.flow.admin, stage.flow.person.0.as_str());
    let endpoint = Endpoint::start().await;
    let (target, _) = endpoint.target(admin, "restRequestResponse", &json!({})).await;
    for function in ["preaccesstoken", "preuserinfo"] {
        execute(admin, json!({ "function": function }), &[&target]).await;
    }
    let token = eventually("targets are called", async || {
        let token = stage.token_of(&stage.helper).await;
        (!endpoint.take().is_empty()).then_some(token)
    })
    .await;
    let ask = async |id: &str| stage.acting(&token, (id, USER_ID), &[]).await;
    let answers = [ask(person).await, ask("1").await, ask("no id").await];
    for answer in &answers {
        assert_error("113: denied", answer, 400, "invalid_request");
        assert_eq!(answer.body.to_string(), answers[0].body.to_string(), "113: whoever there is");
        assert_eq!(answer.headers["content-length"], answers[0].headers["content-length"]);
    }
    let (tokens, _) = stage.flow.tokens(&[]).await;
    endpoint.take();
    assert_error("112", &stage.acting(&token, (access_token(&tokens), ACCESS), &[]).await, 400, "invalid_request");
    assert!(endpoint.take().is_empty(), "nothing is told of a user as whom nobody acts");
    stage.create_membership(&stage.helper.user_id, stage.home(), &["ORG_END_USER_IMPERSONATOR"]).await;
    assert_eq!(ask(person).await.status, StatusCode::OK);
    assert!(!endpoint.take().is_empty(), "of one as whom somebody acts, targets are told");
}

#[tokio::test]
async fn only_whom_a_token_names_acts_by_what_was_got_for_it() {
    let stage = Stage::with(&["ORG_END_USER_IMPERSONATOR"]).await;
    let (flow, me) = (&stage.flow, stage.helper.user_id.as_str());
    let second = shop::user(&flow.admin, "second", "").await;
    stage.create_membership(&second.user_id, stage.home(), &["ORG_END_USER_IMPERSONATOR"]).await;
    let by_second = stage.token_of(&second).await;
    let signer = Signer::new(&flow.tenant, &format!("apps/{}", flow.app.id), "EC").await.naming(&flow.person.0);
    let may_act = json!({ "sub": me });
    let jwt = [("requested_token_type", JWT)];
    let assertion = signer.with(&json!({ "may_act": may_act }));
    let named = stage.helping((&assertion, JWT), &jwt).await.body;
    stage.counts("the one who is named", access_token(&named)).await;
    let alone = exchanged(flow, (access_token(&named), ACCESS), &jwt).await;
    for got in [&named, &alone] {
        let token = access_token(got);
        assert_eq!(parts(token)[1]["may_act"], may_act, "{got}");
        let other = stage.acting(&by_second, (token, ACCESS), &jwt).await;
        assert_error("115: another one", &other, 400, "invalid_request");
        assert_eq!(other.body["error_description"], "the actor may not act as this user, or there is none");
        stage.assert_permitted("115: the same one", (token, ACCESS)).await;
    }
    let free = stage.assert_permitted("nobody is named", (&signer.assertion(), JWT)).await;
    stage.counts("nobody is named", access_token(&free)).await;
    let other = stage.acting(&by_second, (access_token(&free), ACCESS), &jwt).await;
    assert_eq!(other.status, StatusCode::OK, "{}", other.body);
}

#[tokio::test]
async fn a_person_acts_until_the_login_is_over() {
    let stage = Stage::with(&[]).await;
    let (flow, me) = (&stage.flow, stage.flow.person.0.as_str());
    stage.create_membership(me, stage.home(), &["ORG_END_USER_IMPERSONATOR"]).await;
    let other = flow::person(&flow.admin).await.0;
    let (tokens, session) = flow.tokens(&[]).await;
    let id_token = tokens["id_token"].as_str().expect("there is one");
    let actor = [("actor_token", id_token), ("actor_token_type", ID), ("requested_token_type", JWT)];
    let got = exchanged(flow, (&other, USER_ID), &actor).await;
    let token = access_token(&got);
    stage.counts("a person acts", token).await;
    let [_, claims] = parts(token);
    assert_eq!((&claims["sub"], &claims["act"]["sub"]), (&json!(other), &json!(me)), "{claims}");
    assert_eq!((claims.get("sid"), claims.get("auth_time")), (None, None), "{claims}");
    stage.delete(&format!("sessions/{session}")).await;
    is_over(flow, "117: the login of who acts", token).await;
    let again = exchange(flow, (&other, USER_ID), &actor).await;
    assert_error("119", &again, 400, "invalid_request");
    assert_eq!(again.body["error_description"], BAD_ACTOR);
}

#[tokio::test]
async fn an_actor_brings_scope_and_audience_by_a_token_that_is_for_the_app() {
    let stage = Stage::with(&["ORG_END_USER_IMPERSONATOR"]).await;
    let flow = &stage.flow;
    let (tokens, _) = flow.tokens(&[("scope", "openid email")]).await;
    let less = [("audience", flow.app.id.as_str()), ("requested_token_type", JWT)];
    let less = exchanged(flow, (access_token(&tokens), ACCESS), &less).await;
    let subject = (access_token(&less), ACCESS);
    let more = [("scope", "email profile"), ("audience", flow.project.as_str())];
    for (case, more, error) in [("108", &more[1..], "invalid_target"), ("109", &more[..1], "invalid_scope")] {
        assert_error(&format!("{case}: alone"), &exchange(flow, subject, more).await, 400, error);
    }
    let jwt = [("requested_token_type", JWT)];
    let got = stage.helping(subject, &[&more[..], &jwt].concat()).await;
    assert_eq!(got.status, StatusCode::OK, "108, 109: {}", got.body);
    let [_, claims] = parts(access_token(&got.body));
    assert_eq!((&claims["aud"], &claims["scope"]), (&json!([flow.project]), &json!("email profile")), "{claims}");

    let foreign = Stage::with(&[]).await;
    let request = flow.admin.anonymous(Method::POST, "/oauth/v2/token");
    let form = [("grant_type", "client_credentials"), ("scope", "openid")];
    let request = request.basic_auth(&stage.helper.client_id, Some(&stage.helper.client_secret)).form(&form);
    let for_nobody = access_token(&send(request).await.body).to_owned();
    for (case, token) in [("110: for nobody", for_nobody), ("118", foreign.token_of(&foreign.helper).await)] {
        let answer = stage.acting(&token, subject, &[]).await;
        assert_error(case, &answer, 400, "invalid_request");
        assert_eq!(answer.body["error_description"], BAD_ACTOR, "{case}");
    }
}

#[tokio::test]
async fn roles_in_a_removed_organization_protect_nobody() {
    let stage = Stage::with(&["ORG_END_USER_IMPERSONATOR"]).await;
    let (admin, person) = (&stage.flow.admin, stage.flow.person.0.as_str());
    let other = done(admin, &format!("{API}/organizations"), json!({ "name": new_name() })).await.id();
    stage.create_membership(person, &other, &["ORG_OWNER_VIEWER"]).await;
    stage.assert_denied("112: an administrator of another organization", (person, USER_ID)).await;
    stage.delete(&format!("organizations/{other}")).await;
    let got = stage.assert_permitted("112: the organization is gone", (person, USER_ID)).await;
    stage.counts("the organization is gone", access_token(&got)).await;
}

//! Token exchange with an actor, who acts as a user. The numbers are those of the cases of the design.

mod actor;

use jsonwebtoken::Header;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    client::{Answer, ServiceUser, TARGETS, done, send},
    cluster::Cluster,
    endpoint::{Endpoint, Reply},
    eventually,
    tenant::new_name,
};

use super::{
    exchange::{self, ACCESS, JWT, USER_ID, exchange, exchanged, exchanging, introspect, is_over, set},
    flow::{API, App, Flow, access_token, person},
    key::{claiming_wrongly, unsigned, with_foreign_keys},
    shop,
    signer::Signer,
    token::{assert_error, parts},
};

/// An app, a person, and a helper.
struct Stage {
    flow: Flow,
    helper: ServiceUser,
}

impl Stage {
    /// Starts with a helper who has these roles in the organization of the person.
    async fn with(roles: &[&str]) -> Self {
        let flow = exchange::start().await;
        let helper = shop::user(&flow.admin, "helper", "").await;
        let stage = Self { flow, helper };
        if !roles.is_empty() {
            stage.create_membership(&stage.helper.user_id, stage.home(), roles).await;
        }
        stage
    }

    fn home(&self) -> &str {
        &self.flow.tenant.bootstrap.organization_id
    }

    /// Gives a user roles in an organization, or in the instance where none is named; returns the path of the membership.
    async fn create_membership(&self, user: &str, organization: &str, roles: &[&str]) -> String {
        let context = if organization.is_empty() { String::new() } else { format!("?ctx.orgId={organization}") };
        let given = json!({ "userId": user, "roles": roles });
        let given = done(&self.flow.admin, &format!("{API}/memberships{context}"), given).await;
        format!("memberships/{}", given.id())
    }

    async fn delete(&self, path: &str) {
        let request = self.flow.admin.request(Method::DELETE, &format!("{API}/{path}")).header("prefer", "wait=10");
        assert_eq!(send(request).await.status, StatusCode::OK, "{path}");
    }

    /// Requests a token of a service user for the project of the app.
    async fn token_of(&self, user: &ServiceUser) -> String {
        let audience = |id: &str| format!("urn:platform:iam:org:project:id:{id}:aud");
        let scope = format!("openid profile {} {}", audience(&self.flow.project), audience("platform"));
        let form = [("grant_type", "client_credentials"), ("scope", &scope)];
        let request = self.flow.admin.anonymous(Method::POST, "/oauth/v2/token");
        let answer = send(request.basic_auth(&user.client_id, Some(&user.client_secret)).form(&form)).await;
        access_token(&answer.body).to_owned()
    }

    /// Exchanges tokens as the app, for one by which the holder of the actor token acts as the subject.
    async fn acting(&self, actor: &str, subject: (&str, &str), more: &[(&str, &str)]) -> Answer {
        let actor = [("actor_token", actor), ("actor_token_type", ACCESS)];
        exchange(&self.flow, subject, &[&actor[..], more].concat()).await
    }

    /// Exchanges tokens with a new token of the helper as the actor token.
    async fn helping(&self, subject: (&str, &str), more: &[(&str, &str)]) -> Answer {
        self.acting(&self.token_of(&self.helper).await, subject, more).await
    }

    async fn assert_denied(&self, case: &str, subject: (&str, &str)) {
        let answer = self.helping(subject, &[]).await;
        assert_error(case, &answer, 400, "invalid_request");
        let told = answer.body["error_description"].as_str().expect("it is text");
        assert_eq!(told, "the actor may not act as this user, or there is none", "{case}");
    }

    /// Waits until a token is active: other nodes learn of new rights within a second.
    async fn counts(&self, case: &str, token: &str) {
        eventually(case, async || (introspect(&self.flow, token).await["active"] == true).then_some(())).await;
    }

    async fn assert_permitted(&self, case: &str, subject: (&str, &str)) -> Value {
        let answer = self.helping(subject, &[]).await;
        assert_eq!(answer.status, StatusCode::OK, "{case}: {}", answer.body);
        answer.body
    }
}

#[tokio::test]
async fn those_act_as_others_who_have_the_right_where_these_are() {
    let stage = Stage::with(&[]).await;
    let (admin, me) = (&stage.flow.admin, stage.helper.user_id.as_str());
    let neighbour = (stage.flow.person.0.as_str(), USER_ID);
    let other = done(admin, &format!("{API}/organizations"), json!({ "name": new_name() })).await.id();
    let elsewhere = json!({ "username": new_name(), "service": {} });
    let elsewhere = done(admin, &format!("{API}/users?ctx.orgId={other}"), elsewhere).await.id();
    let stranger = (elsewhere.as_str(), USER_ID);
    stage.assert_denied("112: no role", neighbour).await;
    let hidden = stage.helping(neighbour, &[("scope", "coffee"), ("audience", "1")]).await;
    assert_error("113: nobody is told more of whom there is", &hidden, 400, "invalid_request");
    let owns = stage.create_membership(me, "", &["IAM_OWNER"]).await;
    stage.assert_denied("112: an owner has to give itself the role", neighbour).await;
    stage.delete(&owns).await;
    let there = stage.create_membership(me, &other, &["ORG_ADMIN_IMPERSONATOR"]).await;
    stage.assert_denied("112: a role of another organization", neighbour).await;
    stage.assert_permitted("112: where it holds", stranger).await;
    stage.delete(&there).await;
    let here = stage.create_membership(me, stage.home(), &["ORG_END_USER_IMPERSONATOR"]).await;
    stage.assert_permitted("112: where it holds", neighbour).await;
    stage.assert_denied("113: a user of another organization", stranger).await;
    stage.assert_denied("113: nobody", ("1", USER_ID)).await;
    let foreign = exchange::start().await;
    stage.assert_denied("113: a user of another instance", (&foreign.person.0, USER_ID)).await;
    stage.assert_denied("113: no id", ("' or 1=1 --", USER_ID)).await;
    let everywhere = stage.create_membership(me, "", &["IAM_END_USER_IMPERSONATOR"]).await;
    stage.assert_permitted("112: on the instance", stranger).await;

    // Whoever has roles is acted as by those who may act as administrators, where these roles hold.
    let role = stage.create_membership(neighbour.0, stage.home(), &["ORG_OWNER_VIEWER"]).await;
    stage.assert_denied("112: an administrator", neighbour).await;
    let admins = stage.create_membership(me, &other, &["ORG_ADMIN_IMPERSONATOR"]).await;
    stage.assert_denied("112: an administrator of another organization", neighbour).await;
    stage.delete(&admins).await;
    stage.delete(&here).await;
    let here = stage.create_membership(me, stage.home(), &["ORG_ADMIN_IMPERSONATOR"]).await;
    stage.assert_permitted("112: an administrator of the organization", neighbour).await;
    let higher = stage.create_membership(neighbour.0, "", &["IAM_OWNER_VIEWER"]).await;
    stage.assert_denied("112: an administrator of the instance", neighbour).await;
    stage.delete(&everywhere).await;
    stage.create_membership(me, "", &["IAM_ADMIN_IMPERSONATOR"]).await;
    stage.assert_permitted("112: an administrator of the instance", neighbour).await;
    for membership in [&role, &higher, &here] {
        stage.delete(membership).await;
    }
    done(admin, &format!("{API}/users/{}/_lock", neighbour.0), json!({})).await;
    stage.assert_denied("119: a locked user", neighbour).await;
}

#[tokio::test]
async fn a_token_says_who_acts_and_gives_nothing_at_the_api() {
    let stage = Stage::with(&["ORG_END_USER_IMPERSONATOR"]).await;
    let (flow, helper) = (&stage.flow, &stage.helper);
    let (tokens, _) = flow.tokens(&[("scope", "openid email")]).await;
    let subject = (access_token(&tokens), ACCESS);
    let act = json!({ "iss": flow.tenant.bootstrap.issuer, "sub": helper.user_id });
    for (subject, scope) in [(subject, "openid email"), ((flow.person.0.as_str(), USER_ID), "openid profile")] {
        let got = stage.helping(subject, &[("requested_token_type", JWT), ("scope", scope)]).await.body;
        stage.counts("somebody acts", access_token(&got)).await;
        let [_, claims] = parts(access_token(&got));
        assert_eq!((&claims["sub"], &claims["act"]), (&json!(flow.person.0), &act), "115: {claims}");
        assert_eq!((&claims["client_id"], &claims["scope"]), (&json!(flow.app.id), &json!(scope)), "{claims}");
        let [_, beside] = parts(got["id_token"].as_str().expect("there is one"));
        assert_eq!((&beside["act"], beside.get("auth_time")), (&act, None), "nobody has logged in: {beside}");
        assert_eq!(introspect(flow, access_token(&tokens)).await["amr"], json!(["pwd"]), "somebody has");
        let [said, told] = [flow.userinfo(access_token(&got)).await.body, introspect(flow, access_token(&got)).await];
        for body in [&said, &told] {
            assert_eq!((&body["sub"], &body["act"]), (&json!(flow.person.0), &act), "{body}");
        }
        assert_eq!([&claims, &told].map(|body| body.get("auth_time").or(body.get("amr"))), [None; 2], "{told}");
        assert_eq!((&told["active"], &told["client_id"]), (&json!(true), &json!(flow.app.id)), "{told}");
        for token in [access_token(&got), access_token(&stage.assert_permitted("opaque", subject).await)] {
            let request = flow.admin.anonymous(Method::GET, &format!("{TARGETS}/1")).bearer_auth(token);
            let refused = send(request).await;
            refused.assert_refused("somebody acts", 401, "TOKEN_INVALID");
            assert!(refused.body.to_string().contains("acting as another user"), "{}", refused.body);
        }
        let again = exchanged(flow, (access_token(&got), ACCESS), &[("requested_token_type", JWT)]).await;
        assert_eq!(parts(access_token(&again))[1]["act"], act, "115: it stays so without an actor");
    }
    let platform = [("audience", flow.tenant.bootstrap.project_id.as_str())];
    assert_error("the API", &stage.helping(subject, &platform).await, 400, "invalid_target");
    let more = [("scope", "openid phone")];
    assert_error("109: neither has it", &stage.helping(subject, &more).await, 400, "invalid_scope");
    let offline = [("scope", "openid offline_access")];
    let answer = stage.helping((&flow.person.0, USER_ID), &offline).await;
    assert_error("109: not of the subject", &answer, 400, "invalid_scope");

    let found = eventually("the events are known", async || {
        let search = flow.admin.request(Method::POST, &format!("{API}/events/_search"));
        let found = send(search.json(&json!([{ "aggregateId": flow.person.0 }]))).await.body;
        let events = found["result"].as_array().unwrap_or_else(|| panic!("they are listed: {found}"));
        let noted = events.iter().filter(|event| event["type"] == "user.impersonated").cloned().collect::<Vec<_>>();
        (noted.len() >= 7).then_some(noted)
    })
    .await;
    assert_eq!(found.len(), 7, "one for each time that somebody might act, also where more was asked for: {found:?}");
    for event in found {
        assert_eq!(event["actorId"], helper.user_id.as_str(), "{event}");
        assert!(event["payload"].as_str().is_some_and(|payload| payload.contains(&flow.app.id)), "{event}");
    }
}

#[tokio::test]
async fn actors_follow_each_other_and_no_one_acts_by_acting() {
    let stage = Stage::with(&["ORG_END_USER_IMPERSONATOR"]).await;
    let (flow, person) = (&stage.flow, (stage.flow.person.0.as_str(), USER_ID));
    let second = shop::user(&flow.admin, "second", "").await;
    stage.create_membership(&second.user_id, stage.home(), &["ORG_END_USER_IMPERSONATOR"]).await;
    let first = stage.assert_permitted("the first", person).await;
    stage.counts("the first", access_token(&first)).await;
    let by_second = stage.token_of(&second).await;
    let jwt = [("requested_token_type", JWT)];
    let nested = stage.acting(&by_second, (access_token(&first), ACCESS), &jwt).await;
    assert_eq!(nested.status, StatusCode::OK, "{}", nested.body);
    stage.counts("the second", access_token(&nested.body)).await;
    let [_, claims] = parts(access_token(&nested.body));
    assert_eq!(claims["act"]["sub"], second.user_id.as_str(), "115: {claims}");
    assert_eq!(claims["act"]["act"]["sub"], stage.helper.user_id.as_str(), "115: {claims}");
    let acting = stage.acting(access_token(&first), person, &[]).await;
    assert_error("115: by a token of the person", &acting, 400, "invalid_request");

    let mut token = access_token(&nested.body).to_owned();
    let refused = loop {
        let answer = stage.acting(&by_second, (&token, ACCESS), &jwt).await;
        if answer.status != StatusCode::OK {
            break answer;
        }
        token = access_token(&answer.body).to_owned();
    };
    assert_error("no chain is without an end", &refused, 400, "invalid_request");
    done(&flow.admin, &format!("{API}/users/{}/_deactivate", stage.helper.user_id), json!({})).await;
    is_over(flow, "117: who acted first is off", access_token(&nested.body)).await;
}

#[tokio::test]
async fn a_token_ends_with_whoever_acts_by_it() {
    let stage = Stage::with(&[]).await;
    let (flow, me) = (&stage.flow, stage.helper.user_id.as_str());
    let person = (flow.person.0.as_str(), USER_ID);
    let revoked = |token: String| {
        let request = flow.admin.anonymous(Method::POST, "/oauth/v2/revoke").form(&[("token", &token)]);
        send(request.basic_auth(&stage.helper.client_id, Some(&stage.helper.client_secret)))
    };
    for case in ["its token revoked", "its role withdrawn", "the person made an administrator", "it is not enabled"] {
        let role = stage.create_membership(me, stage.home(), &["ORG_END_USER_IMPERSONATOR"]).await;
        let by = stage.token_of(&stage.helper).await;
        let got = stage.acting(&by, person, &[]).await.body;
        let token = access_token(&got);
        stage.counts(case, token).await;
        let next = exchanged(flow, (token, ACCESS), &[("requested_token_type", JWT)]).await;
        match case {
            "its token revoked" => assert_eq!(revoked(by).await.status, StatusCode::OK),
            "its role withdrawn" => stage.delete(&role).await,
            "it is not enabled" => set(&flow.admin, "oidc", "enableImpersonation", false).await,
            _ => {
                let made = stage.create_membership(person.0, stage.home(), &["ORG_OWNER_VIEWER"]).await;
                is_over(flow, case, token).await;
                stage.delete(&made).await;
                stage.counts("the person is none any more", token).await;
                stage.delete(&role).await;
            }
        }
        is_over(flow, &format!("117: {case}"), token).await;
        is_over(flow, &format!("117: {case}, and what was got for that"), access_token(&next)).await;
        if case == "its token revoked" {
            stage.delete(&role).await;
        }
    }
    stage.assert_denied("112: it is not enabled", person).await;
    set(&flow.admin, "oidc", "enableImpersonation", true).await;
    let token = eventually("it is enabled", async || {
        let answer = stage.helping(person, &[]).await;
        (answer.status == StatusCode::OK).then(|| access_token(&answer.body).to_owned())
    })
    .await;
    done(&flow.admin, &format!("{API}/users/{me}/_lock"), json!({})).await;
    is_over(flow, "117: locked", &token).await;
}

#[tokio::test]
async fn an_app_names_whom_somebody_acts_as_by_what_it_signs() {
    let stage = Stage::with(&["ORG_END_USER_IMPERSONATOR"]).await;
    let flow = &stage.flow;
    let path = format!("apps/{}", flow.app.id);
    let signer = Signer::new(&flow.tenant, &path, "EC").await.naming(&flow.person.0);
    let assertion = signer.assertion();
    let alone = exchange(flow, (&assertion, JWT), &[]).await;
    assert_error("114: without an actor", &alone, 400, "invalid_request");
    stage.assert_permitted("114: with an actor", (&assertion, JWT)).await;
    let again = stage.helping((&assertion, JWT), &[]).await;
    assert_error("114: a second time", &again, 400, "invalid_request");

    let (me, issuer) = (&stage.helper.user_id, &flow.tenant.bootstrap.issuer);
    for (may_act, is_permitted) in [
        (json!({ "sub": me }), true),
        (json!({ "sub": me, "iss": issuer }), true),
        (json!({ "sub": me, "iss": "https://other.example" }), false),
        (json!({ "sub": flow.person.0 }), false),
        (json!({}), false),
        (json!(me), false),
    ] {
        let answer = stage.helping((&signer.with(&json!({ "may_act": may_act })), JWT), &[]).await;
        assert_eq!(answer.status == StatusCode::OK, is_permitted, "115: {may_act}: {}", answer.body);
    }
    let sibling = App::create(&flow.admin, &flow.project, exchanging()).await;
    let of_other = Signer::new(&flow.tenant, &format!("apps/{}", sibling.id), "EC").await.naming(&flow.person.0);
    let rsa = Signer::new(&flow.tenant, &path, "RSA").await.naming(&flow.person.0);
    let of_user = Signer::new(&flow.tenant, &format!("users/{me}"), "EC").await.naming(&flow.person.0);
    let elsewhere = Endpoint::replying(Reply::json(&json!({ "keys": [of_other.public] }))).await;
    let client = Header { typ: Some("client-authentication+jwt".to_owned()), ..signer.header() };
    let others = vec![
        ("of another app", of_other.assertion()),
        ("of a user", of_user.assertion()),
        ("for authentication", signer.sign(&client, &signer.claims())),
        ("without an id", signer.with(&json!({ "jti": null }))),
    ];
    let wrong = [
        unsigned(&signer, &of_other, &rsa),
        with_foreign_keys(&signer, &of_other, &elsewhere.url),
        claiming_wrongly(&signer, &of_other.holder),
        others,
    ];
    for (case, assertion) in &wrong.concat() {
        assert_error(case, &stage.helping((assertion, JWT), &[]).await, 400, "invalid_request");
    }
    assert!(elsewhere.take().is_empty(), "S6: nobody asks for keys where a subject says");
    stage.assert_permitted("a good one is still taken", (&signer.assertion(), JWT)).await;
    let nobody = signer.with(&json!({ "sub": person(&exchange::start().await.admin).await.0 }));
    stage.assert_denied("113: of another instance", (&nobody, JWT)).await;
}

/// S6
#[tokio::test]
async fn a_subject_token_that_somebody_else_has_made_gets_nothing() {
    let flow = exchange::start().await;
    let path = format!("apps/{}", flow.app.id);
    let mine = Signer::new(&flow.tenant, &path, "EC").await;
    let rsa = Signer::new(&flow.tenant, &path, "RSA").await;
    let (tokens, _) = flow.tokens(&[]).await;
    for (kind, token) in [(ACCESS, access_token(&tokens)), (exchange::ID, tokens["id_token"].as_str().expect("one"))] {
        exchanged(&flow, (token, kind), &[]).await;
        let [header, claims] = parts(token);
        let own = if kind == ACCESS { &mine } else { &rsa };
        let kid = header["kid"].as_str().expect("it is named").to_owned();
        let typ = header["typ"].as_str().map(str::to_owned);
        let named = |kid: &str| Header { typ: typ.clone(), kid: Some(kid.to_owned()), ..own.header() };
        let (message, signature) = token.rsplit_once('.').expect("it has parts");
        let (head, payload) = message.split_once('.').expect("it has parts");
        let mut longer = claims.clone();
        longer["scope"] = json!("openid phone urn:platform:iam:org:project:id:platform:aud");
        for (case, forged) in [
            ("another key under its name", own.sign(&named(&kid), &claims)),
            ("a key of the app", own.sign(&named(&own.kid), &claims)),
            ("a path", own.sign(&named("../../../dev/null"), &claims)),
            ("no signature", format!("{message}.")),
            ("another payload", format!("{head}.{}.{signature}", payload.chars().rev().collect::<String>())),
            ("more scope", own.sign(&named(&kid), &longer)),
        ] {
            assert_error(case, &exchange(&flow, (&forged, kind), &[]).await, 400, "invalid_request");
        }
    }
}

#[tokio::test]
async fn nobody_acts_while_that_cannot_be_noted() {
    let cluster = Cluster::start().await;
    let [mut command, _projector, oidc] =
        ["command", "projector", "oidc"].map(|role| cluster.node(role, role, &[], &[]));
    cluster.writes(&command).await;
    cluster.is_ready(&oidc).await;
    let (admin, asking) = (cluster.client(&command), cluster.client(&oidc));
    exchange::enable_at(&admin, &asking).await;
    let project = done(&admin, &format!("{API}/projects"), json!({ "name": "Shop" })).await.id();
    let app = App::create(&admin, &project, exchanging()).await;
    let (person, helper) = (person(&admin).await.0, shop::user(&admin, "helper", "").await);
    let given = json!({ "userId": helper.user_id, "roles": ["IAM_END_USER_IMPERSONATOR"] });
    done(&admin, &format!("{API}/memberships"), given).await;
    let scope = format!("openid urn:platform:iam:org:project:id:{project}:aud");
    let token = eventually("the node knows the helper", async || {
        let request = asking.anonymous(Method::POST, "/oauth/v2/token");
        let request = request.basic_auth(&helper.client_id, Some(&helper.client_secret));
        let form = [("grant_type", "client_credentials"), ("scope", &scope)];
        send(request.form(&form)).await.body["access_token"].as_str().map(str::to_owned)
    })
    .await;
    let less = [("subject_token", token.as_str()), ("subject_token_type", ACCESS)];
    let subject = [("subject_token", person.as_str()), ("subject_token_type", USER_ID)];
    let acting = [&subject[..], &[("actor_token", &token), ("actor_token_type", ACCESS)]].concat();
    for form in [&less[..], &acting] {
        let got = async || (exchange::post_exchange(&asking, &app, form).await.status == StatusCode::OK).then_some(());
        eventually("the node knows all", got).await;
    }
    command.process.kill().await;
    let answer = exchange::post_exchange(&asking, &app, &acting).await;
    assert_error("nobody writes", &answer, 503, "temporarily_unavailable");
    assert_eq!(answer.body.get("access_token"), None);
    let alone = exchange::post_exchange(&asking, &app, &less).await;
    assert_eq!(alone.status, StatusCode::OK, "of that nothing is noted: {}", alone.body);
}

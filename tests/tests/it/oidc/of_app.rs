//! Claims of people's tokens that depend on the settings of the app and its project, and on the requested organization.

use reqwest::Method;
use serde_json::{Value, json};
use tests::{
    client::{Client, done, send},
    dns::Dns,
    eventually,
    platform::Platform,
};

use super::{
    flow::{API, App, Flow, access_token, answered, location},
    shop::{ROLES, user},
    token::{assert_error, parts},
};

/// Introspects a token as an API app of the flow's project.
async fn introspected(flow: &Flow, token: &str) -> Value {
    let app = json!({ "projectId": flow.project, "name": "Checks", "api": {} });
    let app = done(&flow.admin, &format!("{API}/apps"), app).await;
    let secret = app.body["clientSecret"].as_str().expect("it is shown");
    let request = flow.admin.anonymous(Method::POST, "/oauth/v2/introspect").basic_auth(app.id(), Some(secret));
    send(request.form(&[("token", token)])).await.body
}

#[tokio::test]
async fn tokens_are_signed_with_what_the_app_chooses_among_what_the_instance_has_keys_for() {
    let mut settings = App::public();
    settings["accessTokenType"] = json!("OIDC_TOKEN_TYPE_JWT");
    settings["accessTokenAlg"] = json!("TOKEN_ALGORITHM_RS256");
    settings["idTokenAlg"] = json!("TOKEN_ALGORITHM_ES256");
    let flow = Flow::with(settings).await;
    let algorithms = async || {
        let (tokens, _) = flow.tokens(&[]).await;
        [access_token(&tokens), tokens["id_token"].as_str().expect("there is one")]
            .map(|token| parts(token)[0]["alg"].clone())
    };
    assert_eq!(algorithms().await, ["RS256", "ES256"]);
    let path = format!("{API}/apps/{}", flow.app.id);
    let change =
        async |oidc: Value| send(flow.admin.request(Method::PATCH, &path).json(&json!({ "oidc": oidc }))).await;
    let none = change(json!({ "idTokenAlg": "TOKEN_ALGORITHM_EDDSA" })).await;
    none.assert_refused("no key signs with it", 400, "PRECONDITION_FAILED");
    let usual = "TOKEN_ALGORITHM_UNSPECIFIED";
    let changed = change(json!({ "accessTokenAlg": usual, "idTokenAlg": usual })).await;
    assert_eq!(changed.status, 200, "{}", changed.body);
    let are_usual = async || (algorithms().await == ["ES256", "RS256"]).then_some(());
    eventually("they are the usual ones again", are_usual).await;
}

#[tokio::test]
async fn access_tokens_are_for_all_apps_of_the_project_and_id_tokens_for_one() {
    let mut settings = App::public();
    settings["accessTokenType"] = json!("OIDC_TOKEN_TYPE_JWT");
    let flow = Flow::with(settings).await;
    let api = json!({ "projectId": flow.project, "name": "API", "api": {} });
    let api = done(&flow.admin, &format!("{API}/apps"), api).await.id();
    let audiences = async || {
        let (tokens, _) = flow.tokens(&[]).await;
        [access_token(&tokens), tokens["id_token"].as_str().expect("there is one")]
            .map(|token| parts(token)[1]["aud"].clone())
    };
    let expected = [json!([flow.app.id, api, flow.project]), json!([flow.app.id])];
    eventually("the other app is known", async || (audiences().await == expected).then_some(())).await;
    done(&flow.admin, &format!("{API}/apps/{api}/_deactivate"), json!({})).await;
    let without = json!([flow.app.id, flow.project]);
    eventually("it is switched off", async || (audiences().await[0] == without).then_some(())).await;
}

#[tokio::test]
async fn roles_that_an_app_has_told_unasked_are_told_of_opaque_tokens_too() {
    for (is_asserted, scope) in [(true, "openid"), (false, "openid"), (false, &format!("openid {ROLES}"))] {
        let mut settings = App::public();
        settings["accessTokenRoleAssertion"] = json!(is_asserted);
        let flow = Flow::with(settings).await;
        let role = json!({ "projectId": flow.project, "key": "clerk", "displayName": "Clerk" });
        done(&flow.admin, &format!("{API}/roles"), role).await;
        let granted = json!({ "userId": flow.person.0, "projectId": flow.project, "roleKeys": ["clerk"] });
        done(&flow.admin, &format!("{API}/user_grants"), granted).await;
        let (tokens, _) = flow.tokens(&[("scope", scope)]).await;
        assert!(access_token(&tokens).starts_with("at-"), "it is opaque by default");
        let told = introspected(&flow, access_token(&tokens)).await;
        assert_eq!(told["active"], true, "{told}");
        let is_told = told["urn:platform:iam:org:project:roles"]["clerk"].is_object();
        assert_eq!(is_told, is_asserted || scope != "openid", "{is_asserted}, {scope}: {told}");
    }
}

#[tokio::test]
async fn id_tokens_suit_a_clock_that_differs_by_as_much_as_the_app_says() {
    for (skew, seconds) in [("0s", 0), ("3.5s", 4)] {
        let mut settings = App::public();
        settings["accessTokenType"] = json!("OIDC_TOKEN_TYPE_JWT");
        settings["clockSkew"] = json!(skew);
        let flow = Flow::with(settings).await;
        let before = base::clock::now().as_second();
        let (tokens, _) = flow.tokens(&[]).await;
        let [access, id] = [access_token(&tokens), tokens["id_token"].as_str().expect("there is one")]
            .map(|token| ["iat", "exp", "auth_time"].map(|name| parts(token)[1][name].as_i64().expect("it is there")));
        let [issued, ends, _] = id;
        assert_eq!(ends - issued, 43_200 + 2 * seconds, "{skew}: {id:?}");
        let now = base::clock::now().as_second();
        assert!((before..=now).contains(&(issued + seconds)), "{skew}: {before}, {id:?}, {now}");
        assert_eq!(access[1] - access[0], 43_200, "{skew}: what others read is as it is: {access:?}");
        assert_eq!(access[2], id[2], "{skew}: so is when the person was checked");
    }
}

/// Starts a flow with signed tokens, on a platform that verifies domains by this DNS server.
async fn with_domains(dns: &Dns) -> Flow<Platform> {
    let flags = ["--dns-server".to_owned(), dns.address.to_string()];
    let platform = Platform::start_with(&flags, &[]).await;
    let admin = platform.client().await;
    let mut settings = App::public();
    settings["accessTokenType"] = json!("OIDC_TOKEN_TYPE_JWT");
    Flow::on(platform, admin, settings).await
}

/// Gives an organization a primary domain.
async fn name(admin: &Client, organization: &str, domain: &str, dns: &Dns) {
    let domains = format!("{API}/domains");
    let made = done(admin, &format!("{domains}?ctx.orgId={organization}"), json!({ "domain": domain })).await;
    let text = |name: &str| made.body["challenge"][name].as_str().expect("it is told").to_owned();
    dns.text(&text("dnsRecord"), &text("token"));
    let by_dns = "_validate?validationType=DOMAIN_VALIDATION_TYPE_DNS";
    done(admin, &format!("{domains}/{}/{by_dns}", made.id()), json!({})).await;
    done(admin, &format!("{domains}/{}/_set_as_primary", made.id()), json!({})).await;
}

fn by_id(id: &str) -> String {
    format!("urn:platform:iam:org:id:{id}")
}

fn by_domain(domain: &str) -> String {
    format!("urn:platform:iam:org:domain:primary:{domain}")
}

#[tokio::test]
async fn whoever_asks_for_an_organization_by_id_or_domain_gets_users_of_it_and_is_told_so() {
    let dns = Dns::start().await;
    let flow = with_domains(&dns).await;
    let own = flow.tenant.bootstrap.organization_id.clone();
    let other = done(&flow.admin, &format!("{API}/organizations"), json!({ "name": "Other" })).await.id();
    let domain = "own.example";
    name(&flow.admin, &own, domain, &dns).await;
    let asked =
        async |scope: &str| flow.sent(&flow.authorize_parameters(&[("scope", &format!("openid {scope}"))])).await;
    let known = async || location(&asked(&by_domain(domain)).await).contains("authRequest=").then_some(());
    eventually("the domain is known", known).await;
    // Programs are of an organization, too.
    let robot = user(&flow.admin, "robot", "").await;
    let by_robot = async |scope: &str| {
        let form = [("grant_type", "client_credentials"), ("scope", &*format!("openid {scope}"))];
        let request = flow.admin.anonymous(Method::POST, "/oauth/v2/token");
        send(request.basic_auth(&robot.client_id, Some(&robot.client_secret)).form(&form)).await
    };
    let has_it = async || (by_robot(&by_domain(domain)).await.status == 200).then_some(());
    eventually("the organization is known to have it", has_it).await;
    assert_eq!(by_robot(&by_id(&own)).await.status, 200);
    for other in [by_id(&other), by_id("1"), by_domain("nobody.example")] {
        assert_error(&other, &by_robot(&other).await, 400, "invalid_scope");
    }

    let both = format!("openid {} {}", by_id(&own), by_domain(domain));
    let (tokens, _) = flow.tokens(&[("scope", &both)]).await;
    let userinfo = flow.userinfo(access_token(&tokens)).await.body;
    let id_token = tokens["id_token"].as_str().expect("there is one");
    for claims in [parts(access_token(&tokens))[1].clone(), parts(id_token)[1].clone(), userinfo] {
        assert_eq!(claims["urn:platform:iam:org:id"], json!(own), "{claims}");
        assert_eq!(claims["urn:platform:iam:org:domain:primary"], json!(domain), "{claims}");
    }
    let (plain, _) = flow.tokens(&[]).await;
    assert_eq!(parts(access_token(&plain))[1].get("urn:platform:iam:org:id"), None);

    for (case, scope) in [
        ("an unknown one", by_id("1")),
        ("an unknown domain", by_domain("nobody.example")),
        ("two", format!("{} {}", by_id(&own), by_id(&other))),
        ("two, one by its domain", format!("{} {}", by_domain(domain), by_id(&other))),
    ] {
        let told = answered(&location(&asked(&scope).await));
        assert_eq!(told["error"], "invalid_scope", "{case}: {told:?}");
    }
    let request = flow.waiting(&[("scope", &format!("openid {}", by_id(&other)))]).await;
    let (_, session) = flow.session().await;
    assert_eq!(flow.finished(&request, &session).await.status, 400, "she is of another one");
}

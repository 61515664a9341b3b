//! The plan Config, and the modules of the plan Basic: `code`, answered in the query.

use jsonwebtoken::jwk::JwkSet;
use reqwest::{Method, StatusCode};
use serde_json::json;
use tests::client::send;

use super::{super::flow::Flow, BASIC, module, run};

#[tokio::test]
async fn oidcc_discovery_endpoint_verification() {
    let flow = Flow::start().await;
    let issuer = &flow.tenant.bootstrap.issuer;
    let answer = send(flow.admin.anonymous(Method::GET, "/.well-known/openid-configuration")).await;
    assert_eq!(
        (answer.status, &answer.headers["content-type"]),
        (StatusCode::OK, &"application/json".parse().unwrap())
    );
    let document = answer.body;
    assert_eq!(document["issuer"], json!(issuer));
    for endpoint in ["authorization_endpoint", "token_endpoint", "userinfo_endpoint", "jwks_uri"] {
        assert!(document[endpoint].as_str().is_some_and(|url| url.starts_with(issuer)), "{endpoint}: {document}");
    }
    for (member, listed) in [
        ("response_types_supported", "code"),
        ("response_types_supported", "id_token"),
        ("response_types_supported", "id_token token"),
        ("response_modes_supported", "form_post"),
        ("grant_types_supported", "implicit"),
        ("subject_types_supported", "public"),
        ("id_token_signing_alg_values_supported", "RS256"),
        ("scopes_supported", "openid"),
        ("claims_supported", "sub"),
        ("code_challenge_methods_supported", "S256"),
    ] {
        let list = document[member].as_array().unwrap_or_else(|| panic!("{member} is a list: {document}"));
        assert!(list.contains(&json!(listed)), "{member}: {listed}");
    }
    let keys = document["jwks_uri"].as_str().and_then(|url| url.strip_prefix(issuer)).expect("it is there");
    let keys: JwkSet = serde_json::from_value(send(flow.admin.anonymous(Method::GET, keys)).await.body).expect("keys");
    assert!(!keys.keys.is_empty());
}

#[tokio::test]
async fn oidcc_server() {
    run(&BASIC, module::oidcc_server).await;
}

#[tokio::test]
async fn oidcc_response_type_missing() {
    run(&BASIC, module::oidcc_response_type_missing).await;
}

#[tokio::test]
async fn oidcc_idtoken_signature() {
    run(&BASIC, module::oidcc_idtoken_signature).await;
}

#[tokio::test]
async fn oidcc_userinfo_get() {
    run(&BASIC, module::oidcc_userinfo_get).await;
}

#[tokio::test]
async fn oidcc_userinfo_post_header() {
    run(&BASIC, module::oidcc_userinfo_post_header).await;
}

#[tokio::test]
async fn oidcc_userinfo_post_body() {
    run(&BASIC, module::oidcc_userinfo_post_body).await;
}

#[tokio::test]
async fn oidcc_scope_profile() {
    run(&BASIC, module::oidcc_scope_profile).await;
}

#[tokio::test]
async fn oidcc_scope_email() {
    run(&BASIC, module::oidcc_scope_email).await;
}

#[tokio::test]
async fn oidcc_scope_address() {
    run(&BASIC, module::oidcc_scope_address).await;
}

#[tokio::test]
async fn oidcc_scope_phone() {
    run(&BASIC, module::oidcc_scope_phone).await;
}

#[tokio::test]
async fn oidcc_scope_all() {
    run(&BASIC, module::oidcc_scope_all).await;
}

#[tokio::test]
async fn oidcc_alternate_happy_flow() {
    run(&BASIC, module::oidcc_alternate_happy_flow).await;
}

#[tokio::test]
async fn oidcc_display_page() {
    run(&BASIC, module::oidcc_display_page).await;
}

#[tokio::test]
async fn oidcc_display_popup() {
    run(&BASIC, module::oidcc_display_popup).await;
}

#[tokio::test]
async fn oidcc_prompt_login() {
    run(&BASIC, module::oidcc_prompt_login).await;
}

#[tokio::test]
async fn oidcc_prompt_none_not_logged_in() {
    run(&BASIC, module::oidcc_prompt_none_not_logged_in).await;
}

#[tokio::test]
async fn oidcc_prompt_none_logged_in() {
    run(&BASIC, module::oidcc_prompt_none_logged_in).await;
}

#[tokio::test]
async fn oidcc_max_age_1() {
    run(&BASIC, module::oidcc_max_age_1).await;
}

#[tokio::test]
async fn oidcc_max_age_10000() {
    run(&BASIC, module::oidcc_max_age_10000).await;
}

#[tokio::test]
async fn oidcc_ensure_request_with_unknown_parameter_succeeds() {
    run(&BASIC, module::oidcc_ensure_request_with_unknown_parameter_succeeds).await;
}

#[tokio::test]
async fn oidcc_id_token_hint() {
    run(&BASIC, module::oidcc_id_token_hint).await;
}

#[tokio::test]
async fn oidcc_login_hint() {
    run(&BASIC, module::oidcc_login_hint).await;
}

#[tokio::test]
async fn oidcc_ui_locales() {
    run(&BASIC, module::oidcc_ui_locales).await;
}

#[tokio::test]
async fn oidcc_claims_locales() {
    run(&BASIC, module::oidcc_claims_locales).await;
}

#[tokio::test]
async fn oidcc_ensure_request_with_acr_values_succeeds() {
    run(&BASIC, module::oidcc_ensure_request_with_acr_values_succeeds).await;
}

#[tokio::test]
async fn oidcc_ensure_registered_redirect_uri() {
    run(&BASIC, module::oidcc_ensure_registered_redirect_uri).await;
}

#[tokio::test]
async fn oidcc_request_uri_unsigned_supported_correctly_or_rejected_as_unsupported() {
    run(&BASIC, module::oidcc_request_uri_unsigned_supported_correctly_or_rejected_as_unsupported).await;
}

#[tokio::test]
async fn oidcc_unsigned_request_object_supported_correctly_or_rejected_as_unsupported() {
    run(&BASIC, module::oidcc_unsigned_request_object_supported_correctly_or_rejected_as_unsupported).await;
}

#[tokio::test]
async fn oidcc_ensure_request_object_with_redirect_uri() {
    run(&BASIC, module::oidcc_ensure_request_object_with_redirect_uri).await;
}

#[tokio::test]
async fn oidcc_claims_essential() {
    run(&BASIC, module::oidcc_claims_essential).await;
}

#[tokio::test]
async fn oidcc_ensure_request_without_nonce_succeeds_for_code_flow() {
    run(&BASIC, module::oidcc_ensure_request_without_nonce_succeeds_for_code_flow).await;
}

#[tokio::test]
async fn oidcc_ensure_post_request_succeeds() {
    run(&BASIC, module::oidcc_ensure_post_request_succeeds).await;
}

#[tokio::test]
async fn oidcc_server_client_secret_post() {
    run(&BASIC, module::oidcc_server_client_secret_post).await;
}

#[tokio::test]
async fn oidcc_codereuse() {
    run(&BASIC, module::oidcc_codereuse).await;
}

#[tokio::test]
async fn oidcc_refresh_token() {
    run(&BASIC, module::oidcc_refresh_token).await;
}

#[tokio::test]
async fn oidcc_ensure_request_with_valid_pkce_succeeds() {
    run(&BASIC, module::oidcc_ensure_request_with_valid_pkce_succeeds).await;
}

#[tokio::test]
async fn oidcc_codereuse_30seconds() {
    module::oidcc_codereuse_30seconds(BASIC[0]).await;
}

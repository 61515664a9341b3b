//! The modules of the plans Form Post, Basic and Implicit: `code`, `id_token` and `id_token token`, answered by a form. A
//! module that is for some of them only runs with these.

use super::{FORM_POST, Variant, module, run, run_with_access_token};

/// The variant of Form Post Basic.
const CODE: [Variant; 1] = [FORM_POST[0]];
/// The variants of Form Post Implicit.
const TOKENS: [Variant; 2] = [FORM_POST[1], FORM_POST[2]];

#[tokio::test]
async fn oidcc_server() {
    run(&FORM_POST, module::oidcc_server).await;
}

#[tokio::test]
async fn oidcc_response_type_missing() {
    run(&FORM_POST, module::oidcc_response_type_missing).await;
}

#[tokio::test]
async fn oidcc_idtoken_signature() {
    run(&FORM_POST, module::oidcc_idtoken_signature).await;
}

#[tokio::test]
async fn oidcc_userinfo_get() {
    run_with_access_token(&FORM_POST, module::oidcc_userinfo_get).await;
}

#[tokio::test]
async fn oidcc_userinfo_post_header() {
    run_with_access_token(&FORM_POST, module::oidcc_userinfo_post_header).await;
}

#[tokio::test]
async fn oidcc_userinfo_post_body() {
    run_with_access_token(&FORM_POST, module::oidcc_userinfo_post_body).await;
}

#[tokio::test]
async fn oidcc_scope_profile() {
    run(&FORM_POST, module::oidcc_scope_profile).await;
}

#[tokio::test]
async fn oidcc_scope_email() {
    run(&FORM_POST, module::oidcc_scope_email).await;
}

#[tokio::test]
async fn oidcc_scope_address() {
    run(&FORM_POST, module::oidcc_scope_address).await;
}

#[tokio::test]
async fn oidcc_scope_phone() {
    run(&FORM_POST, module::oidcc_scope_phone).await;
}

#[tokio::test]
async fn oidcc_scope_all() {
    run(&FORM_POST, module::oidcc_scope_all).await;
}

#[tokio::test]
async fn oidcc_alternate_happy_flow() {
    run(&FORM_POST, module::oidcc_alternate_happy_flow).await;
}

#[tokio::test]
async fn oidcc_display_page() {
    run(&FORM_POST, module::oidcc_display_page).await;
}

#[tokio::test]
async fn oidcc_display_popup() {
    run(&FORM_POST, module::oidcc_display_popup).await;
}

#[tokio::test]
async fn oidcc_prompt_login() {
    run(&FORM_POST, module::oidcc_prompt_login).await;
}

#[tokio::test]
async fn oidcc_prompt_none_not_logged_in() {
    run(&FORM_POST, module::oidcc_prompt_none_not_logged_in).await;
}

#[tokio::test]
async fn oidcc_prompt_none_logged_in() {
    run(&FORM_POST, module::oidcc_prompt_none_logged_in).await;
}

#[tokio::test]
async fn oidcc_max_age_1() {
    run(&FORM_POST, module::oidcc_max_age_1).await;
}

#[tokio::test]
async fn oidcc_max_age_10000() {
    run(&FORM_POST, module::oidcc_max_age_10000).await;
}

#[tokio::test]
async fn oidcc_ensure_request_with_unknown_parameter_succeeds() {
    run(&FORM_POST, module::oidcc_ensure_request_with_unknown_parameter_succeeds).await;
}

#[tokio::test]
async fn oidcc_id_token_hint() {
    run(&FORM_POST, module::oidcc_id_token_hint).await;
}

#[tokio::test]
async fn oidcc_login_hint() {
    run(&FORM_POST, module::oidcc_login_hint).await;
}

#[tokio::test]
async fn oidcc_ui_locales() {
    run(&FORM_POST, module::oidcc_ui_locales).await;
}

#[tokio::test]
async fn oidcc_claims_locales() {
    run(&FORM_POST, module::oidcc_claims_locales).await;
}

#[tokio::test]
async fn oidcc_ensure_request_with_acr_values_succeeds() {
    run(&FORM_POST, module::oidcc_ensure_request_with_acr_values_succeeds).await;
}

#[tokio::test]
async fn oidcc_ensure_registered_redirect_uri() {
    run(&FORM_POST, module::oidcc_ensure_registered_redirect_uri).await;
}

#[tokio::test]
async fn oidcc_request_uri_unsigned_supported_correctly_or_rejected_as_unsupported() {
    run(&FORM_POST, module::oidcc_request_uri_unsigned_supported_correctly_or_rejected_as_unsupported).await;
}

#[tokio::test]
async fn oidcc_unsigned_request_object_supported_correctly_or_rejected_as_unsupported() {
    run(&FORM_POST, module::oidcc_unsigned_request_object_supported_correctly_or_rejected_as_unsupported).await;
}

#[tokio::test]
async fn oidcc_ensure_request_object_with_redirect_uri() {
    run(&FORM_POST, module::oidcc_ensure_request_object_with_redirect_uri).await;
}

#[tokio::test]
async fn oidcc_claims_essential() {
    run(&FORM_POST, module::oidcc_claims_essential).await;
}

#[tokio::test]
async fn oidcc_ensure_request_without_nonce_succeeds_for_code_flow() {
    run(&CODE, module::oidcc_ensure_request_without_nonce_succeeds_for_code_flow).await;
}

#[tokio::test]
async fn oidcc_ensure_post_request_succeeds() {
    run(&CODE, module::oidcc_ensure_post_request_succeeds).await;
}

#[tokio::test]
async fn oidcc_server_client_secret_post() {
    run(&CODE, module::oidcc_server_client_secret_post).await;
}

#[tokio::test]
async fn oidcc_codereuse() {
    run(&CODE, module::oidcc_codereuse).await;
}

#[tokio::test]
async fn oidcc_refresh_token() {
    run(&CODE, module::oidcc_refresh_token).await;
}

#[tokio::test]
async fn oidcc_ensure_request_with_valid_pkce_succeeds() {
    run(&CODE, module::oidcc_ensure_request_with_valid_pkce_succeeds).await;
}

#[tokio::test]
async fn oidcc_codereuse_30seconds() {
    module::oidcc_codereuse_30seconds(CODE[0]).await;
}

#[tokio::test]
async fn oidcc_ensure_request_without_nonce_fails() {
    run(&TOKENS, module::oidcc_ensure_request_without_nonce_fails).await;
}

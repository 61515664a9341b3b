//! The modules of the plan Implicit: `id_token` and `id_token token`, answered in the fragment.

use super::{IMPLICIT, module, run, run_with_access_token};

#[tokio::test]
async fn oidcc_server() {
    run(&IMPLICIT, module::oidcc_server).await;
}

#[tokio::test]
async fn oidcc_response_type_missing() {
    run(&IMPLICIT, module::oidcc_response_type_missing).await;
}

#[tokio::test]
async fn oidcc_idtoken_signature() {
    run(&IMPLICIT, module::oidcc_idtoken_signature).await;
}

#[tokio::test]
async fn oidcc_userinfo_get() {
    run_with_access_token(&IMPLICIT, module::oidcc_userinfo_get).await;
}

#[tokio::test]
async fn oidcc_userinfo_post_header() {
    run_with_access_token(&IMPLICIT, module::oidcc_userinfo_post_header).await;
}

#[tokio::test]
async fn oidcc_userinfo_post_body() {
    run_with_access_token(&IMPLICIT, module::oidcc_userinfo_post_body).await;
}

#[tokio::test]
async fn oidcc_scope_profile() {
    run(&IMPLICIT, module::oidcc_scope_profile).await;
}

#[tokio::test]
async fn oidcc_scope_email() {
    run(&IMPLICIT, module::oidcc_scope_email).await;
}

#[tokio::test]
async fn oidcc_scope_address() {
    run(&IMPLICIT, module::oidcc_scope_address).await;
}

#[tokio::test]
async fn oidcc_scope_phone() {
    run(&IMPLICIT, module::oidcc_scope_phone).await;
}

#[tokio::test]
async fn oidcc_scope_all() {
    run(&IMPLICIT, module::oidcc_scope_all).await;
}

#[tokio::test]
async fn oidcc_alternate_happy_flow() {
    run(&IMPLICIT, module::oidcc_alternate_happy_flow).await;
}

#[tokio::test]
async fn oidcc_display_page() {
    run(&IMPLICIT, module::oidcc_display_page).await;
}

#[tokio::test]
async fn oidcc_display_popup() {
    run(&IMPLICIT, module::oidcc_display_popup).await;
}

#[tokio::test]
async fn oidcc_prompt_login() {
    run(&IMPLICIT, module::oidcc_prompt_login).await;
}

#[tokio::test]
async fn oidcc_prompt_none_not_logged_in() {
    run(&IMPLICIT, module::oidcc_prompt_none_not_logged_in).await;
}

#[tokio::test]
async fn oidcc_prompt_none_logged_in() {
    run(&IMPLICIT, module::oidcc_prompt_none_logged_in).await;
}

#[tokio::test]
async fn oidcc_max_age_1() {
    run(&IMPLICIT, module::oidcc_max_age_1).await;
}

#[tokio::test]
async fn oidcc_max_age_10000() {
    run(&IMPLICIT, module::oidcc_max_age_10000).await;
}

#[tokio::test]
async fn oidcc_ensure_request_with_unknown_parameter_succeeds() {
    run(&IMPLICIT, module::oidcc_ensure_request_with_unknown_parameter_succeeds).await;
}

#[tokio::test]
async fn oidcc_id_token_hint() {
    run(&IMPLICIT, module::oidcc_id_token_hint).await;
}

#[tokio::test]
async fn oidcc_login_hint() {
    run(&IMPLICIT, module::oidcc_login_hint).await;
}

#[tokio::test]
async fn oidcc_ui_locales() {
    run(&IMPLICIT, module::oidcc_ui_locales).await;
}

#[tokio::test]
async fn oidcc_claims_locales() {
    run(&IMPLICIT, module::oidcc_claims_locales).await;
}

#[tokio::test]
async fn oidcc_ensure_request_with_acr_values_succeeds() {
    run(&IMPLICIT, module::oidcc_ensure_request_with_acr_values_succeeds).await;
}

#[tokio::test]
async fn oidcc_ensure_registered_redirect_uri() {
    run(&IMPLICIT, module::oidcc_ensure_registered_redirect_uri).await;
}

#[tokio::test]
async fn oidcc_request_uri_unsigned_supported_correctly_or_rejected_as_unsupported() {
    run(&IMPLICIT, module::oidcc_request_uri_unsigned_supported_correctly_or_rejected_as_unsupported).await;
}

#[tokio::test]
async fn oidcc_unsigned_request_object_supported_correctly_or_rejected_as_unsupported() {
    run(&IMPLICIT, module::oidcc_unsigned_request_object_supported_correctly_or_rejected_as_unsupported).await;
}

#[tokio::test]
async fn oidcc_ensure_request_object_with_redirect_uri() {
    run(&IMPLICIT, module::oidcc_ensure_request_object_with_redirect_uri).await;
}

#[tokio::test]
async fn oidcc_claims_essential() {
    run(&IMPLICIT, module::oidcc_claims_essential).await;
}

#[tokio::test]
async fn oidcc_ensure_request_without_nonce_fails() {
    run(&IMPLICIT, module::oidcc_ensure_request_without_nonce_fails).await;
}

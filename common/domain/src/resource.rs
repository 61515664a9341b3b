//! The resources, one module each.

pub mod app;
pub mod data_key;
pub mod domain;
pub mod execution;
pub mod idp;
pub mod instance;
pub mod key;
pub mod membership;
pub mod organization;
pub mod personal_access_token;
pub mod project;
pub mod project_grant;
pub mod project_role;
#[cfg(feature = "kinds")]
pub mod sample;
pub mod session;
pub mod signing_key;
pub mod system;
pub mod target;
pub mod user;
pub mod user_grant;
pub mod user_metadata;

/// Returns the default of what can be switched off: everything was on before it could be.
fn active() -> bool {
    true
}

/// Joins words to one text, with a space before and after each, so that a search finds complete words.
fn spaced(words: &[String]) -> String {
    words.iter().fold(" ".to_owned(), |text, word| text + word + " ")
}

//! The way into the login pages: to the first one that has something to ask, or straight back to the app.

use axum::response::Response;

use super::{
    next::{go_on, refuse, silently, unavailable},
    register::place,
    visit::{Instead, KnownAccount, Visit, called},
};

/// Sends a browser that comes from an app to the first page that has to ask something.
pub(super) async fn lead(visit: Visit) -> Result<Response, Instead> {
    let is_silent = visit.asks("none");
    let known = match visit.visitor.accounts().await {
        Ok(known) => known,
        Err(_) if is_silent => return unavailable(&visit).await,
        Err(_) => return Err(visit.away()),
    };
    let request = &visit.waiting.request;
    let has_hint = request.hint_user_id.is_some() || request.login_hint.is_some();
    let chosen = if has_hint { hinted(&visit, &known, is_silent) } else { known.first().filter(|_| known.len() == 1) };
    if is_silent {
        if chosen.is_none() && !has_hint && known.len() > 1 {
            let description = "several people are logged in here, and one has to be chosen";
            return refuse(&visit, "account_selection_required", description).await;
        }
        return silently(&visit, chosen.map(|known| known.account.user_id.as_str())).await;
    }
    match chosen {
        _ if visit.asks("create") && place(&visit).await?.is_some() => Ok(visit.visitor.step("/ui/login/register")),
        _ if !known.is_empty() && ["create", "select_account"].iter().any(|prompt| visit.asks(prompt)) => {
            Ok(visit.visitor.step("/ui/login/accounts"))
        }
        Some(known) => go_on(&visit, &known.account.user_id, false).await,
        None if has_hint || known.is_empty() => Ok(visit.visitor.step("/ui/login/name")),
        None => Ok(visit.visitor.step("/ui/login/accounts")),
    }
}

/// Returns the account that the app hints at, by the id of a user or a login hint. Contacts are not compared for silent
/// requests, because apps could guess at them.
fn hinted<'a>(visit: &Visit, known: &'a [KnownAccount], is_silent: bool) -> Option<&'a KnownAccount> {
    let request = &visit.waiting.request;
    if let Some(id) = &request.hint_user_id {
        return known.iter().find(|known| known.account.user_id == *id);
    }
    let kinds = if is_silent { vec![] } else { visit.contacts() };
    called(known, request.login_hint.as_ref()?, &kinds)
}

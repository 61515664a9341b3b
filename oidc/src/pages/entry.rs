//! The way into the login pages: to the first one that has something to ask, or straight back to the app.

use axum::response::Response;
use base::fold::fold;

use super::{
    next::{go_on, silently},
    visit::{Known, Stop, Visit},
};

/// Leads a browser on that an app has sent.
pub(super) async fn lead(mut visit: Visit) -> Result<Response, Stop> {
    let known = visit.visitor.accounts().await.map_err(|_| visit.away())?;
    let hinted = hinted(&visit, &known);
    let is_hinted = visit.waiting.request.hint_user_id.is_some() || hinted.is_some();
    let chosen = match hinted {
        Some(known) => Some(known),
        None if is_hinted => None,
        None => known.first().filter(|_| known.len() == 1),
    };
    if visit.asks("none") {
        if chosen.is_none() && !is_hinted && known.len() > 1 {
            let description = "several people are logged in here, and one has to be chosen";
            return super::next::refuse(&visit, "account_selection_required", description).await;
        }
        return silently(&visit, chosen.map(|known| known.account.user_id.as_str())).await;
    }
    if visit.asks("select_account") && !known.is_empty() {
        return Ok(visit.visitor.step("/ui/login/accounts"));
    }
    match chosen {
        Some(known) => {
            let user_id = known.account.user_id.clone();
            go_on(&mut visit, &user_id, false).await
        }
        None if is_hinted || known.is_empty() => Ok(visit.visitor.step("/ui/login/name")),
        None => Ok(visit.visitor.step("/ui/login/accounts")),
    }
}

/// The account that the app asks for: that of a user, or of whom somebody says to be.
fn hinted<'a>(visit: &Visit, known: &'a [Known]) -> Option<&'a Known> {
    let request = &visit.waiting.request;
    if let Some(id) = &request.hint_user_id {
        return known.iter().find(|known| known.account.user_id == *id);
    }
    let hint = fold(request.login_hint.as_ref()?);
    known.iter().find(|known| fold(known.login_name()) == hint)
}

//! The audience of a token that is exchanged for others: one that neither of them has is refused, and so is one that
//! does not admit the user now.

use std::collections::{HashMap, HashSet};

use view::directory::{Audience, Client, Tenant};

use super::{BAD_SUBJECT, PresentedToken, party::Reading, words_of};
use crate::{Oidc, audience, error::Error, recipient::Login, subject::Subject, token::of_user::is_trusted};

use edge::admission::{holder, own_app};

const TOO_MUCH: Error = Error::InvalidTarget("neither the subject token nor the actor token is for this audience");
const CLOSED: Error = Error::InvalidTarget(
    "an audience is not there or not active, does not admit the user, or takes no tokens of this app or of who acts as others",
);

const TOO_MANY: Error = Error::InvalidTarget("more than 100 audiences are named");
/// How many audiences an app can name.
const MOST_NAMED: usize = 100;

/// The audience that an app requests.
pub(super) struct TokenRequest<'a> {
    /// The requested audiences, space-delimited.
    pub(super) audience: Option<&'a str>,
    /// The only possible audience, where the requested type has one.
    pub(super) only: Option<&'a str>,
}

/// Returns the user of the token with the projects that it is for, and its audience.
pub(super) async fn of(
    reading: &Reading<'_>,
    login: &Login,
    shown: &PresentedToken,
    asked: &TokenRequest<'_>,
) -> Result<(Subject, Vec<String>), Error> {
    let Reading { oidc, tenant, app, .. } = *reading;
    let wanted = audience(shown, asked)?;
    let user = &shown.subject.user;
    let own = audience::project(oidc, tenant, &login.project_id, &user.owner.id, 0).await?.ok_or(CLOSED)?;
    let projects = projects(oidc, tenant, &app.client, &own, &wanted).await?;
    let named: Vec<&str> = projects.values().map(String::as_str).chain([own.id.as_str()]).collect();
    let read = Subject::read(oidc, tenant.clone(), user.clone(), &named).await;
    // The error of an inactive user would mean here that the client had not authenticated.
    let mut subject = read.map_err(|error| if error == Error::InvalidClient { BAD_SUBJECT } else { error })?;
    let platform = subject.tenant.instance.platform_project_id.clone();
    let is_impersonated = login.exchange.as_ref().is_some_and(|exchange| exchange.act.is_some());
    let takes = |project: &Audience| project.id != platform || !is_impersonated && is_trusted(login, project);
    let grants = subject.grants.clone();
    subject.projects.retain(|_, project| project.admits(&grants));
    if !subject.projects.contains_key(&own.id) {
        return Err(CLOSED);
    }
    let is_open = |id: &String| {
        let project = projects.get(id).and_then(|project| subject.projects.get(project));
        project.is_some_and(|project| takes(project))
    };
    let (open, closed): (Vec<_>, Vec<_>) = wanted.into_iter().partition(is_open);
    if open.is_empty() || asked.audience.is_some() && !closed.is_empty() {
        return Err(CLOSED);
    }
    subject.projects.retain(|id, _| open.iter().any(|of| projects.get(of) == Some(id)));
    Ok((subject, open))
}

/// Returns the requested audience, or else that of the first token that has one.
fn audience(shown: &PresentedToken, asked: &TokenRequest<'_>) -> Result<Vec<String>, Error> {
    let of_subject = &shown.subject.audience;
    let of_actor = shown.actor.as_ref().map(|actor| &*actor.audience).unwrap_or_default();
    let default = || if of_subject.is_empty() { of_actor.to_vec() } else { of_subject.clone() };
    let Some(audience) = asked.audience else {
        return Ok(asked.only.map_or_else(default, |only| vec![only.to_owned()]));
    };
    let mut seen = HashSet::new();
    let words = words_of(audience).filter(|word| seen.insert(*word)).map(str::to_owned);
    let words: Vec<String> = words.take(MOST_NAMED + 1).collect();
    if words.len() > MOST_NAMED {
        return Err(TOO_MANY);
    }
    let may = |word: &String| {
        asked.only.is_none_or(|only| only == word) && (of_subject.contains(word) || of_actor.contains(word))
    };
    if words.iter().all(may) { Ok(words) } else { Err(TOO_MUCH) }
}

/// Returns for each id of a project or an app the id of the project.
async fn projects(
    oidc: &Oidc,
    tenant: &Tenant,
    app: &Client,
    own: &Audience,
    ids: &[String],
) -> Result<HashMap<String, String>, Error> {
    let mut projects = HashMap::new();
    for id in ids {
        let project = if *id == app.id || own.apps.contains(id) {
            own.id.clone()
        } else {
            match own_app::find_app(&oidc.edge, tenant, id, 0).await? {
                Some(found) if holder::is_live_app(&oidc.edge, tenant, &found, found.as_of.get()) => {
                    found.app.project_id.clone()
                }
                Some(_) => continue,
                None => id.clone(),
            }
        };
        projects.insert(id.clone(), project);
    }
    Ok(projects)
}

//! Another password for somebody who must choose one.

use askama::Template;
use axum::response::Response;
use domain::setting::password::{Password, Rule, rules};
use http::StatusCode;
use page::component::Frame;
use proto::bus::{ChangePassword, checked::Fault, internal_command::Command};
use view::settings::instance_of;

use super::{
    next::go_on,
    password::asked_for,
    shell::Shell,
    visit::{Posted, Stop, Visit, login_name},
};
use crate::{endpoint, words::Words};

/// The longest password, in characters.
const LONGEST: usize = 200;

#[derive(Template)]
#[template(path = "change.html")]
struct Page<'a> {
    frame: Frame,
    shell: Shell<'a>,
    account: &'a str,
    name: &'a str,
    rules: Vec<String>,
    /// The same for managers of passwords.
    passwordrules: String,
    errors: Vec<String>,
}

/// Whose password it is, and what a new one must have.
struct Whose {
    user_id: String,
    login_name: String,
    rules: Vec<Rule>,
}

impl Whose {
    /// Nothing where it is nobody's whom this browser knows.
    async fn of(visit: &Visit) -> Result<Option<Self>, Stop> {
        let user_id = visit.visitor.form.get("account").unwrap_or_default();
        let Some(account) = visit.visitor.browser.account(user_id) else { return Ok(None) };
        let Some(user) = visit.visitor.user(account).await.map_err(|_| visit.away())? else { return Ok(None) };
        let instance_id = instance_of(&visit.visitor.tenant.id, &user.owner);
        let chain = visit.visitor.oidc.edge.settings.effective::<Password>(instance_id, &user.owner).chain;
        let (user_id, login_name) = (user_id.to_owned(), login_name(&user).to_owned());
        Ok(Some(Self { user_id, login_name, rules: rules(&chain) }))
    }
}

/// Asks for another password.
pub(super) async fn show(visit: Visit) -> Result<Response, Stop> {
    let Some(whose) = Whose::of(&visit).await? else { return Ok(visit.visitor.step(endpoint::LOGIN)) };
    Ok(page(&visit, &whose, (StatusCode::OK, vec![])))
}

/// Changes it.
pub(super) async fn change(Posted(mut visit): Posted) -> Result<Response, Stop> {
    let Some(whose) = Whose::of(&visit).await? else { return Ok(visit.visitor.step(endpoint::LOGIN)) };
    let wrong = |visit: &Visit, errors| Ok(page(visit, &whose, (StatusCode::UNPROCESSABLE_ENTITY, errors)));
    let new_password = visit.visitor.form.raw("password").unwrap_or_default().to_owned();
    if new_password.is_empty() {
        return wrong(&visit, vec![visit.words.get("change.empty").to_owned()]);
    }
    let lacking = whose.rules.iter().filter(|rule| !rule.is_kept(&new_password));
    let is_long = new_password.chars().count() > LONGEST;
    let long = is_long.then(|| visit.words.with("change.long", &[("count", &LONGEST.to_string())]));
    let lacking: Vec<_> = lacking.map(|rule| said(&visit.words, *rule)).chain(long).collect();
    if !lacking.is_empty() {
        return wrong(&visit, lacking);
    }
    let session_token = visit.visitor.browser.account(&whose.user_id).map(|account| account.token.clone());
    let asked = ChangePassword { session_token: session_token.unwrap_or_default(), new_password };
    let checked = asked_for(&visit, Command::ChangePassword(asked)).await.unwrap_or_default();
    match checked.fault() {
        Fault::Unspecified if !checked.session_token.is_empty() => {
            visit.visitor.browser.logged_in(checked.user_id.clone(), (checked.session_token, checked.seen));
            go_on(&visit, &checked.user_id, false).await
        }
        Fault::Same => wrong(&visit, vec![visit.words.get("change.same").to_owned()]),
        Fault::Guessable => wrong(&visit, vec![visit.words.get("change.guessable").to_owned()]),
        Fault::Rules => wrong(&visit, whose.rules.iter().map(|rule| said(&visit.words, *rule)).collect()),
        // The password was checked too long ago to choose another one.
        Fault::Over | Fault::Wrong => {
            let more = [("account", whose.user_id.as_str()), ("again", "1")];
            Ok(visit.visitor.step_by("/ui/login/password", &more))
        }
        Fault::Unspecified | Fault::Tries | Fault::Busy => {
            let error = visit.words.get("password.busy").to_owned();
            Ok(page(&visit, &whose, (StatusCode::SERVICE_UNAVAILABLE, vec![error])))
        }
    }
}

fn said(words: &Words, rule: Rule) -> String {
    let key = match rule {
        Rule::Length(least) => return words.count("change.length", least),
        Rule::Uppercase => "change.uppercase",
        Rule::Lowercase => "change.lowercase",
        Rule::Number => "change.number",
        Rule::Symbol => "change.symbol",
    };
    words.get(key).to_owned()
}

/// The rules as managers of passwords read them.
fn for_managers(rules: &[Rule]) -> String {
    let said = |rule: &Rule| match rule {
        Rule::Length(least) => format!("minlength: {least};"),
        Rule::Uppercase => "required: upper;".to_owned(),
        Rule::Lowercase => "required: lower;".to_owned(),
        Rule::Number => "required: digit;".to_owned(),
        Rule::Symbol => "required: special;".to_owned(),
    };
    rules.iter().map(said).collect::<Vec<_>>().join(" ")
}

fn page(visit: &Visit, whose: &Whose, (status, errors): (StatusCode, Vec<String>)) -> Response {
    let (frame, shell) = Shell::new(visit, visit.words.get("change.title").to_owned());
    let shell = shell.wrong(!errors.is_empty());
    let rules =
        whose.rules.iter().map(|rule| said(&visit.words, *rule)).filter(|rule| !errors.contains(rule)).collect();
    let (account, name, passwordrules) = (&whose.user_id, &whose.login_name, for_managers(&whose.rules));
    visit.visitor.page(status, &Page { frame, shell, account, name, rules, passwordrules, errors })
}

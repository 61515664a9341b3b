//! The page on which somebody without an account registers.

use askama::Template;
use axum::response::Response;
use domain::{
    context::Owner,
    newcomer::{LONGEST, Newcomer, Rule},
};
use edge::internal::CommandFailure;
use http::StatusCode;
use page::{answer::retry_after, component::Frame};
use proto::bus::{Checked, Register, checked::Fault, internal_command::Command};
use view::directory::Locator;

use super::{
    new_password::NewPassword,
    next::go_on,
    shell::Shell,
    visit::{Instead, Posted, Visit},
};
use crate::notice::Notice;

#[derive(Template)]
#[template(path = "register.html")]
struct Page<'a> {
    frame: Frame,
    shell: Shell<'a>,
    fields: Vec<Field<'a>>,
    rules: Vec<String>,
    /// The rules in the format of password managers.
    passwordrules: String,
    errors: Vec<String>,
    /// An error that does not concern the input.
    otherwise: String,
    has_accounts: bool,
}

/// A field with the value that was entered.
struct Field<'a> {
    name: &'static str,
    label: &'a str,
    kind: &'static str,
    autocomplete: &'static str,
    value: &'a str,
    error: String,
}

/// The fields other than the password: name, text, type, and autocomplete token.
const FIELDS: [(&str, &str, &str, &str); 4] = [
    ("given_name", "register.given_name", "text", "given-name"),
    ("family_name", "register.family_name", "text", "family-name"),
    ("email", "register.email", "email", "email"),
    ("username", "name.label", "text", "username"),
];

/// What is wrong with the input.
#[derive(Default)]
struct Wrong {
    /// Errors by the names of fields.
    fields: Vec<(&'static str, String)>,
    password: Vec<String>,
    /// An error that does not concern the input.
    otherwise: String,
}

/// Shows the form.
pub(super) async fn show(visit: Visit) -> Result<Response, Instead> {
    let owner = require_organization(&visit).await?;
    Ok(page(&visit, &owner, StatusCode::OK, Wrong::default()))
}

/// Creates the account, and goes on with it.
pub(super) async fn register(Posted(mut visit): Posted) -> Result<Response, Instead> {
    let owner = require_organization(&visit).await?;
    let said = |name: &str| visit.visitor.form.get(name).unwrap_or_default().to_owned();
    let [given_name, family_name, email, username] = FIELDS.map(|(name, ..)| said(name));
    let password = visit.visitor.form.raw("password").unwrap_or_default().to_owned();
    let newcomer = Newcomer { username, given_name, family_name, email: Some(email) };
    let wrong = wrong(&visit, &newcomer, NewPassword::of(&visit.visitor, &owner).faults(&visit.words, &password));
    if !wrong.fields.is_empty() || !wrong.password.is_empty() {
        return Ok(page(&visit, &owner, StatusCode::UNPROCESSABLE_ENTITY, wrong));
    }
    let Newcomer { username, given_name, family_name, email } = newcomer;
    let (organization_id, email, origin) = (owner.id.clone(), email.unwrap_or_default(), visit.visitor.origin.clone());
    let (request, name) = (visit.visitor.request.clone(), username.clone());
    let user_agent = Some(visit.visitor.user_agent.clone());
    let asked = Register { organization_id, username, given_name, family_name, email, password, origin, user_agent };
    let checked = match visit.visitor.ask(Command::Register(asked)).await {
        Ok(checked) => checked,
        Err(CommandFailure::NoWriter) => Checked { fault: Fault::Busy.into(), ..Checked::default() },
        // The account may exist by now.
        Err(_) => Checked { fault: Fault::Made.into(), ..Checked::default() },
    };
    match checked.fault() {
        Fault::Unspecified if !checked.session_token.is_empty() => {
            visit.visitor.browser.logged_in(checked.user_id.clone(), checked.session_token, checked.seen);
            go_on(&visit, &checked.user_id, false).await
        }
        Fault::Made => {
            visit.visitor.browser.name(&request, &name);
            Ok(visit.visitor.step("/ui/login/password"))
        }
        Fault::Closed => Err(visit.notice(Notice::NO_REGISTRATION)),
        Fault::Tries => {
            let wrong = otherwise(&visit, "password.tries");
            let page = page(&visit, &owner, StatusCode::TOO_MANY_REQUESTS, wrong);
            Ok(retry_after(page, checked.wait_seconds))
        }
        fault => {
            let (status, wrong) = refused(&visit, &owner, fault);
            Ok(page(&visit, &owner, status, wrong))
        }
    }
}

/// Returns the status and the errors for a fault that the person can correct.
fn refused(visit: &Visit, owner: &Owner, fault: Fault) -> (StatusCode, Wrong) {
    let get = |key: &str| visit.words.get(key).to_owned();
    let wrong = match fault {
        Fault::Taken => Wrong { fields: vec![("username", get("register.username.taken"))], ..Wrong::default() },
        Fault::Guessable => Wrong { password: vec![get("change.guessable")], ..Wrong::default() },
        Fault::Rules => {
            let password = NewPassword::of(&visit.visitor, owner).hints(&visit.words, &[]);
            Wrong { password, ..Wrong::default() }
        }
        _ => return (StatusCode::SERVICE_UNAVAILABLE, otherwise(visit, "password.busy")),
    };
    (StatusCode::UNPROCESSABLE_ENTITY, wrong)
}

fn otherwise(visit: &Visit, key: &str) -> Wrong {
    Wrong { otherwise: visit.words.get(key).to_owned(), ..Wrong::default() }
}

/// Returns the organization in which people may register for the app: the requested one, or else the default one.
pub(super) async fn place(visit: &Visit) -> Result<Option<Owner>, Instead> {
    let (request, visitor) = (&visit.waiting.request, &visit.visitor);
    let id = request.organization_id.as_ref().or(visitor.tenant.instance.default_organization_id.as_ref());
    // A request for a particular user does not lead to registration.
    let Some(id) = id.filter(|_| request.hint_user_id.is_none()) else { return Ok(None) };
    let owner = Owner::organization(id);
    let is_open = *visit.visitor.login_of(&owner).resolve(|it| it.allow_register.as_ref()).value
        && visit.visitor.has_passwords(&owner);
    let named = Locator::Id(id.clone());
    let found = visitor.oidc.edge.directory.organization(&visitor.tenant.id, named, 0).await;
    let found = found.map_err(|_| visit.away())?;
    Ok(found.filter(|it| is_open && it.organization.is_active).map(|_| owner))
}

/// Returns the organization of the new account, or the page that refuses registration.
async fn require_organization(visit: &Visit) -> Result<Owner, Instead> {
    place(visit).await?.ok_or_else(|| visit.notice(Notice::NO_REGISTRATION))
}

fn wrong(visit: &Visit, newcomer: &Newcomer, password: Vec<String>) -> Wrong {
    let words = &visit.words;
    let long = words.with("register.long", &[("count", &LONGEST.to_string())]);
    let fields = newcomer.flaws().into_iter().map(|flaw| {
        let is_empty = visit.visitor.form.get(flaw.field).is_none();
        let key = match (flaw.field, flaw.rule) {
            (_, Rule::Address) => "register.email.wrong",
            (_, Rule::NotDigits) => "register.username.digits",
            ("given_name", _) if is_empty => "register.given_name.empty",
            ("family_name", _) if is_empty => "register.family_name.empty",
            ("username", _) if is_empty => "name.empty",
            (_, Rule::Line) => "register.line",
            _ => return (flaw.field, long.clone()),
        };
        (flaw.field, words.get(key).to_owned())
    });
    Wrong { fields: fields.collect(), password, ..Wrong::default() }
}

fn page(visit: &Visit, owner: &Owner, status: StatusCode, wrong: Wrong) -> Response {
    let (frame, shell) = Shell::new(visit, visit.words.get("register.title").to_owned());
    let is_wrong = !wrong.fields.is_empty() || !wrong.password.is_empty() || !wrong.otherwise.is_empty();
    let shell = shell.wrong(is_wrong);
    let field = |(name, label, kind, autocomplete): (&'static str, &str, _, _)| {
        let error = wrong.fields.iter().find(|(field, _)| *field == name).map(|(_, error)| error.clone());
        let value = visit.visitor.form.get(name).unwrap_or_default();
        Field { name, label: visit.words.get(label), kind, autocomplete, value, error: error.unwrap_or_default() }
    };
    let fields = FIELDS.map(field).into();
    let (new, errors, otherwise) = (NewPassword::of(&visit.visitor, owner), wrong.password, wrong.otherwise);
    let (rules, passwordrules) = (new.hints(&visit.words, &errors), new.for_managers());
    let has_accounts = !visit.visitor.browser.accounts().is_empty();
    let page = Page { frame, shell, fields, rules, passwordrules, errors, otherwise, has_accounts };
    visit.visitor.page(status, &page)
}

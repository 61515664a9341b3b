//! The sealed cookie that identifies a browser and names its sessions. Nobody outside can make, read or change one, and
//! it is valid on one instance only.

use std::time::Duration;

use base::{
    explain::explain,
    secret::{SymmetricKey, random_text},
};
use edge::secret_token::SESSION;
use http::{HeaderMap, HeaderValue};
use page::{cookie, site::Site};
use serde::{Deserialize, Serialize};
use view::{directory::Tenant, keyring::Purpose};

use crate::{Oidc, error::Error, session};

/// The name of the cookie.
const COOKIE: &str = "login";
/// The lifetime of the cookie: the longest of a session.
const LASTS: Duration = Duration::from_hours(90 * 24);
/// How many accounts a browser has at a time, so that they fit a cookie.
const MOST_ACCOUNTS: usize = 8;
/// How many consents an account remembers in a browser, so that the apps do not ask again.
const MOST_ALLOWED: usize = 4;
/// How many bytes of a login name are stored between two pages.
const LONGEST_NAME: usize = 800;
/// The longest text that is sealed, in bytes: browsers drop cookies above 4096 with their names and attributes.
const LONGEST: usize = 2900;
const ID: usize = 22;

/// The contents of the cookie. Names of members are short, because cookies are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Browser {
    /// The id that its forms are bound to, renewed at each login.
    #[serde(rename = "i")]
    id: String,
    #[serde(rename = "a")]
    accounts: Vec<Account>,
    /// The login name that was entered, until the user is checked.
    #[serde(rename = "n")]
    named: Option<EnteredLoginName>,
    #[serde(rename = "l")]
    language: Option<Picked>,
}

/// An account with which somebody has logged in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Account {
    /// The user.
    #[serde(rename = "u")]
    pub(super) user_id: String,
    /// The newest token of the session.
    #[serde(rename = "t")]
    pub(super) token: String,
    /// The sequence of the log as of which the user was checked: a node must not read an older state of the user.
    #[serde(rename = "s")]
    pub(super) seen: u64,
    /// The consents, newest last: each the digest of an app and what it may have.
    #[serde(rename = "c", default, skip_serializing_if = "Vec::is_empty")]
    allowed: Vec<String>,
}

/// A login name that was entered for an authorization request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct EnteredLoginName {
    #[serde(rename = "r")]
    request: String,
    #[serde(rename = "n")]
    name: String,
}

/// A language that was picked on a page of an authorization request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Picked {
    #[serde(rename = "r")]
    request: String,
    #[serde(rename = "l")]
    code: String,
}

/// The keys of an instance's cookies and forms.
pub(super) struct Keys {
    seal: SymmetricKey,
    pub(super) form: SymmetricKey,
}

impl Keys {
    pub(super) async fn of(oidc: &Oidc, instance_id: &str) -> Result<Self, Error> {
        let key = oidc.keyring.key(instance_id, Purpose::ClientSecret).await?;
        Ok(Self { seal: key.derived("browsers at login pages"), form: key.derived("forms of login pages") })
    }
}

/// What the ciphertext is bound to.
fn purpose(instance_id: &str) -> String {
    format!("browser at login pages of {instance_id}")
}

/// Returns whether a browser is signed in to this session (`true`) or to others only (`false`); nothing where it is
/// signed in to none.
///
/// # Errors
/// When that cannot be determined.
pub(crate) async fn is_signed_in_to(
    oidc: &Oidc,
    tenant: &Tenant,
    site: &Site,
    headers: &HeaderMap,
    session_id: &str,
) -> Result<Option<bool>, Error> {
    let keys = Keys::of(oidc, &tenant.id).await?;
    let accounts = Browser::read(&keys, &tenant.id, site, headers).map_or(vec![], |browser| browser.accounts);
    if accounts.iter().any(|account| account.session_id() == Some(session_id)) {
        return Ok(Some(true));
    }
    for account in accounts {
        if session::session_by_token(oidc, tenant, &account.token).await?.is_some() {
            return Ok(Some(false));
        }
    }
    Ok(None)
}

impl Account {
    /// The session.
    pub(super) fn session_id(&self) -> Option<&str> {
        SESSION.parse(&self.token).map(|sent| sent.id)
    }
}

impl Browser {
    /// Returns a new browser without accounts.
    pub(super) fn new() -> Self {
        Self { id: random_text(ID), accounts: vec![], named: None, language: None }
    }

    /// Opens the cookie of an instance.
    pub(super) fn read(keys: &Keys, instance_id: &str, site: &Site, headers: &HeaderMap) -> Option<Self> {
        let sealed = cookie::read(headers, site, COOKIE)?;
        let said = keys.seal.open(&purpose(instance_id), sealed).ok()?;
        serde_json::from_slice(&said).ok()
    }

    /// Returns the `Set-Cookie` header for the browser.
    pub(super) fn cookie(&self, keys: &Keys, instance_id: &str, site: &Site) -> Option<HeaderValue> {
        let said = self.fitting().form_bytes()?;
        cookie::set(site, COOKIE, &keys.seal.seal(&purpose(instance_id), &said), LASTS)
    }

    fn form_bytes(&self) -> Option<Vec<u8>> {
        let said = serde_json::to_vec(self);
        said.inspect_err(|error| tracing::error!(error = explain(error), "a cookie cannot be made")).ok()
    }

    /// Returns as much as fits into a cookie: consents are dropped first, then the oldest accounts.
    fn fitting(&self) -> Self {
        let mut fitting = self.clone();
        while fitting.form_bytes().is_some_and(|said| said.len() > LONGEST) {
            if let Some(account) = fitting.accounts.iter_mut().find(|account| !account.allowed.is_empty()) {
                account.allowed.remove(0);
            } else if fitting.accounts.len() > 1 {
                fitting.accounts.remove(0);
            } else {
                break;
            }
        }
        fitting
    }

    /// Returns the text that the form of a request, or of none, is bound to.
    pub(super) fn binding(&self, request: &str) -> String {
        format!("{}/{request}", self.id)
    }

    /// Returns the accounts, newest last.
    pub(super) fn accounts(&self) -> &[Account] {
        &self.accounts
    }

    /// Returns the account of a user.
    pub(super) fn account(&self, user_id: &str) -> Option<&Account> {
        self.accounts.iter().find(|account| account.user_id == user_id)
    }

    /// Adds the account of a user who has logged in, with the token of the session. The id changes, so that forms and
    /// cookies from before the login are useless.
    pub(super) fn logged_in(&mut self, user_id: String, token: String, seen: u64) {
        let allowed = self.account(&user_id).map(|account| account.allowed.clone()).unwrap_or_default();
        self.forget(&user_id);
        self.accounts.push(Account { user_id, token, seen, allowed });
        let beyond = self.accounts.len().saturating_sub(MOST_ACCOUNTS);
        self.accounts.drain(..beyond);
        (self.id, self.named) = (random_text(ID), None);
    }

    /// Forgets an account.
    pub(super) fn forget(&mut self, user_id: &str) {
        self.accounts.retain(|account| account.user_id != user_id);
    }

    /// Whether a user has consented to something in this browser.
    pub(super) fn has_allowed(&self, user_id: &str, what: &str) -> bool {
        self.account(user_id).is_some_and(|account| account.allowed.iter().any(|allowed| allowed == what))
    }

    /// Stores a consent of a user.
    pub(super) fn allow(&mut self, user_id: &str, what: String) {
        let Some(account) = self.accounts.iter_mut().find(|account| account.user_id == user_id) else { return };
        account.allowed.retain(|allowed| *allowed != what);
        account.allowed.push(what);
        let beyond = account.allowed.len().saturating_sub(MOST_ALLOWED);
        account.allowed.drain(..beyond);
    }

    /// Returns the login name that was entered for a request.
    pub(super) fn named(&self, request: &str) -> Option<&str> {
        self.named.as_ref().filter(|named| named.request == request).map(|named| named.name.as_str())
    }

    /// Stores a login name until the next page of a request, cut at [`LONGEST_NAME`].
    pub(super) fn name(&mut self, request: &str, name: &str) {
        let end = (0..=name.len().min(LONGEST_NAME)).rev().find(|end| name.is_char_boundary(*end)).unwrap_or_default();
        self.named = Some(EnteredLoginName { request: request.to_owned(), name: name[..end].to_owned() });
    }

    /// Returns the language that was picked at a request, and the one that was picked last.
    pub(super) fn languages(&self, request: &str) -> (Option<&str>, Option<&str>) {
        let last = self.language.as_ref();
        (
            last.filter(|picked| picked.request == request).map(|picked| picked.code.as_str()),
            last.map(|it| it.code.as_str()),
        )
    }

    /// Stores the language that was picked at a request.
    pub(super) fn pick(&mut self, request: &str, code: &str) {
        let code = code.chars().filter(char::is_ascii_alphanumeric).take(8).collect();
        self.language = Some(Picked { request: request.to_owned(), code });
    }
}

#[cfg(test)]
mod tests {
    use http::{Uri, header};

    use super::*;

    fn site() -> Site {
        let headers = HeaderMap::from_iter([(header::HOST, "localhost:8080".parse().unwrap())]);
        Site::of("http", &Uri::from_static("/ui/login"), &headers).unwrap()
    }

    fn sent(cookie: &HeaderValue) -> HeaderMap {
        let pair = cookie.to_str().unwrap().split(';').next().unwrap().to_owned();
        HeaderMap::from_iter([(header::COOKIE, pair.parse().unwrap())])
    }

    #[test]
    fn a_cookie_is_of_one_instance_and_fits() {
        let keys = Keys { seal: SymmetricKey::random(), form: SymmetricKey::random() };
        let mut browser = Browser::new();
        for number in 0..MOST_ACCOUNTS + 2 {
            let user_id = format!("11748651421191373{number}");
            browser.logged_in(user_id.clone(), format!("sess-{user_id}-{}", "s".repeat(43)), u64::MAX >> 20);
            for app in 0..=MOST_ALLOWED {
                browser.allow(&user_id, format!("{app}{}", "d".repeat(15)));
            }
        }
        browser.name("1-request-of-the-usual-length", &"ä".repeat(1000));
        assert_eq!(browser.accounts().len(), MOST_ACCOUNTS);
        let mut long = browser.clone();
        long.accounts
            .iter_mut()
            .for_each(|account| account.user_id = format!("{}{}", "u".repeat(199), account.seen % 10));
        let cookie = long.cookie(&keys, "1", &site()).unwrap();
        assert!(cookie.len() <= 4096, "{}", cookie.len());
        let kept = Browser::read(&keys, "1", &site(), &sent(&cookie)).unwrap();
        assert_eq!(kept.accounts().last().map(|it| &it.user_id), long.accounts().last().map(|it| &it.user_id));
        let browser = browser.fitting();
        assert_eq!(browser.accounts().len(), MOST_ACCOUNTS, "usual ones fit");
        let cookie = browser.cookie(&keys, "1", &site()).unwrap();
        assert!(cookie.len() <= 4096, "{}", cookie.len());
        assert_eq!(Browser::read(&keys, "1", &site(), &sent(&cookie)), Some(browser));
        assert_eq!(Browser::read(&keys, "2", &site(), &sent(&cookie)), None, "of another instance");
        let others = Keys { seal: SymmetricKey::random(), form: SymmetricKey::random() };
        assert_eq!(Browser::read(&others, "1", &site(), &sent(&cookie)), None, "of another key");
    }

    #[test]
    fn whoever_logs_in_is_known_by_something_new() {
        let mut browser = Browser::new();
        let before = browser.binding("r");
        browser.name("r", "radia");
        assert_eq!((browser.named("r"), browser.named("other")), (Some("radia"), None));
        browser.logged_in("7".into(), "a".into(), 1);
        browser.allow("7", "x".into());
        browser.logged_in("7".into(), "b".into(), 2);
        assert_ne!(browser.binding("r"), before);
        assert_eq!((browser.named("r"), browser.accounts().len()), (None, 1));
        assert!(browser.has_allowed("7", "x") && !browser.has_allowed("8", "x") && !browser.has_allowed("7", "y"));
        assert_eq!(browser.account("7").map(|account| account.token.as_str()), Some("b"));
        browser.pick("r", "de");
        assert_eq!(browser.languages("r"), (Some("de"), Some("de")));
        assert_eq!(browser.languages("s"), (None, Some("de")));
    }
}

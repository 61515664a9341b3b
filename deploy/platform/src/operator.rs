//! Requests of operators to a running platform, with tokens of a data directory's system user.

use std::{path::PathBuf, time::Duration};

use base::explain::explain;
use command::setup::{ADMIN, FirstPerson};
use jiff::Timestamp;
use reqwest::{Method, RequestBuilder, header::HOST};
use serde_json::{Value, json};
use tokio::time::sleep;
use url::Url;

use crate::{
    Failure,
    bootstrap::{Bootstrap, Renewal},
    cli,
    data_dir::DataDir,
    first_login::{FirstLogin, path_in},
    output, system_user,
};

/// The scope that the platform's API requires.
const SCOPE: &str = "openid urn:platform:iam:org:project:id:platform:aud";
/// How long an answer may take: longer than the time limit of a node.
const LIMIT: Duration = Duration::from_secs(70);
/// How often a new secret is tried, and the pause in between.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(500);
/// How many executions are listed at most.
const LISTED: u64 = 1000;
/// The path of the resources of an instance.
pub(crate) const RESOURCES: &str = "/resources/v3alpha";

/// A client of a platform, which sends tokens of its system user.
pub(crate) struct Operator {
    base: String,
    /// The host of the issuer, by which every node finds the instance.
    host: String,
    folder: PathBuf,
    issuer: String,
    client: reqwest::Client,
}

impl Operator {
    pub(crate) fn new(cli::At { of, url }: &cli::At) -> Result<Self, Failure> {
        let (issuer, running) = (of.issuer()?, DataDir::address(&of.data.data_dir));
        Ok(Self {
            base: url.as_ref().map(|url| url.origin().ascii_serialization()).or(running).unwrap_or(issuer.clone()),
            host: issuer.split_once("://").map_or(issuer.as_str(), |(_, host)| host).to_owned(),
            folder: of.data.data_dir.clone(),
            issuer,
            client: reqwest::Client::builder().no_proxy().timeout(LIMIT).build()?,
        })
    }

    /// Calls an operation, and waits until the read models have its effect, unless one of them lags.
    pub(crate) async fn send(&self, method: Method, path: &str, body: Option<Value>) -> Result<Value, Failure> {
        self.answer(self.request(method, path)?.header("prefer", "wait=10"), body).await
    }

    /// Calls an operation whose effect nobody reads afterwards.
    pub(crate) async fn send_at_once(&self, method: Method, path: &str, body: Option<Value>) -> Result<Value, Failure> {
        self.answer(self.request(method, path)?, body).await
    }

    fn request(&self, method: Method, path: &str) -> Result<RequestBuilder, Failure> {
        let request = self.client.request(method, format!("{}{path}", self.base)).header(HOST, &self.host);
        Ok(request.bearer_auth(system_user::token(&self.folder, &self.issuer)?))
    }

    async fn answer(&self, request: RequestBuilder, body: Option<Value>) -> Result<Value, Failure> {
        let request = body.iter().fold(request, RequestBuilder::json);
        let answer = request.send().await.map_err(|error| {
            let error = explain(&error);
            format!("{} does not answer: {error}; start the platform, or name a node elsewhere with --url", self.base)
        })?;
        let (is_done, body) = (answer.status().is_success(), answer.text().await?);
        if !is_done {
            return Err(refusal(&body).into());
        }
        Ok(serde_json::from_str(&body)?)
    }

    /// Returns the audience of a token of a client, which is the platform's project. A new secret is accepted within a
    /// second.
    async fn project(&self, client_id: &str, secret: &str) -> Result<String, Failure> {
        let mut tries = 1..TRIES;
        loop {
            match self.audience(client_id, secret).await {
                Err(_) if tries.next().is_some() => sleep(PAUSE).await,
                outcome => return outcome,
            }
        }
    }

    async fn audience(&self, client_id: &str, secret: &str) -> Result<String, Failure> {
        let form = [("grant_type", "client_credentials"), ("scope", SCOPE)];
        let request = self.client.post(format!("{}/oauth/v2/token", self.base)).header(HOST, &self.host);
        let answer = request.basic_auth(client_id, Some(secret)).form(&form).send().await?;
        let (status, text) = (answer.status(), answer.text().await?);
        let answer: Value = serde_json::from_str(&text)?;
        let token = answer["access_token"].as_str();
        let token = token.ok_or_else(|| format!("the new secret gives no token, {status}: {text}"))?;
        let claims = jsonwebtoken::dangerous::insecure_decode::<Value>(token)?.claims;
        Ok(claims["aud"][0].as_str().unwrap_or_default().to_owned())
    }
}

/// Encodes a name as a segment of a path. A segment of dots is refused: it would be removed however it is written, and
/// lead to another path (RFC 3986, section 5.2.4).
pub(crate) fn segment(name: &str) -> Result<String, Failure> {
    if matches!(name, "" | "." | "..") {
        return Err(format!("nothing has the id or name {name:?}: check it").into());
    }
    Ok(url::form_urlencoded::byte_serialize(name.as_bytes()).collect::<String>().replace('+', "%20"))
}

/// Formats the answer of a refused request as a sentence with its reason, which docs/errors.md explains.
fn refusal(body: &str) -> String {
    let told = serde_json::from_str::<Value>(body).unwrap_or_default();
    let (message, reason) = (told["message"].as_str(), told["details"][0]["reason"].as_str());
    let (Some(message), Some(reason)) = (message, reason) else {
        return format!("the server that answered is not a platform; it says: {}", shortened(body));
    };
    let elsewhere = matches!(reason, "ROUTE_NOT_FOUND" | "METHOD_NOT_ALLOWED" | "NOT_IMPLEMENTED");
    let hint = match reason {
        _ if elsewhere => "; name a node of another role with --url",
        "TOKEN_INVALID" => "; check that --data-dir is that of this platform",
        _ => "",
    };
    format!("the platform refused it: {message} ({reason}){hint}")
}

/// Returns the beginning of a text on one line.
fn shortened(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { ' ' } else { char }).take(200).collect()
}

/// Prints a sign-in link to the pages of operators. It begins with the given address where that has the issuer's host,
/// and else with the issuer: under any other host no node would find the instance.
pub(crate) async fn print_link(at: &cli::At) -> Result<(), Failure> {
    let operator = Operator::new(at)?;
    let made = operator.send(Method::POST, "/ui/operate/link", None).await?;
    let path = made["path"].as_str().ok_or("the answer has no link: name a query node with --url")?;
    let own = at.url.as_ref().map(|url| url.origin().ascii_serialization());
    let host = |url: &str| Url::parse(url).ok().and_then(|url| url.host_str().map(str::to_owned));
    let named = own.filter(|own| host(own) == host(&operator.issuer));
    output::print(format!("{}{path}", named.unwrap_or_else(|| operator.issuer.clone())));
    output::notice("open the link in a browser and press the button; it works once, within five minutes");
    Ok(())
}

/// Prints the executions of an instance.
pub(crate) async fn list_executions(options: cli::ListExecutions) -> Result<(), Failure> {
    let operator = Operator::new(&options.at)?;
    let body = json!({ "query": { "limit": LISTED, "asc": true } });
    let found = operator.send(Method::POST, &format!("{RESOURCES}/executions/_search"), Some(body)).await?;
    let result = found["result"].as_array().map(Vec::as_slice).unwrap_or_default();
    for execution in result {
        output::print(if options.json { execution.to_string() } else { execution_line(execution) });
    }
    let total = found["details"]["totalResult"].as_str().unwrap_or("0");
    output::notice(format!("{} of {total} executions", result.len()));
    Ok(())
}

fn execution_line(found: &Value) -> String {
    let ids = |member: &str| {
        let list = found["execution"][member].as_array().map(Vec::as_slice).unwrap_or_default();
        list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
    };
    let id = found["details"]["id"].as_str().unwrap_or_default();
    match (ids("targets"), ids("includes")) {
        (targets, includes) if targets.is_empty() => format!("{id} calls the targets of {includes}"),
        (targets, includes) if includes.is_empty() => format!("{id} calls {targets}"),
        (targets, includes) => format!("{id} calls {targets}, and the targets of {includes}"),
    }
}

/// Removes an execution. No execution can prevent that: none is called for requests of a system user.
pub(crate) async fn delete_execution(options: cli::DeleteExecution) -> Result<(), Failure> {
    let operator = Operator::new(&options.at)?;
    operator
        .send(Method::DELETE, &format!("{RESOURCES}/executions/{}", segment(&options.id)?), None)
        .await
        .map_err(|error| format!("it was not removed: {error}"))?;
    output::print("removed");
    Ok(())
}

/// Gives the first service user of a data directory a new secret, and writes `bootstrap.json` with it, even if that is
/// lost. The old secret ends at once.
pub(crate) async fn renew_bootstrap(options: cli::RenewBootstrap) -> Result<(), Failure> {
    let (folder, issuer) = (&options.at.of.data.data_dir, options.at.of.issuer()?);
    let operator = Operator::new(&options.at)?;
    let person_id = Bootstrap::person_of(folder);
    if let Some(name) = &options.first_person {
        let id = match person_id.filter(|_| name.is_empty()) {
            Some(id) => id,
            None => operator.id_of(name).await?,
        };
        return operator.renew_first_login(&id).await;
    }
    // By its id where that is known, since its user name may have changed.
    let found = operator.user(match Bootstrap::user_of(folder) {
        Some(id) => json!({ "inIds": { "ids": [id] } }),
        None => json!({ "username": { "name": ADMIN } }),
    });
    let found = found.await?;
    let (user, client_id) = (&found["details"], found["user"]["username"].as_str().unwrap_or_default());
    let user_id = user["id"].as_str().ok_or_else(|| format!("the instance has no user {ADMIN} any more"))?;
    if found["state"] != "EFFECTIVE_STATE_ACTIVE" {
        operator.send(Method::POST, &format!("{RESOURCES}/users/{user_id}/_reactivate"), None).await?;
        output::notice(format!("{client_id} was switched off and is on again"));
    }
    let default = operator.send(Method::GET, &format!("{RESOURCES}/organizations/_instance_default"), None).await?;
    let made = operator.send(Method::POST, &format!("{RESOURCES}/users/{user_id}/_generate_secret"), None).await?;
    let secret = made["clientSecret"].as_str().ok_or("the answer shows no secret")?;
    let owner = |details: &Value| details["resourceOwner"]["id"].as_str().unwrap_or_default().to_owned();
    let renewal = Renewal {
        issuer,
        instance_id: owner(&default["organization"]["details"]),
        organization_id: owner(user),
        project_id: operator.project(client_id, secret).await?,
        user_id: user_id.to_owned(),
        client_id: client_id.to_owned(),
        client_secret: secret.to_owned(),
    };
    let path = Bootstrap::renew(folder, renewal)?;
    output::print(format!("the new secret of {client_id} is in {}", path.display()));
    match person_id {
        Some(id) if operator.awaits_first_login(&id).await? => operator.renew_first_login(&id).await,
        _ => Ok(()),
    }
}

impl Operator {
    /// Whether a person may log in, and still has the password of a first login.
    async fn awaits_first_login(&self, id: &str) -> Result<bool, Failure> {
        let found = self.user(json!({ "inIds": { "ids": [id] } })).await?;
        let password = &found["password"];
        let may_log_in = found["userState"] == "USER_STATE_ACTIVE";
        Ok(may_log_in && password["changeRequired"] == true && password["expirationDate"].is_string())
    }

    /// Returns the id of the person with a login name.
    async fn id_of(&self, name: &str) -> Result<String, Failure> {
        if name.is_empty() {
            let file = self.folder.join("bootstrap.json");
            return Err(format!("{} names no first person: give --first-person NAME", file.display()).into());
        }
        let found = self.user(json!({ "username": { "name": name } })).await?;
        let id = found["details"]["id"].as_str().ok_or_else(|| format!("the instance has no user {name}"))?;
        Ok(id.to_owned())
    }

    /// Returns the user that a filter finds; null where there is none.
    async fn user(&self, filter: Value) -> Result<Value, Failure> {
        let mut found = self.send(Method::POST, &format!("{RESOURCES}/users/_search"), Some(json!([filter]))).await?;
        Ok(found["result"].get_mut(0).map(Value::take).unwrap_or_default())
    }

    /// Gives a person another one-time password, and writes it to the file of the first login in the data directory.
    async fn renew_first_login(&self, id: &str) -> Result<(), Failure> {
        let path = format!("{RESOURCES}/users/{id}");
        let found = self.send(Method::GET, &path, None).await?;
        let user = &found["user"];
        let username = user["user"]["username"].as_str().unwrap_or_default();
        let (password, expires_at) = FirstPerson::one_time_password();
        let expiration = Timestamp::from_millisecond(expires_at)?.to_string();
        let body = json!({ "newPassword": password, "changeRequired": true, "expirationDate": expiration });
        self.send(Method::POST, &format!("{path}/password"), Some(body)).await?;
        // Only after the former password was replaced, so that nobody can log in with that.
        let again = match user["userState"].as_str() {
            Some("USER_STATE_LOCKED") => Some("_unlock"),
            Some("USER_STATE_INACTIVE") => Some("_reactivate"),
            _ => None,
        };
        if let Some(verb) = again {
            self.send(Method::POST, &format!("{path}/{verb}"), None).await?;
            output::notice(format!("{username} could not log in and may again"));
        }
        let file = path_in(&self.folder);
        FirstLogin { issuer: &self.issuer, username, password: &password, expires_at }.write(&file)?;
        output::print(format!("how {username} logs in is in {}", file.display()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_is_one_part_of_a_path() {
        assert_eq!(segment("a b/../c+d?").unwrap(), "a%20b%2F..%2Fc%2Bd%3F");
        for folded in ["", ".", ".."] {
            assert!(segment(folded).is_err(), "{folded}");
        }
    }
}

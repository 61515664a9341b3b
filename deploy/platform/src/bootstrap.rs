//! The files that the first start leaves for its user: who may log in, and the commands to try.
//!
//! The plan is on disk before it is carried out, so that a crash in between loses no secret.

use std::{
    fs,
    path::{Path, PathBuf},
};

use base::id::Ids;
use command::setup::{self, Additions, Plan, ServiceUser, WantedUser};
use domain::newcomer::Newcomer;
use serde::{Deserialize, Serialize};

use crate::{
    Failure,
    data_dir::{DataDir, write_atomically},
    first_login::FirstLogin,
    output,
};

/// `bootstrap.json`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Bootstrap {
    /// The issuer of the instance.
    issuer: String,
    instance_id: String,
    organization_id: String,
    project_id: String,
    /// The service user with all rights.
    service_user: ServiceUser,
    /// The service users of the setup file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    service_users: Vec<ServiceUser>,
    /// The first person, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    first_person_id: Option<String>,
}

/// The new secret of the service user with all rights, with everything that its file says of the instance.
pub(crate) struct Renewal {
    pub(crate) issuer: String,
    pub(crate) instance_id: String,
    pub(crate) organization_id: String,
    pub(crate) project_id: String,
    pub(crate) user_id: String,
    pub(crate) client_id: String,
    pub(crate) client_secret: String,
}

impl Bootstrap {
    /// Returns the issuer of the instance of a data directory.
    pub(crate) fn issuer_of(folder: &Path) -> Result<String, Failure> {
        let path = folder.join("bootstrap.json");
        let text = fs::read(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        Ok(serde_json::from_slice::<Self>(&text)?.issuer)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SetupFile {
    #[serde(default)]
    service_user: Vec<WantedUser>,
    first_person: Option<Newcomer>,
}

/// Returns the plan of an interrupted earlier start, if the log may have been set up with it; else a new plan, which is
/// stored until it is carried out. For an empty log the plan is always new.
pub(crate) fn plan(
    data: &DataDir,
    ids: &Ids,
    hosts: Vec<String>,
    wanted: &Additions,
    log_is_empty: bool,
) -> Result<Plan, Failure> {
    let path = plan_file(data);
    if !log_is_empty && is_planned(data) {
        let kept = fs::read(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        return Ok(serde_json::from_slice(&kept)?);
    }
    let plan = Plan::new(ids, hosts, wanted)?;
    write_atomically(&path, &serde_json::to_vec_pretty(&plan)?)?;
    Ok(plan)
}

/// Whether an earlier start was interrupted, and the log may have been set up with its plan.
pub(crate) fn is_planned(data: &DataDir) -> bool {
    plan_file(data).exists()
}

/// Removes a plan that will not be carried out.
pub(crate) fn forget_plan(data: &DataDir) -> Result<(), Failure> {
    Ok(fs::remove_file(plan_file(data))?)
}

fn plan_file(data: &DataDir) -> PathBuf {
    data.path().join("bootstrap.plan.json")
}

/// Returns what the setup file requests in addition to the defaults, with these feature flags. With `has_person` and no
/// person in the file, the first person has the default name.
pub(crate) fn additions(setup: Option<&Path>, features: Vec<String>, has_person: bool) -> Result<Additions, Failure> {
    let person = has_person.then(Newcomer::default);
    let Some(file) = setup else { return Ok(Additions { service_users: vec![], person, features }) };
    let text =
        fs::read_to_string(file).map_err(|error| format!("cannot read the setup file {}: {error}", file.display()))?;
    let setup: SetupFile =
        toml::from_str(&text).map_err(|error| format!("the setup file {}: {error}", file.display()))?;
    let wanted = Additions { service_users: setup.service_user, person: setup.first_person.or(person), features };
    setup::check(&wanted).map_err(|error| format!("the setup file {}: {error}", file.display()))?;
    Ok(wanted)
}

impl Bootstrap {
    /// Writes `bootstrap.json` and how the first person logs in, and removes the plan.
    pub(crate) fn write(data: &DataDir, issuer: String, plan: Plan, first_login: &Path) -> Result<(), Failure> {
        if let Some(person) = &plan.person {
            FirstLogin::of(&issuer, person).write(first_login)?;
        }
        let mut users = plan.service_users.into_iter();
        let service_user = users.next().ok_or("a plan has a service user")?;
        let bootstrap = Self {
            issuer,
            instance_id: plan.instance_id,
            organization_id: plan.organization_id,
            project_id: plan.project_id,
            service_user,
            service_users: users.collect(),
            first_person_id: plan.person.map(|person| person.user_id),
        };
        write_atomically(&data.bootstrap(), &serde_json::to_vec_pretty(&bootstrap)?)?;
        forget_plan(data)
    }

    /// Returns the id of the service user with all rights, where that is known.
    pub(crate) fn user_of(folder: &Path) -> Option<String> {
        let text = fs::read(folder.join("bootstrap.json")).ok()?;
        Some(serde_json::from_slice::<Self>(&text).ok()?.service_user.user_id)
    }

    /// Returns the id of the first person, where there is one.
    pub(crate) fn person_of(folder: &Path) -> Option<String> {
        let text = fs::read(folder.join("bootstrap.json")).ok()?;
        serde_json::from_slice::<Self>(&text).ok()?.first_person_id
    }

    /// Writes the file with a new secret of its service user. What it has of other users is preserved.
    pub(crate) fn renew(folder: &Path, renewal: Renewal) -> Result<PathBuf, Failure> {
        let Renewal { issuer, instance_id, organization_id, project_id, user_id, client_id, client_secret } = renewal;
        let path = folder.join("bootstrap.json");
        let before = fs::read(&path).ok().and_then(|text| serde_json::from_slice::<Self>(&text).ok());
        let service_user =
            ServiceUser { user_id, client_id, client_secret, roles: vec![domain::role::IAM_OWNER.name.to_owned()] };
        let (service_users, first_person_id) =
            before.map(|before| (before.service_users, before.first_person_id)).unwrap_or_default();
        let renewed =
            Self { issuer, instance_id, organization_id, project_id, service_user, service_users, first_person_id };
        write_atomically(&path, &serde_json::to_vec_pretty(&renewed)?)?;
        Ok(path)
    }

    /// Returns the next steps for a user: how the first person logs in, where that was just written to a file, and
    /// commands that are ready to paste. The password is shown on a terminal only.
    pub(crate) fn commands(data: &DataDir, issuer: &str, first_login: Option<&PathBuf>) -> String {
        let file = shell_quoted(&data.bootstrap().display().to_string());
        let folder = data.path().display();
        let told = first_login.filter(|_| output::is_terminal()).and_then(|path| fs::read_to_string(path).ok());
        let login = match (first_login, told) {
            (Some(path), Some(text)) => format!("\nThe first login, which is also in {}:\n\n{text}", path.display()),
            (Some(path), None) => format!("\nHow the first person logs in is in {}\n", path.display()),
            (None, _) => String::new(),
        };
        format!(
            r#"
The platform runs at {issuer}
{login}
  # a token for the service user of the first start
  CLIENT=$(sed -nE 's/.*"client(Id|Secret)": "(.*)".*/\2/p' {file} | head -2 | paste -sd:)
  TOKEN=$(curl -s {issuer}/oauth/v2/token -u "$CLIENT" -d grant_type=client_credentials \
    -d 'scope=openid urn:platform:iam:org:project:id:platform:aud' | sed -E 's/.*"access_token":"([^"]+)".*/\1/')

  # create a target
  TARGET=$(curl -s {issuer}/resources/v3alpha/targets \
    -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' \
    -d '{{"name": "first", "restWebhook": {{"url": "https://example.com/hook"}}}}'); echo "$TARGET"

  # read it back
  ID=$(echo "$TARGET" | sed -E 's/.*"id":"([0-9]+)","seq.*/\1/')
  curl -s {issuer}/resources/v3alpha/targets/$ID -H "Authorization: Bearer $TOKEN"

Ctrl-C ends it; the data stays in {folder}.
"#
        )
    }
}

/// Quotes a word for a POSIX shell.
fn shell_quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_plan_counts_only_where_it_may_have_been_carried_out() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::open(folder.path(), None, || [7; 32]).unwrap();
        let ids = Ids::new(0);
        let plan = |names: &[&str], log_is_empty| {
            let user = |name: &&str| WantedUser { name: (*name).to_owned(), roles: vec![] };
            let wanted = Additions { service_users: names.iter().map(user).collect(), ..Additions::default() };
            let plan = plan(&data, &ids, vec!["localhost".into()], &wanted, log_is_empty).unwrap();
            let names: Vec<_> = plan.service_users.into_iter().skip(1).map(|user| user.client_id).collect();
            (plan.instance_id, names)
        };
        let first = plan(&["wrong"], true);
        assert_eq!(plan(&["right"], false), first, "it may be in the log");
        let second = plan(&["right"], true);
        assert_eq!(second.1, ["right"], "it cannot be in an empty log");
        assert_eq!(plan(&[], false), second);
        forget_plan(&data).unwrap();
        assert_ne!(plan(&["right"], false), second);
    }

    #[test]
    fn quotes_survive() {
        assert_eq!(shell_quoted("it's"), r"'it'\''s'");
    }
}

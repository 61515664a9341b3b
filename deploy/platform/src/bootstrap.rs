//! What the first start leaves for the newcomer: who may log in, and the commands to try.
//!
//! The plan is on disk before it is carried out, so that a crash in between loses no secret.

use std::{fs, path::Path};

use command::setup::{Plan, ServiceUser, Wanted};
use serde::{Deserialize, Serialize};
use store::id::Ids;

use crate::{
    Failure,
    data_dir::{DataDir, write_atomically},
};

/// `bootstrap.json`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Bootstrap {
    /// The issuer of the instance.
    pub(crate) issuer: String,
    instance_id: String,
    organization_id: String,
    project_id: String,
    /// The one with all rights.
    service_user: ServiceUser,
    /// Those that the setup file asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    service_users: Vec<ServiceUser>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SetupFile {
    #[serde(default)]
    service_user: Vec<Wanted>,
}

/// The plan of an earlier start that was cut short, else a new one, which is kept until it is carried out.
pub(crate) fn plan(data: &DataDir, ids: &Ids, hosts: Vec<String>, setup: Option<&Path>) -> Result<Plan, Failure> {
    let path = data.path().join("bootstrap.plan.json");
    if let Ok(kept) = fs::read(&path) {
        return Ok(serde_json::from_slice(&kept)?);
    }
    let wanted = match setup {
        Some(file) => read_setup(file)?,
        None => vec![],
    };
    let plan = Plan::new(ids, hosts, &wanted)?;
    write_atomically(&path, &serde_json::to_vec_pretty(&plan)?)?;
    Ok(plan)
}

fn read_setup(file: &Path) -> Result<Vec<Wanted>, Failure> {
    let text =
        fs::read_to_string(file).map_err(|error| format!("cannot read the setup file {}: {error}", file.display()))?;
    let setup: SetupFile =
        toml::from_str(&text).map_err(|error| format!("the setup file {}: {error}", file.display()))?;
    Ok(setup.service_user)
}

impl Bootstrap {
    /// What an earlier start left.
    pub(crate) fn read(data: &DataDir) -> Result<Option<Self>, Failure> {
        match fs::read(data.bootstrap()) {
            Ok(text) => Ok(Some(serde_json::from_slice(&text).map_err(|error| {
                format!("{} cannot be read: {error}; put it back as it was", data.bootstrap().display())
            })?)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Leaves what was carried out, and forgets the plan.
    pub(crate) fn write(data: &DataDir, issuer: String, plan: Plan) -> Result<Self, Failure> {
        let mut users = plan.service_users.into_iter();
        let service_user = users.next().ok_or("a plan has a service user")?;
        let bootstrap = Self {
            issuer,
            instance_id: plan.instance_id,
            organization_id: plan.organization_id,
            project_id: plan.project_id,
            service_user,
            service_users: users.collect(),
        };
        write_atomically(&data.bootstrap(), &serde_json::to_vec_pretty(&bootstrap)?)?;
        fs::remove_file(data.path().join("bootstrap.plan.json"))?;
        Ok(bootstrap)
    }

    /// The commands that a newcomer wants next, ready to paste.
    pub(crate) fn commands(&self, data: &DataDir) -> String {
        let (issuer, file) = (&self.issuer, data.bootstrap());
        let file = shell_quoted(&file.display().to_string());
        let folder = data.path().display();
        format!(
            r#"
The platform runs at {issuer}

  # a token for the service user of the first start
  CLIENT=$(sed -nE 's/.*"client(Id|Secret)": "(.*)".*/\2/p' {file} | head -2 | paste -sd:)
  TOKEN=$(curl -s {issuer}/oauth/v2/token -u "$CLIENT" -d grant_type=client_credentials \
    -d 'scope=openid urn:platform:iam:org:project:id:platform:aud' | sed -E 's/.*"access_token":"([^"]+)".*/\1/')

  # create a target
  curl -s -D headers {issuer}/resources/v3alpha/targets \
    -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' \
    -d '{{"name": "first", "restWebhook": {{"url": "https://example.com/hook"}}}}' | tee target.json

  # read it back; the consistency token makes the read wait for the write
  curl -s {issuer}/resources/v3alpha/targets/$(sed -E 's/.*"id":"([0-9]+)","seq.*/\1/' target.json) \
    -H "Authorization: Bearer $TOKEN" -H "$(grep -i ^consistency-token headers | tr -d '\r')"

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
    use super::shell_quoted;

    #[test]
    fn quotes_survive() {
        assert_eq!(shell_quoted("it's"), r"'it'\''s'");
    }
}

//! Apps, the clients of projects.

pub mod oidc;

use serde::{Deserialize, Serialize};

use self::oidc::{Oidc, OidcPatch};
use super::{active, project::Project};
use crate::{
    client_secret::{ClientSecrets, Renewal},
    column::Column,
    context::PartKind,
    permission::{Permissions, STANDARD},
    projection::{ACCESS, Name},
    reference::{Link, Reference},
    rejection::Rejection,
    standard::{PartOf, Resource, States},
};

/// A client of a project. Its id is what it authenticates as.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct App {
    /// The project.
    pub project_id: String,
    /// The display name; need not be unique.
    pub name: String,
    /// The type of the app and its settings.
    pub config: Config,
    /// Whether its assertions may name the token endpoint as audience, instead of the issuer.
    #[serde(default)]
    pub allow_token_endpoint_audience: bool,
    /// Its client secrets, if its authentication method has any.
    #[serde(flatten)]
    pub secrets: ClientSecrets,
    /// Whether the app is switched on; it cannot authenticate while it is off.
    #[serde(default = "active")]
    pub is_active: bool,
}

/// The type of an app and its settings.
#[expect(clippy::large_enum_variant, reason = "most apps are of the large one")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Config {
    /// An app in which people log in.
    Oidc(Oidc),
    /// A program that checks the tokens which others send to it.
    Api {
        /// How it authenticates.
        auth_method: AuthMethod,
    },
}

/// How an app authenticates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthMethod {
    /// With a secret in a header.
    #[default]
    Basic,
    /// With a secret in the form.
    Post,
    /// Not at all.
    None,
    /// With a key of its own.
    PrivateKeyJwt,
}

impl AuthMethod {
    /// Whether it takes a secret.
    pub const fn has_secret(self) -> bool {
        matches!(self, Self::Basic | Self::Post)
    }
}

impl Config {
    /// Returns the settings of an app in which people log in.
    pub const fn oidc(&self) -> Option<&Oidc> {
        match self {
            Self::Oidc(oidc) => Some(oidc),
            Self::Api { .. } => None,
        }
    }

    /// Returns how the app authenticates.
    pub const fn auth_method(&self) -> AuthMethod {
        match self {
            Self::Oidc(oidc) => oidc.auth_method,
            Self::Api { auth_method } => *auth_method,
        }
    }
}

/// A partial update of an [`App`].
#[derive(Debug, Clone, Default)]
pub struct AppPatch {
    /// See [`App::name`].
    pub name: Option<String>,
    /// See [`App::config`].
    pub config: Option<ConfigPatch>,
    /// See [`App::allow_token_endpoint_audience`].
    pub allow_token_endpoint_audience: Option<bool>,
    /// The replacement of the client secret.
    pub renewal: Option<Renewal>,
}

/// A partial update of a [`Config`].
#[derive(Debug, Clone)]
pub enum ConfigPatch {
    /// The update of an app in which people log in.
    Oidc(Box<OidcPatch>),
    /// The update of a program that checks tokens: how it authenticates.
    Api(Option<AuthMethod>),
}

impl ConfigPatch {
    /// Whether the update is for apps of this type.
    pub const fn fits(&self, config: &Config) -> bool {
        matches!((self, config), (Self::Oidc(_), Config::Oidc(_)) | (Self::Api(_), Config::Api { .. }))
    }

    /// Applies the update. The type of an app never changes: an update for the other type changes nothing.
    fn apply(self, config: Config) -> Config {
        match (self, config) {
            (Self::Oidc(patch), Config::Oidc(oidc)) => Config::Oidc(patch.apply(oidc)),
            (Self::Api(patch), Config::Api { auth_method }) => {
                Config::Api { auth_method: patch.unwrap_or(auth_method) }
            }
            (_, config) => config,
        }
    }
}

/// The link from an app to its project.
pub const PROJECT: Link = Link { name: "app", to: Project::NAME };

/// The columns of the read model.
pub mod column {
    use super::App;
    use crate::column::{Column, Lookup};

    /// The project.
    pub const PROJECT_ID: Column<App> =
        Column::text("project_id", |app: &App| app.project_id.clone()).filterable().looked_up(Lookup::Instance);
    /// The display name.
    pub const NAME: Column<App> = Column::text("name", |app: &App| app.name.clone()).filterable();
    /// Whether it is switched on.
    pub const IS_ACTIVE: Column<App> = Column::bool("is_active", |app: &App| app.is_active).filterable();
}

impl Resource for App {
    const NAME: &'static str = "app";
    const COLUMNS: &'static [Column<Self>] = &[column::PROJECT_ID, column::NAME, column::IS_ACTIVE];
    const PARTS: &'static [PartOf<Self>] = &[PartOf::Named(PartKind::Project, &column::PROJECT_ID)];
    const ROWS: Option<Name> = Some(ACCESS);
    const INDEX: Option<Name> = Some(Name::first("apps_index"));
    const STATES: States = States::Switched;
    const LINKS: &'static [Link] = &[PROJECT];
    const STANDS_ON: &'static [(&'static str, &'static Column<Self>)] = &[(Project::NAME, &column::PROJECT_ID)];
    const PERMISSIONS: &'static [Permissions] = &[Permissions::new("project.app", STANDARD)];
    type Patch = AppPatch;

    fn validate(&self) -> Result<(), Rejection> {
        match &self.config {
            Config::Oidc(oidc) => oidc.validate(),
            Config::Api { .. } => Ok(()),
        }
    }

    fn patched(self, AppPatch { name, config, allow_token_endpoint_audience, renewal }: AppPatch) -> Self {
        let allowed = allow_token_endpoint_audience.unwrap_or(self.allow_token_endpoint_audience);
        let config = match config {
            Some(patch) => patch.apply(self.config),
            None => self.config,
        };
        let secrets = match renewal {
            Some(renewal) => self.secrets.renewed(renewal),
            None if config.auth_method().has_secret() => self.secrets,
            None => ClientSecrets::default(),
        };
        let name = name.unwrap_or(self.name);
        Self { name, config, allow_token_endpoint_audience: allowed, secrets, ..self }
    }

    fn activity(&mut self) -> Option<&mut bool> {
        Some(&mut self.is_active)
    }

    fn references(&self) -> Vec<Reference> {
        vec![Reference::new(PROJECT, &self.project_id)]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        secret::Hashed,
        standard::{Command, Event, Standard},
        testing::{assert_columns, assert_patches, assert_switches, given},
    };

    fn api() -> App {
        App {
            project_id: "1".into(),
            name: "a".into(),
            config: Config::Api { auth_method: AuthMethod::Basic },
            allow_token_endpoint_audience: false,
            secrets: ClientSecrets::one(Hashed::new("first")),
            is_active: true,
        }
    }

    #[test]
    fn each_member_has_its_column_and_its_patch() {
        assert_columns(&api(), &json!({ "project_id": "1", "name": "a", "is_active": true }));
        let patch = AppPatch::default;
        let renewal = |previous_until| Some(Renewal { secret: Hashed::new("second"), previous_until });
        let beside = json!({ "secret": "second", "previous": { "secret": "first", "valid_until": 7 } });
        let by_key = Some(ConfigPatch::Api(Some(AuthMethod::PrivateKeyJwt)));
        let without = json!({ "config": { "api": { "auth_method": "private_key_jwt" } }, "secret": null });
        assert_patches(
            &api(),
            vec![
                (AppPatch { name: Some("b".into()), ..patch() }, json!({ "name": "b" })),
                (
                    AppPatch { allow_token_endpoint_audience: Some(true), ..patch() },
                    json!({ "allow_token_endpoint_audience": true }),
                ),
            ],
            &["config", "is_active", "previous", "project_id", "secret"],
        );
        assert_patches(
            &api(),
            vec![(AppPatch { config: by_key, ..patch() }, without)],
            &["allow_token_endpoint_audience", "is_active", "name", "previous", "project_id"],
        );
        assert_switches(&api());
        let renewed = api().patched(AppPatch { renewal: renewal(Some(7)), ..patch() });
        let renewed = serde_json::to_value(renewed).unwrap();
        assert!(beside.as_object().unwrap().iter().all(|(name, value)| renewed[name] == *value), "{renewed}");
    }

    #[test]
    fn its_configuration_says_how_it_authenticates_and_whether_people_log_in() {
        let oidc = Oidc { auth_method: AuthMethod::None, ..Oidc::default() };
        let config = Config::Oidc(oidc.clone());
        assert_eq!((config.oidc(), config.auth_method()), (Some(&oidc), AuthMethod::None));
        let config = Config::Api { auth_method: AuthMethod::PrivateKeyJwt };
        assert_eq!((config.oidc(), config.auth_method()), (None, AuthMethod::PrivateKeyJwt));
        for (method, has_secret) in [
            (AuthMethod::Basic, true),
            (AuthMethod::Post, true),
            (AuthMethod::None, false),
            (AuthMethod::PrivateKeyJwt, false),
        ] {
            assert_eq!(method.has_secret(), has_secret, "{method:?}");
        }
    }

    #[test]
    fn a_patch_fits_an_app_of_its_own_type() {
        let configs = [Config::Oidc(Oidc::default()), Config::Api { auth_method: AuthMethod::Basic }];
        let fits = |patch: &ConfigPatch| configs.each_ref().map(|config| patch.fits(config));
        assert_eq!(fits(&ConfigPatch::Oidc(Box::default())), [true, false]);
        assert_eq!(fits(&ConfigPatch::Api(None)), [false, true]);
    }

    #[test]
    fn an_app_in_which_people_cannot_log_in_is_refused() {
        let oidc = Oidc { login_uri: "shop:log-in".into(), ..Oidc::default() };
        let app = App { config: Config::Oidc(oidc), secrets: ClientSecrets::default(), ..api() };
        given::<Standard<App>>([])
            .when(Command::Create(app))
            .then_rejected(&Rejection::invalid("app.oidc.login_uri", "must be of http or https"));
    }

    #[test]
    fn its_type_and_its_project_stay_and_it_goes_with_that() {
        let other = AppPatch { config: Some(ConfigPatch::Oidc(Box::default())), ..AppPatch::default() };
        assert!(!other.config.as_ref().unwrap().fits(&api().config));
        given::<Standard<App>>([Event::Added(api().into())]).when(Command::Patch(other)).then([]);
        assert_eq!(api().references(), [Reference::new(PROJECT, "1")]);
        given::<Standard<App>>([Event::Added(api().into())])
            .when(Command::Unlink(Reference::new(PROJECT, "1")))
            .then([Event::Removed]);
    }
}

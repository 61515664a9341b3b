//! Feature flags: what of the preview is switched on in a context.

use serde::{Deserialize, Serialize};

use crate::{
    projection::{ACCESS, Name},
    rejection::Rejection,
    settings::{Properties, Set},
};

/// The flags of one context; a flag that no context sets is off.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Features {
    /// The resource services of the preview API.
    pub multitenancy_resources_api: Option<bool>,
    /// The settings services of the preview API.
    pub multitenancy_settings: Option<bool>,
    /// The token exchange grant.
    pub oidc_token_exchange: Option<bool>,
}

/// The names of all flags.
pub const FLAGS: [&str; 3] = ["multitenancy_resources_api", "multitenancy_settings", "oidc_token_exchange"];

/// The writes of one request.
#[derive(Debug, Clone, Default)]
pub struct FeaturesChange {
    /// See [`Features::multitenancy_resources_api`].
    pub multitenancy_resources_api: Option<Set<bool>>,
    /// See [`Features::multitenancy_settings`].
    pub multitenancy_settings: Option<Set<bool>>,
    /// See [`Features::oidc_token_exchange`].
    pub oidc_token_exchange: Option<Set<bool>>,
}

impl FeaturesChange {
    /// Switches the flags of these names on, and leaves the others as they are.
    pub fn on<N: AsRef<str>>(names: &[N]) -> Self {
        let on = |flag: &str| names.iter().any(|name| name.as_ref() == flag).then_some(Set::To(true));
        let [resources, settings, exchange] = FLAGS.map(on);
        Self { multitenancy_resources_api: resources, multitenancy_settings: settings, oidc_token_exchange: exchange }
    }
}

impl Features {
    /// The flag of this name; `None` when it is not set here or does not exist.
    pub fn flag(&self, name: &str) -> Option<bool> {
        match name {
            "multitenancy_resources_api" => self.multitenancy_resources_api,
            "multitenancy_settings" => self.multitenancy_settings,
            "oidc_token_exchange" => self.oidc_token_exchange,
            _ => None,
        }
    }
}

impl Properties for Features {
    const NAME: &'static str = "feature_settings";
    const ROWS: Name = ACCESS;
    type Change = FeaturesChange;

    fn validate(&self) -> Result<(), Rejection> {
        Ok(())
    }

    fn changed(self, change: FeaturesChange) -> Self {
        Self {
            multitenancy_resources_api: Set::over(change.multitenancy_resources_api, self.multitenancy_resources_api),
            multitenancy_settings: Set::over(change.multitenancy_settings, self.multitenancy_settings),
            oidc_token_exchange: Set::over(change.oidc_token_exchange, self.oidc_token_exchange),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Event, Settings};
    use crate::testing::given;

    #[test]
    fn flags_are_switched_on_by_their_names() {
        for flag in FLAGS {
            let on = Features::default().changed(FeaturesChange::on(&[flag]));
            assert_eq!(FLAGS.map(|other| on.flag(other)), FLAGS.map(|other| (other == flag).then_some(true)));
        }
        assert_eq!(Features::default().changed(FeaturesChange::on::<&str>(&[])), Features::default());
    }

    #[test]
    fn a_flag_that_nobody_set_is_not_on() {
        assert_eq!(Features::default().flag("multitenancy_settings"), None);
    }

    #[test]
    fn switching_on_twice_is_one_event() {
        let on = Features::default().changed(FeaturesChange::on(&FLAGS));
        let fields =
            vec!["multitenancy_resources_api".into(), "multitenancy_settings".into(), "oidc_token_exchange".into()];
        let changed = Event::Changed { to: on.into(), fields };
        given::<Settings<Features>>([]).when(FeaturesChange::on(&FLAGS)).then([changed.clone()]);
        given::<Settings<Features>>([changed]).when(FeaturesChange::on(&FLAGS)).then([]);
    }

    #[test]
    fn a_reset_flag_falls_back() {
        let off = FeaturesChange { multitenancy_settings: Some(Set::Reset), ..FeaturesChange::default() };
        let on = Features::default().changed(FeaturesChange::on(&FLAGS));
        assert_eq!(on.changed(off).flag("multitenancy_settings"), None);
    }

    #[test]
    fn each_write_changes_its_own_flag() {
        let (none, on) = (FeaturesChange::default, || Some(Set::To(true)));
        let names = ["multitenancy_resources_api", "multitenancy_settings", "oidc_token_exchange"];
        let changes = [
            FeaturesChange { multitenancy_resources_api: on(), ..none() },
            FeaturesChange { multitenancy_settings: on(), ..none() },
            FeaturesChange { oidc_token_exchange: on(), ..none() },
        ];
        for (name, change) in names.into_iter().zip(changes) {
            let features = Features::default().changed(change);
            assert_eq!(names.map(|other| features.flag(other)), names.map(|other| (other == name).then_some(true)));
            assert_eq!(features.flag("no_flag"), None);
        }
    }
}

//! Feature flags: the parts of the preview that are switched on in a context.

use crate::{
    context::OwnerType,
    permission::Permissions,
    projection::{ACCESS, Name},
    properties::properties,
    settings::{Chain, Set},
};

properties! {
    /// The flags of one context.
    Features / FeaturesChange {
        /// The resource services of the preview API.
        multitenancy_resources_api: bool = false;
        /// The settings services of the preview API.
        multitenancy_settings: bool = false;
        /// The token exchange grant.
        oidc_token_exchange: bool = false;
    } is {
        const NAME: &'static str = "feature_settings";
        const LEVELS: &'static [OwnerType] = &[OwnerType::System, OwnerType::Instance];
        const ROWS: Name = ACCESS;
        const PERMISSIONS: &'static [Permissions] = &[
            Permissions::new("iam.feature", &["read", "write"]).at(&[OwnerType::System, OwnerType::Instance]),
            Permissions::new("system.feature", &["read", "write"]).at(&[OwnerType::System]),
        ];
    }
}

/// The names of all flags.
pub const FLAGS: [&str; 3] = ["multitenancy_resources_api", "multitenancy_settings", "oidc_token_exchange"];

impl FeaturesChange {
    /// Switches on the flags with these names, and leaves the others as they are.
    pub fn on<N: AsRef<str>>(names: &[N]) -> Self {
        let on = |flag: &str| names.iter().any(|name| name.as_ref() == flag).then_some(Set::To(true));
        let [resources, settings, exchange] = FLAGS.map(on);
        Self { multitenancy_resources_api: resources, multitenancy_settings: settings, oidc_token_exchange: exchange }
    }
}

impl Features {
    /// Returns the getter of the flag with this name, if there is one.
    fn flag(name: &str) -> Option<fn(&Self) -> Option<&bool>> {
        match name {
            "multitenancy_resources_api" => Some(|features| features.multitenancy_resources_api.as_ref()),
            "multitenancy_settings" => Some(|features| features.multitenancy_settings.as_ref()),
            "oidc_token_exchange" => Some(|features| features.oidc_token_exchange.as_ref()),
            _ => None,
        }
    }
}

impl Chain<Features> {
    /// Whether the flag with this name is on.
    pub fn has(&self, flag: &str) -> bool {
        Features::flag(flag).is_some_and(|flag| *self.resolve(flag).value)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{context::Owner, settings::Properties};

    /// The flags that are on if an instance and the system set these.
    fn on(instance: Option<Features>, system: Option<Features>) -> Vec<&'static str> {
        let chain = Chain { own: instance.map(Arc::new), above: vec![(Owner::system(), system.map(Arc::new))] };
        assert!(!chain.has("no_flag"));
        FLAGS.into_iter().filter(|flag| chain.has(flag)).collect()
    }

    #[test]
    fn flags_are_switched_on_by_their_names() {
        for flag in FLAGS {
            assert_eq!(on(Some(Features::default().changed(FeaturesChange::on(&[flag]))), None), [flag]);
        }
        assert_eq!(Features::default().changed(FeaturesChange::on::<&str>(&[])), Features::default());
    }

    #[test]
    fn a_flag_that_nobody_sets_is_off() {
        assert_eq!(on(None, None), [""; 0]);
        assert_eq!(on(Some(Features::default()), Some(Features::default())), [""; 0]);
    }

    #[test]
    fn an_instance_has_the_flags_of_the_system_and_its_own() {
        let all = || Features::default().changed(FeaturesChange::on(&FLAGS));
        assert_eq!(on(None, Some(all())), FLAGS);
        let off = FeaturesChange { multitenancy_settings: Some(Set::To(false)), ..FeaturesChange::default() };
        let without = Features::default().changed(off);
        assert_eq!(on(Some(without.clone()), Some(all())), [FLAGS[0], FLAGS[2]]);
        let reset = FeaturesChange { multitenancy_settings: Some(Set::Reset), ..FeaturesChange::default() };
        assert_eq!(on(Some(without.changed(reset)), Some(all())), FLAGS);
    }

    #[test]
    fn each_write_changes_its_own_flag() {
        let (none, yes) = (FeaturesChange::default, || Some(Set::To(true)));
        let changes = [
            FeaturesChange { multitenancy_resources_api: yes(), ..none() },
            FeaturesChange { multitenancy_settings: yes(), ..none() },
            FeaturesChange { oidc_token_exchange: yes(), ..none() },
        ];
        for (name, change) in FLAGS.into_iter().zip(changes) {
            assert_eq!(on(Some(Features::default().changed(change)), None), [name]);
        }
    }
}

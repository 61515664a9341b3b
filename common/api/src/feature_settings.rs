//! Feature flags in the API's words.

use domain::{
    setting::features::{Features, FeaturesChange},
    settings::Chain,
};
use proto::feature_settings::{ResolveFeaturesRequest, ResolvedFeatureSettings, SetFeaturesRequest};

use crate::settings::{ResolvedSettings, SetSettings, resolved_bool, set_bool};

impl ResolvedSettings for Features {
    type Resolve = ResolveFeaturesRequest;

    fn resolved(chain: &Chain<Self>) -> ResolvedFeatureSettings {
        let of = |flag: fn(&Self) -> Option<&bool>| Some(resolved_bool(&chain.resolve(flag)));
        ResolvedFeatureSettings {
            multitenancy_resources_api: of(|features| features.multitenancy_resources_api.as_ref()),
            multitenancy_settings: of(|features| features.multitenancy_settings.as_ref()),
            token_exchange: of(|features| features.oidc_token_exchange.as_ref()),
        }
    }
}

impl SetSettings for SetFeaturesRequest {
    type Properties = Features;

    fn change(&self) -> FeaturesChange {
        let wanted = self.settings.unwrap_or_default();
        FeaturesChange {
            multitenancy_resources_api: set_bool(wanted.multitenancy_resources_api.as_ref()),
            multitenancy_settings: set_bool(wanted.multitenancy_settings.as_ref()),
            oidc_token_exchange: set_bool(wanted.token_exchange.as_ref()),
        }
    }
}

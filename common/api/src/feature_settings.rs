//! Converts feature flags between the API and the core.

use domain::{
    context::Owner,
    setting::features::{Features, FeaturesChange},
    settings::Chain,
};
use proto::feature_settings::{ResolveFeaturesRequest, ResolvedFeatureSettings, SetFeaturesRequest};

use crate::settings::{ResolvedSettings, SetSettings, ToProto, Write};

impl ResolvedSettings for Features {
    type Resolve = ResolveFeaturesRequest;

    fn resolved(_: &Owner, chain: &Chain<Self>) -> ResolvedFeatureSettings {
        let of = |flag: fn(&Self) -> Option<&bool>| Some(ToProto::to_proto(chain.resolve(flag)));
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
            multitenancy_resources_api: Write::write(wanted.multitenancy_resources_api),
            multitenancy_settings: Write::write(wanted.multitenancy_settings),
            oidc_token_exchange: Write::write(wanted.token_exchange),
        }
    }
}

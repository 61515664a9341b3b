//! Serves uploaded pictures and fonts: those of the host's own instance and of the system only.

use std::{sync::Arc, time::Duration};

use api::branding_asset::SYSTEM;
use axum::{
    extract::{Path, Request, State},
    response::{IntoResponse, Response},
};
use base::{clock, explain::explain};
use bytes::Bytes;
use domain::{media::media_type, setting::branding::Branding};
use eventlog::assets::{AssetName, Assets, grace};
use http::{HeaderValue, StatusCode, header};
use page::asset;
use quick_cache::{Weighter, sync::Cache};
use tokio::time::timeout;
use view::settings::SettingsIndex;

use crate::{Oidc, error::no_store};

/// The route of the files, which [`api::branding_asset::path`] must match.
pub(crate) const ROUTE: &str = "/ui/login/assets/{owner}/{digest}";
/// How many bytes of files a node caches.
const MOST_BYTES: u64 = 32 << 20;
/// The estimated number of cached files.
const ABOUT: usize = 1024;
/// The estimated overhead of a cached file, in bytes.
const BESIDE: u64 = 256;
/// How long reading from NATS may take.
const PATIENCE: Duration = Duration::from_secs(3);

/// The pictures and fonts of all instances.
pub(crate) struct Uploads {
    assets: Assets,
    /// The files that were requested. They never change.
    cache: Cache<AssetName, Bytes, Bytewise>,
}

#[derive(Clone)]
struct Bytewise;

impl Weighter<AssetName, Bytes> for Bytewise {
    fn weight(&self, _: &AssetName, content: &Bytes) -> u64 {
        content.len() as u64 + BESIDE
    }
}

/// Why a file cannot be served.
enum Lacking {
    Absent,
    Unknown,
}

impl Uploads {
    pub(crate) fn new(assets: Assets) -> Self {
        Self { assets, cache: Cache::with_weighter(ABOUT, MOST_BYTES, Bytewise) }
    }

    async fn get(&self, name: &AssetName) -> Result<Bytes, Lacking> {
        let load = async {
            let found = timeout(PATIENCE, self.assets.get(name)).await.map_err(|_| Lacking::Unknown)?;
            let found = found.map_err(|failure| {
                tracing::warn!(error = explain(&failure), "a picture or a font cannot be read");
                Lacking::Unknown
            })?;
            // The buffer from NATS may be larger than its content, so the content is copied.
            found.map(|content| Bytes::copy_from_slice(&content)).ok_or(Lacking::Absent)
        };
        self.cache.get_or_insert_async(name, load).await
    }
}

/// Returns the name of the file at the path of a context and a digest, on a host of an instance; `None` where the path
/// is invalid.
pub(crate) fn named(instance_id: &str, owner: &str, digest: &str) -> Option<AssetName> {
    match owner {
        SYSTEM => AssetName::new("", "", digest),
        owner => AssetName::new(instance_id, owner, digest),
    }
}

/// Whether the branding of its context uses a file, or may have changed recently. NATS is not asked for others, so that
/// strangers cannot cause load.
fn may_be_there(settings: &SettingsIndex, name: &AssetName) -> bool {
    let branding = settings.effective::<Branding>(&name.instance_id, &name.owner());
    let is_fresh = clock::now().duration_since(branding.changed_at) < grace().try_into().unwrap_or_default();
    is_fresh || branding.chain.own.is_some_and(|own| own.has_file(&name.digest))
}

/// Permits any page to embed the file, such as those of a tenant's own: it is public.
fn open(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("cross-origin"));
    response
}

/// Serves a file.
pub(crate) async fn show(
    State(oidc): State<Arc<Oidc>>,
    Path((owner, digest)): Path<(String, String)>,
    request: Request,
) -> Response {
    let (parts, _) = request.into_parts();
    let tenant = match oidc.edge.open_tenant(&parts).await {
        Ok(tenant) => tenant,
        Err(error) => return passing(error.into_response()),
    };
    let name = named(&tenant.id, &owner, &digest).filter(|name| may_be_there(&oidc.edge.settings, name));
    let Some(name) = name else { return passing(StatusCode::NOT_FOUND.into_response()) };
    match oidc.uploads.get(&name).await {
        Ok(content) => match media_type(&content) {
            Some(kind) => open(asset::answer(kind, content)),
            None => passing(StatusCode::NOT_FOUND.into_response()),
        },
        Err(Lacking::Absent) => passing(StatusCode::NOT_FOUND.into_response()),
        Err(Lacking::Unknown) => {
            let again = [(header::RETRY_AFTER, HeaderValue::from_static("1"))];
            passing((StatusCode::SERVICE_UNAVAILABLE, again).into_response())
        }
    }
}

/// Marks a response as not cacheable, since it may change soon.
fn passing(mut response: Response) -> Response {
    no_store(&mut response);
    response
}

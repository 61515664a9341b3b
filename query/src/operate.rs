//! The pages at `/ui/operate`: what operators see of a platform, and how they deal with failures.
//!
//! The pages use the same operations as every other client, in the name of who has signed in, so that permissions,
//! audit and bounds are those of the API: operators see the complete platform, administrators the failures of their
//! instance. They store no state: a session is in the cookie of a browser.

mod api_client;
mod entry;
mod failed;
mod filter;
mod level;
mod live;
mod log;
mod mend;
mod nodes;
mod overview;
mod projections;
mod reactions;
mod refused;
mod reveal;
mod samples;
mod seats;
mod shell;
mod text;
mod visit;
mod writer;

use std::sync::{Arc, LazyLock};

use axum::{
    Router,
    middleware::from_fn_with_state,
    routing::{get, post},
};
use domain::log_class::OfEach;
use edge::{
    admission::Edge,
    observe::{Meter, observed},
    operate_session::PATH,
};
use eventlog::once::Once;
use page::{answer::see_other, asset::Asset, theme};
use view::keyring::Keyring;

use self::{api_client::Api, samples::Samples, seats::Seats};
pub use self::{
    nodes::{NodeStatus, Nodes},
    writer::{Bus, Writes},
};
use crate::Queries;

/// The folder of their files.
const FOLDER: &str = "/ui/static/";
/// The path that people are sent to for logging in.
const LOG_IN: &str = "/ui/operate/log-in";

/// The files of the pages.
struct Files {
    stylesheet: Asset,
    icon: Asset,
    script: Asset,
}

static FILES: LazyLock<Files> = LazyLock::new(|| Files {
    stylesheet: Asset::new(FOLDER, "page.css", theme::built_in()),
    icon: Asset::new(FOLDER, "icon.svg", page::component::ICON),
    script: Asset::new(FOLDER, "operate.js", include_str!("../assets/operate.js")),
});

/// What the pages need in addition to the queries.
pub struct PageDependencies {
    /// Admits requests.
    pub edge: Arc<Edge>,
    /// The keys that seal sessions.
    pub keyring: Keyring,
    /// Makes sure that a link is used only once.
    pub once: Once,
    /// Executes commands.
    pub writes: Writes,
    /// The nodes of the platform.
    pub nodes: Nodes,
}

/// The pages of a node.
struct Operate {
    edge: Arc<Edge>,
    keyring: Keyring,
    once: Once,
    api: Api,
    nodes: Nodes,
    samples: Samples,
    seats: Seats,
}

/// The routes of the pages and their files. The pages send their queries to the routes in `asked`.
pub fn routes(queries: &Arc<Queries>, asked: Router, parts: PageDependencies) -> Router {
    let PageDependencies { edge, keyring, once, writes, nodes } = parts;
    let (ended, revoked) = (queries.ended.position(), queries.ended.revoked().position());
    let ends = OfEach { events: ended.changes(), sessions: revoked.changes() };
    let samples = Samples::start(queries.progress.clone(), ends);
    let (api, seats) = (Api::new(asked, writes), Seats::default());
    let operate = Arc::new(Operate { edge, keyring, once, api, nodes, samples, seats });
    let pages = Router::new()
        .route(PATH, get(overview::show))
        .route("/ui/operate/", get(async || see_other(PATH)))
        .route("/ui/operate/link", post(entry::link))
        .route("/ui/operate/sign-in", get(entry::form).post(entry::sign_in))
        .route(LOG_IN, get(entry::log_in))
        .route("/ui/operate/sign-out", post(entry::sign_out))
        .route("/ui/operate/nodes", get(nodes::show))
        .route("/ui/operate/projections", get(projections::show))
        .route("/ui/operate/projections/{name}", get(projections::show_one).post(projections::change))
        .route("/ui/operate/failed", get(failed::show))
        .route("/ui/operate/failed/retry", get(mend::confirm_retry).post(mend::retry))
        .route("/ui/operate/failed/discard", get(mend::confirm_discard).post(mend::discard))
        .route("/ui/operate/failed/{id}", get(failed::show_one))
        .route("/ui/operate/failed/{id}/payload", get(failed::download))
        .route("/ui/operate/failed/{id}/reveal", get(reveal::hidden).post(reveal::reveal))
        .route("/ui/operate/log", get(log::show))
        .route("/ui/operate/log/{sequence}", get(log::show_one))
        .route("/ui/operate/live", get(live::follow))
        .route("/ui/operate/{*rest}", get(visit::nowhere))
        .with_state(operate);
    let files = page::asset::routes(&[FILES.stylesheet.clone(), FILES.icon.clone(), FILES.script.clone()]);
    pages.merge(files).layer(from_fn_with_state(Arc::new(Meter::new("none", "operate")), observed))
}

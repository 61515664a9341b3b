//! The rows of generations of views. Each row has a view of its own, because there is one generation at a place.

use futures::{FutureExt, future::BoxFuture};
use proto::{
    operation::{DROP_VIEW_GENERATION, REPLAY_VIEW, ROLL_BACK_VIEW, SWITCH_VIEW, VERIFY_VIEW},
    system::{
        DropViewGenerationRequest, ReplayViewRequest, RollBackViewRequest, SwitchViewRequest, VerifyViewRequest,
        ViewGenerationPlace,
    },
};
use serde_json::{Value, json};
use tests::{
    client::{done, post},
    eventually,
};

use super::{
    a_target,
    row::{Check, Subject, row},
    wire::World,
};

const VIEWS: &str = "/system/v1/views";

/// Returns the generation of a view at a place, if there is one.
async fn generation(world: &World, view: &str, place: &str) -> Option<Value> {
    let views = post(&world.operator, &format!("{VIEWS}/_search"), json!({})).await.body;
    let of = views["result"].as_array()?.iter().find(|known| known["viewName"] == view)?;
    of["generations"].as_array()?.iter().find(|found| found["place"] == place).cloned()
}

/// Creates a target, and a next generation of a view that was compared with the one that answers.
async fn a_next(world: &World, view: &str) -> Subject {
    let target = a_target(world).await;
    done(&world.operator, &format!("{VIEWS}/{view}/_replay"), json!({})).await;
    let compared =
        async || generation(world, view, "VIEW_GENERATION_PLACE_NEXT").await?["verifiedAt"].is_string().then_some(());
    eventually("it is compared", compared).await;
    target
}

fn a_next_of_idps(world: &World) -> BoxFuture<'_, Subject> {
    a_next(world, "idps").boxed()
}

fn a_next_of_settings(world: &World) -> BoxFuture<'_, Subject> {
    a_next(world, "settings").boxed()
}

fn a_next_of_executions(world: &World) -> BoxFuture<'_, Subject> {
    a_next(world, "executions").boxed()
}

fn a_previous_of_targets(world: &World) -> BoxFuture<'_, Subject> {
    async move {
        let target = a_next(world, "targets").await;
        done(&world.operator, &format!("{VIEWS}/targets/_switch"), json!({})).await;
        target
    }
    .boxed()
}

fn replay(view_name: &str) -> ReplayViewRequest {
    ReplayViewRequest { view_name: view_name.to_owned() }
}

fn verify(view_name: &str, place: ViewGenerationPlace) -> VerifyViewRequest {
    VerifyViewRequest { view_name: view_name.to_owned(), place: place.into() }
}

fn switch(view_name: &str) -> SwitchViewRequest {
    SwitchViewRequest { view_name: view_name.to_owned(), force: false }
}

fn roll_back(view_name: &str) -> RollBackViewRequest {
    RollBackViewRequest { view_name: view_name.to_owned(), force: true }
}

fn drop_next(view_name: &str) -> DropViewGenerationRequest {
    DropViewGenerationRequest { view_name: view_name.to_owned(), place: ViewGenerationPlace::Next.into() }
}

/// Returns all rows.
pub(super) fn rows() -> Vec<Box<dyn Check + Sync>> {
    let replays = row(&REPLAY_VIEW, a_next_of_executions)
        .good("one", |_| replay("executions"))
        .bad("no view", "RESOURCE_NOT_FOUND", |_| replay("nothing"))
        .bad("no name", "INVALID_REQUEST", |_| replay(&"x".repeat(201)));
    let verifies = row(&VERIFY_VIEW, a_next_of_executions)
        .good("one", |_| verify("executions", ViewGenerationPlace::Next))
        .bad("none", "PRECONDITION_FAILED", |_| verify("access", ViewGenerationPlace::Previous));
    let switches =
        row(&SWITCH_VIEW, a_next_of_idps)
            .good("one", |_| switch("idps"))
            .bad("none", "PRECONDITION_FAILED", |_| switch("access"));
    let rolls_back = row(&ROLL_BACK_VIEW, a_previous_of_targets).good("one", |_| roll_back("targets")).bad(
        "none",
        "PRECONDITION_FAILED",
        |_| roll_back("access"),
    );
    let drops = row(&DROP_VIEW_GENERATION, a_next_of_settings).good("one", |_| drop_next("settings")).bad(
        "none",
        "PRECONDITION_FAILED",
        |_| drop_next("access"),
    );
    vec![replays.done(), verifies.done(), switches.done(), rolls_back.done(), drops.done()]
}

//! What is decided about failed events: in a way that nobody can read.

use jiff::SignedDuration;
use tests::{
    forge::{self, Appending},
};

use super::{
    mending::{Failing, id_in, is_found, is_named},
    parking::rename,
};

#[tokio::test]
async fn a_decision_that_cannot_be_read_is_in_nobodys_way() {
    let mut failing = Failing::start().await;
    let [a] = failing.targets(["a"]).await;
    let (client, operator) = (failing.client.clone(), failing.operator.clone());
    failing.fails(true);
    rename(&client, &a, "a renamed").await;
    for view in ["targets", "targets_index"] {
        id_in(&operator, view, &a).await;
    }
    failing.fails(false);
    let nats = failing.stop().await;
    let mut log = Appending::begin(nats).await;
    for payload in
        [&b"{\"view\":\"targets\""[..], b"", b"\xff\"targets\"\"targets_index\"", b"{\"view\":\"targets_index\"}"]
    {
        log.put(vec![forge::discarded(payload)], SignedDuration::ZERO).await;
    }
    failing.start_at("table.folding/*").await;
    is_named(&client, &a, "a renamed").await;
    is_found(&client, "a renamed", 1).await;
    failing.rebuild().await;
    is_named(&client, &a, "a renamed").await;
    is_found(&client, "a renamed", 1).await;
}

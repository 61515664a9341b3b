//! What is counted of reads that must not be older than something.

use std::sync::LazyLock;

use store::metric::{Histogram, catalog::CONSISTENCY_WAIT};
use tokio::time::Instant;
use transport::consistency::Consistency;

/// The read was as fresh as asked for.
static REACHED: LazyLock<&Histogram> = LazyLock::new(|| CONSISTENCY_WAIT.with(&["reached"]));
/// It was answered without the caller's own last write.
static GIVEN_UP: LazyLock<&Histogram> = LazyLock::new(|| CONSISTENCY_WAIT.with(&["given_up"]));
/// It was refused.
static NOT_REACHED: LazyLock<&Histogram> = LazyLock::new(|| CONSISTENCY_WAIT.with(&["not_reached"]));

/// Counts a read that began then and saw this sequence, or none. Reads that may be of any age are not counted.
pub(crate) fn waited(Consistency { required, own, .. }: Consistency, begun: Instant, processed: Option<u64>) {
    if required.max(own) == 0 {
        return;
    }
    let outcome = match processed {
        None => &NOT_REACHED,
        Some(processed) if processed < own => &GIVEN_UP,
        Some(_) => &REACHED,
    };
    outcome.record_time(begun.elapsed());
}

//! Connections, and what becomes of one whose read was given up.
//!
//! A statement goes on in Postgres where its caller does not wait for the answer, and whoever gets the connection next
//! waits for it. So the connections of a read return to their pool when the read has ended; when it was given up, they
//! return when Postgres has nothing to do on them any more, for which their statements are cancelled.

use std::{
    mem::take,
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use base::metric::Counter;
use deadpool_postgres::Client;
use tokio::{runtime::Handle, time::timeout};
use tokio_postgres::NoTls;

use super::DatabaseFailure;

tokio::task_local! {
    /// The connections that the read which is under way has used.
    static USED: Used;
}

/// How long a statement of a read that was given up may still take: most end sooner, and a cancellation costs Postgres a
/// process.
const REST: Duration = Duration::from_millis(50);
/// How often the statements of a connection are cancelled. A transaction that sent several at once has one after the
/// other cancelled.
const CANCELLATIONS: usize = 20;

/// A connection to Postgres. It returns to its pool when it is dropped, within a read when that has ended.
#[derive(Debug)]
pub struct Connection {
    /// Only dropping takes it out.
    client: Option<Client>,
}

impl Connection {
    pub(super) fn new(client: Client) -> Self {
        Self { client: Some(client) }
    }
}

/// Why a connection has a client.
const UNTIL_DROPPED: &str = "only dropping takes it out";

impl Deref for Connection {
    type Target = Client;

    fn deref(&self) -> &Client {
        self.client.as_ref().expect(UNTIL_DROPPED)
    }
}

impl DerefMut for Connection {
    fn deref_mut(&mut self) -> &mut Client {
        self.client.as_mut().expect(UNTIL_DROPPED)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Outside of a read the client is dropped here, and is back in its pool.
        let Some(client) = self.client.take() else { return };
        let _ = USED.try_with(|used| used.lock().push(client));
    }
}

/// Runs a read, which fails where it takes longer than the limit. What Postgres still executes for it when it has
/// failed or is dropped is cancelled, and counted in `cancelled`.
pub(super) async fn read_within<T>(
    limit: Duration,
    cancelled: &'static Counter,
    read: impl Future<Output = Result<T, DatabaseFailure>>,
) -> Result<T, DatabaseFailure> {
    let given_up = GivenUp { used: Used::default(), cancelled };
    let read = timeout(limit, USED.scope(given_up.used.clone(), read));
    let answer = read.await.map_err(|_| DatabaseFailure::Silent)??;
    given_up.used.lock().clear();
    Ok(answer)
}

/// The connections of a read.
#[derive(Clone, Default)]
struct Used(Arc<Mutex<Vec<Client>>>);

impl Used {
    fn lock(&self) -> MutexGuard<'_, Vec<Client>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The connections of a read that was given up, unless they are taken out because it has succeeded.
struct GivenUp {
    used: Used,
    cancelled: &'static Counter,
}

impl Drop for GivenUp {
    fn drop(&mut self) {
        for client in take(&mut *self.used.lock()) {
            // Without a runtime the process ends, and its connections with it.
            if let Ok(runtime) = Handle::try_current() {
                runtime.spawn(settle(client, self.cancelled));
            }
        }
    }
}

/// Returns a connection to its pool when Postgres answers on it, for which statements that it still executes are
/// cancelled. Where it does not, the connection is closed.
async fn settle(client: Client, cancelled: &'static Counter) {
    let cancel = client.cancel_token();
    for _ in 0..CANCELLATIONS {
        // Answers come in the order of the requests. The request is sent again after each cancellation, so that one that
        // comes late meets this request and not the one of whoever has the connection next.
        if timeout(REST, client.batch_execute("")).await.is_ok() {
            return;
        }
        cancelled.count();
        let _ = timeout(Duration::from_secs(1), cancel.cancel_query(NoTls)).await;
    }
    drop(Client::take(client));
}

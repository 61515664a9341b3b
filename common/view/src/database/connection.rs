//! Connections, and what becomes of one whose read was given up.
//!
//! A statement goes on in Postgres where its caller does not wait for the answer, and whoever gets the connection next
//! waits for it. So the connections of a read return to their pool when the read has ended; when it was given up, they
//! return if Postgres is soon done with them. Else their statements are cancelled, and they are closed.

use std::{
    mem::take,
    ops::{Deref, DerefMut},
    pin::pin,
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
/// process and the node a new connection.
const REST: Duration = Duration::from_millis(50);
/// How often the statements of a connection are cancelled, each time after twice as long. All of it takes longer than
/// Postgres lets a statement take.
const CANCELLATIONS: u32 = 7;

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
    // Reads are large futures in functions that await several of them.
    let read = timeout(limit, USED.scope(given_up.used.clone(), Box::pin(read)));
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

/// Returns a connection to its pool if Postgres soon answers on it. Else the statements that Postgres still executes are
/// cancelled, and the connection is closed as soon as it is done with them: a cancellation that comes late would meet
/// whoever has the connection next, and one that met a rollback would leave a transaction open.
async fn settle(client: Client, cancelled: &'static Counter) {
    if !is_soon_done(&client, cancelled).await {
        // Its place in the pool is free from now on.
        drop(Client::take(client));
    }
}

/// Whether Postgres soon answers; else it returns when Postgres has nothing to do any more, or does not answer at all.
async fn is_soon_done(client: &Client, cancelled: &'static Counter) -> bool {
    // Answers come in the order of the requests.
    let mut done = pin!(client.batch_execute(""));
    if timeout(REST, &mut done).await.is_ok() {
        return true;
    }
    cancelled.count();
    for attempt in 0..CANCELLATIONS {
        let patience = REST * 2_u32.pow(attempt);
        let _ = timeout(patience, client.cancel_token().cancel_query(NoTls)).await;
        if timeout(patience, &mut done).await.is_ok() {
            break;
        }
    }
    false
}

//! Adds what was loaded from history to the memory of an active writer, for the commands that wait for it.

use base::explain::explain;
use domain::log_class::LogClass;
use eventlog::{lease::Lease, record::Position};

use super::{
    End, fill,
    load::{Loaded, Unread},
    serve::Active,
    unavailable::writer_unavailable,
};

/// How often a command may wait for history before something must be wrong.
const MOST_ROUNDS: u8 = 20;

impl Active<'_> {
    pub(super) async fn take_up(&mut self, loaded: Loaded, lease: &Lease) -> Result<(), End> {
        let Loaded { snapshot, unread, since } = loaded;
        let snapshot = match snapshot {
            Ok(Some(snapshot)) => snapshot,
            Ok(None) => {
                refuse(unread, "history is not available yet");
                return Ok(());
            }
            Err(_) if unread.iter().all(|unread| unread.submission.held.is_withdrawn()) => return Ok(()),
            Err(failure) => {
                if let Some((failure, unread)) = self.loads.again(failure, unread) {
                    tracing::warn!(error = explain(&failure), commands = unread.len(), "history cannot be read");
                    refuse(unread, "history cannot be read");
                }
                return Ok(());
            }
        };
        for class in LogClass::ALL {
            let begin = snapshot.checkpoints[class].position;
            if self.memory.tails[class].continues(begin) {
                continue;
            }
            if begin.stream_sequence >= since[class] {
                // The load was slow, and the tail was trimmed meanwhile.
                for unread in unread {
                    self.load(unread);
                }
                return Ok(());
            }
            if let Err(end) = self.refill(class, begin, lease).await {
                self.undone.extend(unread.into_iter().map(|unread| unread.submission));
                return Err(end);
            }
        }
        self.memory.learn(snapshot);
        // These commands arrived before those of their instance that wait now.
        for Unread { submission, .. } in unread.into_iter().rev() {
            self.waiting[submission.task.class()].push_first(submission.origin.instance_id.clone(), submission);
        }
        Ok(())
    }

    /// Fills the tail from the log after Postgres lost its last commits.
    async fn refill(&mut self, class: LogClass, begin: Position, lease: &Lease) -> Result<(), End> {
        tracing::warn!(log = class.name(), history = begin.sequence, "reading from the log again what history lacks");
        let end = self.memory.tails[class].end();
        let refilled = lease.during(fill::refill(self.writer, class, begin, end, lease)).await;
        // Where there is no tail, the next take-over waits for history.
        self.memory.tails[class] = refilled.map_err(End::Failed).and_then(|tail| tail.ok_or(End::SteppedDown))?;
        self.reached[class] = self.reached[class].min(begin.stream_sequence);
        Ok(())
    }

    /// Queues what a command lacks to be loaded, unless the command has waited for that too often.
    pub(super) fn load(&mut self, mut unread: Unread) {
        unread.submission.rounds += 1;
        if unread.submission.rounds > MOST_ROUNDS {
            refuse(vec![unread], "the data that the command depends on keeps changing");
        } else {
            self.loads.add(unread);
        }
    }
}

fn refuse(unread: Vec<Unread>, message: &str) {
    for Unread { submission, .. } in unread {
        submission.refuse(writer_unavailable(message));
    }
}

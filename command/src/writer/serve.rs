//! An active writer: turn after turn, one record in flight.

use std::{
    collections::VecDeque,
    mem,
    pin::pin,
    time::{Duration, Instant},
};

use base::{
    clock,
    explain::explain,
    fault,
    metric::catalog::{FENCE_REJECTIONS, TAIL_BYTES},
    secret,
};
use edge::error::{Error, Reason};
use eventlog::{
    lease::Lease,
    record::{CommitRecord, Record, Undecodable},
};
use jiff::Timestamp;
use prost::Message;
use tokio::{sync::mpsc, time::interval};
use tokio_util::sync::CancellationToken;
use view::{
    history::{ANSWERS_KEPT, Needs},
    projection::HISTORY,
};

use super::{
    End, Verdict, Writer,
    load::{Loaded, Unread, load},
    queue::{Queue, Submission, writer_unavailable},
};
use crate::{
    settle::{Settled, commit},
    turn::{Draft, Lack, Memory, Refusal, Turn},
};

/// How often a command may wait for history before something must be wrong.
const MOST_ROUNDS: u8 = 20;
/// How many commands may wait for history.
const MOST_LOADING: usize = 4096;
/// For how long commands may gather before they are decided, while more arrive without a pause.
const GATHER: Duration = Duration::from_millis(1);
/// How often it gives a sign of life while nothing arrives.
const IDLE: Duration = Duration::from_secs(1);
/// How many snapshots may be on their way.
const LOADS: usize = 256;

/// The writer while it writes.
pub(super) struct Active<'a> {
    writer: &'a Writer,
    /// What every record of this writer says, and when the last one was committed.
    header: CommitRecord,
    memory: Memory,
    waiting: VecDeque<Submission>,
    loaded: (mpsc::Sender<Loaded>, mpsc::Receiver<Loaded>),
    /// How many commands wait for history.
    loading: usize,
    /// How far history said it was, one announcement ago: a snapshot that is on its way is hardly older than that.
    trimmed: u64,
    /// Whether the turn met an event that only a newer build can read.
    is_outdated: bool,
    /// Whether it then leaves the writing to another node.
    gives_way: bool,
}

/// A command whose turn came.
enum Turned {
    Decided(Result<Verdict<()>, Box<Error>>),
    Missing(Needs),
}

impl Turned {
    fn refused(refusal: Refusal) -> Self {
        Self::Decided(Err(refusal.into()))
    }
}

/// When the next record is committed, in whole microseconds as the log keeps it: never before the last one.
pub(super) fn commit_time(last_committed_at: i64) -> Timestamp {
    let now = clock::now().as_microsecond().max(last_committed_at);
    Timestamp::from_microsecond(now).unwrap_or(Timestamp::UNIX_EPOCH)
}

impl<'a> Active<'a> {
    pub(super) fn new(writer: &'a Writer, barrier: Record, memory: Memory) -> Self {
        Self {
            writer,
            header: barrier.commit,
            memory,
            waiting: VecDeque::new(),
            loaded: mpsc::channel(LOADS),
            loading: 0,
            trimmed: 0,
            is_outdated: false,
            gives_way: true,
        }
    }

    /// A writer that goes on also when it is outdated, because no other node took over when it gave way.
    pub(super) fn staying(self) -> Self {
        Self { gives_way: false, ..self }
    }

    /// Takes turns until another node may write, or has to, and gives back the commands that were not done.
    pub(super) async fn serve(
        mut self,
        queue: &mut Queue,
        lease: &Lease,
        shutdown: &CancellationToken,
    ) -> (End, VecDeque<Submission>) {
        let end = self.take_all_turns(queue, lease, shutdown).await;
        // Those that were loaded and had no turn were not done either.
        while let Ok(loaded) = self.loaded.1.try_recv() {
            self.waiting.extend(loaded.submissions);
        }
        (end, self.waiting)
    }

    async fn take_all_turns(&mut self, queue: &mut Queue, lease: &Lease, shutdown: &CancellationToken) -> End {
        let mut history = self.writer.progress.of(&HISTORY);
        let mut clocks_differ = pin!(self.writer.clocks_differ());
        let mut idle = interval(IDLE);
        loop {
            lease.tick();
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return End::Shutdown,
                () = lease.lost() => return End::SteppedDown,
                wrong = &mut clocks_differ => return End::Failed(wrong.into()),
                Some(loaded) = self.loaded.1.recv() => {
                    if let Err(end) = self.take_up(loaded, lease).await {
                        return end;
                    }
                }
                Ok(()) = history.changed() => {
                    let reached = history.borrow_and_update().stream_sequence;
                    self.memory.tail.trim(mem::replace(&mut self.trimmed, reached));
                }
                Some(submission) = queue.arrivals.recv() => self.admit(submission),
                _ = idle.tick() => {}
            }
            self.gather(queue).await;
            while !self.waiting.is_empty() {
                lease.tick();
                if let Err(end) = self.take_turns(lease).await {
                    return end;
                }
            }
            TAIL_BYTES.one().set_integer(self.memory.tail.bytes() as u64);
        }
    }

    /// Lets those go first who are about to ask, as long as there are some: a record costs about the same for many
    /// commands as for one.
    async fn gather(&mut self, queue: &mut Queue) {
        let begun = Instant::now();
        self.admit_all(queue);
        while !self.waiting.is_empty() && begun.elapsed() < GATHER {
            let before = self.waiting.len();
            tokio::task::yield_now().await;
            self.admit_all(queue);
            if self.waiting.len() == before {
                return;
            }
        }
    }

    fn admit_all(&mut self, queue: &mut Queue) {
        while let Ok(submission) = queue.arrivals.try_recv() {
            self.admit(submission);
        }
    }

    fn admit(&mut self, submission: Submission) {
        if self.memory.tail.bytes() > self.writer.tail_limit {
            let message = "the read model that the write node reads lags too far";
            return submission
                .refuse(writer_unavailable(message).with("tailBytes", self.memory.tail.bytes().to_string()));
        }
        if self.loading > MOST_LOADING {
            return submission
                .refuse(writer_unavailable("too many commands wait for the read model of the write node"));
        }
        self.waiting.push_back(submission);
    }

    /// Decides what waits, as much as fits one record, and commits it.
    async fn take_turns(&mut self, lease: &Lease) -> Result<(), End> {
        let now = commit_time(self.header.committed_at);
        let (mut draft, mut decided) = (Draft::default(), vec![]);
        let mut unread = vec![];
        while draft.bytes <= self.writer.record_limit / 2
            && let Some(mut submission) = self.waiting.pop_front()
        {
            match self.decide(&mut submission, &mut draft, now) {
                Turned::Decided(verdict) => decided.push((submission, verdict)),
                Turned::Missing(needs) => {
                    submission.rounds += 1;
                    unread.push(Unread { submission, needs });
                }
            }
        }
        if !unread.is_empty() {
            self.loading += unread.len();
            let (database, shard) = (self.writer.database.clone(), self.writer.shard);
            tokio::spawn(load(database, shard, unread, self.loaded.0.clone()));
        }
        let is_committed = !draft.is_empty();
        if is_committed {
            fault::point("commit.decided");
            if let Err(end) = self.commit(draft, now).await {
                // The record is not in the log, and never will be.
                self.waiting.extend(decided.into_iter().map(|(submission, _)| submission));
                return Err(end);
            }
            fault::point("commit.answering");
        } else if !decided.is_empty() {
            fault::point("commit.confirming");
            if !lease.confirm().await {
                self.waiting.extend(decided.into_iter().map(|(submission, _)| submission));
                return Err(End::SteppedDown);
            }
        }
        for (submission, verdict) in decided {
            submission.answer(verdict.map_err(|error| *error));
        }
        if is_committed {
            fault::point("commit.answered");
        }
        if mem::take(&mut self.is_outdated) && self.gives_way { Err(End::Outdated) } else { Ok(()) }
    }

    /// A command that only a newer build can decide.
    fn outdated_by(&mut self, event: &Undecodable) -> Turned {
        tracing::error!(error = explain(event), "this node is outdated: a newer one wrote what a command rests on");
        self.is_outdated = true;
        let message = "a newer version of the platform wrote what the command rests on, and this node cannot read it: send \
                       it again, to a node of that version";
        Turned::Decided(Err(Box::new(writer_unavailable(message))))
    }

    fn decide(&mut self, submission: &mut Submission, draft: &mut Draft, now: Timestamp) -> Turned {
        let (task, limit) = (&mut submission.task, self.writer.record_limit / 2);
        let mut turn = Turn::new(&mut self.memory, draft, now);
        // Both are read before either is looked at, so that one load brings both.
        let permitted = task.permit(&mut turn);
        let once = task.once().map(|(command_id, digest)| (turn.answer(command_id), *digest));
        if let Some(lack) = turn.lack() {
            return self.lacking(lack);
        }
        if let Err(refusal) = permitted {
            return Turned::refused(refusal);
        }
        if let Some((Some(answered), digest)) = once
            && answered.committed_at + ANSWERS_KEPT > now
        {
            return Turned::Decided(if answered.answer.request_digest == digest.as_slice() {
                Ok(Verdict::Replayed(answered))
            } else {
                let message = "this Idempotency-Key was used for another request";
                Err(Box::new(Error::new(Reason::IdempotencyKeyReused, message)))
            });
        }
        let decided = task.decide(&mut turn);
        if let Some(lack) = turn.lack() {
            return self.lacking(lack);
        }
        match decided.and_then(|decided| turn.finish(limit).map(|()| decided)) {
            Ok(decided) => {
                if let Some(answer) = task.stored(&decided) {
                    draft.bytes += answer.encoded_len();
                    draft.answers.push(answer);
                }
                Turned::Decided(Ok(Verdict::Decided(decided, ())))
            }
            Err(refusal) => Turned::refused(refusal),
        }
    }

    /// What becomes of a command whose verdict does not count.
    fn lacking(&mut self, lack: Lack) -> Turned {
        match lack {
            Lack::Missing(needs) => Turned::Missing(needs),
            Lack::Newer(event) => self.outdated_by(&event),
            Lack::Unreadable(error) => Turned::Decided(Err(error)),
        }
    }

    async fn commit(&mut self, draft: Draft, now: Timestamp) -> Result<(), End> {
        let end = self.memory.tail.end();
        let record = CommitRecord {
            record_id: secret::random::<16>().to_vec().into(),
            first_sequence: end.sequence + 1,
            committed_at: now.as_microsecond(),
            previous_digest: end.digest.to_vec().into(),
            events: draft.events,
            answers: draft.answers,
            ..self.header.clone()
        };
        let begun = Instant::now();
        match commit(&self.writer.log, end, record).await {
            Settled::Committed(record) => {
                self.writer.report_commit(&record, begun.elapsed());
                self.memory.remember_answers(&record.commit.answers, now);
                self.header.committed_at = record.commit.committed_at;
                self.memory.tail.push(&record);
                Ok(())
            }
            Settled::Overtaken(other) => {
                FENCE_REJECTIONS.with(&["command"]).count();
                tracing::warn!(epoch = other.commit.epoch, own = self.header.epoch, "another writer took the log over");
                self.memory.forget();
                Err(End::SteppedDown)
            }
            Settled::Foreign(broken) => Err(End::Failed(eventlog::log::LogFailure::Broken(broken).into())),
        }
    }

    async fn take_up(&mut self, loaded: Loaded, lease: &Lease) -> Result<(), End> {
        self.loading -= loaded.submissions.len();
        match loaded.snapshot {
            Ok(Some(snapshot)) => {
                let begin = snapshot.checkpoint.position;
                if !self.memory.tail.continues(begin) {
                    // Postgres lost its last commits, or the snapshot was slow: the log fills the gap.
                    tracing::warn!(history = begin.sequence, "reading again what history does not have");
                    let refilled = lease.during(self.writer.refill(begin, self.memory.tail.end(), lease)).await;
                    // Where there is no tail, the next take-over waits for history.
                    match refilled.map_err(End::Failed).and_then(|tail| tail.ok_or(End::SteppedDown)) {
                        Ok(tail) => self.memory.tail = tail,
                        Err(end) => {
                            self.waiting.extend(loaded.submissions);
                            return Err(end);
                        }
                    }
                    self.trimmed = self.trimmed.min(begin.stream_sequence);
                }
                self.memory.learn(snapshot);
                for submission in loaded.submissions {
                    if submission.rounds < MOST_ROUNDS {
                        self.waiting.push_back(submission);
                    } else {
                        refuse(vec![submission], "what the command rests on keeps changing");
                    }
                }
            }
            Ok(None) => refuse(loaded.submissions, "history is not there yet"),
            Err(error) => {
                tracing::warn!(error = explain(&error), commands = loaded.submissions.len(), "history cannot be read");
                refuse(loaded.submissions, "history cannot be read");
            }
        }
        Ok(())
    }
}

fn refuse(submissions: Vec<Submission>, message: &str) {
    for submission in submissions {
        submission.refuse(writer_unavailable(message));
    }
}

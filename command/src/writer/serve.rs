//! An active writer: turn after turn, one record in flight.

use std::{
    mem,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use base::{
    clock,
    explain::explain,
    fair::Turns,
    fault,
    health::Reached,
    metric::catalog::{FENCE_REJECTIONS, TAIL_BYTES},
    secret,
};
use edge::error::Error;
use eventlog::{
    lease::Lease,
    record::{CommitRecord, Record, Undecodable},
};
use jiff::Timestamp;
use prost::Message;
use tokio::{sync::watch, time::interval};
use tokio_util::sync::CancellationToken;
use view::{history::Needs, projection::HISTORY};

use super::{
    End, Writer,
    load::{Loaded, Loads, Unread},
    queue::Queue,
    ruling::{Ruling, rule},
    submission::{Submission, Verdict},
    unavailable::writer_unavailable,
};
use crate::{
    settle::{Settled, commit},
    turn::{Draft, Lack, Memory, Turn},
};

/// How often a command may wait for history before something must be wrong.
const MOST_ROUNDS: u8 = 20;
/// For how long commands may gather before they are decided, while more arrive without a pause.
const GATHER: Duration = Duration::from_millis(1);
/// How often it gives a sign of life while nothing arrives.
const IDLE: Duration = Duration::from_secs(1);
/// For how long a record is filled. Whoever comes meanwhile waits for it, and then for one of the same length.
const FILLING: Duration = Duration::from_millis(3);

/// The writer while it writes.
pub(super) struct Active<'a> {
    writer: &'a Writer,
    /// What every record of this writer says, and when the last one was committed.
    header: CommitRecord,
    memory: Memory,
    /// The commands whose turn may come, by instance.
    waiting: Turns<Arc<str>, Submission>,
    /// Those that wait for history.
    loads: Loads,
    /// Those that had their turn in a record that was not committed.
    undone: Vec<Submission>,
    /// What history says of how far it is, and what was heard of it.
    history: watch::Receiver<Reached>,
    reached: u64,
    /// Whether the turn met an event that only a newer build can read.
    is_outdated: bool,
    /// Whether it then leaves the writing to another node.
    gives_way: bool,
}

/// Commands that an active writer has left undone.
#[derive(Default)]
pub(super) struct Undone {
    pub(super) submissions: Vec<Submission>,
    /// With the loads that are under way, their commands end.
    pub(super) under_way: Option<Loads>,
}

/// A command whose turn came.
enum Turned {
    Decided(Result<Verdict<()>, Box<Error>>),
    Missing(Needs),
    /// Nobody waits for it any more.
    Withdrawn,
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
            waiting: Turns::default(),
            loads: Loads::new(writer.database.clone(), writer.shard),
            undone: vec![],
            history: writer.progress.of(&HISTORY),
            reached: 0,
            is_outdated: false,
            gives_way: true,
        }
    }

    /// Whether it goes on also when it is outdated, because no other node took over when it gave way.
    pub(super) fn staying(self, stays: bool) -> Self {
        Self { gives_way: !stays, ..self }
    }

    /// Takes turns until another node may write, or has to, and gives back the commands that were not done.
    pub(super) async fn serve(
        mut self,
        queue: &mut Queue,
        lease: &Lease,
        shutdown: &CancellationToken,
    ) -> (End, Undone) {
        let end = self.take_all_turns(queue, lease, shutdown).await;
        let mut submissions = self.undone;
        submissions.extend(self.waiting.drain());
        submissions.extend(self.loads.drain());
        (end, Undone { submissions, under_way: Some(self.loads) })
    }

    async fn take_all_turns(&mut self, queue: &mut Queue, lease: &Lease, shutdown: &CancellationToken) -> End {
        let mut clocks_differ = pin!(self.writer.clocks_differ());
        let mut idle = interval(IDLE);
        loop {
            lease.tick();
            // It only waits here until there is something to do.
            let loaded = tokio::select! {
                biased;
                () = shutdown.cancelled() => return End::Shutdown,
                () = lease.lost() => return End::SteppedDown,
                wrong = &mut clocks_differ => return End::Failed(wrong.into()),
                () = std::future::ready(()), if !self.waiting.is_empty() => None,
                loaded = self.loads.next(), if self.loads.are_under_way() => loaded,
                Ok(()) = self.history.changed() => {
                    self.trim();
                    None
                }
                Some(submission) = queue.arrivals.recv() => {
                    self.admit(submission);
                    None
                }
                _ = idle.tick() => None,
            };
            if let Err(end) = self.take_turn(loaded, queue, lease).await {
                return end;
            }
            TAIL_BYTES.one().set_integer(self.memory.tail.bytes() as u64);
        }
    }

    /// Takes up whatever is there, of each kind, so that none waits for another, and then fills one record.
    async fn take_turn(&mut self, loaded: Option<Loaded>, queue: &mut Queue, lease: &Lease) -> Result<(), End> {
        let mut next = loaded.or_else(|| self.loads.ready());
        while let Some(loaded) = next {
            self.take_up(loaded, lease).await?;
            next = self.loads.ready();
        }
        if self.history.has_changed().unwrap_or_default() {
            self.trim();
        }
        self.begin_loads();
        self.gather(queue).await;
        if self.waiting.is_empty() { Ok(()) } else { self.fill_record(lease).await }
    }

    fn begin_loads(&mut self) {
        self.loads.begin(self.memory.tail.begin().stream_sequence.max(self.reached));
    }

    /// Forgets what history has. What is loaded at the moment has to continue the tail when it comes, so the tail waits for
    /// it; but not where the tail is long, since no load may keep all commands waiting.
    fn trim(&mut self) {
        self.reached = self.history.borrow_and_update().stream_sequence;
        let may_wait = self.memory.tail.bytes() <= self.writer.tail_limit / 2;
        let oldest = self.loads.oldest().filter(|_| may_wait);
        self.memory.tail.trim(oldest.map_or(self.reached, |oldest| oldest.min(self.reached)));
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
        self.waiting.push(submission.origin.instance_id.clone(), submission);
    }

    /// Decides what waits, of each instance in turn, as much as fits one record, and commits it.
    async fn fill_record(&mut self, lease: &Lease) -> Result<(), End> {
        let now = commit_time(self.header.committed_at);
        let (mut draft, mut decided) = (Draft::default(), vec![]);
        let begun = Instant::now();
        while draft.bytes <= self.writer.record_limit / 2
            && begun.elapsed() < FILLING
            && let Some((_, mut submission)) = self.waiting.pop()
        {
            match self.decide(&mut submission, &mut draft, now) {
                Turned::Decided(verdict) => decided.push((submission, verdict)),
                Turned::Missing(needs) => self.load(Unread { submission, needs }),
                Turned::Withdrawn => {}
            }
        }
        self.begin_loads();
        let is_committed = !draft.is_empty();
        if is_committed {
            fault::point("commit.decided");
            if let Err(end) = self.commit(draft, now).await {
                // The record is not in the log, and never will be.
                self.undone.extend(decided.into_iter().map(|(submission, _)| submission));
                return Err(end);
            }
            fault::point("commit.answering");
        } else if !decided.is_empty() {
            fault::point("commit.confirming");
            if !lease.confirm().await {
                self.undone.extend(decided.into_iter().map(|(submission, _)| submission));
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
        if submission.held.is_withdrawn() {
            return Turned::Withdrawn;
        }
        let mut turn = Turn::new(&mut self.memory, draft, now);
        let (decided, answer) = match rule(submission, &mut turn, now) {
            Ruling::Decided(decided, answer) => (decided, answer),
            Ruling::Replayed(answered) => return Turned::Decided(Ok(Verdict::Replayed(answered))),
            Ruling::Refused(refusal) => return Turned::Decided(Err(refusal.into())),
            Ruling::Lacking(lack) => return self.lacking(lack),
        };
        // From now on its caller cannot withdraw it.
        if !submission.held.take() {
            return Turned::Withdrawn;
        }
        if let Err(refusal) = turn.finish(self.writer.record_limit / 2) {
            return Turned::Decided(Err(refusal.into()));
        }
        if let Some(answer) = answer {
            draft.bytes += answer.encoded_len();
            draft.answers.push(answer);
        }
        Turned::Decided(Ok(Verdict::Decided(decided, ())))
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
        let Loaded { snapshot, unread, since } = loaded;
        let snapshot = match snapshot {
            Ok(Some(snapshot)) => snapshot,
            Ok(None) => {
                refuse(unread, "history is not there yet");
                return Ok(());
            }
            Err(failure) => {
                if let Some((failure, unread)) = self.loads.again(failure, unread) {
                    tracing::warn!(error = explain(&failure), commands = unread.len(), "history cannot be read");
                    refuse(unread, "history cannot be read");
                }
                return Ok(());
            }
        };
        let begin = snapshot.checkpoint.position;
        if !self.memory.tail.continues(begin) {
            if begin.stream_sequence >= since {
                // It was slow, and the tail did not wait for it.
                for unread in unread {
                    self.load(unread);
                }
                return Ok(());
            }
            // Postgres lost its last commits: the log fills the gap.
            tracing::warn!(history = begin.sequence, "reading again what history does not have");
            let refilled = lease.during(self.writer.refill(begin, self.memory.tail.end(), lease)).await;
            // Where there is no tail, the next take-over waits for history.
            match refilled.map_err(End::Failed).and_then(|tail| tail.ok_or(End::SteppedDown)) {
                Ok(tail) => self.memory.tail = tail,
                Err(end) => {
                    self.undone.extend(unread.into_iter().map(|unread| unread.submission));
                    return Err(end);
                }
            }
            self.reached = self.reached.min(begin.stream_sequence);
        }
        self.memory.learn(snapshot);
        // They were here before those of their instance that wait now.
        for Unread { submission, .. } in unread.into_iter().rev() {
            self.waiting.push_first(submission.origin.instance_id.clone(), submission);
        }
        Ok(())
    }

    /// Has loaded what a command lacks, unless it has waited for that too often.
    fn load(&mut self, mut unread: Unread) {
        unread.submission.rounds += 1;
        if unread.submission.rounds > MOST_ROUNDS {
            refuse(vec![unread], "what the command rests on keeps changing");
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

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
use domain::log_class::{LogClass, OfEach};
use edge::error::Error;
use eventlog::{
    lease::Lease,
    record::{CommitRecord, Record, Undecodable},
};
use jiff::Timestamp;
use prost::Message;
use tokio::{sync::watch, time::interval};
use tokio_util::sync::CancellationToken;
use view::{
    history::Needs,
    projection::{HISTORY, SESSION_HISTORY},
};

use super::{
    End, Writer, clocks,
    load::{Loaded, Loads, Unread},
    queue::Queue,
    report,
    ruling::{Ruling, rule},
    submission::{Submission, Verdict},
    unavailable::writer_unavailable,
};
use crate::{
    settle::{Settled, commit},
    turn::{Draft, Lack, Memory, Turn},
};

/// For how long commands may gather before they are decided, while more arrive without a pause.
const GATHER: Duration = Duration::from_millis(1);
/// How often the writer gives a sign of life while nothing arrives.
const IDLE: Duration = Duration::from_secs(1);
/// How long a record is filled. A command that arrives meanwhile waits for it, and then for one of the same length.
const FILLING: Duration = Duration::from_millis(3);

/// The writer while it writes.
pub(super) struct Active<'a> {
    pub(super) writer: &'a Writer,
    /// What every record of this writer contains in each log, and when the last one was committed.
    headers: OfEach<CommitRecord>,
    pub(super) memory: Memory,
    /// The commands whose turn may come, by the log that they write and by instance.
    pub(super) waiting: OfEach<Turns<Arc<str>, Submission>>,
    /// The log whose turn it is where commands of both wait.
    next: LogClass,
    /// The commands that wait for history.
    pub(super) loads: Loads,
    /// The commands that had their turn in a record that was not committed.
    pub(super) undone: Vec<Submission>,
    /// The progress of each history, as it is reported and as it was last seen.
    histories: OfEach<watch::Receiver<Reached>>,
    pub(super) reached: OfEach<u64>,
    /// Whether the turn met an event that only a newer build can read.
    is_outdated: bool,
    /// Whether it then leaves the writing to another node.
    gives_way: bool,
}

/// Commands that an active writer has left undone.
#[derive(Default)]
pub(super) struct UnfinishedCommands {
    pub(super) submissions: Vec<Submission>,
    /// The loads that are under way; their commands end when these are dropped.
    pub(super) under_way: Option<Loads>,
}

/// A command whose turn came.
enum Turned {
    Decided(Result<Verdict<()>, Box<Error>>),
    Missing(Needs),
    /// No caller waits for it any more.
    Withdrawn,
}

/// Returns when the next record is committed, in microseconds as in the log: never before the last one.
pub(super) fn commit_time(last_committed_at: i64) -> Timestamp {
    let now = clock::now().as_microsecond().max(last_committed_at);
    Timestamp::from_microsecond(now).unwrap_or(Timestamp::UNIX_EPOCH)
}

impl<'a> Active<'a> {
    pub(super) fn new(writer: &'a Writer, barriers: OfEach<Record>, memory: Memory) -> Self {
        let (events, sessions) = (writer.progress.of(&HISTORY), writer.progress.of(&SESSION_HISTORY));
        Self {
            writer,
            headers: barriers.map(|barrier| barrier.commit),
            memory,
            waiting: OfEach::default(),
            next: LogClass::Events,
            loads: Loads::new(writer.database.clone(), writer.shard),
            undone: vec![],
            histories: OfEach { events, sessions },
            reached: OfEach::default(),
            is_outdated: false,
            gives_way: true,
        }
    }

    /// Sets whether it goes on even if it is outdated, because no other node took over when it gave way.
    pub(super) fn staying(self, stays: bool) -> Self {
        Self { gives_way: !stays, ..self }
    }

    /// Takes turns until another node may write, or has to, and returns the commands that were not done.
    pub(super) async fn serve(
        mut self,
        queue: &mut Queue,
        lease: &Lease,
        shutdown: &CancellationToken,
    ) -> (End, UnfinishedCommands) {
        let end = self.take_all_turns(queue, lease, shutdown).await;
        let mut submissions = self.undone;
        submissions.extend(self.waiting.events.drain());
        submissions.extend(self.waiting.sessions.drain());
        submissions.extend(self.loads.drain());
        (end, UnfinishedCommands { submissions, under_way: Some(self.loads) })
    }

    async fn take_all_turns(&mut self, queue: &mut Queue, lease: &Lease, shutdown: &CancellationToken) -> End {
        let mut clocks_differ = pin!(clocks::until_differ(self.writer));
        let mut idle = interval(IDLE);
        loop {
            lease.tick();
            // It only waits here until there is something to do.
            let loaded = tokio::select! {
                biased;
                () = shutdown.cancelled() => return End::Shutdown,
                () = lease.lost() => return End::SteppedDown,
                wrong = &mut clocks_differ => return End::Failed(wrong.into()),
                () = std::future::ready(()), if self.waits() > 0 => None,
                loaded = self.loads.next(), if self.loads.are_under_way() => loaded,
                Ok(()) = self.histories.events.changed() => {
                    self.trim(LogClass::Events);
                    None
                }
                Ok(()) = self.histories.sessions.changed() => {
                    self.trim(LogClass::Sessions);
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
            TAIL_BYTES.one().set_integer(self.memory.tail_bytes() as u64);
        }
    }

    /// Handles whatever has arrived, of each kind, so that none waits for another, and then fills one record.
    async fn take_turn(&mut self, loaded: Option<Loaded>, queue: &mut Queue, lease: &Lease) -> Result<(), End> {
        let mut next = loaded.or_else(|| self.loads.ready());
        while let Some(loaded) = next {
            self.take_up(loaded, lease).await?;
            next = self.loads.ready();
        }
        for class in LogClass::ALL {
            if self.histories[class].has_changed().unwrap_or_default() {
                self.trim(class);
            }
        }
        self.begin_loads();
        self.gather(queue).await;
        if self.waits() == 0 { Ok(()) } else { self.fill_record(lease).await }
    }

    /// Returns how many commands wait for their turn.
    fn waits(&self) -> usize {
        self.waiting.events.len() + self.waiting.sessions.len()
    }

    fn begin_loads(&mut self) {
        let begins = self.memory.tails.as_ref().map(|tail| tail.begin().stream_sequence);
        self.loads.begin(begins.zip(self.reached).map(|(begin, reached)| begin.max(reached)));
    }

    /// Removes from the tail what history has. A load that is under way has to continue the tail when it ends, so the
    /// tail waits for it; but not if the tail is long, since no load may keep all commands waiting.
    fn trim(&mut self, class: LogClass) {
        let reached = self.histories[class].borrow_and_update().stream_sequence;
        self.reached[class] = reached;
        let may_wait = self.memory.tail_bytes() <= self.writer.tail_limit / 2;
        let oldest = self.loads.oldest(class).filter(|_| may_wait);
        self.memory.tails[class].trim(oldest.map_or(reached, |oldest| oldest.min(reached)));
    }

    /// Waits for commands that are about to arrive, as long as there are some: a record costs about the same for many
    /// commands as for one.
    async fn gather(&mut self, queue: &mut Queue) {
        let begun = Instant::now();
        self.admit_all(queue);
        while self.waits() > 0 && begun.elapsed() < GATHER {
            let before = self.waits();
            tokio::task::yield_now().await;
            self.admit_all(queue);
            if self.waits() == before {
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
        if self.memory.tail_bytes() > self.writer.tail_limit {
            let message = "the read model that the writer reads lags too far";
            return submission
                .refuse(writer_unavailable(message).with("tailBytes", self.memory.tail_bytes().to_string()));
        }
        self.waiting[submission.task.class()].push(submission.origin.instance_id.clone(), submission);
    }

    /// Decides the commands that wait for the log whose turn it is, of each instance in turn, as many as fit one
    /// record, and commits it. As no record of the other log is in flight, all that they depend on there is committed.
    async fn fill_record(&mut self, lease: &Lease) -> Result<(), End> {
        let class = if self.waiting[self.next].is_empty() { self.next.other() } else { self.next };
        self.next = class.other();
        let now = commit_time(self.headers.events.committed_at.max(self.headers.sessions.committed_at));
        let (mut draft, mut decided) = (Draft { class, ..Draft::default() }, vec![]);
        let begun = Instant::now();
        while draft.bytes <= self.writer.record_limit / 2
            && begun.elapsed() < FILLING
            && let Some((_, mut submission)) = self.waiting[class].pop()
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

    /// Refuses a command that only a newer build can decide, and marks this node as outdated.
    fn outdated_by(&mut self, event: &Undecodable) -> Turned {
        tracing::error!(error = explain(event), "this node is outdated: a newer one wrote data that a command needs");
        self.is_outdated = true;
        let message = "a newer version of the platform wrote data that the command depends on, and this node cannot \
                       read it: send the command again, to a node of that version";
        Turned::Decided(Err(Box::new(writer_unavailable(message))))
    }

    fn decide(&mut self, submission: &mut Submission, draft: &mut Draft, now: Timestamp) -> Turned {
        if submission.held.is_withdrawn() {
            return Turned::Withdrawn;
        }
        let mut turn = Turn::new(&mut self.memory, draft, now).within(&self.writer.object_limits);
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

    /// Returns what happens to a command whose verdict is not valid.
    fn lacking(&mut self, lack: Lack) -> Turned {
        match lack {
            Lack::Missing(needs) => Turned::Missing(needs),
            Lack::Newer(event) => self.outdated_by(&event),
            Lack::Unreadable(error) => Turned::Decided(Err(error)),
        }
    }

    async fn commit(&mut self, draft: Draft, now: Timestamp) -> Result<(), End> {
        let class = draft.class;
        let end = self.memory.tails[class].end();
        let record = CommitRecord {
            record_id: secret::random::<16>().to_vec().into(),
            first_sequence: end.sequence + 1,
            committed_at: now.as_microsecond(),
            previous_digest: end.digest.to_vec().into(),
            events: draft.events,
            answers: draft.answers,
            purged_to: draft.purged_to.max(self.headers[class].purged_to),
            ..self.headers[class].clone()
        };
        let begun = Instant::now();
        match commit(&self.writer.logs[class], end, record).await {
            Settled::Committed(record) => {
                report::commit(self.writer, class, &record, begun.elapsed());
                self.memory.remember_answers(&record.commit.answers, now);
                let CommitRecord { committed_at, purged_to, .. } = record.commit;
                let header = &mut self.headers[class];
                (header.committed_at, header.purged_to) = (committed_at, purged_to);
                self.memory.tails[class].push(&record);
                Ok(())
            }
            Settled::Overtaken(other) => {
                FENCE_REJECTIONS.with(&["command"]).count();
                let (log, own) = (class.name(), self.headers[class].epoch);
                tracing::warn!(log, epoch = other.commit.epoch, own, "another writer took the log over");
                self.memory.forget();
                Err(End::SteppedDown)
            }
            Settled::Foreign(broken) => Err(End::Failed(self.writer.logs[class].broken(broken).into())),
        }
    }
}

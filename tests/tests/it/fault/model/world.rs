//! The state of the model: a broker, its KV, and writers.

/// A set of commands of clients, one bit each. Every command adds an event, once.
pub(super) type Commands = u8;

/// A commit record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Record {
    /// Whose it is, as long as somebody waits to hear of it: what the random id of a real record is for.
    pub(super) owner: Option<usize>,
    pub(super) epoch: u8,
    /// The sequence of the first event.
    pub(super) first_sequence: u8,
    /// The commands whose events it has; a barrier has none.
    pub(super) commands: Commands,
    /// The place that it is written for: `Nats-Expected-Last-Sequence`.
    pub(super) behind: u8,
}

/// What a writer is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// It waits for the lease, or its process is not there.
    Standby,
    /// It has the lease and no barrier yet.
    Raising,
    /// Its barrier is in the log.
    Filling,
    /// It takes turns.
    Active,
}

/// What a writer believes of its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Lease {
    /// It has none, or has heard that it has lost it.
    None,
    /// By its own clock the time may be over.
    Doubtful,
    /// By its own clock nobody else can have it.
    Certain,
}

/// One writer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Writer {
    pub(super) phase: Phase,
    pub(super) lease: Lease,
    pub(super) epoch: u8,
    /// How many records of the log it stands on: the state that it decides on.
    pub(super) known: u8,
    /// What it has published and not settled, the oldest first.
    pub(super) in_flight: Vec<Record>,
}

/// Everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct World {
    /// The stream.
    pub(super) log: Vec<Record>,
    /// Publishes on their way, which may come at any time later. One that never comes is lost.
    pub(super) underway: Vec<Record>,
    /// Who has the lease in KV.
    pub(super) holder: Option<usize>,
    pub(super) writers: Vec<Writer>,
    /// What clients were told to be done.
    pub(super) acknowledged: Commands,
    /// What clients were told to be not done, now and for ever.
    pub(super) denied: Commands,
    /// How many processes have died or fallen silent.
    pub(super) deaths: u8,
}

impl World {
    /// Nothing was ever written, and nobody writes.
    pub(super) fn new(writers: usize) -> Self {
        let writers = vec![Writer::standby(); writers];
        Self { log: vec![], underway: vec![], holder: None, writers, acknowledged: 0, denied: 0, deaths: 0 }
    }

    /// The number of records in the log.
    pub(super) fn end(&self) -> u8 {
        u8::try_from(self.log.len()).expect("the log is short")
    }

    /// How many events the first so many records have.
    pub(super) fn events(&self, records: u8) -> u8 {
        self.log.iter().take(usize::from(records)).map(|record| count(record.commands)).sum()
    }

    /// The commands whose events are in the first so many records.
    pub(super) fn done(&self, records: u8) -> Commands {
        self.log.iter().take(usize::from(records)).fold(0, |done, record| done | record.commands)
    }

    /// Sends a publish on its way.
    pub(super) fn send(&mut self, record: Record) {
        self.underway.push(record);
    }

    /// A publish arrives: the broker compares the expected with the last sequence, and nothing else.
    pub(super) fn arrive(&mut self, at: usize) {
        let record = self.underway.remove(at);
        if record.behind == self.end() {
            self.log.push(record);
        }
    }

    /// A writer waits for the lease again. It gives the old one up, unless its process has died.
    pub(super) fn stand_by(&mut self, index: usize, has_died: bool) {
        if self.holder == Some(index) && !has_died {
            self.holder = None;
        }
        self.writers[index] = Writer::standby();
    }

    /// Makes states equal that cannot be told apart: by whose a record was that nobody waits for, or by publishes that are
    /// refused whenever they come.
    pub(super) fn settle_down(&mut self) {
        let writers = &self.writers;
        for record in self.log.iter_mut().chain(&mut self.underway) {
            let awaited = record.owner.is_some_and(|owner| writers[owner].in_flight.contains(record));
            record.owner = record.owner.filter(|_| awaited);
        }
        let end = self.end();
        self.underway.retain(|record| record.behind >= end);
        self.underway.sort_unstable();
        self.underway.dedup();
    }
}

impl Writer {
    fn standby() -> Self {
        Self { phase: Phase::Standby, lease: Lease::None, epoch: 0, known: 0, in_flight: vec![] }
    }
}

/// How many commands these are.
pub(super) fn count(commands: Commands) -> u8 {
    u8::try_from(commands.count_ones()).expect("a byte has eight bits")
}

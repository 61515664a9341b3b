//! The state of the model: a broker, its KV, and writers.

/// A set of commands of clients, one bit each. Every command adds an event, once.
pub(super) type Commands = u8;

/// A commit record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Record {
    /// The writer, as long as it waits for the outcome, like the random id of a real record.
    pub(super) owner: Option<usize>,
    pub(super) epoch: u8,
    /// The sequence of the first event.
    pub(super) first_sequence: u8,
    /// The commands whose events it has; a barrier has none.
    pub(super) commands: Commands,
    /// The place that it is written after: `Nats-Expected-Last-Sequence`.
    pub(super) behind: u8,
}

/// The phase of a writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// It waits for the lease, or its process does not run.
    Standby,
    /// It has the lease and no barrier yet.
    Raising,
    /// Its barrier is in the log.
    Filling,
    /// It takes turns.
    Active,
}

/// What a writer believes about its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Lease {
    /// It has none, or knows that it has lost it.
    None,
    /// By its own clock the lease may be over.
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
    /// How many records of the log its state has, on which it decides.
    pub(super) known: u8,
    /// The records that it has published and not settled, the oldest first.
    pub(super) in_flight: Vec<Record>,
}

/// The complete state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct World {
    /// The log.
    pub(super) log: Vec<Record>,
    /// Publishes in transit, which may arrive at any later time. One that never arrives is lost.
    pub(super) underway: Vec<Record>,
    /// The holder of the lease in KV.
    pub(super) holder: Option<usize>,
    pub(super) writers: Vec<Writer>,
    /// The commands that were acknowledged to clients.
    pub(super) acknowledged: Commands,
    /// The commands that clients were told will never be done.
    pub(super) denied: Commands,
    /// How many processes have died or become silent.
    pub(super) deaths: u8,
}

impl World {
    /// Returns the initial state: an empty log, and no active writer.
    pub(super) fn new(writers: usize) -> Self {
        let writers = vec![Writer::standby(); writers];
        Self { log: vec![], underway: vec![], holder: None, writers, acknowledged: 0, denied: 0, deaths: 0 }
    }

    /// Returns the number of records in the log.
    pub(super) fn end(&self) -> u8 {
        u8::try_from(self.log.len()).expect("the log is short")
    }

    /// Returns how many events the first records have.
    pub(super) fn events(&self, records: u8) -> u8 {
        self.log.iter().take(usize::from(records)).map(|record| count(record.commands)).sum()
    }

    /// Returns the commands whose events are in the first records.
    pub(super) fn done(&self, records: u8) -> Commands {
        self.log.iter().take(usize::from(records)).fold(0, |done, record| done | record.commands)
    }

    /// Sends a publish.
    pub(super) fn send(&mut self, record: Record) {
        self.underway.push(record);
    }

    /// Lets a publish arrive: the broker compares the expected with the last sequence, and nothing else.
    pub(super) fn arrive(&mut self, at: usize) {
        let record = self.underway.remove(at);
        if record.behind == self.end() {
            self.log.push(record);
        }
    }

    /// Lets a writer wait for the lease again. It gives up the old one, unless its process has died.
    pub(super) fn stand_by(&mut self, index: usize, has_died: bool) {
        if self.holder == Some(index) && !has_died {
            self.holder = None;
        }
        self.writers[index] = Writer::standby();
    }

    /// Makes indistinguishable states equal, which differ in the writer of a record that nobody waits for, or in
    /// publishes that are refused whenever they arrive.
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

/// Returns the number of commands in a set.
pub(super) fn count(commands: Commands) -> u8 {
    u8::try_from(commands.count_ones()).expect("a byte has eight bits")
}

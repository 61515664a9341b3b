//! The possible steps: of the broker, of clocks, and of writers with the commands that clients send them.

use stateright::{Model, Property};

use super::world::{Commands, Lease, Phase, Record, World, count};

/// A rule of the writer that the log and its answers depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// A record is published only when the one before it is settled.
    OneInFlight,
    /// An answer without a record is sent only while the lease is certain.
    Confirm,
    /// Nothing is decided before the barrier is in the log.
    BarrierFirst,
    /// A publish that was not answered is settled by reading.
    SettleByReading,
    /// A lease that has expired in KV is lost, and is not taken back as if nothing had happened.
    LapsedIsLost,
    /// A writer begins only when its lease is certain after its barrier is in the log.
    ConfirmAfterBarrier,
}

/// The bounds of the exploration, and the rule that is left out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    pub(super) writers: usize,
    /// The number of commands that clients send.
    pub(super) commands: u8,
    /// The most records of the log.
    pub(super) records: u8,
    /// The number of processes that die or become silent.
    pub(super) deaths: u8,
    pub(super) without: Option<Rule>,
}

/// One step, most of them of one writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// A publish arrives.
    Arrive(usize),
    /// The lease expires in KV.
    Expire,
    /// The lease is over by the writer's own clock.
    ClockOut(usize),
    Renew(usize),
    Acquire(usize),
    /// Reads the end of the log, and publishes a barrier after it.
    Raise(usize),
    /// Begins to take turns.
    Activate(usize),
    /// Decides commands that clients have sent, and publishes their record.
    Turn(usize, Commands),
    /// Answers repeated commands, without a record.
    Replay(usize),
    /// Reads the outcome of its oldest record in flight.
    Settle(usize),
    /// Finds no record there, and sends the same bytes again.
    Resend(usize),
    /// Treats a missing answer as not committed.
    GiveUp(usize),
    Die(usize),
    /// Becomes silent, and is replaced by others.
    Silence(usize),
}

impl Rules {
    fn keeps(&self, rule: Rule) -> bool {
        self.without != Some(rule)
    }

    /// Whether a writer may answer now without a record: that nothing changes, or that something is refused.
    pub(super) fn may_answer(&self, world: &World, index: usize) -> bool {
        let writer = &world.writers[index];
        let is_sure = writer.lease == Lease::Certain || !self.keeps(Rule::Confirm);
        writer.phase == Phase::Active && writer.in_flight.is_empty() && is_sure
    }

    fn steps_of(&self, world: &World, index: usize, steps: &mut Vec<Step>) {
        let writer = &world.writers[index];
        match writer.lease {
            // What it waits for has come: now it hears that it has lost the lease.
            Lease::None if writer.phase != Phase::Standby && writer.in_flight.is_empty() => {
                steps.push(Step::Renew(index));
            }
            Lease::None => {}
            Lease::Certain => steps.push(Step::ClockOut(index)),
            Lease::Doubtful => steps.push(Step::Renew(index)),
        }
        if world.deaths < self.deaths && writer.phase != Phase::Standby {
            steps.push(Step::Die(index));
            if writer.lease != Lease::None {
                steps.push(Step::Silence(index));
            }
        }
        if let Some(oldest) = writer.in_flight.first() {
            if world.end() > oldest.behind {
                steps.push(Step::Settle(index));
            } else if !world.underway.contains(oldest) {
                steps.push(Step::Resend(index));
            }
            if !self.keeps(Rule::SettleByReading) && oldest.commands != 0 {
                steps.push(Step::GiveUp(index));
            }
        }
        let has_room = usize::from(world.end()) + writer.in_flight.len() < usize::from(self.records);
        let may_publish =
            has_room && (writer.in_flight.is_empty() || !self.keeps(Rule::OneInFlight) && writer.in_flight.len() < 2);
        match writer.phase {
            Phase::Standby if world.holder.is_none_or(|holder| holder == index) => steps.push(Step::Acquire(index)),
            Phase::Raising if writer.in_flight.is_empty() && has_room => steps.push(Step::Raise(index)),
            Phase::Filling if writer.lease == Lease::Certain || !self.keeps(Rule::ConfirmAfterBarrier) => {
                steps.push(Step::Activate(index));
            }
            Phase::Active => {
                if may_publish {
                    self.turns_of(world, index, steps);
                }
                if self.may_answer(world, index) && world.done(writer.known) & !world.acknowledged != 0 {
                    steps.push(Step::Replay(index));
                }
            }
            _ => {}
        }
    }

    /// Adds the turns of a writer: any commands without an answer may have been sent to any writer, and sent again.
    fn turns_of(&self, world: &World, index: usize, steps: &mut Vec<Step>) {
        let writer = &world.writers[index];
        let decided = writer.in_flight.iter().fold(world.done(writer.known), |decided, it| decided | it.commands);
        let open = !(decided | world.acknowledged | world.denied) & ((1 << self.commands) - 1);
        steps.extend((1..1 << self.commands).filter(|set| set & !open == 0).map(|set| Step::Turn(index, set)));
    }

    fn apply(&self, world: &mut World, step: Step) {
        match step {
            Step::Arrive(at) => world.arrive(at),
            Step::Expire => world.holder = None,
            Step::ClockOut(index) => world.writers[index].lease = Lease::Doubtful,
            Step::Renew(index) => self.renew(world, index),
            Step::Acquire(index) => {
                world.holder = Some(index);
                let writer = &mut world.writers[index];
                (writer.lease, writer.phase) = (Lease::Certain, Phase::Raising);
            }
            Step::Raise(index) => self.raise(world, index),
            Step::Activate(index) => world.writers[index].phase = Phase::Active,
            Step::Turn(index, commands) => turn(world, index, commands),
            Step::Replay(index) => world.acknowledged |= world.done(world.writers[index].known),
            Step::Settle(index) => settle(world, index),
            Step::Resend(index) => world.send(world.writers[index].in_flight[0]),
            Step::GiveUp(index) => {
                let given_up = std::mem::take(&mut world.writers[index].in_flight);
                world.denied |= given_up.iter().fold(0, |all, record| all | record.commands);
            }
            Step::Silence(index) => {
                world.deaths += 1;
                world.writers[index].lease = Lease::None;
                world.holder = world.holder.filter(|holder| *holder != index);
            }
            Step::Die(index) => {
                world.deaths += 1;
                world.stand_by(index, true);
            }
        }
        world.settle_down();
    }

    /// Renews a lease. A writer that learns of its loss ends when nothing is in flight any more.
    fn renew(&self, world: &mut World, index: usize) {
        if world.holder.is_none() && !self.keeps(Rule::LapsedIsLost) {
            world.holder = Some(index);
        }
        let is_own = world.holder == Some(index);
        world.writers[index].lease = if is_own { Lease::Certain } else { Lease::None };
        if !is_own && world.writers[index].in_flight.is_empty() {
            world.stand_by(index, false);
        }
    }

    fn raise(&self, world: &mut World, index: usize) {
        let (behind, first_sequence) = (world.end(), world.events(world.end()) + 1);
        let epoch = world.log.last().map_or(0, |record| record.epoch) + 1;
        let writer = &mut world.writers[index];
        (writer.epoch, writer.known) = (epoch, behind);
        if self.keeps(Rule::BarrierFirst) {
            let barrier = Record { owner: Some(index), epoch, first_sequence, commands: 0, behind };
            writer.in_flight.push(barrier);
            world.send(barrier);
        } else {
            writer.phase = Phase::Filling;
        }
    }
}

/// Takes a turn. A writer that does not wait for its records in flight treats them as committed.
fn turn(world: &mut World, index: usize, commands: Commands) {
    let known = world.events(world.writers[index].known);
    let writer = &mut world.writers[index];
    let assumed: u8 = writer.in_flight.iter().map(|record| count(record.commands)).sum();
    let behind = writer.known + u8::try_from(writer.in_flight.len()).expect("they are few");
    let first_sequence = known + assumed + 1;
    let record = Record { owner: Some(index), epoch: writer.epoch, first_sequence, commands, behind };
    writer.in_flight.push(record);
    world.send(record);
}

/// Settles a record by the one in its place, whoever has put it there.
fn settle(world: &mut World, index: usize) {
    let writer = &mut world.writers[index];
    let record = writer.in_flight.remove(0);
    if world.log[usize::from(record.behind)] == record {
        writer.known = record.behind + 1;
        world.acknowledged |= record.commands;
        if writer.phase == Phase::Raising {
            writer.phase = Phase::Filling;
        }
    } else if writer.phase == Phase::Active {
        return world.stand_by(index, false);
    }
    if writer.lease == Lease::None && writer.in_flight.is_empty() {
        world.stand_by(index, false);
    }
}

impl Model for Rules {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.writers)]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        let in_place = |(_, record): &(usize, &Record)| record.behind == world.end();
        steps.extend(world.underway.iter().enumerate().filter(in_place).map(|(at, _)| Step::Arrive(at)));
        // A lease lasts in KV from when its renewal came, and by its holder's clock from before that was sent.
        if world.holder.is_some_and(|holder| world.writers[holder].lease != Lease::Certain) {
            steps.push(Step::Expire);
        }
        for index in 0..self.writers {
            self.steps_of(world, index, steps);
        }
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        self.apply(&mut next, step);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        super::properties()
    }
}

//! Every metric that there is. docs/observability.md explains them; a test compares the two.

use super::{Counter, Family, Gauge, Histogram, Metric, Time};

/// Requests, by what became of them.
pub static REQUESTS: Family<Counter> =
    Family::counter("platform_requests_total", &["transport", "service", "method", "code"], "Answered requests.");
/// How long they took.
pub static REQUEST_DURATION: Family<Histogram> = Family::seconds(
    "platform_request_duration_seconds",
    &["transport", "service", "method"],
    "Time from the head of a request to the head of its answer.",
);
/// Requests that are not answered yet.
pub static REQUESTS_IN_FLIGHT: Family<Gauge> =
    Family::gauge("platform_requests_in_flight", &["transport"], "Requests that are not answered yet.");
/// Requests over a rate.
pub static RATE_LIMITED: Family<Counter> =
    Family::counter("platform_ratelimit_rejected_total", &["class"], "Requests refused because there were too many.");
/// Reads that had to be as fresh as something.
pub static CONSISTENCY_WAIT: Family<Histogram> = Family::seconds(
    "platform_consistency_wait_seconds",
    &["outcome"],
    "How long reads waited for what they must not be older than.",
);

/// Events in a record.
pub static COMMIT_EVENTS: Family<Histogram> =
    Family::numbers("platform_commit_batch_size", &[], "Events in a committed record.");
/// How long a commit takes.
pub static COMMIT_DURATION: Family<Histogram> =
    Family::seconds("platform_commit_duration_seconds", &[], "Time from publishing a record to knowing its fate.");
/// Publishes whose fate had to be read.
pub static SETTLES: Family<Counter> = Family::counter(
    "platform_commit_settles_total",
    &["outcome"],
    "Publishes without an answer, by what was found in the log.",
);
/// Commands that wait.
pub static COMMANDS_WAITING: Family<Gauge> =
    Family::gauge("platform_commands_waiting", &[], "Commands that wait for their turn or for history.");
/// Answers given again.
pub static COMMANDS_REPLAYED: Family<Counter> =
    Family::counter("platform_commands_replayed_total", &[], "Commands answered as before, by their Idempotency-Key.");
/// Commands that a standby passed on.
pub static COMMANDS_FORWARDED: Family<Counter> = Family::counter(
    "platform_commands_forwarded_total",
    &["outcome"],
    "Commands that reached a node which does not write, by what became of passing them on.",
);
/// The size of the tail.
pub static TAIL_BYTES: Family<Gauge> =
    Family::gauge("platform_tail_bytes", &[], "Bytes of the log that history may not have yet.");
/// Its limit.
pub static TAIL_LIMIT: Family<Gauge> =
    Family::gauge("platform_tail_limit_bytes", &[], "Bytes of the tail beyond which writes are refused.");
/// Whether this node writes.
pub static WRITER_ACTIVE: Family<Gauge> = Family::gauge("platform_writer_active", &[], "1 where this node writes.");
/// The epoch that it writes in.
pub static WRITER_EPOCH: Family<Gauge> =
    Family::gauge("platform_writer_epoch", &[], "The epoch of this node's writer; 0 where it has not written.");
/// When it stopped being the one that writes.
pub static STEP_DOWNS: Family<Counter> =
    Family::counter("platform_writer_step_downs_total", &[], "How often this node gave writing up unasked.");
/// Where another one was first.
pub static FENCE_REJECTIONS: Family<Counter> = Family::counter(
    "platform_fence_rejections_total",
    &["role"],
    "Work refused because another node had taken it over.",
);
/// The end of the log.
pub static LOG_LAST_SEQUENCE: Family<Gauge> =
    Family::gauge("platform_log_last_sequence", &["cell"], "The last event of the log, as this node knows it.");
/// Leases.
pub static LEASE_HELD: Family<Gauge> = Family::gauge("platform_lease_held", &["role"], "Leases that this node holds.");

/// How far a projection is.
pub static PROJECTION_SEQUENCE: Family<Gauge> = Family::gauge(
    "platform_projection_sequence",
    &["projection", "generation", "partition"],
    "The last event that a projection of this node has applied.",
);
/// How many events it lacks.
pub static PROJECTION_LAG_EVENTS: Family<Gauge> = Family::gauge(
    "platform_projection_lag_events",
    &["projection", "generation", "partition"],
    "Events of the log that a projection has not applied.",
);
/// How old the first of them is.
pub static PROJECTION_LAG_SECONDS: Family<Gauge> = Family::gauge(
    "platform_projection_lag_seconds",
    &["projection", "generation", "partition"],
    "Age of the first event that a projection has not applied.",
);
/// When it was last known to live.
pub static PROJECTION_HEARTBEAT: Family<Gauge> = Family::gauge(
    "platform_projection_heartbeat_timestamp_seconds",
    &["projection", "generation", "partition"],
    "When a projection last applied something or found nothing to apply.",
);
/// How long a batch takes.
pub static PROJECTION_APPLY: Family<Histogram> =
    Family::seconds("platform_projection_apply_duration_seconds", &["projection"], "Time to apply one batch.");
/// Whether it stands still.
pub static PROJECTION_STALLED: Family<Gauge> = Family::gauge(
    "platform_projection_stalled",
    &["projection", "reason"],
    "1 where a projection does not go on for this reason.",
);
/// What waits behind failed events.
pub static PROJECTION_PARKED: Family<Gauge> = Family::gauge(
    "platform_projection_parked",
    &["projection"],
    "Aggregates that wait because one of their events failed.",
);
/// What could not be processed, each event once however often it is tried.
pub static PROJECTION_FAILURES: Family<Counter> =
    Family::counter("platform_projection_failures_total", &["projection"], "Events that a projection has parked.");

/// Since when the oldest failed event waits.
pub static FAILED_EVENTS_OLDEST: Family<Gauge> = Family::gauge(
    "platform_failed_events_oldest_timestamp_seconds",
    &["view"],
    "When the event failed that waits for an operator the longest; 0 where none does.",
);

/// How old the first thing is that a reaction has not done.
pub static REACTION_LAG_SECONDS: Family<Gauge> = Family::gauge(
    "platform_reaction_lag_seconds",
    &["reaction"],
    "Age of the first event that a reaction lacks or is not done with.",
);
/// When somebody was last known to do it.
pub static REACTION_HEARTBEAT: Family<Gauge> = Family::gauge(
    "platform_reaction_heartbeat_timestamp_seconds",
    &["reaction"],
    "When this node last told how far a reaction is that it does.",
);

/// Commits of an index.
pub static INDEX_COMMITS: Family<Counter> =
    Family::counter("platform_index_commits_total", &["index"], "Commits of a search index.");
/// What was published of indexes.
pub static INDEX_PUBLISHED: Family<Counter> =
    Family::counter("platform_index_published_bytes_total", &[], "Bytes of search indexes that were published.");
/// What was fetched of indexes.
pub static INDEX_FETCHED: Family<Counter> =
    Family::counter("platform_index_fetched_bytes_total", &[], "Bytes of search indexes that were fetched.");
/// The documents of an index.
pub static INDEX_DOCUMENTS: Family<Gauge> =
    Family::gauge("platform_index_documents", &["index"], "Documents of a search index as this node reads it.");
/// How far an index is.
pub static INDEX_SEQUENCE: Family<Gauge> =
    Family::gauge("platform_index_sequence", &["index"], "The last event in a search index as this node reads it.");

/// Tokens.
pub static TOKENS: Family<Counter> =
    Family::counter("platform_token_issued_total", &["grant", "format"], "Issued access tokens.");
/// How long they took.
pub static TOKEN_DURATION: Family<Histogram> =
    Family::seconds("platform_token_duration_seconds", &["grant"], "Time to issue a token or to refuse it.");

/// Calls of targets, by what became of them.
pub static TARGET_CALLS: Family<Counter> =
    Family::counter("platform_target_calls_total", &["kind", "outcome"], "Calls of targets, by what became of them.");
/// How long they took.
pub static TARGET_DURATION: Family<Histogram> = Family::seconds(
    "platform_target_call_duration_seconds",
    &["kind"],
    "Time from wanting to call a target to its answer.",
);

/// Events delivered to targets.
pub static DELIVERIES: Family<Counter> = Family::counter(
    "platform_deliveries_total",
    &["outcome"],
    "Deliveries of events to targets: ok, retried, failed, unknown because this build does not know the type, or dropped because the target is gone or may not be told.",
);

/// Deliveries that were given up.
pub static DELIVERIES_GIVEN_UP: Family<Gauge> = Family::gauge(
    "platform_deliveries_given_up",
    &[],
    "Deliveries of events to targets that were given up, and wait for somebody who decides.",
);

/// The most connections.
pub static POOL_SIZE: Family<Gauge> =
    Family::gauge("platform_db_pool_size", &["pool"], "The most connections to Postgres.");
/// Connections in use.
pub static POOL_IN_USE: Family<Gauge> =
    Family::gauge("platform_db_pool_in_use", &["pool"], "Connections to Postgres in use.");
/// Who had to wait for one.
pub static POOL_WAITS: Family<Counter> =
    Family::counter("platform_db_pool_waits_total", &["pool"], "How often all connections to Postgres were in use.");
/// Whether NATS is there.
pub static NATS_CONNECTED: Family<Gauge> =
    Family::gauge("platform_nats_connected", &["connection"], "1 where a connection to NATS stands.");
/// How often it came back.
pub static NATS_RECONNECTS: Family<Counter> = Family::counter(
    "platform_nats_reconnects_total",
    &["connection"],
    "How often a connection to NATS was made again.",
);

/// How the parts of the node are.
pub static COMPONENT_STATE: Family<Gauge> = Family::gauge(
    "platform_component_state",
    &["component", "state"],
    "1 for the state that a part of the node is in.",
);
/// What runs.
pub static BUILD_INFO: Family<Gauge> =
    Family::gauge("platform_build_info", &["version", "commit", "rust", "role"], "1; its labels tell what runs.");
/// Processor time.
pub static PROCESS_CPU: Family<Time> = Family::time("process_cpu_seconds_total", "Processor time of the process.");
/// Memory.
pub static PROCESS_MEMORY: Family<Gauge> =
    Family::gauge("process_resident_memory_bytes", &[], "Memory of the process.");
/// Open files.
pub static PROCESS_FDS: Family<Gauge> = Family::gauge("process_open_fds", &[], "Open file descriptors.");
/// How many may be open.
pub static PROCESS_MAX_FDS: Family<Gauge> = Family::gauge("process_max_fds", &[], "The most open file descriptors.");
/// Threads.
pub static PROCESS_THREADS: Family<Gauge> = Family::gauge("process_threads", &[], "Threads of the process.");
/// Tasks.
pub static TASKS: Family<Gauge> = Family::gauge("platform_tasks", &[], "Tasks of the process that have not ended.");
/// When it started.
pub static PROCESS_START: Family<Gauge> =
    Family::gauge("process_start_time_seconds", &[], "When the process started, since the Unix epoch.");

/// Makes the cells whose labels are known: what has not happened yet is there as 0, and the first time is an increase.
pub fn prepare() {
    for class in ["address", "client", "instance", "strangers"] {
        RATE_LIMITED.with(&[class]);
    }
    for outcome in ["reached", "given_up", "not_reached"] {
        CONSISTENCY_WAIT.with(&[outcome]);
    }
    for outcome in ["committed", "overtaken", "absent", "foreign"] {
        SETTLES.with(&[outcome]);
    }
    for outcome in ["answered", "refused"] {
        COMMANDS_FORWARDED.with(&[outcome]);
    }
    for role in ["command", "projector"] {
        FENCE_REJECTIONS.with(&[role]);
    }
    for role in ["writer", "projection", "reaction"] {
        LEASE_HELD.with(&[role]);
    }
    for outcome in ["ok", "retried", "failed", "unknown", "dropped"] {
        DELIVERIES.with(&[outcome]);
    }
}

/// All of them.
pub static ALL: &[&dyn Metric] = &[
    &REQUESTS,
    &REQUEST_DURATION,
    &REQUESTS_IN_FLIGHT,
    &RATE_LIMITED,
    &CONSISTENCY_WAIT,
    &COMMIT_EVENTS,
    &COMMIT_DURATION,
    &SETTLES,
    &COMMANDS_WAITING,
    &COMMANDS_REPLAYED,
    &COMMANDS_FORWARDED,
    &TAIL_BYTES,
    &TAIL_LIMIT,
    &WRITER_ACTIVE,
    &WRITER_EPOCH,
    &STEP_DOWNS,
    &FENCE_REJECTIONS,
    &LOG_LAST_SEQUENCE,
    &LEASE_HELD,
    &PROJECTION_SEQUENCE,
    &PROJECTION_LAG_EVENTS,
    &PROJECTION_LAG_SECONDS,
    &PROJECTION_HEARTBEAT,
    &PROJECTION_APPLY,
    &PROJECTION_STALLED,
    &PROJECTION_PARKED,
    &PROJECTION_FAILURES,
    &FAILED_EVENTS_OLDEST,
    &REACTION_LAG_SECONDS,
    &REACTION_HEARTBEAT,
    &INDEX_COMMITS,
    &INDEX_PUBLISHED,
    &INDEX_FETCHED,
    &INDEX_DOCUMENTS,
    &INDEX_SEQUENCE,
    &TOKENS,
    &TOKEN_DURATION,
    &TARGET_CALLS,
    &TARGET_DURATION,
    &DELIVERIES,
    &DELIVERIES_GIVEN_UP,
    &POOL_SIZE,
    &POOL_IN_USE,
    &POOL_WAITS,
    &NATS_CONNECTED,
    &NATS_RECONNECTS,
    &COMPONENT_STATE,
    &BUILD_INFO,
    &PROCESS_CPU,
    &PROCESS_MEMORY,
    &PROCESS_THREADS,
    &TASKS,
    &PROCESS_FDS,
    &PROCESS_MAX_FDS,
    &PROCESS_START,
];

//! All metrics. docs/observability.md explains them; a test compares the two.

use super::{Counter, Family, Gauge, Histogram, Metric, Time};

/// Requests, by outcome.
pub static REQUESTS: Family<Counter> =
    Family::counter("platform_requests_total", &["transport", "service", "method", "code"], "Answered requests.");
/// The time that requests take.
pub static REQUEST_DURATION: Family<Histogram> = Family::seconds(
    "platform_request_duration_seconds",
    &["transport", "service", "method"],
    "Time from the head of a request to the head of its answer.",
);
/// Requests that are not answered yet.
pub static REQUESTS_IN_FLIGHT: Family<Gauge> =
    Family::gauge("platform_requests_in_flight", &["transport"], "Requests that are not answered yet.");
/// Requests refused by a rate limit.
pub static RATE_LIMITED: Family<Counter> =
    Family::counter("platform_ratelimit_rejected_total", &["class"], "Requests refused because there were too many.");
/// The time that reads wait for a required consistency.
pub static CONSISTENCY_WAIT: Family<Histogram> = Family::seconds(
    "platform_consistency_wait_seconds",
    &["outcome"],
    "How long reads waited until they were as fresh as requested.",
);

/// The number of events in a record.
pub static COMMIT_EVENTS: Family<Histogram> =
    Family::numbers("platform_commit_batch_size", &[], "Events in a committed record.");
/// How long a commit takes.
pub static COMMIT_DURATION: Family<Histogram> =
    Family::seconds("platform_commit_duration_seconds", &[], "Time from publishing a record to knowing its outcome.");
/// Publishes whose outcome had to be read from the log.
pub static SETTLES: Family<Counter> = Family::counter(
    "platform_commit_settles_total",
    &["outcome"],
    "Publishes without an answer, by what was found in the log.",
);
/// Waiting commands.
pub static COMMANDS_WAITING: Family<Gauge> =
    Family::gauge("platform_commands_waiting", &[], "Commands that wait for their turn or for history.");
/// Commands answered from a stored answer.
pub static COMMANDS_REPLAYED: Family<Counter> =
    Family::counter("platform_commands_replayed_total", &[], "Repeated commands that got their stored answer.");
/// Commands that a standby forwarded.
pub static COMMANDS_FORWARDED: Family<Counter> = Family::counter(
    "platform_commands_forwarded_total",
    &["outcome"],
    "Commands that reached a node that does not write, by the outcome of forwarding them.",
);
/// The size of the tail.
pub static TAIL_BYTES: Family<Gauge> =
    Family::gauge("platform_tail_bytes", &[], "Bytes of the log that history may not have yet.");
/// The limit of the tail.
pub static TAIL_LIMIT: Family<Gauge> =
    Family::gauge("platform_tail_limit_bytes", &[], "Bytes of the tail beyond which writes are refused.");
/// Whether this node writes.
pub static WRITER_ACTIVE: Family<Gauge> = Family::gauge("platform_writer_active", &[], "1 if this node is the writer.");
/// The epoch in which this node writes.
pub static WRITER_EPOCH: Family<Gauge> =
    Family::gauge("platform_writer_epoch", &[], "The epoch of this node's writer; 0 where it has not written.");
/// How often this node stopped being the writer.
pub static STEP_DOWNS: Family<Counter> =
    Family::counter("platform_writer_step_downs_total", &[], "How often this node stopped writing unasked.");
/// Work that another node had taken over.
pub static FENCE_REJECTIONS: Family<Counter> = Family::counter(
    "platform_fence_rejections_total",
    &["role"],
    "Work refused because another node had taken it over.",
);
/// The last sequence of the log.
pub static LOG_LAST_SEQUENCE: Family<Gauge> =
    Family::gauge("platform_log_last_sequence", &["cell"], "The last event of the log, as this node knows it.");
/// Held leases.
pub static LEASE_HELD: Family<Gauge> = Family::gauge("platform_lease_held", &["role"], "Leases that this node holds.");

/// The position of a projection.
pub static PROJECTION_SEQUENCE: Family<Gauge> = Family::gauge(
    "platform_projection_sequence",
    &["projection", "generation", "partition"],
    "The last event that a projection of this node has applied.",
);
/// The lag of a projection, in events.
pub static PROJECTION_LAG_EVENTS: Family<Gauge> = Family::gauge(
    "platform_projection_lag_events",
    &["projection", "generation", "partition"],
    "Events of the log that a projection has not applied.",
);
/// The lag of a projection, in seconds.
pub static PROJECTION_LAG_SECONDS: Family<Gauge> = Family::gauge(
    "platform_projection_lag_seconds",
    &["projection", "generation", "partition"],
    "Age of the first event that a projection has not applied.",
);
/// The last time that a projection was known to work.
pub static PROJECTION_HEARTBEAT: Family<Gauge> = Family::gauge(
    "platform_projection_heartbeat_timestamp_seconds",
    &["projection", "generation", "partition"],
    "When a projection last applied something or found nothing to apply.",
);
/// The time to apply a batch.
pub static PROJECTION_APPLY: Family<Histogram> =
    Family::seconds("platform_projection_apply_duration_seconds", &["projection"], "Time to apply one batch.");
/// Rows that were not what the log says.
pub static PROJECTION_REPAIRED: Family<Counter> = Family::counter(
    "platform_projection_repaired_rows_total",
    &["projection"],
    "Rows that were not what the log says, and were repaired.",
);
/// Whether a projection is stalled.
pub static PROJECTION_STALLED: Family<Gauge> = Family::gauge(
    "platform_projection_stalled",
    &["projection", "reason"],
    "1 if a projection has stopped for this reason.",
);
/// Aggregates that are parked after a failed event.
pub static PROJECTION_PARKED: Family<Gauge> = Family::gauge(
    "platform_projection_parked",
    &["projection"],
    "Aggregates that wait because one of their events failed.",
);
/// Failed events, each counted once however often it is retried.
pub static PROJECTION_FAILURES: Family<Counter> =
    Family::counter("platform_projection_failures_total", &["projection"], "Events that a projection has parked.");

/// The time since which the oldest failed event waits.
pub static FAILED_EVENTS_OLDEST: Family<Gauge> = Family::gauge(
    "platform_failed_events_oldest_timestamp_seconds",
    &["view"],
    "When the failed event that has waited for an operator the longest failed; 0 if none waits.",
);

/// The lag of a reaction: the age of the first thing that it has not done.
pub static REACTION_LAG_SECONDS: Family<Gauge> = Family::gauge(
    "platform_reaction_lag_seconds",
    &["reaction"],
    "Age of the first event that a reaction has not processed or completed.",
);
/// The last time that this node reported on a reaction.
pub static REACTION_HEARTBEAT: Family<Gauge> = Family::gauge(
    "platform_reaction_heartbeat_timestamp_seconds",
    &["reaction"],
    "When this node last reported the progress of a reaction.",
);

/// Commits of a search index.
pub static INDEX_COMMITS: Family<Counter> =
    Family::counter("platform_index_commits_total", &["index"], "Commits of a search index.");
/// Bytes of search indexes that were published.
pub static INDEX_PUBLISHED: Family<Counter> =
    Family::counter("platform_index_published_bytes_total", &[], "Bytes of search indexes that were published.");
/// Bytes of search indexes that were fetched.
pub static INDEX_FETCHED: Family<Counter> =
    Family::counter("platform_index_fetched_bytes_total", &[], "Bytes of search indexes that were fetched.");
/// The number of documents in a search index.
pub static INDEX_DOCUMENTS: Family<Gauge> =
    Family::gauge("platform_index_documents", &["index"], "Documents of a search index as this node reads it.");
/// The position of a search index in the log.
pub static INDEX_SEQUENCE: Family<Gauge> =
    Family::gauge("platform_index_sequence", &["index"], "The last event in a search index as this node reads it.");

/// Issued tokens.
pub static TOKENS: Family<Counter> =
    Family::counter("platform_token_issued_total", &["grant", "format"], "Issued access tokens.");
/// The time to issue a token.
pub static TOKEN_DURATION: Family<Histogram> =
    Family::seconds("platform_token_duration_seconds", &["grant"], "Time to issue a token or to refuse it.");

/// Calls of targets, by outcome.
pub static TARGET_CALLS: Family<Counter> =
    Family::counter("platform_target_calls_total", &["kind", "outcome"], "Calls of targets, by outcome.");
/// The time that calls of targets take.
pub static TARGET_DURATION: Family<Histogram> = Family::seconds(
    "platform_target_call_duration_seconds",
    &["kind"],
    "Time from the decision to call a target to its answer.",
);

/// Events delivered to targets.
pub static DELIVERIES: Family<Counter> = Family::counter(
    "platform_deliveries_total",
    &["outcome"],
    "Deliveries of events to targets: ok, retried, failed, unknown because this build does not know the type, \
     dropped because the target is gone or may not be called, or refused because the queue has no room.",
);

/// Deliveries that were given up.
pub static DELIVERIES_GIVEN_UP: Family<Gauge> = Family::gauge(
    "platform_deliveries_given_up",
    &[],
    "Deliveries of events to targets that were given up, and wait for a decision.",
);

/// The size of a connection pool.
pub static POOL_SIZE: Family<Gauge> =
    Family::gauge("platform_db_pool_size", &["pool"], "The most connections to Postgres.");
/// Connections in use.
pub static POOL_IN_USE: Family<Gauge> =
    Family::gauge("platform_db_pool_in_use", &["pool"], "Connections to Postgres in use.");
/// How often somebody had to wait for a connection.
pub static POOL_WAITS: Family<Counter> =
    Family::counter("platform_db_pool_waits_total", &["pool"], "How often all connections to Postgres were in use.");
/// Connections with statements of reads that were given up.
pub static POOL_CANCELLED: Family<Counter> = Family::counter(
    "platform_db_cancelled_total",
    &["pool"],
    "Connections whose statements were cancelled, because nobody waited for their answers any more.",
);
/// Questions that the directory has answered.
pub static DIRECTORY_LOOKUPS: Family<Counter> = Family::counter(
    "platform_directory_lookups_total",
    &["kind", "outcome"],
    "Answers about tenants, users, apps and grants: remembered, or loaded from Postgres.",
);
/// Whether NATS is connected.
pub static NATS_CONNECTED: Family<Gauge> =
    Family::gauge("platform_nats_connected", &["connection"], "1 if a connection to NATS is established.");
/// How often a connection to NATS was re-established.
pub static NATS_RECONNECTS: Family<Counter> = Family::counter(
    "platform_nats_reconnects_total",
    &["connection"],
    "How often a connection to NATS was re-established.",
);

/// The states of the parts of the node.
pub static COMPONENT_STATE: Family<Gauge> = Family::gauge(
    "platform_component_state",
    &["component", "state"],
    "1 for the state that a part of the node is in.",
);
/// The build that runs.
pub static BUILD_INFO: Family<Gauge> =
    Family::gauge("platform_build_info", &["version", "commit", "rust", "role"], "1; its labels name the build.");
/// Processor time.
pub static PROCESS_CPU: Family<Time> = Family::time("process_cpu_seconds_total", "Processor time of the process.");
/// Resident memory.
pub static PROCESS_MEMORY: Family<Gauge> =
    Family::gauge("process_resident_memory_bytes", &[], "Memory of the process.");
/// Open files.
pub static PROCESS_FDS: Family<Gauge> = Family::gauge("process_open_fds", &[], "Open file descriptors.");
/// The limit of open files.
pub static PROCESS_MAX_FDS: Family<Gauge> = Family::gauge("process_max_fds", &[], "The most open file descriptors.");
/// Threads.
pub static PROCESS_THREADS: Family<Gauge> = Family::gauge("process_threads", &[], "Threads of the process.");
/// Tasks.
pub static TASKS: Family<Gauge> = Family::gauge("platform_tasks", &[], "Tasks of the process that have not finished.");
/// The time at which the process started.
pub static PROCESS_START: Family<Gauge> =
    Family::gauge("process_start_time_seconds", &[], "When the process started, since the Unix epoch.");

/// Creates the cells whose labels are known: what has not happened yet is reported as 0, and the first time is an
/// increase.
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
    for outcome in ["ok", "retried", "failed", "unknown", "dropped", "refused"] {
        DELIVERIES.with(&[outcome]);
    }
}

/// All metrics.
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
    &PROJECTION_REPAIRED,
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
    &POOL_CANCELLED,
    &DIRECTORY_LOOKUPS,
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

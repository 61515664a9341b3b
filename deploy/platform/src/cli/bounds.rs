//! Limits of requests, searches and connections, and how often and how long deliveries to targets are tried.

use std::time::Duration;

use clap::Args;
use command::reaction::delivery::{KEPT_DAYS, Patience};
use domain::object_limits::ObjectLimits;
use edge::page::Limits;
use query::SearchBounds;

/// What a search may take, of query nodes and standalone.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Searches {
    /// How many results a list has if the request does not say
    #[arg(long, env = "PLATFORM_SEARCH_DEFAULT_LIMIT", default_value_t = 100, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) search_default_limit: u32,
    /// How many results a list has at most
    #[arg(long, env = "PLATFORM_SEARCH_LARGEST_LIMIT", default_value_t = 1000, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) search_largest_limit: u32,
    /// How many milliseconds a search may take once it has a processor
    #[arg(long, env = "PLATFORM_SEARCH_TIME_LIMIT", default_value_t = 5000, value_name = "MILLISECONDS", value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub(crate) search_time_limit: u64,
    /// How many objects a search may look at
    #[arg(long, env = "PLATFORM_SEARCH_OBJECT_LIMIT", default_value_t = 10_000_000, value_name = "NUMBER", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    pub(crate) search_object_limit: usize,
}

impl Searches {
    /// Returns the limits of the number of results.
    pub(crate) fn limits(self) -> Limits {
        let largest = self.search_largest_limit;
        Limits { default: self.search_default_limit.min(largest), largest }
    }

    /// Returns the bounds of a search.
    pub(crate) fn bounds(self) -> SearchBounds {
        let time = Duration::from_millis(self.search_time_limit);
        SearchBounds { limits: self.limits(), time, documents: self.search_object_limit }
    }
}

/// How often a client may ask. A bucket holds what five seconds allow.
#[derive(Debug, Clone, Args)]
pub(crate) struct Rates {
    /// How many requests a second an address may send; 0 for any number. Behind a proxy all requests have its address
    #[arg(long, env = "PLATFORM_RATE_LIMIT_ADDRESS", default_value_t = 200, value_name = "NUMBER")]
    pub(crate) rate_limit_address: u32,
    /// How many requests a second a client may send, known by its Authorization header; 0 for any number
    #[arg(long, env = "PLATFORM_RATE_LIMIT_CLIENT", default_value_t = 200, value_name = "NUMBER")]
    pub(crate) rate_limit_client: u32,
    /// How many requests a second all clients with a token of an instance may send together; 0 for any number
    #[arg(long, env = "PLATFORM_RATE_LIMIT_INSTANCE", default_value_t = 2000, value_name = "NUMBER")]
    pub(crate) rate_limit_instance: u32,
    /// How many requests a second all clients without a token for a host may send to it together, requests for tokens
    /// included; 0 for any number
    #[arg(long, env = "PLATFORM_RATE_LIMIT_STRANGERS", default_value_t = 500, value_name = "NUMBER")]
    pub(crate) rate_limit_strangers: u32,
    /// How many connections an address, or a /64 of IPv6, may have at a time. A
    /// /48 may have four times as many. Behind a proxy all have its address
    #[arg(long, env = "PLATFORM_CONNECTIONS_PER_ADDRESS", default_value_t = 1000, value_name = "NUMBER")]
    pub(crate) connections_per_address: usize,
    /// Count the requests from this machine too
    #[arg(long, env = "PLATFORM_RATE_LIMIT_LOOPBACK", value_parser = clap::builder::BoolishValueParser::new())]
    pub(crate) rate_limit_loopback: bool,
}

/// How many bytes of the log may be ahead of history by default.
pub(crate) const TAIL_LIMIT: usize = 64 * 1024 * 1024;

/// What may be written, of command nodes and standalone.
#[derive(Debug, Clone, Args)]
pub(crate) struct Writes {
    /// How many bytes of the log may be ahead of the writer's read model before writes are refused
    #[arg(long, env = "PLATFORM_TAIL_LIMIT", default_value_t = TAIL_LIMIT, value_name = "BYTES")]
    pub(crate) tail_limit: usize,
    /// How many objects of a kind one instance or organization may have, as in target=2000,execution=20000, separated by
    /// commas; 0 for any number. By default 1000 targets and 10000 executions, which all nodes keep in memory
    #[arg(
        long,
        env = "PLATFORM_OBJECT_LIMITS",
        default_value = "",
        hide_default_value = true,
        value_name = "KIND=NUMBER,..."
    )]
    pub(crate) object_limits: ObjectLimits,
}

/// How events are delivered to targets, by command nodes and standalone.
#[derive(Debug, Clone, Args)]
pub(crate) struct Deliveries {
    /// How often an event is delivered to a target that fails before it is given up and becomes a failed event
    #[arg(long, env = "PLATFORM_DELIVERY_TRIES", default_value_t = 10, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) delivery_tries: u32,
    /// How many milliseconds pass before the second try; then twice as many each time, up to five minutes
    #[arg(long, env = "PLATFORM_DELIVERY_PAUSE", default_value_t = 1000, value_name = "MILLISECONDS", value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub(crate) delivery_pause: u64,
    /// For how many days a delivery that was given up is stored until somebody decides about it
    #[arg(long, env = "PLATFORM_DELIVERY_KEPT", default_value_t = KEPT_DAYS, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=3650))]
    pub(crate) delivery_kept: u32,
}

impl Deliveries {
    /// Returns how failed deliveries are retried and stored.
    pub(crate) fn patience(&self) -> Patience {
        Patience {
            tries: self.delivery_tries,
            pause: Duration::from_millis(self.delivery_pause),
            kept: Duration::from_hours(24) * self.delivery_kept,
        }
    }
}

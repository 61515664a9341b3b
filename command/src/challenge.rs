//! Looks for the challenge of a domain, which proves that whoever adds the domain has control over it.
//!
//! Names are resolved anew each time, by the DNS server that the operator configured. The address that is checked is
//! the one that is connected to, and redirects are not followed, so that nobody can access by this what targets may not
//! access.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use base::explain::explain;
use domain::{address::Allowed, resource::domain::Domain};
use edge::error::{Error, Reason};
use hickory_resolver::{
    TokioResolver,
    config::{NameServerConfig, ResolverConfig},
    net::{NetError, runtime::TokioRuntimeProvider},
    proto::rr::RData,
};
use reqwest::redirect;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::timeout,
};
use url::{Host, Url};

/// How many challenges are looked for at the same time, and how many of one instance.
const SEATS: usize = 32;
const SEATS_OF_INSTANCE: usize = 4;
/// How long the search for one challenge may take.
const LIMIT: Duration = Duration::from_secs(10);
/// How long a DNS server may take, and how often it is queried.
const DNS_LIMIT: Duration = Duration::from_secs(3);
const DNS_TRIES: usize = 2;
/// How much of a page is read, in bytes: room for the token and white space.
const LARGEST_PAGE: usize = 1024;

/// The search for challenges, limited per node and per instance.
pub struct Challenges {
    allowed: Arc<Allowed>,
    dns_server: Option<SocketAddr>,
    seats: Semaphore,
    /// How many seats each instance has taken.
    taken: Mutex<HashMap<String, usize>>,
}

/// A seat of an instance, until it is dropped.
struct Seat<'a> {
    _of_node: SemaphorePermit<'a>,
    taken: &'a Mutex<HashMap<String, usize>>,
    instance_id: &'a str,
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        match taken.get_mut(self.instance_id) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(taken.remove(self.instance_id)),
        }
    }
}

/// How the challenge of a domain is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChallengeMethod {
    /// At a URL of the domain.
    Http,
    /// In a TXT record of the domain.
    Dns,
}

/// A challenge that was not found.
#[derive(Debug, thiserror::Error)]
enum ChallengeFailure {
    #[error("too many domains are being validated at the moment")]
    Busy,
    #[error("it took too long to look for the challenge")]
    Timeout,
    #[error("DNS does not answer: {0}")]
    Dns(String),
    #[error("DNS has no TXT record {0} with the token")]
    NoRecord(String),
    #[error("the domain resolves to no address that may be called")]
    Forbidden,
    #[error("{0} cannot be read: {1}")]
    Unreachable(String, String),
    #[error("{0} answers with status {1}; it must be 200, without a redirect")]
    Status(String, u16),
    #[error("the answer of {0} is not the token")]
    OtherPage(String),
}

impl Challenges {
    /// Creates a search that asks this DNS server, or those of the machine, and calls the public internet and the
    /// allowed addresses beyond it.
    pub fn new(allowed: Arc<Allowed>, dns_server: Option<SocketAddr>) -> Self {
        Self { allowed, dns_server, seats: Semaphore::new(SEATS), taken: Mutex::default() }
    }

    /// Looks for the challenge of a domain.
    ///
    /// # Errors
    /// When the challenge is not found, with the reason.
    pub(crate) async fn find(&self, instance_id: &str, domain: &Domain, method: ChallengeMethod) -> Result<(), Error> {
        let _seat = self.seat(instance_id).ok_or(ChallengeFailure::Busy)?;
        let looking = async {
            match method {
                ChallengeMethod::Dns => self.by_dns(domain).await,
                ChallengeMethod::Http => self.by_http(domain).await,
            }
        };
        Ok(timeout(LIMIT, looking).await.unwrap_or(Err(ChallengeFailure::Timeout))?)
    }

    fn seat<'a>(&'a self, instance_id: &'a str) -> Option<Seat<'a>> {
        let of_node = self.seats.try_acquire().ok()?;
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(instance_id.to_owned()).or_default();
        (*count < SEATS_OF_INSTANCE).then(|| *count += 1)?;
        Some(Seat { _of_node: of_node, taken: &self.taken, instance_id })
    }

    async fn by_dns(&self, domain: &Domain) -> Result<(), ChallengeFailure> {
        let name = domain.dns_record();
        let found = match self.resolver()?.txt_lookup(format!("{name}.")).await {
            Err(error) if error.is_no_records_found() => return Err(ChallengeFailure::NoRecord(name)),
            found => found?,
        };
        let texts = found.answers().iter().filter_map(|record| match &record.data {
            RData::TXT(text) => Some(text.txt_data.concat()),
            _ => None,
        });
        let is_there = texts.into_iter().any(|text| text.trim_ascii() == domain.challenge.as_bytes());
        if is_there { Ok(()) } else { Err(ChallengeFailure::NoRecord(name)) }
    }

    async fn by_http(&self, domain: &Domain) -> Result<(), ChallengeFailure> {
        let url = domain.http_url();
        // A name that is an IP address in disguise would be called without being resolved.
        let host = Url::parse(&url).ok().and_then(|url| url.host().map(|host| host.to_owned()));
        if host != Some(Host::Domain(domain.name.clone())) {
            return Err(ChallengeFailure::Forbidden);
        }
        let found = match self.resolver()?.lookup_ip(format!("{}.", domain.name)).await {
            // Whether a name of a private network exists is not revealed.
            Err(error) if error.is_no_records_found() => return Err(ChallengeFailure::Forbidden),
            found => found?,
        };
        let is_named = self.allowed.names(&domain.name);
        let may = |address: &IpAddr| is_named || self.allowed.has_address(*address);
        // 0 is the port of the URL.
        let addresses: Vec<_> = found.iter().filter(may).map(|address| SocketAddr::new(address, 0)).collect();
        if addresses.is_empty() || !self.allowed.has_name(&domain.name) {
            return Err(ChallengeFailure::Forbidden);
        }
        let unreachable =
            |error: reqwest::Error| ChallengeFailure::Unreachable(url.clone(), explain(&error.without_url()));
        let client = reqwest::Client::builder()
            .no_proxy()
            .https_only(true)
            .redirect(redirect::Policy::none())
            .resolve_to_addrs(&domain.name, &addresses)
            .build()
            .map_err(unreachable)?;
        let mut response = client.get(&url).send().await.map_err(unreachable)?;
        if response.status() != 200 {
            return Err(ChallengeFailure::Status(url, response.status().as_u16()));
        }
        let mut page = vec![];
        while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
            page.extend_from_slice(&chunk);
            if page.len() > LARGEST_PAGE {
                return Err(ChallengeFailure::OtherPage(url));
            }
        }
        if page.trim_ascii() == domain.challenge.as_bytes() { Ok(()) } else { Err(ChallengeFailure::OtherPage(url)) }
    }

    /// Creates a resolver. It is made anew each time, so that it has no cache, and has the newest settings of the
    /// machine.
    fn resolver(&self) -> Result<TokioResolver, ChallengeFailure> {
        let mut builder = match self.dns_server {
            None => TokioResolver::builder_tokio()?,
            Some(server) => {
                let mut config = NameServerConfig::udp_and_tcp(server.ip());
                config.connections.iter_mut().for_each(|connection| connection.port = server.port());
                let config = ResolverConfig::from_name_servers(vec![config]);
                TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
            }
        };
        let options = builder.options_mut();
        (options.timeout, options.attempts, options.cache_size) = (DNS_LIMIT, DNS_TRIES, 0);
        Ok(builder.build()?)
    }
}

impl From<NetError> for ChallengeFailure {
    fn from(error: NetError) -> Self {
        Self::Dns(explain(&error))
    }
}

impl From<ChallengeFailure> for Error {
    fn from(failure: ChallengeFailure) -> Self {
        match failure {
            ChallengeFailure::Busy => Self::new(Reason::RateLimited, failure.to_string())
                .with("limit", "validation")
                .retry_after(Duration::from_secs(1)),
            failure => Self::new(Reason::ChallengeNotFound, failure.to_string()),
        }
    }
}

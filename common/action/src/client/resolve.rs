//! Resolves the names of targets to addresses that may be called. Only these are connected to.

use std::{error::Error, net::SocketAddr, sync::Arc};

use domain::address::Allowed;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::sync::Semaphore;

/// The most concurrent lookups of names. Each occupies a thread for as long as the system's resolver takes.
const LOOKUPS: usize = 64;

/// A resolver that only returns addresses that may be called.
pub(super) struct Checked {
    allowed: Arc<Allowed>,
    lookups: Arc<Semaphore>,
}

impl Checked {
    pub(super) fn new(allowed: Arc<Allowed>) -> Self {
        Self { allowed, lookups: Arc::new(Semaphore::new(LOOKUPS)) }
    }
}

/// The error for a name without any address that may be called.
#[derive(Debug, thiserror::Error)]
#[error("the name has no address that may be called")]
struct Forbidden;

impl Resolve for Checked {
    fn resolve(&self, name: Name) -> Resolving {
        let (allowed, lookups) = (self.allowed.clone(), self.lookups.clone());
        Box::pin(async move {
            let place = lookups.acquire_owned().await?;
            let host = name.as_str().to_owned();
            // The lookup occupies its place until it ends, whether somebody still waits for it or not.
            let looking = tokio::spawn(async move {
                let found = tokio::net::lookup_host((host, 0)).await.map(Iterator::collect::<Vec<_>>);
                drop(place);
                found
            });
            let found = looking.await??.into_iter();
            let is_named = allowed.names(name.as_str());
            let may = |address: &SocketAddr| is_named || allowed.has_address(address.ip());
            let addresses: Vec<SocketAddr> = found.filter(may).collect();
            if addresses.is_empty() {
                return Err(Forbidden.into());
            }
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

/// Whether a call failed because of its address.
pub(super) fn was_forbidden(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<Forbidden>() {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn resolved(allowed: &str, name: &str) -> Result<Vec<SocketAddr>, Box<dyn Error + Send + Sync>> {
        let checked = Checked::new(Arc::new(allowed.parse().expect("it is a list")));
        Ok(checked.resolve(name.parse().expect("it is a name")).await?.collect())
    }

    #[tokio::test]
    async fn a_name_leads_only_where_it_may() {
        let error = resolved("", "localhost").await.expect_err("it is this machine");
        assert!(error.is::<Forbidden>(), "{error}");
        let allowed = resolved("127.0.0.0/8", "localhost").await.expect("it may be called");
        assert!(!allowed.is_empty() && allowed.iter().all(SocketAddr::is_ipv4), "{allowed:?}");
        assert!(!resolved("localhost", "localhost").await.expect("it is named").is_empty());
    }
}

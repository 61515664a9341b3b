//! Limits of the connections per address, so that none takes all.

use std::{
    collections::{HashMap, hash_map::Entry},
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The part of an IPv6 address that identifies one client (RFC 6177): the first 64 bits.
const NETWORK: u128 = !0 << 64;

/// The part of an IPv6 address that identifies a site (RFC 6177), which may have many networks: the first 48 bits.
const SITE: u128 = !0 << 80;
/// How many times as many connections as a network a site may have.
const NETWORKS_OF_SITE: usize = 4;

/// The part of an address that identifies a client: the IPv4 address, or the network of an IPv6 address.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & NETWORK).into(),
        address @ IpAddr::V4(_) => address,
    }
}

/// The part of an address that one party cannot multiply: an IPv4 address, or the site of an IPv6 address.
pub fn site(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & SITE).into(),
        address @ IpAddr::V4(_) => address,
    }
}

/// A group of addresses that share seats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Sharing {
    Network(IpAddr),
    Site(Ipv6Addr),
}

/// The groups that an address shares seats with.
fn sharing(address: IpAddr) -> Vec<Sharing> {
    let network = network(address);
    match network {
        IpAddr::V4(_) => vec![Sharing::Network(network)],
        IpAddr::V6(of) => vec![Sharing::Network(network), Sharing::Site(Ipv6Addr::from_bits(of.to_bits() & SITE))],
    }
}

/// The taken seats, by group.
#[derive(Debug)]
pub(super) struct Seats {
    limit: usize,
    taken: Mutex<HashMap<Sharing, usize>>,
}

/// A seat of an address, which is freed on drop.
#[derive(Debug)]
pub(super) struct Seat {
    seats: Arc<Seats>,
    sharing: Vec<Sharing>,
}

impl Seats {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, taken: Mutex::default() })
    }

    /// Takes a seat for an address, unless its groups have used up theirs.
    pub(super) fn take(self: &Arc<Self>, address: IpAddr) -> Option<Seat> {
        let sharing = sharing(address);
        let mut taken = self.lock();
        let has_room = |sharing: &Sharing| taken.get(sharing).is_none_or(|count| *count < self.limit(*sharing));
        if !sharing.iter().all(has_room) {
            return None;
        }
        for sharing in &sharing {
            *taken.entry(*sharing).or_default() += 1;
        }
        Some(Seat { seats: self.clone(), sharing })
    }

    fn limit(&self, sharing: Sharing) -> usize {
        match sharing {
            Sharing::Network(_) => self.limit,
            Sharing::Site(_) => self.limit.saturating_mul(NETWORKS_OF_SITE),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Sharing, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.lock();
        for sharing in &self.sharing {
            if let Entry::Occupied(mut count) = taken.entry(*sharing) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_its_share_and_gives_it_back() {
        let seats = Seats::new(2);
        let take = |address: &str| seats.take(address.parse().unwrap());
        let (first, _second) = (take("192.0.2.1").unwrap(), take("::ffff:192.0.2.1").unwrap());
        assert!(take("192.0.2.1").is_none());
        assert!(take("192.0.2.2").is_some());
        drop(first);
        assert!(take("192.0.2.1").is_some());
        let all = [take("2001:db8::1"), take("2001:db8::2:1")];
        assert!(all.iter().all(Option::is_some));
        assert!(take("2001:db8::3").is_none());
        assert!(take("2001:db8:0:1::3").is_some());
        drop(all);
        assert_eq!(seats.lock().len(), 1);
    }

    #[test]
    fn a_site_does_not_multiply_its_share_with_networks() {
        let seats = Seats::new(2);
        let take = |number: usize| seats.take(format!("2001:db8:0:{number:x}::1").parse().unwrap());
        let taken: Vec<_> = (0..100).filter_map(take).collect();
        assert_eq!(taken.len(), 2 * NETWORKS_OF_SITE);
        assert!(seats.take("2001:db8:1::1".parse().unwrap()).is_some(), "another site");
        drop(taken);
        assert!(seats.lock().is_empty());
    }
}

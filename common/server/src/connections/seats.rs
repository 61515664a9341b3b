//! How many connections an address may have at a time, so that none takes all.

use std::{
    collections::{HashMap, hash_map::Entry},
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// What one client has of an IPv6 address (RFC 6177): the first 64 bits.
const NETWORK: u128 = !0 << 64;

/// What stands for the client at an address: an IPv4 address, or the network of an IPv6 address.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & NETWORK).into(),
        address @ IpAddr::V4(_) => address,
    }
}

/// The seats that are taken, by network.
#[derive(Debug)]
pub(super) struct Seats {
    limit: usize,
    taken: Mutex<HashMap<IpAddr, usize>>,
}

/// A seat of an address; it is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    seats: Arc<Seats>,
    network: IpAddr,
}

impl Seats {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, taken: Mutex::default() })
    }

    /// A seat for an address, if it has not all of them.
    pub(super) fn take(self: &Arc<Self>, address: IpAddr) -> Option<Seat> {
        let network = network(address);
        let mut taken = self.taken();
        let count = taken.get(&network).copied().unwrap_or_default();
        if count >= self.limit {
            return None;
        }
        taken.insert(network, count + 1);
        Some(Seat { seats: self.clone(), network })
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Entry::Occupied(mut count) = self.seats.taken().entry(self.network) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
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
        assert_eq!(seats.taken().len(), 1);
    }
}

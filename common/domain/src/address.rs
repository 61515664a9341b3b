//! The addresses at which targets may be called: those of the public internet, and what the operator allows beyond.
//!
//! Names are not resolved here. The caller of a target checks the addresses to which its name resolves at that time.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

/// Networks that are not of the public internet (IANA special-purpose registries), as address and length of the prefix.
const SPECIAL_V4: [([u8; 4], u8); 17] = [
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    // A public address at which a cloud (Azure) serves the machine alone.
    ([168, 63, 129, 16], 32),
    ([127, 0, 0, 0], 8),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 0, 2, 0], 24),
    ([192, 31, 196, 0], 24),
    ([192, 88, 99, 0], 24),
    ([192, 168, 0, 0], 16),
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    ([224, 0, 0, 0], 4),
    ([240, 0, 0, 0], 4),
];
/// All of the public internet in IPv6, except for translated addresses of IPv4.
const GLOBAL_V6: Network = Network::v6([0x2000, 0], 3);
/// Ranges of it that are not public: protocol assignments with Teredo, and documentation.
const SPECIAL_V6: [Network; 3] =
    [Network::v6([0x2001, 0], 23), Network::v6([0x2001, 0x0db8], 32), Network::v6([0x3fff, 0], 20)];
/// Addresses that contain one of IPv4 after their first 96 bits (RFC 6052), or after their first 16 (RFC 3056).
const NAT64: Network = Network::v6([0x0064, 0xff9b], 96);
const SIX_TO_FOUR: Network = Network::v6([0x2002, 0], 16);

/// The addresses and hosts that the operator allows beyond the public internet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allowed {
    networks: Networks,
    hosts: Vec<String>,
}

/// A list of networks and addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Networks(Vec<Network>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Allowed {
    /// Allows this machine.
    pub fn loopback() -> Self {
        let networks = [(Ipv4Addr::LOCALHOST.into(), 8), (Ipv6Addr::LOCALHOST.into(), 128)];
        let networks = networks.map(|(address, prefix)| Network { address, prefix }).to_vec();
        Self { networks: Networks(networks), hosts: vec!["localhost".to_owned()] }
    }

    /// Allows what either of the two allows.
    pub fn and(mut self, other: Self) -> Self {
        self.networks.0.extend(other.networks.0);
        self.hosts.extend(other.hosts);
        self
    }

    /// Whether an address may be called.
    pub fn has_address(&self, address: IpAddr) -> bool {
        self.networks.has(address) || is_public(address.to_canonical())
    }

    /// Whether a host of this name may be called, as far as the name alone decides.
    pub fn has_name(&self, name: &str) -> bool {
        let name = plain(name);
        let is_local = name == "localhost" || name.ends_with(".localhost");
        !is_local || self.hosts.iter().any(|host| *host == name || host == "localhost")
    }

    /// Whether the operator named this host, so that its addresses do not matter.
    pub fn names(&self, name: &str) -> bool {
        self.hosts.contains(&plain(name))
    }
}

/// Parses networks (`10.0.0.0/8`), addresses and host names, separated by commas.
impl FromStr for Allowed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut allowed = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            match Network::read(part)? {
                Some(network) => allowed.networks.0.push(network),
                None if !part.contains('/') && is_name(part) => allowed.hosts.push(plain(part)),
                None => {
                    return Err(format!(
                        "{part} is not a network, address or host, as in 10.0.0.0/8 or hooks.internal"
                    ));
                }
            }
        }
        Ok(allowed)
    }
}

/// Parses networks (`10.0.0.0/8`) and addresses, separated by commas.
impl FromStr for Networks {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let unknown = |part| format!("{part} is not a network or address, as in 10.0.0.0/8");
        parts.map(|part| Network::read(part)?.ok_or_else(|| unknown(part))).collect::<Result<_, _>>().map(Self)
    }
}

impl Networks {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an address is in one of them.
    pub fn has(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.has(address))
    }
}

impl Network {
    const fn v6([first, second]: [u16; 2], prefix: u8) -> Self {
        Self { address: IpAddr::V6(Ipv6Addr::new(first, second, 0, 0, 0, 0, 0, 0)), prefix }
    }

    /// Parses a network or an address; `None` if the text begins with neither.
    fn read(text: &str) -> Result<Option<Self>, String> {
        let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let Ok(address) = address.trim_matches(['[', ']']).parse::<IpAddr>() else { return Ok(None) };
        let prefix = prefix.map_or(Ok(bits(address)), str::parse).ok().filter(|prefix| *prefix <= bits(address));
        let prefix = prefix.ok_or_else(|| format!("{text} has no valid prefix length, as in 10.0.0.0/8"))?;
        Ok(Some(Self { address, prefix }))
    }

    fn has(self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let differ = network.to_bits() ^ address.to_bits();
                differ.checked_shr(u32::from(32 - self.prefix)).unwrap_or_default() == 0
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let differ = network.to_bits() ^ address.to_bits();
                differ.checked_shr(u32::from(128 - self.prefix)).unwrap_or_default() == 0
            }
            _ => false,
        }
    }
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => !SPECIAL_V4.iter().any(|(special, prefix)| {
            let network = Network { address: IpAddr::V4((*special).into()), prefix: *prefix };
            network.has(address)
        }),
        IpAddr::V6(within) => match within.octets() {
            [.., a, b, c, d] if NAT64.has(address) => is_public(IpAddr::V4([a, b, c, d].into())),
            [_, _, a, b, c, d, ..] if SIX_TO_FOUR.has(address) => is_public(IpAddr::V4([a, b, c, d].into())),
            _ => GLOBAL_V6.has(address) && !SPECIAL_V6.iter().any(|network| network.has(address)),
        },
    }
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn plain(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

fn is_name(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may(allowed: &str, address: &str) -> bool {
        allowed.parse::<Allowed>().unwrap().has_address(address.parse().unwrap())
    }

    #[test]
    fn only_the_public_internet_may_be_called() {
        for address in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.0.1",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "239.1.1.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:10.0.0.1",
            "::10.0.0.1",
            "::8.8.8.8",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::1",
            "2002:0a00:0001::1",
            "2001::1",
            "2001:db8::1",
            "3fff::1",
            "fc00::1",
            "fd00::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "100::1",
        ] {
            assert!(!may("", address), "{address}");
        }
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.0.1",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "198.20.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00::1",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:0808:0808::1",
        ] {
            assert!(may("", address), "{address}");
        }
    }

    #[test]
    fn the_operator_may_allow_more() {
        let allowed = "10.0.0.0/8, 192.168.7.1,fd00::/8,hooks.internal,0.0.0.0/32";
        for address in ["10.255.0.1", "192.168.7.1", "::ffff:10.0.0.1", "fd12::1", "0.0.0.0", "8.8.8.8"] {
            assert!(may(allowed, address), "{address}");
        }
        for address in ["11.0.0.1", "192.168.7.2"] {
            assert_eq!(may(allowed, address), address == "11.0.0.1", "{address}");
        }
        assert!(may("0.0.0.0/0", "127.0.0.1") && may("::/0", "::1") && !may("0.0.0.0/0", "::1"));
        assert!(allowed.parse::<Allowed>().unwrap().names("Hooks.Internal."));
        for wrong in ["10.0.0.0/33", "10.0.0.0/x", "a b", "fd00::/129", "a/8"] {
            assert!(wrong.parse::<Allowed>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn localhost_is_this_machine() {
        for name in ["localhost", "LOCALHOST.", "a.localhost"] {
            assert!(!Allowed::default().has_name(name), "{name}");
            assert!(Allowed::loopback().has_name(name), "{name}");
        }
        assert!(Allowed::default().has_name("example.com") && Allowed::default().has_name("localhost.example.com"));
        let loopback = Allowed::default().and(Allowed::loopback());
        assert!(loopback.has_address(Ipv4Addr::new(127, 0, 0, 9).into()));
        assert!(loopback.has_address(Ipv6Addr::LOCALHOST.into()));
        assert!(!loopback.has_address(Ipv4Addr::new(10, 0, 0, 1).into()));
    }

    #[test]
    fn a_local_name_may_be_called_where_it_or_this_machine_is_allowed() {
        let allowed: Allowed = "a.localhost,hooks.internal".parse().unwrap();
        for (name, may) in [("a.localhost", true), ("b.localhost", false), ("localhost", false), ("x.example", true)] {
            assert_eq!(allowed.has_name(name), may, "{name}");
        }
        assert!(allowed.names("hooks.internal") && !allowed.names("x.example"));
    }

    #[test]
    fn networks_are_networks_and_addresses_and_no_names() {
        let networks: Networks = "10.0.0.0/8, ,::1,".parse().unwrap();
        for (address, has) in [("10.1.1.1", true), ("::ffff:10.1.1.1", true), ("::1", true), ("11.0.0.1", false)] {
            assert_eq!(networks.has(address.parse().unwrap()), has, "{address}");
        }
        for wrong in ["hooks.internal", "10.0.0.0/33"] {
            assert!(wrong.parse::<Networks>().is_err(), "{wrong}");
        }
        assert!(!networks.is_empty());
        for none in ["", " , "] {
            assert!(none.parse::<Networks>().unwrap().is_empty(), "{none:?}");
        }
    }
}

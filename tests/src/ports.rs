//! Ports that are chosen before a process listens on them.

use std::{
    env,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    process,
    sync::atomic::{AtomicU16, Ordering},
};

/// The first port of tests, below the ephemeral ports of Linux (from 32768 on): between the choice and the listening,
/// no connection and no other server gets such a port.
const FIRST: u16 = 10_000;

/// How many ports a test has to itself.
const OF_A_TEST: u16 = 500;

/// How many tests run at one time, at most.
const TESTS: u16 = 45;

static NEXT: AtomicU16 = AtomicU16::new(0);

/// Returns a port where nobody listens. No concurrent test gets it, nor this test a second time.
///
/// # Panics
///
/// When all ports of the test are taken.
pub fn free_port() -> u16 {
    // nextest numbers the tests that run; without it, processes that live at the same time differ in their ids.
    let id = u16::try_from(process::id() % u32::from(u16::MAX)).expect("it is smaller");
    let slot = env::var("NEXTEST_TEST_GLOBAL_SLOT").ok().and_then(|slot| slot.parse().ok()).unwrap_or(id);
    let block = FIRST + slot % TESTS * OF_A_TEST;
    // Processes of the test before may still listen, so each test begins with another port.
    let port = || block + (id % OF_A_TEST + NEXT.fetch_add(1, Ordering::Relaxed)) % OF_A_TEST;
    (0..OF_A_TEST)
        .map(|_| port())
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .expect("the test has free ports")
}

/// Returns an address with such a port.
pub fn free_address() -> String {
    SocketAddr::from((Ipv4Addr::LOCALHOST, free_port())).to_string()
}

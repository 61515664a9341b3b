//! The costs of the platform, measured on this machine: `make bench` prints them.
//!
//! CPU time per operation and ratios within one run are the figures to compare; wall times on a shared machine mean
//! little. Every comparison runs on the same servers in the same run.

mod actions;
mod bare;
mod commands;
mod cpu;
mod enumeration;
mod fair;
mod generations;
mod generator;
mod index;
mod kinds;
mod load;
mod logins;
mod machine;
mod naive;
mod nodes;
mod pages;
mod pair;
mod parking;
mod passwords;
mod people;
mod providers;
mod rebuild;
mod replay;
mod requests;
mod search;
mod settings;
mod start;
mod tenants;
mod tokens;

use tests::platform::Platform;
use tikv_jemallocator::Jemalloc;

/// The allocator of the platform, so that the bare handlers differ in nothing but what they do.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// How long each row is measured, in seconds.
const SECONDS: u64 = 4;

/// How many instances there are.
const TENANTS: usize = 2000;

/// How many documents the search index has, unless `bench search 1000000` or `bench people 1000000` says otherwise.
const DOCUMENTS: usize = 100_000;

/// How long the log is that is built again, unless `bench rebuild 1000000` says otherwise.
const EVENTS: usize = 100_000;

#[tokio::main]
async fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("bare") => return bare::serve().await,
        Some("bare-requests") => return requests::serve().await,
        Some("actions") => return actions::measure().await,
        Some("commands") => return commands::measure(&mut Platform::start().await).await,
        Some("replay") => return replay::measure(&mut loaded().await).await,
        Some("generations") => {
            let mut platform = loaded().await;
            for view in ["targets", "history", "access"] {
                generations::measure(&mut platform, view).await;
            }
            return;
        }
        Some("rebuild") => return rebuild::measure(argument(2).unwrap_or(EVENTS)).await,
        Some("tokens") => return tokens::measure(&mut Platform::start().await).await,
        Some("logins") => return logins::measure(&mut Platform::start().await).await,
        Some("passwords") => return passwords::measure(&mut Platform::start().await).await,
        Some("enumeration") => return enumeration::measure(&mut Platform::start().await).await,
        Some("requests") => return requests::measure(&mut Platform::start().await).await,
        Some("search") => return search::measure(argument(2).unwrap_or(DOCUMENTS)).await,
        Some("people") => return people::measure(argument(2).unwrap_or(DOCUMENTS)),
        Some("providers") => return providers::measure(),
        Some("fair") => return fair::measure().await,
        Some("settings") => return settings::measure(),
        Some("kinds") => return kinds::measure().await,
        Some("index") => return index::measure().await,
        Some("apart") => return nodes::apart().await,
        Some("parking") => return parking::measure().await,
        Some("tenants") => return tenants::measure(argument(2).unwrap_or(TENANTS)).await,
        Some("nodes") => return nodes::measure().await,
        _ => {}
    }
    machine::print(&std::env::temp_dir());
    let mut platform = Platform::start().await;
    start::memory("idle, after the first start", &mut platform).await;
    commands::measure(&mut platform).await;
    tokens::measure(&mut platform).await;
    logins::measure(&mut platform).await;
    requests::measure(&mut platform).await;
    passwords::measure(&mut platform).await;
    enumeration::measure(&mut platform).await;
    generations::measure(&mut platform, "targets").await;
    start::memory("after the load", &mut platform).await;
    start::measure(&mut platform).await;
    replay::measure(&mut platform).await;
    platform.stop().await;
    rebuild::measure(EVENTS).await;
    fair::measure().await;
    nodes::measure().await;
    parking::measure().await;
    tenants::measure(TENANTS).await;
    index::measure().await;
    settings::measure();
    search::measure(DOCUMENTS).await;
    people::measure(DOCUMENTS);
    providers::measure();
}

/// A platform with the load of `bench commands`.
async fn loaded() -> Platform {
    let mut platform = Platform::start().await;
    commands::measure(&mut platform).await;
    platform
}

fn argument(number: usize) -> Option<usize> {
    std::env::args().nth(number)?.parse().ok()
}

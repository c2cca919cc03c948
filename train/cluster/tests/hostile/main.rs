//! Attackers: strangers without the secret, and processes that have the secret but send invalid data.
//!
//! `cargo test` connects some 500 strangers, drawn anew each time. `GRADUS_HOSTILE=10000` sets their number, and a tenth as many
//! processes of runs send invalid data, at most 500. `GRADUS_SEED` repeats a draw.

mod door;
mod links;
mod wire;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Once, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, SystemTime};

use gradus_cluster::control::Limits;
use gradus_tests::allocations::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Short limits, since tests wait for them, but long enough for a loaded machine.
const LIMITS: Limits = Limits { silence: Duration::from_secs(2), step: Duration::from_secs(60), stuck: None };
/// The time after which a wait is considered a hang.
const DEADLINE: Duration = Duration::from_secs(60);

/// The lock of memory use: a test that measures memory holds it exclusively.
static MEMORY: RwLock<()> = RwLock::new(());

fn with_others() -> RwLockReadGuard<'static, ()> {
    MEMORY.read().unwrap_or_else(PoisonError::into_inner)
}

fn alone() -> RwLockWriteGuard<'static, ()> {
    MEMORY.write().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the seed of all random draws of a test, and prints it for a failing test.
fn seed() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_micros() as u64;
    let seed = std::env::var("GRADUS_SEED").map_or(now, |seed| seed.parse().expect("GRADUS_SEED is a number"));
    eprintln!("GRADUS_SEED={seed}");
    seed
}

/// Returns the number of connections by strangers.
fn tries() -> usize {
    std::env::var("GRADUS_HOSTILE").map_or(500, |n| n.parse().expect("GRADUS_HOSTILE is a number"))
}

/// Returns the number of panics so far in threads of a cluster or of its engine.
fn panics() -> usize {
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let thread = std::thread::current();
            if thread.name().is_some_and(|name| name.starts_with("gradus:") || name.starts_with("timely:")) {
                PANICS.fetch_add(1, Ordering::Relaxed);
            }
            report(info);
        }));
    });
    PANICS.load(Ordering::Relaxed)
}

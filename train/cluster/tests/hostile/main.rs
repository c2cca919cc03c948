//! Who means harm: strangers who do not know the secret, and processes of the run that do, but send what they should not.
//!
//! `cargo test` has some 500 strangers knock, drawn anew each time; `GRADUS_HOSTILE=10000` says how many, and a tenth as many
//! processes of runs do harm, at most 500; `GRADUS_SEED` draws the same again.

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

/// As patient as a loaded machine needs, and no more: tests wait for it.
const LIMITS: Limits = Limits { silence: Duration::from_secs(2), step: Duration::from_secs(60), stuck: None };
/// How long anything may take before it is taken to hang.
const DEADLINE: Duration = Duration::from_secs(60);

/// Who measures memory is alone.
static MEMORY: RwLock<()> = RwLock::new(());

fn with_others() -> RwLockReadGuard<'static, ()> {
    MEMORY.read().unwrap_or_else(PoisonError::into_inner)
}

fn alone() -> RwLockWriteGuard<'static, ()> {
    MEMORY.write().unwrap_or_else(PoisonError::into_inner)
}

/// What all draws of a test come from; a test that fails shows it.
fn seed() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_micros() as u64;
    let seed = std::env::var("GRADUS_SEED").map_or(now, |seed| seed.parse().expect("GRADUS_SEED is a number"));
    eprintln!("GRADUS_SEED={seed}");
    seed
}

/// How many strangers knock.
fn tries() -> usize {
    std::env::var("GRADUS_HOSTILE").map_or(500, |n| n.parse().expect("GRADUS_HOSTILE is a number"))
}

/// Panics so far of threads that belong to a cluster or its engine.
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

//! The instructions of the CPU, detected at run time.

/// The vector instructions of a CPU beyond the baseline of its architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // only x86-64 has levels
pub enum Level {
    /// The instructions that the target guarantees.
    Baseline,
    /// x86-64 with AVX2 and FMA.
    Avx2,
    /// x86-64 with AVX-512 F, VL, BW and DQ.
    Avx512,
}

/// Returns the level of this CPU. It is detected once and then read from a cache.
pub fn level() -> Level {
    #[cfg(test)]
    return detected().min(at_level::highest());
    #[cfg(not(test))]
    detected()
}

/// Describes whether products use fused multiply-adds on this CPU. Results have the same bits on all CPUs with the same
/// description.
pub fn arithmetic() -> &'static str {
    let fuses = level() > Level::Baseline || cfg!(target_feature = "fma") || cfg!(target_arch = "aarch64");
    if fuses { "fused products" } else { "products rounded twice" }
}

/// Returns the level of this CPU, also on a thread with a lower one.
#[inline(always)]
pub(crate) fn detected() -> Level {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        let wide = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq");
        return if wide { Level::Avx512 } else { Level::Avx2 };
    }
    Level::Baseline
}

/// Threads whose level is below the CPU's, for tests of this crate.
#[cfg(test)]
pub(crate) mod at_level {
    use std::cell::Cell;

    use super::{Level, detected};

    thread_local! {
        static HIGHEST: Cell<Level> = const { Cell::new(Level::Avx512) };
    }

    pub(super) fn highest() -> Level {
        HIGHEST.get()
    }

    /// Returns the levels that this CPU has.
    pub(crate) fn available() -> impl Iterator<Item = Level> {
        [Level::Baseline, Level::Avx2, Level::Avx512].into_iter().filter(|&level| level <= detected())
    }

    /// Returns a pool of one thread on which kernels run at a level.
    pub(crate) fn thread(level: Level) -> rayon::ThreadPool {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).start_handler(move |_| HIGHEST.set(level)).build();
        pool.expect("a pool")
    }
}

//! What the CPU at hand can do, found at run time.

/// What a CPU offers beyond the baseline of its architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // only x86-64 has levels
pub enum Level {
    /// What the target guarantees.
    Baseline,
    /// x86-64 with AVX2 and FMA.
    Avx2,
    /// x86-64 with AVX-512 F, VL, BW and DQ.
    Avx512,
}

/// The level of this CPU (detected once, then read from a cache).
pub fn level() -> Level {
    #[cfg(test)]
    return detected().min(at_level::highest());
    #[cfg(not(test))]
    detected()
}

/// Whether products fuse a multiplication with an addition here: on CPUs that agree in this, all results have the same bits.
pub fn arithmetic() -> &'static str {
    let fuses = level() > Level::Baseline || cfg!(target_feature = "fma") || cfg!(target_arch = "aarch64");
    if fuses { "fused products" } else { "products rounded twice" }
}

#[inline(always)]
fn detected() -> Level {
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

/// Tests of this crate also run at the levels below that of the CPU: on threads that know no higher one.
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

    /// The levels that this CPU has.
    pub(crate) fn available() -> impl Iterator<Item = Level> {
        [Level::Baseline, Level::Avx2, Level::Avx512].into_iter().filter(|&level| level <= detected())
    }

    /// One thread on which kernels run at a level.
    pub(crate) fn thread(level: Level) -> rayon::ThreadPool {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).start_handler(move |_| HIGHEST.set(level)).build();
        pool.expect("a pool")
    }
}

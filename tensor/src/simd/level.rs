//! What the CPU at hand can do, found at run time.

/// What a CPU offers beyond the baseline of its architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

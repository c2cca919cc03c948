//! What the tests of kernels share.

use crate::rng::Philox;
use crate::simd::Float;

/// Lengths around the lanes of a reduction and past what one thread keeps to itself.
pub(crate) const LENGTHS: [usize; 10] = [0, 1, 3, 31, 32, 33, 65, 127, 1000, 70_001];

/// `n` normal numbers.
pub(crate) fn normals<T: Float>(n: usize, seed: u64) -> Vec<T> {
    let mut out = vec![T::zero(); n];
    Philox::new(seed).fill_normal(1.0, &mut out);
    out
}

/// |got − want| ≤ tolerance·(scale + |want|), element by element.
#[track_caller]
pub(crate) fn assert_close<T: Float>(got: &[T], want: &[T], tolerance: f64, scale: f64) {
    assert_eq!(got.len(), want.len());
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let (got, want) = (got.to_f64(), want.to_f64());
        let near = got == want || (got - want).abs() <= tolerance * (scale + want.abs());
        assert!(near, "element {i}: fast {got}, naive {want}");
    }
}

/// Runs a kernel on 1, 2 and 3 threads and returns its result, which must be equal to the last bit.
#[track_caller]
pub(crate) fn on_threads<T: Float>(kernel: impl Fn() -> Vec<T> + Sync) -> Vec<T> {
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
        pool.install(&kernel)
    };
    let [one, two, three] = [1, 2, 3].map(run);
    let bits = |x: &[T]| x.iter().map(|x| x.to_f64().to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&one), bits(&two), "two threads");
    assert_eq!(bits(&one), bits(&three), "three threads");
    one
}

/// The rounding error of a scalar.
pub(crate) fn epsilon<T: Float>() -> f64 {
    // ROUND is 1.5/ε.
    1.5 / T::ROUND.to_f64()
}

/// Whether the fast kernels fuse on this CPU: the `FMA` of `vectorized!`.
pub(crate) fn fuses() -> bool {
    crate::simd::level() != crate::simd::Level::Baseline || cfg!(any(target_feature = "fma", target_arch = "aarch64"))
}

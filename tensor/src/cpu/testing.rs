//! Helpers of the tests of kernels.

use std::any::Any;

use crate::kernels::Kernels;
use crate::rng::Philox;
use crate::simd::Float;

use super::gemm::Gemm;

pub(crate) fn normals<T: Float>(n: usize, seed: u64) -> Vec<T> {
    let mut out = vec![T::zero(); n];
    Philox::new(seed).fill_normal(1.0, &mut out);
    out
}

/// Returns the slices of these lengths after `kernel` wrote them, concatenated.
pub(crate) fn written<T: Float, const N: usize>(lengths: [usize; N], kernel: impl FnOnce([&mut [T]; N])) -> Vec<T> {
    let mut out = vec![T::one(); lengths.iter().sum()];
    let mut rest = &mut out[..];
    kernel(lengths.map(|n| rest.split_off_mut(..n).expect("as long as all of them")));
    out
}

/// Returns `x` after `kernel` changed it.
pub(crate) fn changed<T: Float>(x: &[T], kernel: impl FnOnce(&mut [T])) -> Vec<T> {
    written([x.len()], |[y]| {
        y.copy_from_slice(x);
        kernel(y);
    })
}

/// Asserts that the fast kernels give `run` the same bits on one, two and three threads, and that these agree with the naive
/// kernels to within tolerance·ε·(scale + |naive|). Returns the result of the fast kernels. Kernels with products in bf16 pass
/// the same test with the ε of bf16.
#[track_caller]
pub(crate) fn assert_twins<T: Gemm>(tolerance: f64, scale: f64, run: impl Fn(&Kernels<T>) -> Vec<T> + Sync) -> Vec<T> {
    let (fast, naive) = (on_threads(|| run(&Kernels::FAST)), run(&Kernels::NAIVE));
    assert_close(&fast, &naive, tolerance * epsilon::<T>(), scale);
    if let Some(bf16) = (&Kernels::<f32>::BF16 as &dyn Any).downcast_ref::<Kernels<T>>() {
        assert_close(&on_threads(|| run(bf16)), &naive, tolerance / 256.0, scale);
    }
    fast
}

/// Asserts |got − want| ≤ tolerance·(scale + |want|), element by element.
#[track_caller]
pub(crate) fn assert_close<T: Float>(got: &[T], want: &[T], tolerance: f64, scale: f64) {
    assert_eq!(got.len(), want.len());
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let (got, want) = (got.to_f64(), want.to_f64());
        let near = got == want || (got - want).abs() <= tolerance * (scale + want.abs());
        assert!(near, "element {i}: fast {got}, naive {want}");
    }
}

/// Runs a kernel on 1, 2 and 3 threads and returns its result. Panics if the bits differ.
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

/// Returns the rounding error ε of a scalar.
pub(crate) fn epsilon<T: Float>() -> f64 {
    // ROUND is 1.5/ε.
    1.5 / T::ROUND.to_f64()
}

/// Returns whether the fast kernels use fused multiply-adds on this CPU: the `FMA` of `vectorized!`.
pub(crate) fn fuses() -> bool {
    crate::simd::level() != crate::simd::Level::Baseline || cfg!(any(target_feature = "fma", target_arch = "aarch64"))
}

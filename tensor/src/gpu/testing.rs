//! A GPU for tests of kernels, and comparisons of its results with the CPU's.

use crate::device::MatmulPrecision;
use crate::rng::Philox;
use crate::{Device, Tensor};

/// Returns the GPU that tests of kernels share.
pub fn gpu() -> Option<Device> {
    Device::shared(MatmulPrecision::F32)
}

/// Copies x to the GPU.
pub fn on(gpu: &Device, x: &Tensor) -> Tensor {
    x.to(gpu).expect("room for a small tensor")
}

/// Asserts that each element of `found` differs from the element of `expected` by at most `tolerance` times the larger of 1 and
/// its magnitude. Non-finite elements must be equal.
#[track_caller]
pub fn assert_close(what: &str, found: &Tensor, expected: &Tensor, tolerance: f32) {
    assert_eq!(found.shape(), expected.shape(), "{what}");
    for (i, (found, expected)) in found.to_vec().into_iter().zip(expected.to_vec()).enumerate() {
        let same = found.to_bits() == expected.to_bits() || found == expected || found.is_nan() && expected.is_nan();
        let near = (found - expected).abs() <= tolerance * expected.abs().max(1.0);
        assert!(same || near, "{what}: element {i} is {found}, expected {expected}");
    }
}

/// Returns the bits of every element of x.
pub fn bits(x: &Tensor) -> Vec<u32> {
    x.to_vec().into_iter().map(f32::to_bits).collect()
}

/// Asserts that `run` gives the expected results to the `tolerance` of [`assert_close`], and the same bits when repeated.
#[track_caller]
pub fn assert_results(what: &str, run: impl Fn() -> Vec<Tensor>, expected: &[Tensor], tolerance: f32) {
    let (found, again) = (run(), run());
    assert_eq!([found.len(), again.len()], [expected.len(); 2], "{what}");
    for (i, ((found, again), expected)) in found.iter().zip(&again).zip(expected).enumerate() {
        assert_close(&format!("{what}, result {i}"), found, expected, tolerance);
        assert_eq!(bits(found), bits(again), "{what}, result {i}, repeated");
    }
}

/// The inputs of a kernel of rows.
pub struct Case {
    pub x: Tensor,
    /// The gradient of the output, of the shape of x.
    pub gy: Tensor,
}

/// Asserts that `run` gives the CPU's results on the GPU to the `tolerance` of [`assert_close`], and the same bits when repeated:
/// for short and long rows, for few, many and no rows, and for views.
#[track_caller]
pub fn assert_rows(tolerance: f32, run: &dyn Fn(&Case) -> Vec<Tensor>) {
    let Some(gpu) = gpu() else { return };
    let mut rng = Philox::new(8);
    for shape in [[1, 1, 1], [2, 3, 7], [1, 5, 64], [5, 60, 33], [1, 3, 257], [1, 2, 1030], [0, 2, 3], [2, 0, 3]] {
        let mut draw = |std| Tensor::<f32>::normal(shape, std, &mut rng);
        let (x, gy) = (draw(3.0), draw(1.0));
        let view = |x: &Tensor| x.permute(&[1, 0, 2]).slice(0, 0..shape[1].div_ceil(2));
        let there = Case { x: on(&gpu, &x), gy: on(&gpu, &gy) };
        let viewed = |case: &Case| Case { x: view(&case.x), gy: view(&case.gy) };
        let here = Case { x, gy };
        for (what, here, there) in [("of a view", viewed(&here), viewed(&there)), ("dense", here, there)] {
            assert_results(&format!("{shape:?}, {what}"), || run(&there), &run(&here), tolerance);
        }
    }
}

/// Asserts that `run` gives the CPU's results for rows with NaN, ∞ and −∞.
#[track_caller]
pub fn assert_undefined_rows(run: &dyn Fn(&Tensor) -> Tensor) {
    let Some(gpu) = gpu() else { return };
    let (nan, endless) = (f32::NAN, f32::INFINITY);
    let rows = [[nan, 0.0, 1.0], [1.0, -nan, 2.0], [0.0, endless, 1.0], [-endless; 3], [-endless, 1.0, 2.0], [3e38, -3e38, 3e38]];
    for n in [3, 300] {
        let wide = |row: &[f32; 3]| (0..n).map(|j| row[j % 3]).collect::<Vec<_>>();
        let x = Tensor::new([rows.len(), n], rows.iter().flat_map(wide).collect());
        assert_close(&format!("rows of {n}"), &run(&on(&gpu, &x)), &run(&x), 1e-5);
    }
}

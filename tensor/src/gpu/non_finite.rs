//! Detection of non-finite elements, without waiting for the device.

use super::{Array, THREADS, word};
use crate::device::shader;

/// The number of elements per thread.
const EACH: usize = 16;

/// Sets `mark` to NaN if an element of x is not finite. `mark` has one element and is not shared.
pub(crate) fn mark_non_finite(mark: &Array, x: &Array) {
    let x = x.dense();
    let params = [word(x.len()), x.at(), mark.at()];
    x.gpu().dispatch(&shader!("non_finite"), &params, &[&mark.buffer], &[&x.buffer], x.len().div_ceil(EACH * THREADS));
}

#[cfg(test)]
mod tests {
    use super::super::testing::{gpu, on};
    use crate::Tensor;

    #[test]
    fn a_non_finite_value_sets_the_mark_and_later_tensors_keep_it() {
        let Some(gpu) = gpu() else { return };
        let sound = on(&gpu, &Tensor::new([3], vec![f32::MAX, f32::MIN, -0.0]));
        for n in [1, 64, 1024, 1025, 5000] {
            for at in [0, n / 2, n - 1] {
                for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                    let mut x = on(&gpu, &Tensor::full([n], 1.0));
                    let mut mark = x.zeros_like([]);
                    mark.mark_non_finite(&x);
                    mark.mark_non_finite(&on(&gpu, &Tensor::zeros([0])));
                    assert_eq!(mark.item(), 0.0);
                    x.set(at, wrong);
                    mark.mark_non_finite(&x);
                    mark.mark_non_finite(&sound);
                    assert!(mark.item().is_nan(), "{wrong} at {at} of {n}");
                }
            }
        }
    }

    #[test]
    fn only_the_elements_of_a_view_are_checked() {
        let Some(gpu) = gpu() else { return };
        let x = on(&gpu, &Tensor::new([2, 3], vec![1.0, f32::NAN, 2.0, 3.0, 4.0, 5.0]));
        for (start, finite) in [(0, true), (1, false), (2, true)] {
            let mut mark = x.zeros_like([]);
            mark.mark_non_finite(&x.t().slice(0, start..start + 1));
            assert_eq!(mark.item() == 0.0, finite, "column {start}");
        }
    }
}

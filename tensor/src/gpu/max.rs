//! The largest element of each line.

use super::tree::{Lines, row_shader};
use super::{Array, word};

/// Returns the largest element of each line along `axis`, which keeps extent 1.
pub(crate) fn max(x: &Array, axis: usize) -> Array {
    run(x, axis, Array::unwritten(x.gpu(), x.shape().with(axis, 1)), false)
}

/// Returns a tensor that is 1 at the position of the largest element of each line and 0 elsewhere.
pub(crate) fn is_max(x: &Array, axis: usize) -> Array {
    run(x, axis, Array::unwritten(x.gpu(), x.shape()), true)
}

fn run(x: &Array, axis: usize, out: Array, indicate: bool) -> Array {
    let (x, lines) = (x.dense(), Lines::along(&x.shape(), axis..axis + 1));
    assert!(lines.n > 0 || lines.count() == 0, "max: an axis with elements, got axis {axis} of {}", x.shape());
    let width = lines.width();
    let params = [word(lines.count()), word(lines.n), word(lines.inner), word(width), x.at(), indicate.into()];
    let shader = row_shader!(256 threads, "max");
    x.gpu().dispatch(&shader, &params, &[&out.buffer], &[&x.buffer], lines.count().div_ceil(width));
    out
}

#[cfg(test)]
mod tests {
    use super::super::testing::{bits, gpu, on};
    use crate::Tensor;

    #[test]
    fn max_and_is_max_equal_the_cpu() {
        let Some(gpu) = gpu() else { return };
        let (nan, endless) = (f32::NAN, f32::INFINITY);
        let pool = [0.0, -0.0, 1.0, -1.0, 2.0, 2.0, nan, -endless, 1e-40, -1e-40, 2.0, -3.0, -nan];
        let drawn = |shape: &[usize]| {
            let n = shape.iter().product();
            Tensor::new(shape, (0..n).map(|i: usize| pool[i * i * 31 % 1009 % pool.len()]).collect())
        };
        for shape in [[1, 1, 1], [3, 7, 5], [2, 700, 1], [1, 300, 40], [40, 2, 1], [0, 3, 2], [4, 13, 33]] {
            let x = drawn(&shape);
            for axis in 0..3 {
                if x.is_empty() && shape[axis] == 0 {
                    continue;
                }
                let there = on(&gpu, &x);
                assert_eq!(bits(&there.max(axis)), bits(&x.max(axis)), "max of {shape:?} along {axis}");
                assert_eq!(there.is_max(axis), x.is_max(axis), "is_max of {shape:?} along {axis}");
            }
        }
        for (line, at) in [(vec![nan, endless], 0), (vec![-endless, nan], 0), (vec![-0.0, 0.0], 0), (vec![1.0, endless, nan], 1)]
        {
            let x = on(&gpu, &Tensor::new([line.len()], line));
            assert_eq!(x.is_max(0).to_vec().iter().position(|&x| x == 1.0), Some(at), "{x:?}");
        }
        let x = drawn(&[6, 8]);
        let view = |x: &Tensor| x.t().slice(0, 2..7);
        assert_eq!(view(&on(&gpu, &x)).is_max(0), view(&x).is_max(0));
    }
}

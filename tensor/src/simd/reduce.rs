//! Sums and maxima over a fixed number of lanes.

use super::Float;

/// The number of partial sums of a reduction, enough to hide the latency of an addition in the widest registers.
pub const LANES: usize = 32;

/// Returns the pairwise sum of all lanes.
#[inline(always)]
pub fn add_lanes<T: Float>(lanes: [T; LANES]) -> T {
    fold_lanes(lanes, |a, b| a + b)
}

/// Folds the upper half of the lanes onto the lower half until one is left. Each half has a constant length, a register or more.
#[inline(always)]
fn fold_lanes<T: Float>(lanes: [T; LANES], f: impl Fn(T, T) -> T) -> T {
    let lanes: [T; 16] = std::array::from_fn(|i| f(lanes[i], lanes[i + 16]));
    let lanes: [T; 8] = std::array::from_fn(|i| f(lanes[i], lanes[i + 8]));
    let lanes: [T; 4] = std::array::from_fn(|i| f(lanes[i], lanes[i + 4]));
    f(f(lanes[0], lanes[2]), f(lanes[1], lanes[3]))
}

/// Returns Σ f(xᵢ), summed in lanes.
#[inline(always)]
pub fn sum_of<T: Float>(x: &[T], f: impl Fn(T) -> T) -> T {
    let mut lanes = [T::zero(); LANES];
    let (blocks, rest) = x.as_chunks::<LANES>();
    for block in blocks {
        for l in 0..LANES {
            lanes[l] += f(block[l]);
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane += f(x);
    }
    add_lanes(lanes)
}

/// Returns Σ f(xᵢ, yᵢ), summed in lanes, for equal-length slices.
#[inline(always)]
pub fn sum_of_2<T: Float>(x: &[T], y: &[T], f: impl Fn(T, T) -> T) -> T {
    let mut lanes = [T::zero(); LANES];
    let ((xs, x_rest), (ys, y_rest)) = (x.as_chunks::<LANES>(), y.as_chunks::<LANES>());
    for (x, y) in xs.iter().zip(ys) {
        for l in 0..LANES {
            lanes[l] += f(x[l], y[l]);
        }
    }
    for ((lane, &x), &y) in lanes.iter_mut().zip(x_rest).zip(y_rest) {
        *lane += f(x, y);
    }
    add_lanes(lanes)
}

/// Returns the largest element, −∞ if there is none. NaN is ignored.
#[inline(always)]
pub fn largest_of<T: Float>(x: &[T]) -> T {
    let least = T::lit(f64::NEG_INFINITY);
    let mut lanes = [least; LANES];
    let (blocks, rest) = x.as_chunks::<LANES>();
    for block in blocks {
        for l in 0..LANES {
            lanes[l] = if block[l] > lanes[l] { block[l] } else { lanes[l] };
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane = if x > *lane { x } else { *lane };
    }
    fold_lanes(lanes, |a, b| if b > a { b } else { a })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reductions_take_every_element_once() {
        for n in 0..100 {
            let x: Vec<f64> = (0..n).map(|i| f64::from(i * i) - 500.0).collect();
            let ones = vec![1.0; x.len()];
            assert_eq!(sum_of(&x, |x| x), x.iter().sum());
            assert_eq!(sum_of_2(&x, &ones, |x, y| x * y), x.iter().sum());
            assert_eq!(largest_of(&x), x.iter().copied().fold(f64::NEG_INFINITY, f64::max));
        }
    }
}

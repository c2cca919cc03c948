//! Strategies for [`proptest`](mod@proptest): shapes, tensors and cases of an op, which shrink. Requires the feature `proptest`.
//!
//! ```
//! use gradus_autograd::check::{self, Subject};
//! use gradus_autograd::{derivatives::grad, strategies};
//! use proptest::prelude::*;
//!
//! proptest!(|(x in strategies::tensors(strategies::shapes(1..=3, 1..=4), -2.0..2.0))| {
//!     let (_, gradient) = grad(|x| (&x[0] * &x[0]).sum_all(), &[x.clone()]); // ∇ Σxᵢ² = 2x
//!     prop_assert_eq!(&gradient[0], &x.map(|x| 2.0 * x));
//! });
//!
//! let gelu = check::subjects().into_iter().find(|s| s.name() == "gelu").unwrap(); // or Subject::of::<YourOp>()
//! proptest!(ProptestConfig::with_cases(16), |(cases in strategies::cases(gelu))| {
//!     for case in &cases {
//!         check::adjoint(case).map_err(|e| TestCaseError::fail(e.to_string()))?;
//!     }
//! });
//! ```

use std::ops::RangeInclusive;

use proptest::prelude::*;

use crate::check::{Case, Subject};
use crate::{Shape, Tensor};

/// Returns a strategy for shapes with this many axes of these extents. The shapes shrink to few, small axes.
pub fn shapes(rank: RangeInclusive<usize>, extent: RangeInclusive<usize>) -> impl Strategy<Value = Shape> + Clone {
    prop::collection::vec(extent, rank).prop_map(|dims| Shape::new(&dims))
}

/// Returns a strategy for tensors of these shapes with these elements.
pub fn tensors(
    shape: impl Strategy<Value = Shape> + Clone,
    elements: impl Strategy<Value = f64> + Clone,
) -> impl Strategy<Value = Tensor<f64>> + Clone {
    shape.prop_flat_map(move |shape| {
        prop::collection::vec(elements.clone(), shape.numel()).prop_map(move |values| Tensor::new(shape, values))
    })
}

/// Returns a strategy for numbers of either sign away from 0, where |x|, relu and 1/x are smooth.
pub fn off_zero() -> impl Strategy<Value = f64> + Clone {
    (0.2..2.0, any::<bool>()).prop_map(|(x, negative): (f64, bool)| if negative { -x } else { x })
}

/// Returns a strategy for all samples of an op at a random seed and a size from 1 to 5. The size shrinks.
pub fn cases(op: Subject) -> impl Strategy<Value = Vec<Case>> {
    (any::<u64>(), 1usize..=5).prop_map(move |(seed, size)| op.cases(seed, size))
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest! {
        #[test]
        fn shapes_are_within_their_bounds(shape in shapes(2..=4, 1..=3)) {
            prop_assert!((2..=4).contains(&shape.len()) && shape.iter().all(|n| (1..=3).contains(n)));
        }

        #[test]
        fn drawn_elements_lie_within_the_given_magnitudes(x in tensors(shapes(0..=3, 0..=3), off_zero())) {
            prop_assert!(x.to_vec().iter().all(|x| (0.2..2.0).contains(&x.abs())));
        }
    }
}

//! Dropout (Srivastava et al. 2014) with a mask that is a function of its key; see [`DropoutKey`].

use super::{row_count, same_len};
use crate::Real;
use crate::rng::DropoutKey;

/// Rows of n: y = x ∘ keep/(1 − p).
pub fn naive<T: Real>(key: &DropoutKey, x: &[T], y: &mut [T], n: usize) {
    same_len("dropout", &[x.len(), y.len()]);
    row_count("dropout", x.len(), n);
    let scale = T::lit(key.scale());
    for (i, (&x, y)) in x.iter().zip(y).enumerate() {
        let keep = key.keeps((i / n) as u64, i % n);
        *y = x * if keep { scale } else { T::zero() };
    }
}

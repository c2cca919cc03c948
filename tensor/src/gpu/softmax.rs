//! Softmax over rows.

use super::tree::row_shader;
use super::{Array, word};

/// Computes y = softmax x for each row.
pub(crate) fn softmax(x: &Array) -> Array {
    let (x, (rows, n)) = (x.dense(), x.rows());
    let y = Array::unwritten(x.gpu(), x.shape());
    let params = [word(rows), word(n), x.at(), f32::NAN.to_bits()];
    x.gpu().dispatch(&row_shader!(n, "exponentials", "softmax"), &params, &[&y.buffer], &[&x.buffer], rows);
    y
}

/// Computes x̄ = y ∘ (ȳ − ⟨ȳ, y⟩) for each row.
pub(crate) fn softmax_vjp(y: &Array, gy: &Array) -> Array {
    let (y, gy, (rows, n)) = (y.dense(), gy.dense(), y.rows());
    let gx = Array::unwritten(y.gpu(), y.shape());
    let params = [word(rows), word(n), y.at(), gy.at()];
    y.gpu().dispatch(&row_shader!(n, "softmax_vjp"), &params, &[&gx.buffer], &[&y.buffer, &gy.buffer], rows);
    gx
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, assert_rows};
    use crate::Tensor;

    /// For scores within 30 of the largest, WGSL allows e^x an error of 63 ulp, and y is below 1. x̄ is a difference of such
    /// numbers.
    #[test]
    fn softmax_is_the_cpus() {
        assert_rows(1e-5, &|Case { x, gy }: &Case| {
            let y = x.softmax();
            vec![y.softmax_vjp(gy), y]
        });
    }

    /// A row with NaN or ∞, or of −∞ alone, becomes NaN. A −∞ among finite scores gets probability 0.
    #[test]
    fn undefined_rows_are_the_cpus() {
        super::super::testing::assert_undefined_rows(&|x: &Tensor| x.softmax());
    }
}

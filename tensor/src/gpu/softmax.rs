//! Softmax over rows, and its logarithm.

use super::tree::row_shader;
use super::{Array, word};

/// Computes y = softmax x for each row, or its logarithm if `log`.
pub(crate) fn softmax(x: &Array, log: bool) -> Array {
    let (x, (rows, n)) = (x.dense(), x.rows());
    let y = Array::unwritten(x.gpu(), x.shape());
    let params = [word(rows), word(n), x.at(), f32::NAN.to_bits()];
    let shader = row_shader!(n, "exponentials", "softmax").with("LOG", log);
    x.gpu().dispatch(&shader, &params, &[&y.buffer], &[&x.buffer], rows);
    y
}

/// Computes x̄ = y ∘ (ȳ − ⟨ȳ, y⟩) for each row, or x̄ = ȳ − eʸ·Σȳ if y is the logarithm.
pub(crate) fn softmax_vjp(y: &Array, gy: &Array, log: bool) -> Array {
    let (y, gy, (rows, n)) = (y.dense(), gy.dense(), y.rows());
    let gx = Array::unwritten(y.gpu(), y.shape());
    let params = [word(rows), word(n), y.at(), gy.at()];
    let shader = row_shader!(n, "softmax_vjp").with("LOG", log);
    y.gpu().dispatch(&shader, &params, &[&gx.buffer], &[&y.buffer, &gy.buffer], rows);
    gx
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, assert_rows, assert_undefined_rows};
    use crate::Tensor;

    /// For scores within 30 of the largest, WGSL allows e^x an error of 63 ulp, and y is below 1. x̄ is a difference of such
    /// numbers.
    #[test]
    fn softmax_matches_the_cpu() {
        assert_rows(1e-5, &|Case { x, gy }: &Case| {
            let y = x.softmax();
            vec![y.softmax_vjp(gy), y]
        });
    }

    /// WGSL's ln is within 3 ulp, and the exponentials as in softmax; a sum Σȳ of 1,000 terms rounds to 1e-5 of the elements.
    #[test]
    fn log_softmax_matches_the_cpu() {
        assert_rows(2e-5, &|Case { x, gy }: &Case| {
            let y = x.log_softmax();
            vec![y.log_softmax_vjp(gy), y]
        });
    }

    /// A row with NaN or ∞, or of −∞ alone, becomes NaN. A −∞ among finite scores gets probability 0.
    #[test]
    fn undefined_rows_match_the_cpu() {
        assert_undefined_rows(&|x: &Tensor| x.softmax());
        assert_undefined_rows(&|x: &Tensor| x.log_softmax());
    }
}

//! Softmax over rows.

use super::tree::row_shader;
use super::{Array, word};

/// Each row: y = softmax x.
pub(crate) fn softmax(x: &Array) -> Array {
    let (x, (rows, n)) = (x.dense(), x.rows());
    let y = Array::unwritten(x.gpu(), x.shape());
    let params = [word(rows), word(n), x.at(), f32::NAN.to_bits()];
    x.gpu().dispatch(&row_shader!(n, "exponentials", "softmax"), &params, &[&y.buffer], &[&x.buffer], rows);
    y
}

/// x̄ = y ∘ (ȳ − ⟨ȳ, y⟩), by rows.
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

    /// Of scores within 30 of the largest WGSL allows e^x 63 ulp, of a y below 1; x̄ is a difference of such.
    #[test]
    fn softmax_is_the_cpus() {
        assert_rows(1e-5, &|Case { x, gy }: &Case| {
            let y = x.softmax();
            vec![y.softmax_vjp(gy), y]
        });
    }

    /// NaN fills its row, as ∞ and nothing but −∞ do; −∞ among others has no share.
    #[test]
    fn undefined_rows_are_the_cpus() {
        super::super::testing::assert_undefined_rows(&|x: &Tensor| x.softmax());
    }
}

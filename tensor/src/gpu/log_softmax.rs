//! The logarithm of softmax over rows.

use super::tree::row_shader;
use super::{Array, word};

/// Computes y = x − log Σ eˣ for each row.
pub(crate) fn log_softmax(x: &Array) -> Array {
    let (x, (rows, n)) = (x.dense(), x.rows());
    let y = Array::unwritten(x.gpu(), x.shape());
    let params = [word(rows), word(n), x.at(), f32::NAN.to_bits()];
    x.gpu().dispatch(&row_shader!(n, "exponentials", "log_softmax"), &params, &[&y.buffer], &[&x.buffer], rows);
    y
}

/// Computes x̄ = ȳ − eʸ·Σȳ for each row.
pub(crate) fn log_softmax_vjp(y: &Array, gy: &Array) -> Array {
    let (y, gy, (rows, n)) = (y.dense(), gy.dense(), y.rows());
    let gx = Array::unwritten(y.gpu(), y.shape());
    let params = [word(rows), word(n), y.at(), gy.at()];
    y.gpu().dispatch(&row_shader!(n, "log_softmax_vjp"), &params, &[&gx.buffer], &[&y.buffer, &gy.buffer], rows);
    gx
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, assert_rows, assert_undefined_rows};
    use crate::Tensor;

    /// WGSL's ln is within 3 ulp, and the exponentials as in softmax; a sum Σȳ of a thousand terms rounds to 1e-5 of the elements.
    #[test]
    fn log_softmax_is_the_cpus() {
        assert_rows(2e-5, &|Case { x, gy }: &Case| {
            let y = x.log_softmax();
            vec![y.log_softmax_vjp(gy), y]
        });
    }

    #[test]
    fn undefined_rows_are_the_cpus() {
        assert_undefined_rows(&|x: &Tensor| x.log_softmax());
    }
}

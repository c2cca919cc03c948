//! Clipping by the global norm (Pascanu, Mikolov, Bengio 2013), as in TensorFlow and so in the paper's code.
//!
//! ```text
//! ‖g‖ = √(Σ over all parameters, over all elements, g²)          g ← g · max/max(‖g‖, max)
//! ```
//!
//! There is one norm for the whole model: clipping each tensor by its norm would change the gradient's direction. (PyTorch
//! divides by ‖g‖ + 1e-6 instead.)

use gradus_tensor::{GlobalNorm, Real, Tensor};

/// Returns the factor on every gradient, on the gradients' device: [`factor`] of the norm, or 1 without a `max`. It is NaN if the
/// norm or a number read with it is non-finite. If gradients are `scale` times as large, the factor scales them back.
pub fn on_device<T: Real>(norm: &GlobalNorm<T>, max: Option<f64>, scale: f64) -> Tensor<T> {
    let back = 1.0 / scale;
    match max.map(|max| max * scale) {
        Some(max) => norm.map("b * select(a / x, 1.0, x <= a)", &[max, back], |norm| back * factor(norm, max)),
        None => norm.map("a", &[back], |_| back),
    }
}

/// Returns 1 up to `max`, and max/‖g‖ beyond. A NaN norm gives NaN, so that it is not taken for a small gradient.
pub fn factor(norm: f64, max: f64) -> f64 {
    if norm <= max { 1.0 } else { max / norm }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_norm_covers_all_tensors() {
        let (a, b) = (Tensor::new([2], vec![3.0f32, 0.0]), Tensor::new([1], vec![4.0f32]));
        let norm = |all: &[&Tensor<f32>]| GlobalNorm::of(all, &[]).read().unwrap().norm();
        assert_eq!((norm(&[&a, &b]), norm(&[])), (5.0, 0.0));
        let beyond = norm(&[&Tensor::new([2], vec![3e30f32, 4e30])]); // squares beyond f32's range
        assert!((beyond / 5e30 - 1.0).abs() < 1e-6, "{beyond}");
    }

    #[test]
    fn the_clipping_factor_is_computed_on_the_device() {
        let (g, loss) = (Tensor::new([2], vec![3.0, 4.0]), |x: f64| Tensor::scalar(x));
        let scaled = |g: &Tensor<f64>, x, max, scale| on_device(&GlobalNorm::of(&[g], &[&loss(x)]), max, scale).item();
        let factor = |g: &Tensor<f64>, x, max| scaled(g, x, max, 1.0);
        assert_eq!([Some(1.0), Some(5.0), None].map(|max| factor(&g, 2.0, max)), [0.2, 1.0, 1.0]);
        assert_eq!([Some(1.0), Some(1.25), None].map(|max| scaled(&g, 2.0, max, 4.0)), [0.2, 0.25, 0.25], "a norm of 5/4");
        assert!(factor(&g, f64::INFINITY, None).is_nan(), "a loss that is not finite");
        assert!(factor(&Tensor::new([1], vec![f64::INFINITY]), 2.0, Some(1.0)).is_nan(), "max/∞ is no factor");
    }

    #[test]
    fn factors() {
        assert_eq!(factor(5.0, 1.0), 0.2);
        assert_eq!([factor(0.0, 1.0), factor(0.5, 1.0), factor(1.0, 1.0)], [1.0; 3]);
        assert_eq!(factor(7.0, f64::INFINITY), 1.0);
        assert!(factor(f64::NAN, 1.0).is_nan());
    }
}

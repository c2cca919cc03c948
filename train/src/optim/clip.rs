//! Clipping by the global norm (Pascanu, Mikolov, Bengio 2013), as TensorFlow does it and so the paper's code.
//!
//! ```text
//! ‖g‖ = √(Σ over all parameters, over all elements, g²)          g ← g · max/max(‖g‖, max)
//! ```
//!
//! One norm for the whole model: clipping each tensor by its own would change the gradient's direction. (PyTorch divides
//! by ‖g‖ + 1e-6 instead.)

use gradus_tensor::{Real, Tensor};

/// ‖g‖ of all gradients together, its squares summed in f64 in the order given.
pub fn global_norm<'a, T: Real>(gradients: impl IntoIterator<Item = &'a Tensor<T>>) -> f64 {
    gradients.into_iter().map(Tensor::sum_squares).sum::<f64>().sqrt()
}

/// The factor on every gradient: 1 up to `max`, max/‖g‖ beyond. A NaN norm gives NaN, so that it is not taken for a small
/// gradient.
pub fn factor(norm: f64, max: f64) -> f64 {
    if norm <= max { 1.0 } else { max / norm }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_norm_for_all() {
        let (a, b) = (Tensor::new([2], vec![3.0f32, 0.0]), Tensor::new([1], vec![4.0f32]));
        assert_eq!(global_norm([&a, &b]), 5.0);
        assert_eq!(global_norm::<f64>([]), 0.0);
        let beyond = global_norm([&Tensor::new([2], vec![3e30f32, 4e30])]); // squares beyond f32's range
        assert!((beyond / 5e30 - 1.0).abs() < 1e-6, "{beyond}");
    }

    #[test]
    fn factors() {
        assert_eq!(factor(5.0, 1.0), 0.2);
        assert_eq!([factor(0.0, 1.0), factor(0.5, 1.0), factor(1.0, 1.0)], [1.0; 3]);
        assert_eq!(factor(7.0, f64::INFINITY), 1.0);
        assert!(factor(f64::NAN, 1.0).is_nan());
    }
}

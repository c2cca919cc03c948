//! The norm of a gradient, and the numbers that a training step reads with it.

use crate::{DeviceError, Real, Tensor};

/// The norm ‖x‖ of several tensors together, on their device. A training step can compute with it before it is read.
///
/// ```
/// use gradus_tensor::{GlobalNorm, Tensor};
/// let (a, b, loss) = (Tensor::new([2], vec![3.0, 0.0]), Tensor::new([1], vec![4.0]), Tensor::scalar(0.7));
/// let norm = GlobalNorm::of(&[&a, &b], &[&loss]);
/// let halved = norm.map("0.5 * x", &[], |norm| 0.5 * norm);
/// assert_eq!(halved.item(), 2.5);
/// let read = norm.read()?;
/// assert_eq!((read.norm(), &read.squares[..], &read.numbers[..]), (5.0, &[9.0, 16.0][..], &[0.7][..]));
/// # Ok::<(), gradus_tensor::DeviceError>(())
/// ```
#[derive(Debug)]
pub struct GlobalNorm<T: Real> {
    at: Storage<T>,
}

#[derive(Debug)]
enum Storage<T: Real> {
    Host(Norms, std::marker::PhantomData<T>),
    #[cfg(feature = "wgpu")]
    Gpu(Box<crate::gpu::NormTable>),
}

/// The result of [`GlobalNorm::read`].
#[derive(Clone, Debug, PartialEq)]
pub struct Norms {
    /// Σ xᵢ² of each tensor.
    pub squares: Vec<f64>,
    /// The numbers that were read with them.
    pub numbers: Vec<f64>,
}

impl Norms {
    /// Returns ‖x‖ of all tensors together.
    pub fn norm(&self) -> f64 {
        self.squares.iter().sum::<f64>().sqrt()
    }

    /// Returns whether the norm and all numbers are finite.
    pub fn is_finite(&self) -> bool {
        self.norm().is_finite() && self.numbers.iter().all(|x| x.is_finite())
    }
}

impl<T: Real> GlobalNorm<T> {
    /// Computes the norm of `tensors` together. `numbers`, of one element each, are read with it.
    #[track_caller]
    pub fn of(tensors: &[&Tensor<T>], numbers: &[&Tensor<T>]) -> Self {
        #[cfg(feature = "wgpu")]
        if let Some(arrays) = crate::tensor::all_arrays(&[tensors, numbers].concat()) {
            let (tensors, numbers) = arrays.split_at(tensors.len());
            return GlobalNorm { at: Storage::Gpu(Box::new(crate::gpu::NormTable::of(tensors, numbers))) };
        }
        Self::of_squares(tensors.iter().map(|x| x.sum_squares()).collect(), numbers)
    }

    /// Computes the norm of tensors with these sums of squares, which may be in other processes, on the CPU.
    pub fn of_squares(squares: Vec<f64>, numbers: &[&Tensor<T>]) -> Self {
        let numbers = numbers.iter().map(|x| x.item().to_f64()).collect();
        GlobalNorm { at: Storage::Host(Norms { squares, numbers }, std::marker::PhantomData) }
    }

    /// Computes f(‖x‖), a tensor without axes, on the device of the tensors; NaN if the norm or one of the numbers is not finite.
    /// `wgsl` is f for a GPU: an expression of x and of at most four `constants` a, b, c and d.
    pub fn map(&self, wgsl: &str, constants: &[f64], f: impl Fn(f64) -> f64) -> Tensor<T> {
        match &self.at {
            Storage::Host(norms, _) => Tensor::scalar(T::lit(if norms.is_finite() { f(norms.norm()) } else { f64::NAN })),
            #[cfg(feature = "wgpu")]
            Storage::Gpu(table) => table.map(wgsl, &constants.iter().map(|&c| c as f32).collect::<Vec<_>>()).into(),
        }
    }

    /// Reads the norms and numbers.
    ///
    /// # Errors
    /// Returns an error if the GPU of the tensors has had a fault: the first one.
    pub fn read(&self) -> Result<Norms, DeviceError> {
        match &self.at {
            Storage::Host(norms, _) => Ok(norms.clone()),
            #[cfg(feature = "wgpu")]
            Storage::Gpu(table) => table.read().map(|(squares, numbers)| Norms { squares, numbers }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_global_norm_is_finite_only_if_all_values_read_with_it_are() {
        let of = |x: Vec<f64>, number: f64| GlobalNorm::of(&[&Tensor::new([x.len()], x)], &[&Tensor::scalar(number)]);
        let read = |x: Vec<f64>, number| of(x, number).read().expect("on the CPU");
        let finite = read(vec![3.0, 4.0], 7.0);
        assert_eq!((finite.norm(), &finite.squares[..], &finite.numbers[..]), (5.0, &[25.0][..], &[7.0][..]));
        assert!(finite.is_finite());
        assert!(!read(vec![3.0, f64::INFINITY], 7.0).is_finite());
        assert!(!read(vec![3.0], f64::NAN).is_finite());
        let twice = |x, number| of(x, number).map("2.0 * x", &[], |norm| 2.0 * norm).item();
        assert_eq!(twice(vec![3.0, 4.0], 0.0), 10.0);
        assert!(twice(vec![3.0], f64::INFINITY).is_nan() && twice(vec![f64::NAN], 0.0).is_nan());
    }
}

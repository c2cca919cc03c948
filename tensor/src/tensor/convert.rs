//! Conversions from and to `ndarray`.

use ndarray::{ArrayD, IxDyn};

use super::Tensor;
use crate::Real;
use crate::shape::MAX_RANK;

/// An array of more axes than a tensor can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected an array of at most {MAX_RANK} axes, found {axes}; merge axes with `into_shape_with_order`")]
pub struct TooManyAxes {
    /// The number of axes of the array.
    pub axes: usize,
}

/// Copies the elements in row-major order, whatever the array's layout.
///
/// ```
/// use gradus_tensor::Tensor;
/// use ndarray::{ArrayD, IxDyn};
///
/// let array = ArrayD::from_shape_fn(IxDyn(&[2, 3]), |at| (3 * at[0] + at[1]) as f32);
/// let tensor = Tensor::try_from(array.t().to_owned())?;
/// assert_eq!((tensor.shape()[..].to_vec(), tensor.to_vec()), (vec![3, 2], vec![0., 3., 1., 4., 2., 5.]));
/// assert_eq!(ArrayD::from(tensor.permute(&[1, 0])), array);
/// # Ok::<(), gradus_tensor::TooManyAxes>(())
/// ```
impl<T: Real> TryFrom<ArrayD<T>> for Tensor<T> {
    type Error = TooManyAxes;

    fn try_from(array: ArrayD<T>) -> Result<Self, TooManyAxes> {
        let axes = array.ndim();
        if axes > MAX_RANK {
            return Err(TooManyAxes { axes });
        }
        Ok(Tensor::write(array.shape(), |out| out.iter_mut().zip(&array).for_each(|(to, &x)| *to = x)))
    }
}

/// Copies the elements in row-major order, from a GPU too.
///
/// # Panics
/// Panics if a GPU fails.
impl<T: Real> From<Tensor<T>> for ArrayD<T> {
    fn from(tensor: Tensor<T>) -> Self {
        ArrayD::from_shape_vec(IxDyn(tensor.shape()), tensor.to_vec()).expect("as many elements as the shape")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_converted_in_row_major_order() {
        for shape in [&[][..], &[0, 3], &[1], &[2, 1, 3], &[1, 2, 1, 2, 1, 2, 1, 2]] {
            let array = ArrayD::from_shape_fn(IxDyn(shape), |at| (0..shape.len()).fold(1.0, |x, axis| 3.0 * x + at[axis] as f64));
            let tensor = Tensor::try_from(array.clone()).unwrap();
            assert_eq!((&tensor.shape()[..], tensor.to_vec()), (shape, array.iter().copied().collect()));
            assert_eq!(ArrayD::from(tensor), array);
        }
        let reversed = ArrayD::from_shape_vec(IxDyn(&[2, 2]), vec![1.0, 2.0, 3.0, 4.0]).unwrap().reversed_axes();
        assert_eq!(Tensor::try_from(reversed).unwrap().to_vec(), [1.0, 3.0, 2.0, 4.0]);
        let deep = ArrayD::<f64>::zeros(IxDyn(&[1; 9]));
        let error = Tensor::try_from(deep).unwrap_err();
        assert_eq!(error, TooManyAxes { axes: 9 });
        assert!(error.to_string().starts_with("expected an array of at most 8 axes, found 9"), "{error}");
    }

    #[cfg(feature = "wgpu")]
    #[test]
    fn an_array_is_read_from_a_gpu() {
        use crate::device::{Device, MatmulPrecision};
        let Some(gpu) = Device::shared(MatmulPrecision::F32) else { return };
        let tensor = Tensor::new([2, 2], vec![1.0f32, 2.0, 3.0, 4.0]).to(&gpu).unwrap().permute(&[1, 0]);
        assert_eq!(ArrayD::from(tensor), ArrayD::from_shape_vec(IxDyn(&[2, 2]), vec![1.0, 3.0, 2.0, 4.0]).unwrap());
    }
}

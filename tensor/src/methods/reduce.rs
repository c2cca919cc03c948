//! Sums, maxima and predicates.

use crate::tensor::on_gpu;
use crate::{Real, Shape, Tensor};

impl<T: Real> Tensor<T> {
    /// Computes Σ over `axes` (ascending), which keep extent 1. Returns this tensor if there are no axes.
    pub fn sum(&self, axes: &[usize]) -> Self {
        if axes.is_empty() {
            return self.clone();
        }
        on_gpu!(x = self => gpu::sum(&x, axes));
        // With the summed axes moved to the front or the back, the rows or columns of a matrix are summed.
        let rank = self.shape().len();
        let rest: Vec<usize> = (0..rank).filter(|a| !axes.contains(a)).collect();
        let trailing = axes[0] == rank - axes.len();
        let order: Vec<usize> = if trailing { [&rest[..], axes].concat() } else { [axes, &rest].concat() };
        let x = self.permute(&order).dense();
        let n = axes.iter().map(|&a| self.shape()[a]).product::<usize>();
        let out = axes.iter().fold(*self.shape(), |s, &a| s.with(a, 1));
        let cpu = self.cpu();
        cpu.write(out, |y| match (trailing, y.len()) {
            (true, _) => (cpu.kernels.sum_cols)(x.as_slice(), y, n),
            (false, columns) => (cpu.kernels.sum_rows)(x.as_slice(), y, columns),
        })
    }

    /// Returns the largest element along `axis`, which keeps extent 1. NaN is ignored unless it comes first.
    pub fn max(&self, axis: usize) -> Self {
        on_gpu!(x = self => gpu::max(&x, axis));
        let x = self.dense();
        let values = x.as_slice();
        let largest = x.first_largest(axis).map(|at| values[at]).collect();
        self.constant(self.shape().with(axis, 1), largest)
    }

    /// Returns a tensor that is 1 at the first of the largest elements along `axis` and 0 elsewhere, in this tensor's shape.
    pub fn is_max(&self, axis: usize) -> Self {
        on_gpu!(x = self => gpu::is_max(&x, axis));
        let x = self.dense();
        self.cpu().write(*self.shape(), |y| {
            y.fill(T::zero());
            x.first_largest(axis).for_each(|at| y[at] = T::one());
        })
    }

    /// Returns the position of the first of the largest elements of each line along `axis` of this dense tensor.
    fn first_largest(&self, axis: usize) -> impl Iterator<Item = usize> {
        let (x, (outer, n, inner)) = (self.as_slice(), self.shape().around(axis));
        let starts = (0..outer).flat_map(move |o| (0..inner).map(move |i| o * n * inner + i));
        starts.map(move |start| (1..n).map(|k| start + k * inner).fold(start, |best, at| if x[at] > x[best] { at } else { best }))
    }

    /// Returns Σ xᵢ² in f64, summed by a fixed tree.
    pub fn sum_squares(&self) -> f64 {
        on_gpu!(x = self => gpu::squares(&x).total());
        (self.cpu().kernels.sum_squares)(self.dense().as_slice())
    }

    /// Returns whether every element is finite.
    pub fn is_finite(&self) -> bool {
        on_gpu!(x = self => gpu::squares(&x).all_finite());
        // The sum of x·0 is 0 if every element is finite, otherwise NaN. It runs in lanes, without a branch per element.
        let x = self.dense();
        let mut lanes = [T::zero(); 16];
        let (chunks, rest) = x.as_slice().as_chunks::<16>();
        for chunk in chunks {
            lanes.iter_mut().zip(chunk).for_each(|(lane, &x)| *lane += x * T::zero());
        }
        rest.iter().for_each(|&x| lanes[0] += x * T::zero());
        lanes.iter().all(|&lane| lane == T::zero())
    }

    /// Returns whether some element is not 0.
    pub fn any_nonzero(&self) -> bool {
        on_gpu!(x = self => gpu::squares(&x).any_nonzero());
        self.dense().as_slice().iter().any(|&x| x != T::zero())
    }

    /// Returns Σ xᵢyᵢ in f64, of tensors of one shape.
    #[track_caller]
    pub fn dot(&self, other: &Self) -> f64 {
        assert_eq!(self.shape(), other.shape(), "dot: tensors of one shape");
        on_gpu!(x = self, y = other => gpu::dot(&x, &y));
        let (a, b) = (self.dense(), other.dense());
        a.as_slice().iter().zip(b.as_slice()).map(|(a, b)| a.to_f64() * b.to_f64()).sum()
    }

    /// Computes Σ over all axes: a tensor without axes.
    pub fn sum_all(&self) -> Self {
        self.sum(&(0..self.shape().len()).collect::<Vec<_>>()).reshape(Shape::new(&[]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_non_finite_element_among_many_is_detected() {
        for n in [1, 15, 16, 17, 100] {
            for at in 0..n {
                for wrong in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                    let mut values = vec![1e300; n];
                    assert!(Tensor::new([n], values.clone()).is_finite());
                    values[at] = wrong;
                    assert!(!Tensor::new([n], values).is_finite(), "{wrong} at {at} of {n}");
                }
            }
        }
        assert!(Tensor::<f32>::zeros([0, 3]).is_finite());
    }

    #[test]
    fn reductions_of_whole_tensors() {
        let x = Tensor::new([2, 2], vec![1.0, -2.0, 3.0, 4.0]);
        assert_eq!((x.sum_squares(), x.dot(&x.t()), x.sum_all().item()), (30.0, 1.0 - 6.0 - 6.0 + 16.0, 6.0));
        assert_eq!(x.sum_all().shape().len(), 0);
    }

    #[test]
    fn the_first_of_equal_maxima_is_marked() {
        let x = Tensor::new([2, 3], vec![1.0, 3.0, 3.0, 2.0, 2.0, 0.0]);
        assert_eq!((x.max(1).to_vec(), x.is_max(1).to_vec()), (vec![3.0, 2.0], vec![0.0, 1.0, 0.0, 1.0, 0.0, 0.0]));
        assert_eq!((x.max(0).to_vec(), x.is_max(0).to_vec()), (vec![2.0, 3.0, 3.0], vec![0.0, 1.0, 1.0, 1.0, 0.0, 0.0]));
    }

    #[test]
    fn any_nonzero_ignores_zeros_of_either_sign() {
        assert!(!Tensor::<f64>::zeros([3]).any_nonzero() && !Tensor::new([1], vec![-0.0]).any_nonzero());
        assert!(Tensor::new([2], vec![0.0, 1e-300]).any_nonzero() && Tensor::new([1], vec![f64::NAN]).any_nonzero());
    }
}

//! Matrix products.

use crate::operands::{Mat, MatMut, Onto};
use crate::tensor::{Cpu, on_gpu};
use crate::{Real, Tensor};

impl<T: Real> Tensor<T> {
    /// Returns a view with the last two axes exchanged.
    #[track_caller]
    pub fn t(&self) -> Self {
        self.permute(&self.transposition())
    }

    /// Returns the axes in order, with the last two exchanged.
    #[track_caller]
    pub fn transposition(&self) -> Vec<usize> {
        let mut axes: Vec<usize> = (0..self.shape().len()).collect();
        let r = axes.len();
        axes.swap(r - 1, r - 2);
        axes
    }

    /// Computes (…, m, k)·(…, k, n) → (…, m, n) for equal leading axes. Views are read through their strides, without a
    /// transposed copy.
    #[track_caller]
    pub fn matmul(&self, other: &Self) -> Self {
        on_gpu!(a = self, b = other => gpu::matmul(&a, &b));
        let cpu = Cpu::of([self, other]);
        let (r, n) = (self.shape().len(), other.shape()[other.shape().len() - 1]);
        let out = self.shape().with(r - 1, n);
        if r == 2 {
            return cpu.write(out, |y| self.product(other, &cpu, y, Onto::Nothing));
        }
        let batch = |x: &Self| {
            let s = *x.shape();
            if r == 3 { x.clone() } else { x.reshape([s[..r - 2].iter().product(), s[r - 2], s[r - 1]]) }
        };
        let (a, b, size) = (batch(self), batch(other), out[r - 2] * n);
        cpu.write(out, |y| {
            for (i, y) in y.chunks_mut(size.max(1)).enumerate() {
                a.slice(0, i..i + 1).product(&b.slice(0, i..i + 1), &cpu, y, Onto::Nothing);
            }
        })
    }

    /// Computes (…, k)·w (k, n) + b (n) → (…, n).
    #[track_caller]
    pub fn linear(&self, w: &Self, b: &Self) -> Self {
        on_gpu!(x = self, w = w, b = b => gpu::linear(&x, &w, &b));
        let b = b.dense();
        let out = self.shape().with(self.shape().len() - 1, b.len());
        let cpu = Cpu::of([self, w, &b]);
        cpu.write(out, |y| self.flat().product(w, &cpu, y, Onto::Row(b.as_slice())))
    }

    /// Computes [`Tensor::gelu`] of u and, if `keeps_u`, returns u = (…, k)·w (k, n) + b (n) too: each (…, n).
    #[track_caller]
    pub fn linear_gelu(&self, w: &Self, b: &Self, keeps_u: bool) -> (Self, Option<Self>) {
        on_gpu!(x = self, w = w, b = b => {
            let (y, u) = gpu::linear_gelu(&x, &w, &b, keeps_u);
            (Self::from(y), u.map(Self::from))
        });
        let u = self.linear(w, b);
        (u.gelu(), keeps_u.then_some(u))
    }

    /// Merges all leading axes: (…, n) → (rows, n); a view if this tensor is dense.
    pub fn flat(&self) -> Self {
        let (rows, n, _) = self.shape().around(self.shape().len() - 1);
        if self.shape().len() == 2 { self.clone() } else { self.reshape([rows, n]) }
    }

    /// Computes y ← onto + the product of the last two axes, as matrices.
    #[track_caller]
    fn product(&self, other: &Self, cpu: &Cpu<T>, y: &mut [T], onto: Onto<'_, T>) {
        let (a, b) = (self.mat(), other.mat());
        (cpu.kernels.matmul)(a, b, MatMut { data: y, rows: a.rows, cols: b.cols, row_stride: b.cols }, onto);
    }

    /// Returns the last two axes as a matrix.
    fn mat(&self) -> Mat<'_, T> {
        let (r, s, d) = (self.shape().len(), self.shape(), self.strides());
        Mat { data: self.from_first(), rows: s[r - 2], cols: s[r - 1], row_stride: d[r - 2], col_stride: d[r - 1] }
    }
}

#[cfg(test)]
mod tests {
    use crate::Tensor;

    /// Leading axes of 2 and 3 give six products of separate matrices.
    #[test]
    fn leading_axes_are_a_batch() {
        let counted = |shape: [usize; 5]| {
            let n = shape.iter().product::<usize>();
            Tensor::new(shape, (0..n).map(|i| i as f64).collect())
        };
        let (a, b) = (counted([1, 2, 3, 2, 4]), counted([1, 2, 3, 4, 5]));
        let y = a.matmul(&b);
        assert_eq!(y.shape()[..], [1, 2, 3, 2, 5]);
        let (a, b, y) = (a.to_vec(), b.to_vec(), y.to_vec());
        for (at, y) in y.into_iter().enumerate() {
            let (batch, i, j) = (at / 10, at / 5 % 2, at % 5);
            let expected: f64 = (0..4).map(|k| a[batch * 8 + i * 4 + k] * b[batch * 20 + k * 5 + j]).sum();
            assert_eq!(y, expected, "matrix {batch}, row {i}, column {j}");
        }
    }
}

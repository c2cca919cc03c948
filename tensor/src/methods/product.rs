//! Matrix products.

use crate::operands::{Form, Mat, MatMut, Onto};
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
            return cpu.write(out, |y| cpu.product(self.mat(), other.mat(), y, Onto::Nothing));
        }
        let batch = |x: &Self| {
            let s = *x.shape();
            if r == 3 { x.clone() } else { x.reshape([s[..r - 2].iter().product(), s[r - 2], s[r - 1]]) }
        };
        let (a, b, size) = (batch(self), batch(other), out[r - 2] * n);
        cpu.write(out, |y| {
            for (i, y) in y.chunks_mut(size.max(1)).enumerate() {
                cpu.product(a.slice(0, i..i + 1).mat(), b.slice(0, i..i + 1).mat(), y, Onto::Nothing);
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
        cpu.write(out, |y| cpu.product(self.flat().mat(), w.kept_mat(), y, Onto::Row(b.as_slice())))
    }

    /// Computes [`Tensor::matmul`] with a matrix w (k, n) that many products read: weights. In bf16, packed forms of w are kept with
    /// its elements until these change.
    #[track_caller]
    pub fn matmul_weights(&self, w: &Self) -> Self {
        on_gpu!(x = self, w = w => gpu::matmul(&x, &w));
        let (cpu, rows) = (Cpu::of([self, w]), self.shape()[0]);
        cpu.write([rows, w.shape()[1]], |y| cpu.product(self.mat(), w.kept_mat(), y, Onto::Nothing))
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

    /// Returns this tensor as a factor of later products, which alone read the result. In bf16, it is a copy of half the bytes,
    /// rounded; otherwise this tensor.
    pub fn as_factor(&self) -> Self {
        self.rounded().unwrap_or_else(|| self.clone())
    }

    /// Returns the last two axes as a matrix.
    fn mat(&self) -> Mat<'_, T> {
        let (r, s, d) = (self.shape().len(), self.shape(), self.strides());
        let (data, form) = match self.halves() {
            Some(halves) => (&[][..], Form::Rounded(halves)),
            None => (self.from_first(), Form::Elements),
        };
        Mat { data, rows: s[r - 2], cols: s[r - 1], row_stride: d[r - 2], col_stride: d[r - 1], form }
    }

    /// Returns the last two axes as a matrix whose packed forms are kept, if it has all elements of its storage.
    fn kept_mat(&self) -> Mat<'_, T> {
        let mat = self.mat();
        self.packed_forms().map_or(mat, |packed| Mat { form: Form::Kept(packed), ..mat })
    }
}

impl<T: Real> Cpu<T> {
    /// Computes y ← onto + A·B.
    #[track_caller]
    fn product(&self, a: Mat<'_, T>, b: Mat<'_, T>, y: &mut [T], onto: Onto<'_, T>) {
        (self.kernels.matmul)(a, b, MatMut { data: y, rows: a.rows, cols: b.cols, row_stride: b.cols }, onto);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;
    use crate::device::MatmulPrecision;
    use crate::rng::Philox;

    const BF16: Device = Device::Cpu(MatmulPrecision::BF16);

    /// Returns draws from N(0, 1) whose products are in bf16.
    fn drawn(shape: impl Into<crate::Shape>, seed: u64) -> Tensor {
        Tensor::normal(shape, 1.0, &mut Philox::new(seed)).to(&BF16).unwrap()
    }

    #[test]
    fn a_factor_gives_the_bits_of_its_tensor() {
        let (x, y) = (drawn([3, 70, 40], 1), drawn([3, 40, 33], 2));
        let whole = x.matmul(&y);
        for (a, b) in [(x.as_factor(), y.clone()), (x.clone(), y.as_factor()), (x.as_factor(), y.as_factor())] {
            assert_eq!(a.matmul(&b), whole);
            assert_eq!(
                b.permute(&[0, 2, 1]).matmul(&a.permute(&[0, 2, 1])),
                y.permute(&[0, 2, 1]).matmul(&x.permute(&[0, 2, 1]))
            );
        }
        let (part, factor) = (x.slice(1, 7..50), x.slice(1, 7..50).as_factor());
        assert_eq!(part.matmul(&y), factor.matmul(&y));
        assert_eq!(x.as_factor().slice(1, 7..50).matmul(&y), part.matmul(&y));
        assert_eq!(
            x.as_factor().reshape([210, 40]).matmul(&y.slice(0, 0..1).reshape([40, 33])),
            x.flat().matmul(&y.slice(0, 0..1).reshape([40, 33]))
        );
    }

    #[test]
    fn a_factor_has_rounded_elements() {
        let x = Tensor::new([2, 2], vec![1.0f32 + 1.0 / 256.0, -3.0 - 1.0 / 64.0, 0.3, 1e-40]);
        let rounded = x.to(&BF16).unwrap().as_factor();
        assert_eq!(rounded.to_vec(), [1.0, -3.015625, 0.300_781_25, 0.0]);
        assert_eq!((rounded.device(), rounded.is_dense(), rounded.dense().is_dense()), (BF16, false, true));
        assert_eq!((&rounded + &rounded).to_vec(), [2.0, -6.03125, 0.601_562_5, 0.0]);
        assert_eq!(rounded.t().slice(0, 1..2).to_vec(), [-3.015625, 0.0]);
        assert_eq!(rounded.slice(1, 1..2).reshape([2]).to_vec(), [-3.015625, 0.0]);
        assert_eq!(rounded.to(&Device::CPU).unwrap().device(), Device::CPU);
        let mut changed = rounded.clone();
        changed.set(2, 5.0);
        assert_eq!((changed.to_vec()[2], rounded.to_vec()[2]), (5.0, 0.300_781_25));
        assert!(x.as_factor().shares_buffer(&x), "in f32, a factor is its tensor");
    }

    /// A form that survived a change would give the product with the old elements.
    #[test]
    fn packed_forms_follow_the_elements() {
        let (x, g, mut w) = (drawn([70, 40], 1), drawn([70, 33], 2), drawn([40, 33], 3));
        let agrees = |w: &Tensor| {
            assert_eq!(x.matmul_weights(w), x.matmul(w));
            assert_eq!(g.matmul_weights(&w.t()), g.matmul(&w.t()));
            let bias = drawn([33], 4);
            assert_eq!(x.linear(w, &bias), x.linear(&w.constant([40, 33], w.to_vec()), &bias));
        };
        agrees(&w);
        agrees(&w); // from the forms
        w.set(50, 9.0);
        agrees(&w);
        let step = crate::operands::AdamStep { beta1: 0.9, beta2: 0.99, step: 0.1, v_scale: 1.0, eps: 1e-8, decay: 0.0, l2: 0.0 };
        let [mut m, mut v, gradient] = [5, 6, 7].map(|seed| drawn([40, 33], seed).sigmoid());
        let before = w.to_vec();
        w.adam(&step, &w.constant([], vec![1.0]), &mut m, &mut v, &gradient);
        assert!(w.packed_forms().is_some_and(|forms| forms.keys().count() == 2), "packed again");
        assert_ne!(w.to_vec(), before);
        agrees(&w);
        // Views of a part, and of other shapes of the same elements, have no forms of their own.
        agrees(&w.slice(0, 0..40).t().slice(0, 0..33).t());
        assert_eq!(drawn([70, 33], 8).matmul_weights(&w.reshape([33, 40])), drawn([70, 33], 8).matmul(&w.reshape([33, 40])));
        let row = w.slice(0, 3..4).expand([40, 33]);
        assert_eq!(x.matmul_weights(&row), x.matmul(&row));
    }

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

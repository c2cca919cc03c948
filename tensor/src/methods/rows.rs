//! Gather and scatter-add of table rows by ids, concatenation, and padding.

use crate::tensor::{Cpu, on_gpu};
use crate::{Real, Shape, Tensor};

impl<T: Real> Tensor<T> {
    /// Returns the rows `ids` of this table (V, d), row-major of `shape`: (shape…, d).
    #[track_caller]
    pub fn gather(&self, ids: &[u32], shape: &Shape) -> Self {
        on_gpu!(table = self => gpu::gather(&table, ids, shape));
        let (table, d) = (self.dense(), self.shape()[1]);
        let out = Shape::new(&[shape, &[d][..]].concat());
        self.cpu().write(out, |y| (self.cpu().kernels.gather)(table.as_slice(), d, ids, y))
    }

    /// Adds these rows (…, d) into `rows` rows of zeros, each at its id, in their order: (rows, d).
    #[track_caller]
    pub fn scatter_add(&self, ids: &[u32], rows: usize) -> Self {
        let mut table = self.zeros_like([rows, self.rows().1]);
        table.add_rows(ids, self);
        table
    }

    /// Concatenates the parts (at least one) along `axis`. Their other extents are equal.
    #[track_caller]
    pub fn concat(parts: &[&Self], axis: usize) -> Self {
        #[cfg(feature = "wgpu")]
        if let Some(parts) = crate::tensor::all_arrays(parts) {
            return crate::gpu::concat(&parts, axis).into();
        }
        let extents: Vec<usize> = parts.iter().map(|x| x.shape()[axis]).collect();
        let (outer, _, inner) = parts[0].shape().around(axis);
        let dense: Vec<Self> = parts.iter().map(|x| x.dense()).collect();
        Cpu::of_all(parts).write(parts[0].shape().with(axis, extents.iter().sum()), |y| {
            let mut at = 0;
            for o in 0..outer {
                for (x, extent) in dense.iter().zip(&extents) {
                    let width = extent * inner;
                    y[at..][..width].copy_from_slice(&x.as_slice()[o * width..][..width]);
                    at += width;
                }
            }
        })
    }

    /// Returns this tensor with `before` zeros before it and `after` zeros after it along `axis`.
    pub fn pad(&self, axis: usize, before: usize, after: usize) -> Self {
        on_gpu!(x = self => gpu::pad(&x, axis, before, after));
        let (x, (outer, n, inner)) = (self.dense(), self.shape().around(axis));
        let padded = before + n + after;
        self.cpu().write(self.shape().with(axis, padded), |y| {
            y.fill(T::zero());
            for o in 0..outer {
                let to = &mut y[(o * padded + before) * inner..][..n * inner];
                to.copy_from_slice(&x.as_slice()[o * n * inner..][..n * inner]);
            }
        })
    }
}

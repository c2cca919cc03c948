//! What attention keeps of the tokens it has read.

use gradus_tensor::{Real, Tensor};

/// The keys and values of the positions seen so far, in one block.
#[derive(Debug)]
pub struct LayerCache<T: Real> {
    keys: Tensor<T>,
    values: Tensor<T>,
    len: usize,
}

impl<T: Real> LayerCache<T> {
    /// Room for `context` positions of `heads` heads of this width.
    pub fn new(heads: usize, context: usize, head_width: usize) -> Self {
        let shape = [1, heads, context, head_width];
        LayerCache { keys: Tensor::zeros(shape), values: Tensor::zeros(shape), len: 0 }
    }

    /// Adds keys and values (1, H, T, D); gives those of all positions so far.
    pub(crate) fn extend(&mut self, k: &Tensor<T>, v: &Tensor<T>) -> (Tensor<T>, Tensor<T>) {
        let (heads, t, d) = (k.shape()[1], k.shape()[2], k.shape()[3]);
        let context = self.keys.shape()[2];
        for (store, new) in [(&mut self.keys, k), (&mut self.values, v)] {
            let new = new.dense();
            let store = store.to_mut();
            for (h, rows) in new.as_slice().chunks((t * d).max(1)).enumerate().take(heads) {
                store[(h * context + self.len) * d..][..t * d].copy_from_slice(rows);
            }
        }
        self.len += t;
        (self.keys.slice(2, 0..self.len), self.values.slice(2, 0..self.len))
    }
}

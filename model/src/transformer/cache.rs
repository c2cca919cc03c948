//! The keys and values of the tokens that attention has read.

use gradus_tensor::{Real, Tensor};

/// The keys and values of the positions seen so far, in one block.
#[derive(Debug)]
pub struct LayerCache<T: Real> {
    keys: Tensor<T>,
    values: Tensor<T>,
    len: usize,
}

impl<T: Real> LayerCache<T> {
    /// Creates a cache for `context` positions of `heads` heads of this width, stored where `like` is.
    pub fn new(like: &Tensor<T>, heads: usize, context: usize, head_width: usize) -> Self {
        let zeros = || like.zeros_like([1, heads, context, head_width]);
        LayerCache { keys: zeros(), values: zeros(), len: 0 }
    }

    /// Copies the cache for n sequences that continue from here, with room for `t` more positions.
    pub(crate) fn fork(&self, n: usize, t: usize) -> Self {
        let (heads, width) = (self.keys.shape()[1], self.keys.shape()[3]);
        let of_each = |seen: &Tensor<T>| {
            let mut all = seen.zeros_like([n, heads, self.len + t, width]);
            all.write_rows(2, 0, &seen.slice(2, 0..self.len).expand([n, heads, self.len, width]));
            all
        };
        LayerCache { keys: of_each(&self.keys), values: of_each(&self.values), len: self.len }
    }

    /// Appends keys and values (B, H, T, D); returns those of all positions so far.
    pub(crate) fn extend(&mut self, k: &Tensor<T>, v: &Tensor<T>) -> (Tensor<T>, Tensor<T>) {
        let t = k.shape()[2];
        self.keys.write_rows(2, self.len, k);
        self.values.write_rows(2, self.len, v);
        self.len += t;
        (self.keys.slice(2, 0..self.len), self.values.slice(2, 0..self.len))
    }
}

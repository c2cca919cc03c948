//! The forward pass of attention.

use super::{Array, Attention, TILE};
use crate::operands::HeadLayout;
use crate::shape::Shape;

impl Attention<'_> {
    /// Returns o of this shape, in memory (B, Tq, H, D), and lse (B, H, Tq).
    pub fn attend(&self, shape: impl Into<Shape>) -> [Array; 2] {
        let (spec, gpu) = (self.spec, self.gpu());
        let o = Array::unwritten(gpu, shape.into());
        let lse = Array::unwritten(gpu, Shape::new(&[spec.batch, spec.heads, spec.queries]));
        let [place, ..] = spec.places(false);
        let params = self.params([place, HeadLayout::default()], Default::default());
        let sight = self.sight();
        let none = &*self.q.buffer; // a binding that is never read needs a buffer nonetheless
        let bias = self.bias.as_ref().map_or(none, |bias| &bias.buffer);
        let reads = [&self.q.buffer, &self.k.buffer, &self.v.buffer, bias, sight.as_ref().unwrap_or(none)];
        let shader = self.shader("attention", [include_str!("forward.wgsl")], &[]);
        let groups = spec.batch * spec.heads * spec.queries.div_ceil(TILE);
        gpu.dispatch(&shader, &params, &[&o.buffer, &lse.buffer], &reads, groups);
        [o, lse]
    }
}

//! ```text
//! yₖ = Σ xᵢ over the i with ids[i] = k        x̄ᵢ = ȳₖ, k = ids[i]
//! ```
//!
//! The op is the adjoint of `gather`.

use std::sync::Arc;

use super::numel;
use crate::{Evaluated, Op, Real, Samples, Saved, Saves, Shape, Tensor, Var, Want};

/// The addition of rows to a table of zeros: (…, d) → (V, d).
#[derive(Debug)]
pub struct ScatterAdd {
    /// The table row of each input row, row-major; each below V.
    pub ids: Arc<[u32]>,
    /// The number of table rows, V.
    pub rows: usize,
}

impl<T: Real> Op<T> for ScatterAdd {
    const NAME: &'static str = "scatter_add";
    const MATH: &'static str = "yₖ = Σ xᵢ over ids[i] = k;  x̄ᵢ = ȳₖ, k = ids[i]";
    const SAVES: Saves = Saves::NONE;
    fn shape(&self, ins: &[&Shape]) -> Result<Shape, String> {
        let (n, rows) = (self.ids.len(), self.rows);
        match ins[0].split_last() {
            Some((&d, lead)) if lead.iter().product::<usize>() == n && self.ids.iter().all(|&id| (id as usize) < rows) => {
                Ok([rows, d].into())
            }
            _ => Err(format!("[…,d] with a row for each of {n} ids below {rows}")),
        }
    }
    fn flops(&self, ins: &[&Shape], _: &Shape) -> u64 {
        numel(ins[0])
    }
    fn eval(&self, ins: &[&Tensor<T>], _: Want) -> Evaluated<T> {
        ins[0].scatter_add(&self.ids, self.rows).into()
    }
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        let lead = &saved.shape(0)[..saved.shape(0).len() - 1];
        vec![Some(gy.gather(self.ids.clone(), lead))]
    }
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
        let (v, d, n) = (1 + g.extent(), 1 + g.extent(), g.extent());
        let x = g.normal([2, n, d]);
        let mut scatter = |n| ScatterAdd { ids: g.ids(n, v).into(), rows: v };
        let (square, line, one, none) = (scatter(2 * n), scatter(v + n), scatter(1), scatter(0));
        vec![
            (square, vec![g.strided(&x)]),
            (line, vec![g.normal([v + n, d])]),
            (one, vec![g.normal([d])]),
            (none, vec![g.normal([0, d])]),
        ]
    }
}

impl<'t, T: Real> Var<'t, T> {
    /// Adds these rows (…, d) to `rows` rows of zeros, each at its id: (rows, d).
    ///
    /// [Formula and derivative](self).
    #[track_caller]
    pub fn scatter_add(&self, ids: impl AsRef<[u32]>, rows: usize) -> Self {
        self.tape().apply(ScatterAdd { ids: ids.as_ref().into(), rows }, &[self])
    }
}

//! ```text
//! yᵢ = the row wₖ of a table, k = ids[i]        w̄ₖ = Σ ȳᵢ over the i with ids[i] = k
//! ```
//!
//! The embedding of tokens (GPT-1 §3.1, W_e). The op is the adjoint of `scatter_add`.

use std::sync::Arc;

use crate::{Evaluated, Op, Real, Samples, Saved, Saves, Shape, Tensor, Var, Want};

/// A gather of rows of a table: (V, d) → (shape of the ids…, d).
#[derive(Debug)]
pub struct Gather {
    /// The table row of each position, row-major; each below V.
    pub ids: Arc<[u32]>,
    /// The shape of the ids.
    pub shape: Shape,
}

impl<T: Real> Op<T> for Gather {
    const NAME: &'static str = "gather";
    const MATH: &'static str = "yᵢ = row ids[i] of w;  w̄ₖ = Σ ȳᵢ over ids[i] = k";
    const SAVES: Saves = Saves::NONE;
    fn shape(&self, ins: &[&Shape]) -> Result<Shape, String> {
        if ins[0].len() != 2 || self.ids.len() != self.shape.numel() {
            let rule = format!("a table [V,d] and ids that fill their shape {}, not {} ids", self.shape, self.ids.len());
            return Err(rule);
        }
        if let Some(id) = self.ids.iter().find(|&&id| id as usize >= ins[0][0]) {
            return Err(format!("a table [V,d] with more rows than the id {id}"));
        }
        Ok(Shape::new(&[&self.shape[..], &[ins[0][1]]].concat()))
    }
    fn eval(&self, ins: &[&Tensor<T>], _: Want) -> Evaluated<T> {
        ins[0].gather(&self.ids, &self.shape).into()
    }
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        vec![Some(gy.scatter_add(self.ids.clone(), saved.shape(0)[0]))]
    }
    /// Adds the gradients of the rows to the existing sum, for example of the output's matrix product, which is tied to the same
    /// table. A batch uses few of the rows, so no (V, d) of zeros is created.
    fn add_vjp(&self, _: &Saved<'_, T>, gy: &Tensor<T>, sum: &mut Tensor<T>) -> bool {
        sum.add_rows(&self.ids, gy);
        true
    }
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
        let (v, d, n) = (1 + g.extent(), 1 + g.extent(), g.extent());
        let table = g.normal([v, d]);
        let mut gather = |shape: Shape| Gather { ids: g.ids(shape.numel(), v).into(), shape };
        vec![
            (gather([2, n].into()), vec![table.permute(&[1, 0]).dense().permute(&[1, 0])]),
            (gather([v + n].into()), vec![table.clone()]),
            (gather([].into()), vec![table.clone()]),
            (gather([0].into()), vec![table]),
        ]
    }
}

impl<'t, T: Real> Var<'t, T> {
    /// Gathers rows of this table (V, d) by their `ids` (row-major, of `shape`): (shape…, d).
    ///
    /// [Formula and derivative](self).
    #[track_caller]
    pub fn gather(&self, ids: impl AsRef<[u32]>, shape: impl Into<Shape>) -> Self {
        self.tape().apply(Gather { ids: ids.as_ref().into(), shape: shape.into() }, &[self])
    }
}

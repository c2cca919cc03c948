//! The reverse pass as a recorded computation, so that a gradient can be differentiated again.

use std::collections::HashMap;

use gradus_tensor::Real;

use super::observer::Observer;
use super::reached::{Reached, Summands, flows};
use super::{NodeId, Tape, Var};

impl<T: Real> Tape<T> {
    /// Computes the cotangents of `wrt` for the cotangent `gy` of y, recorded on the tape, so that they can be differentiated
    /// again.
    pub fn pullback<'t>(&'t self, y: &Var<'t, T>, gy: &Var<'t, T>, wrt: &[&Var<'t, T>]) -> Vec<Option<Var<'t, T>>> {
        assert_eq!(y.shape(), gy.shape(), "pullback: a cotangent of the result's shape");
        let cotangents = self.reversing(|observer| self.pull_recorded(0, y, gy, observer));
        wrt.iter().map(|x| cotangents.get(&x.node?).cloned()).collect()
    }

    /// Computes the cotangent of every node on which y depends through the nodes from index `first` on.
    fn pull_recorded<'t>(
        &'t self,
        first: usize,
        y: &Var<'t, T>,
        gy: &Var<'t, T>,
        observer: Option<&dyn Observer<T>>,
    ) -> HashMap<NodeId, Var<'t, T>> {
        let Some(root) = y.node else { return HashMap::new() };
        let mut cotangents = HashMap::from([(root, gy.clone())]);
        for y in (first..=root.index()).rev() {
            let Some(it) = self.revisit(y) else { continue };
            let Some(gy) = cotangents.get(&it.node).cloned() else { continue };
            for (x, gx) in flows(&it.parents, it.recorded_vjp(&gy, observer)) {
                let sum = match cotangents.remove(&x) {
                    Some(sum) => sum + gx,
                    None => gx,
                };
                cotangents.insert(x, sum);
            }
        }
        cotangents
    }

    /// Returns the application at index `y`, with inputs and output linked to their nodes; `None` for a leaf.
    fn revisit(&self, y: usize) -> Option<Reached<'_, T>> {
        let node = self.nodes.borrow()[y].clone();
        Reached::new(NodeId::new(y), node, |value, node| Var { tape: self, value, node })
    }
}

impl<'t, T: Real> Reached<'t, T> {
    /// Computes x̄ᵢ = Jᵢᵀȳ for each input in recorded ops: by the definition for a fused op, by the VJP for a primitive.
    fn recorded_vjp(&self, gy: &Var<'t, T>, observer: Option<&dyn Observer<T>>) -> Summands<'t, T> {
        let vjp = || self.by_definition(gy).unwrap_or_else(|| self.vjp(gy));
        self.observed(gy, observer, || Some(vjp())).unwrap_or_default()
    }

    /// Computes the VJP of a fused op by its definition, which is recorded from fresh aliases of the inputs and pulled back to
    /// them. Returns `None` for a primitive.
    fn by_definition(&self, gy: &Var<'t, T>) -> Option<Summands<'t, T>> {
        let tape = gy.tape;
        let before = tape.len();
        let ins: Vec<&Var<'t, T>> = self.saved.ins.iter().map(Option::as_ref).collect::<Option<_>>()?;
        let aliases: Vec<Var<'t, T>> = ins.into_iter().map(Var::alias).collect();
        let body = tape.len();
        let Some(y) = self.op.reference(&aliases) else {
            tape.nodes.borrow_mut().truncate(before);
            return None;
        };
        let cotangents = tape.pull_recorded(body, &y, gy, None);
        Some(aliases.iter().map(|x| cotangents.get(&x.node?).cloned()).collect())
    }
}

//! An application that a reverse pass has reached.

use std::sync::Arc;

use gradus_tensor::{Real, Tensor};

use super::node::{Application, Kind, Node};
use super::op::{AnyOp, Saved};
use super::{NodeId, Site, Var};

/// An application that a reverse pass has reached.
pub(super) struct Reached<'t, T: Real> {
    pub node: NodeId,
    pub op: Arc<dyn AnyOp<T>>,
    pub parents: Vec<Option<NodeId>>,
    pub site: Site,
    /// The values that its VJP reads.
    pub saved: Saved<'t, T>,
}

/// The summands x̄ᵢ, one for each input of an application.
pub(super) type Summands<'t, T> = Vec<Option<Var<'t, T>>>;

impl<'t, T: Real> Reached<'t, T> {
    /// Creates the application at node `y`; `var` makes a variable of a saved value and its node. Returns `None` for a leaf.
    pub fn new(y: NodeId, node: Node<T>, var: impl Fn(Tensor<T>, Option<NodeId>) -> Var<'t, T>) -> Option<Self> {
        let Node { kind, parents, site } = node;
        let Application { op, shapes, ins, out, residuals } = match kind {
            Kind::Leaf { .. } => return None,
            Kind::Applied(it) => it,
            Kind::Freed(name) => {
                panic!("backward has already passed this `{name}`: a tape runs backward once (pullback keeps it)")
            }
        };
        let ins = ins.into_iter().zip(&parents).map(|(x, node)| Some(var(x?, *node))).collect();
        let out = out.map(|out| var(out, Some(y)));
        let needs = parents.iter().map(Option::is_some).collect();
        let saved = Saved { name: op.name(), shapes, needs, ins, out, residuals };
        Some(Reached { node: y, op, parents, site, saved })
    }

    /// Calls [`Op::vjp`](super::op::Op::vjp) and checks that it returns one summand per input.
    pub fn vjp(&self, gy: &Var<'t, T>) -> Summands<'t, T> {
        one_each(&*self.op, self.parents.len(), self.op.vjp(&self.saved, gy))
    }

    /// Calls [`Op::vjp_once`](super::op::Op::vjp_once) with the same check.
    pub fn vjp_once(self, gy: Var<'t, T>) -> Summands<'t, T> {
        one_each(&*self.op, self.parents.len(), self.op.vjp_once(self.saved, gy))
    }
}

fn one_each<'t, T: Real>(op: &dyn AnyOp<T>, inputs: usize, summands: Summands<'t, T>) -> Summands<'t, T> {
    assert_eq!(summands.len(), inputs, "the VJP of `{}` gives one cotangent per input", op.name());
    summands
}

/// Returns the summands of the inputs that have a node.
pub(super) fn flows<'t, T: Real>(
    inputs: &[Option<NodeId>],
    summands: Summands<'t, T>,
) -> impl Iterator<Item = (NodeId, Var<'t, T>)> {
    inputs.iter().zip(summands).filter_map(|(x, gx)| Some(((*x)?, gx?)))
}

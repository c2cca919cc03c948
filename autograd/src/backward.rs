//! The reverse pass.
//!
//! ```text
//! y = fₙ ∘ … ∘ f₁ (x)        x̄ := Jᵀȳ = J₁ᵀ (… (Jₙᵀ ȳ))
//! ```
//!
//! From the last node to the first, each node's cotangent is complete when the loop reaches it, because everything that
//! used the node was recorded after it. Its VJP gives a summand for each of its inputs.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Instant;

use gradus_tensor::{Real, Tensor};

use crate::observer::Pulled;
use crate::op::{Op, Saved};
use crate::tape::{Kind, Node, NodeId, Tape};
use crate::var::Var;

/// The cotangents of the leaves: of a scalar result, its gradient.
#[derive(Debug)]
pub struct Grads<T: Real>(Vec<Option<Tensor<T>>>);

impl<T: Real> Grads<T> {
    /// The gradient with respect to a leaf; `None` where the result does not depend on it.
    pub fn of(&self, leaf: &Var<'_, T>) -> Option<&Tensor<T>> {
        self.0.get(leaf.node?.index())?.as_ref()
    }
    /// The same, moved out.
    pub fn take(&mut self, leaf: &Var<'_, T>) -> Option<Tensor<T>> {
        self.0.get_mut(leaf.node?.index())?.take()
    }
}

impl<T: Real> Tape<T> {
    /// ∂y/∂(every leaf) for a y of one element. What the tape saved is freed on the way, so a tape runs backward once.
    pub fn backward(&self, y: &Var<'_, T>) -> Grads<T> {
        assert_eq!(y.value.len(), 1, "backward: a result of one element, got shape {}; use backward_from", y.shape());
        self.backward_from_all(vec![(y, Tensor::full(*y.shape(), T::one()))])
    }

    /// The leaves' cotangents for cotangents of several results, x̄ = Σₖ (∂yₖ/∂x)ᵀ ȳₖ, in one pass. A result may be a leaf:
    /// its own cotangent is then the first summand of its gradient.
    pub fn backward_from_all(&self, results: Vec<(&Var<'_, T>, Tensor<T>)>) -> Grads<T> {
        let seeds = results.into_iter().filter_map(|(y, gy)| {
            assert_eq!(y.shape(), gy.shape(), "backward: a cotangent of the result's shape");
            Some((y.node?, self.constant(gy)))
        });
        let seeds: Vec<_> = seeds.collect();
        let Some(root) = seeds.iter().map(|(node, _)| node.index()).max() else { return Grads(Vec::new()) };
        let cotangents = self.reverse(0..=root, 0, seeds, false);
        let grads: Vec<_> = cotangents.into_iter().map(|g| g.map(Var::into_value)).collect();
        if let Some(observer) = &self.observer {
            let nodes = self.nodes.borrow();
            let leaves =
                grads.iter().zip(&*nodes).enumerate().filter_map(|(i, (g, node))| Some((NodeId::new(i), g.as_ref()?, node)));
            leaves.for_each(|(i, g, node)| observer.gradient(i, g, &node.site));
        }
        Grads(grads)
    }

    /// The leaves' cotangents for the cotangent `gy` of y.
    pub fn backward_from(&self, y: &Var<'_, T>, gy: Tensor<T>) -> Grads<T> {
        self.backward_from_all(vec![(y, gy)])
    }

    /// The cotangents of `wrt` for the cotangent `gy` of y, recorded on the tape, so that they can be differentiated again.
    pub fn pullback<'t>(&'t self, y: &Var<'t, T>, gy: &Var<'t, T>, wrt: &[&Var<'t, T>]) -> Vec<Option<Var<'t, T>>> {
        assert_eq!(y.shape(), gy.shape(), "pullback: a cotangent of the result's shape");
        let Some(root) = y.node else { return vec![None; wrt.len()] };
        let cotangents = self.reverse(0..=root.index(), 0, vec![(root, gy.clone())], true);
        wrt.iter().map(|x| cotangents.get(x.node?.index())?.clone()).collect()
    }

    /// The loop itself, over the nodes of `range`, from the cotangents `seeds`; those are indexed from `base`. With `keep` the
    /// VJPs are recorded too and every cotangent stays; without, nodes are freed as they are passed and leaves alone keep theirs.
    fn reverse<'t>(
        &'t self,
        range: RangeInclusive<usize>,
        base: usize,
        seeds: Vec<(NodeId, Var<'t, T>)>,
        keep: bool,
    ) -> Vec<Option<Var<'t, T>>> {
        let root = *range.end();
        let outer = self.reversing.replace(true);
        let mut cotangents: Vec<Option<Var<'t, T>>> = vec![None; root + 1 - base];
        seeds.into_iter().for_each(|(node, gy)| add_to(&mut cotangents[node.index() - base], gy, keep));
        for i in range.rev() {
            let Some((op, node)) = self.visit(i, keep) else { continue };
            let slot = &mut cotangents[i - base];
            let Some(gy) = (if keep { slot.clone() } else { slot.take() }) else { continue };
            let (parents, site) = (node.parents.clone(), node.site.clone());
            let saved = self.link(op.name(), node, i, keep);
            let observer = self.observer.as_ref().filter(|_| !outer);
            let begun = observer.map(|_| Instant::now());
            let sum = match parents[..] {
                [Some(to)] if !keep => cotangents[to.index() - base].as_mut(),
                _ => None,
            };
            let added = sum.is_some_and(|sum| op.add_vjp(&saved, &gy.value, &mut sum.value));
            let took = begun.filter(|_| added).map(|begun| begun.elapsed());
            // Who looks on is shown the summand all the same, and changes no bit.
            if added && observer.is_none() {
                continue;
            }
            let by_definition = if keep { self.pull_reference(&*op, &saved, &gy) } else { None };
            let summands = by_definition.unwrap_or_else(|| op.vjp(&saved, &gy));
            assert_eq!(summands.len(), parents.len(), "the VJP of `{}` gives one cotangent an input", op.name());
            if let (Some(observer), Some(begun)) = (observer, begun) {
                let (took, node) = (took.unwrap_or_else(|| begun.elapsed()), NodeId::new(i));
                let (saved, parents, summands) = (&saved, &parents[..], &summands[..]);
                observer.pulled(&Pulled { op: &*op, node, site: &site, cotangent: &gy.value, took, saved, parents, summands });
            }
            drop((saved, gy));
            for (to, summand) in parents.into_iter().zip(summands) {
                let (Some(to), Some(g)) = (to, summand) else { continue };
                if !added {
                    add_to(&mut cotangents[to.index() - base], g, keep);
                }
            }
        }
        self.reversing.set(outer);
        cotangents
    }

    /// The op of node `i` and what it saved, copied if the node stays and moved out if not; `None` for a leaf.
    fn visit(&self, i: usize, keep: bool) -> Option<(Arc<dyn Op<T>>, Node<T>)> {
        let node = &mut self.nodes.borrow_mut()[i];
        let op = match &node.kind {
            Kind::Leaf => return None,
            Kind::Freed(name) => {
                panic!("backward has already passed this `{name}`: a tape runs backward once (pullback keeps it)")
            }
            Kind::Op(op) => op.clone(),
        };
        let kept =
            if keep { node.clone() } else { std::mem::replace(node, Node::bare(Kind::Freed(op.name()), node.site.clone())) };
        Some((op, kept))
    }

    /// What a node saved, as values on the tape: linked to their nodes where the pass is recorded, constants where not.
    fn link<'t>(&'t self, name: &'static str, node: Node<T>, i: usize, keep: bool) -> Saved<'t, T> {
        let var = |value: Tensor<T>, node: Option<NodeId>| Var { tape: self, value, node: node.filter(|_| keep) };
        let ins = node.ins.into_iter().zip(&node.parents).map(|(x, p)| x.map(|x| var(x, *p))).collect();
        let out = node.out.map(|y| var(y, Some(NodeId::new(i))));
        let needs = node.parents.iter().map(Option::is_some).collect();
        Saved { name, shapes: node.shapes, needs, ins, out, residuals: node.residuals }
    }

    /// A fused op's VJP by its definition: the reference is recorded between fresh aliases of the inputs and its result, and
    /// pulled back to the aliases. `None` for a primitive.
    fn pull_reference<'t>(&'t self, op: &dyn Op<T>, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Option<Vec<Option<Var<'t, T>>>> {
        let ins: Vec<&Var<'t, T>> = saved.ins.iter().map(Option::as_ref).collect::<Option<_>>()?;
        let base = self.len();
        let aliases: Vec<Var<'t, T>> = ins.into_iter().map(Var::alias).collect();
        let body = self.len();
        let Some(y) = op.reference(&aliases) else {
            self.nodes.borrow_mut().truncate(base);
            return None;
        };
        let Some(root) = y.node else { return Some(vec![None; aliases.len()]) };
        let cotangents = self.reverse(body..=root.index(), base, vec![(root, gy.clone())], true);
        Some(aliases.iter().map(|a| cotangents.get(a.node?.index() - base)?.clone()).collect())
    }
}

/// slot += g. In place where nobody else sees the sum so far.
fn add_to<'t, T: Real>(slot: &mut Option<Var<'t, T>>, g: Var<'t, T>, keep: bool) {
    *slot = Some(match slot.take() {
        None => g,
        Some(sum) if keep => sum + g,
        Some(mut sum) => {
            sum.value.add_assign(&g.value);
            sum
        }
    });
}

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

use gradus_tensor::{Real, Tensor};

use crate::anomaly::{Direction, Summary};
use crate::op::{Op, Saved};
use crate::tape::{Kind, Node, NodeId, Site, Tape};
use crate::var::Var;

/// One term of a cotangent, as backward adds it: what flows from a node to one of its inputs.
#[derive(Debug)]
pub struct Summand<'a, T: Real> {
    /// The op whose VJP gave it.
    pub op: &'static str,
    /// Its node.
    pub from: NodeId,
    /// The input's node.
    pub to: NodeId,
    /// Where the op was applied.
    pub site: &'a Site,
    /// The term.
    pub value: &'a Tensor<T>,
}

/// Who looks on as summands are made.
type Observer<'a, T> = dyn FnMut(&Summand<'_, T>) + 'a;

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
        let cotangents = self.reverse(0..=root, 0, seeds, false, None);
        Grads(cotangents.into_iter().map(|g| g.map(Var::into_value)).collect())
    }

    /// The leaves' cotangents for the cotangent `gy` of y; `observe` sees every summand.
    pub fn backward_from(&self, y: &Var<'_, T>, gy: Tensor<T>, observe: &mut dyn FnMut(&Summand<'_, T>)) -> Grads<T> {
        assert_eq!(y.shape(), gy.shape(), "backward: a cotangent of the result's shape");
        let Some(root) = y.node else { return Grads(Vec::new()) };
        let cotangents = self.reverse(0..=root.index(), 0, vec![(root, self.constant(gy))], false, Some(observe));
        Grads(cotangents.into_iter().map(|g| g.map(Var::into_value)).collect())
    }

    /// The cotangents of `wrt` for the cotangent `gy` of y, recorded on the tape, so that they can be differentiated again.
    pub fn pullback<'t>(&'t self, y: &Var<'t, T>, gy: &Var<'t, T>, wrt: &[&Var<'t, T>]) -> Vec<Option<Var<'t, T>>> {
        assert_eq!(y.shape(), gy.shape(), "pullback: a cotangent of the result's shape");
        let Some(root) = y.node else { return vec![None; wrt.len()] };
        let cotangents = self.reverse(0..=root.index(), 0, vec![(root, gy.clone())], true, None);
        wrt.iter().map(|x| cotangents.get(x.node?.index())?.clone()).collect()
    }

    /// The loop itself, over the nodes of `range`, from the cotangents `seeds`; those are indexed from `base`. With `keep` the
    /// VJPs are recorded too
    /// and every cotangent stays; without, nodes are freed as they are passed and leaves alone keep theirs.
    fn reverse<'t>(
        &'t self,
        range: RangeInclusive<usize>,
        base: usize,
        seeds: Vec<(NodeId, Var<'t, T>)>,
        keep: bool,
        mut observe: Option<&mut Observer<'_, T>>,
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
            let sum = match parents[..] {
                [Some(to)] if !keep => cotangents[to.index() - base].as_mut(),
                _ => None,
            };
            let added = sum.is_some_and(|sum| op.add_vjp(&saved, &gy.value, &mut sum.value));
            // Who looks on is shown the summand all the same, and changes no bit.
            if added && observe.is_none() && !self.watches() {
                continue;
            }
            let by_definition = if keep { self.pull_reference(&*op, &saved, &gy) } else { None };
            let summands = by_definition.unwrap_or_else(|| op.vjp(&saved, &gy));
            assert_eq!(summands.len(), parents.len(), "the VJP of `{}` gives one cotangent an input", op.name());
            if self.watches() {
                self.look_back(&*op, i, &site, &saved, &gy, &summands);
            }
            drop((saved, gy));
            for (to, summand) in parents.into_iter().zip(summands) {
                let (Some(to), Some(g)) = (to, summand) else { continue };
                if let Some(observe) = &mut observe {
                    observe(&Summand { op: op.name(), from: NodeId::new(i), to, site: &site, value: &g.value });
                }
                if !added {
                    add_to(&mut cotangents[to.index() - base], g, keep);
                }
            }
        }
        self.reversing.set(outer);
        cotangents
    }

    /// Keeps the first summand that is not finite.
    fn look_back<'t>(
        &self,
        op: &dyn Op<T>,
        node: usize,
        site: &Site,
        saved: &Saved<'t, T>,
        gy: &Var<'t, T>,
        summands: &[Option<Var<'t, T>>],
    ) {
        for (input, summand) in summands.iter().enumerate() {
            let Some(summand) = summand else { continue };
            let from = || {
                let kept = saved.ins.iter().enumerate().filter_map(|(i, x)| Some((format!("input {i}"), x.as_ref()?)));
                let all = kept.chain(saved.out.as_ref().map(|y| ("the output".to_owned(), y)));
                let cotangent = std::iter::once(("the cotangent".to_owned(), Summary::of(&gy.value)));
                cotangent.chain(all.map(|(name, x)| (name, Summary::of(&x.value)))).collect()
            };
            self.look(&summand.value, || (op, Some(node), site.clone(), Direction::Backward { input }), from);
        }
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
        let cotangents = self.reverse(body..=root.index(), base, vec![(root, gy.clone())], true, None);
        Some(aliases.iter().map(|a| cotangents.get(a.node?.index() - base)?.clone()).collect())
    }
}

/// slot += g. In place where nobody else sees the sum so far.
fn add_to<'t, T: Real>(slot: &mut Option<Var<'t, T>>, g: Var<'t, T>, keep: bool) {
    *slot = Some(match slot.take() {
        None => g,
        Some(sum) if keep => sum + g,
        Some(mut sum) => {
            let g = g.value.dense();
            match sum.value.get_mut() {
                Some(s) => T::kernels().accumulate(s, g.as_slice()),
                None => sum.value = add(&sum.value.dense(), &g),
            }
            sum
        }
    });
}

fn add<T: Real>(a: &Tensor<T>, b: &Tensor<T>) -> Tensor<T> {
    Tensor::write(*a.shape(), |out| T::kernels().add(a.as_slice(), b.as_slice(), out))
}

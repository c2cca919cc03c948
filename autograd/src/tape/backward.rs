//! The reverse pass.
//!
//! ```text
//! y = fₙ ∘ … ∘ f₁ (x)        x̄ := Jᵀȳ = J₁ᵀ (… (Jₙᵀ ȳ))
//! ```
//!
//! The loop runs from the last node to the first. Each node's cotangent is complete when the loop reaches it, because everything
//! that reads the node was recorded after it. The node's VJP gives a summand for each of its inputs. For the same reason a leaf's
//! gradient is complete once the loop has passed the first node that reads the leaf, and is returned at that point.

use std::collections::HashMap;

use gradus_tensor::{Real, Tensor};

use super::node::Kind;
use super::observer::Observer;
use super::reached::{Reached, Summands, flows};
use super::{NodeId, Tape, Var};

/// The cotangents of the leaves: for a scalar result, its gradient.
#[derive(Debug)]
pub struct Grads<T: Real>(HashMap<NodeId, Tensor<T>>);

impl<T: Real> Grads<T> {
    /// Returns the gradient with respect to a leaf; `None` if the result does not depend on it.
    pub fn of(&self, leaf: &Var<'_, T>) -> Option<&Tensor<T>> {
        self.0.get(&leaf.node?)
    }
    /// Moves out the gradient with respect to a leaf; `None` if the result does not depend on it.
    pub fn take(&mut self, leaf: &Var<'_, T>) -> Option<Tensor<T>> {
        self.0.remove(&leaf.node?)
    }
}

impl<T: Real> Tape<T> {
    /// Computes ∂y/∂(every leaf) for a y of one element. Frees the saved values on the way, so a tape runs backward only once.
    pub fn backward(&self, y: &Var<'_, T>) -> Grads<T> {
        assert_eq!(y.value.len(), 1, "backward: a result of one element, got shape {}; use backward_from", y.shape());
        self.backward_from(y, y.value().full_like(*y.shape(), T::one()))
    }

    /// Computes the leaves' cotangents for the cotangent `gy` of y.
    pub fn backward_from(&self, y: &Var<'_, T>, gy: Tensor<T>) -> Grads<T> {
        self.backward_from_all(vec![(y, gy)])
    }

    /// Computes the leaves' cotangents for cotangents of several results, x̄ = Σₖ (∂yₖ/∂x)ᵀ ȳₖ, in one pass. A result may be a
    /// leaf: its own cotangent is then the first summand of its gradient.
    pub fn backward_from_all(&self, results: Vec<(&Var<'_, T>, Tensor<T>)>) -> Grads<T> {
        let mut grads = HashMap::new();
        self.backward_each(results, |leaf, gradient| drop(grads.insert(leaf, gradient)));
        Grads(grads)
    }

    /// Computes the leaves' cotangents as [`Tape::backward_from_all`] does, and passes each leaf's gradient to `each` as soon as
    /// its last summand is added, during the pass. A leaf that no result depends on is left out.
    ///
    /// ```
    /// use gradus_autograd::{Tape, Tensor};
    /// let tape = Tape::new();
    /// let [a, b] = [2.0, 3.0].map(|x| tape.leaf(Tensor::scalar(x)));
    /// let y = a.exp() * &b;
    /// let mut order = Vec::new();
    /// tape.backward_each(vec![(&y, Tensor::scalar(1.0))], |leaf, gradient| order.push((leaf, gradient.item())));
    /// let e2 = 2f64.exp();
    /// assert_eq!(order, [(b.node().unwrap(), e2), (a.node().unwrap(), 3.0 * e2)]); // b has the later first reader
    /// ```
    pub fn backward_each(&self, results: Vec<(&Var<'_, T>, Tensor<T>)>, mut each: impl FnMut(NodeId, Tensor<T>)) {
        let seed = |(y, gy): (&Var<'_, T>, Tensor<T>)| {
            assert_eq!(y.shape(), gy.shape(), "backward: a cotangent of the result's shape");
            Some((y.node?, gy))
        };
        let seeds: Vec<_> = results.into_iter().filter_map(seed).collect();
        self.reversing(|observer| {
            self.reverse(seeds, observer, |leaf, gradient| {
                self.tell_gradient(observer, leaf, &gradient);
                each(leaf, gradient);
            });
        });
    }

    /// Runs the reverse loop. `cotangents` has the sum of the summands so far, for each node.
    fn reverse(
        &self,
        seeds: Vec<(NodeId, Tensor<T>)>,
        observer: Option<&dyn Observer<T>>,
        mut each: impl FnMut(NodeId, Tensor<T>),
    ) {
        let results: Vec<_> = seeds.iter().map(|(y, _)| Some(*y)).collect();
        let Some(end) = results.iter().flatten().max().map(|root| root.index() + 1) else { return };
        let mut cotangents = Cotangents(vec![None; end]);
        seeds.into_iter().for_each(|(y, gy)| cotangents.add(y, gy));
        cotangents.take_all(self.complete(&results, end)).for_each(|(x, gx)| each(x, gx));

        for y in (0..end).rev() {
            let Some(it) = self.consume(y) else { continue }; // a leaf
            let inputs = it.parents.clone();
            if let Some(gy) = cotangents.take(it.node) {
                let summands = it.pull(self.constant(gy), cotangents.of_only(&inputs), observer);
                flows(&inputs, summands).for_each(|(x, gx)| cotangents.add(x, gx.value));
            }
            cotangents.take_all(self.complete(&inputs, y)).for_each(|(x, gx)| each(x, gx));
        }
    }

    /// Moves the application at index `y` off the tape, with its saved values. Returns `None` for a leaf.
    fn consume(&self, y: usize) -> Option<Reached<'_, T>> {
        let node = &mut self.nodes.borrow_mut()[y];
        let freed = node.freed()?;
        Reached::new(NodeId::new(y), std::mem::replace(node, freed), |value, _| self.constant(value))
    }

    /// Returns the leaves among `inputs` that no node before index `y` reads. Their gradients are complete once the loop has
    /// passed y.
    fn complete(&self, inputs: &[Option<NodeId>], y: usize) -> Vec<NodeId> {
        let nodes = self.nodes.borrow();
        let complete = |x: &NodeId| match nodes[x.index()].kind {
            Kind::Leaf { first_reader } => first_reader.is_none_or(|first| first.index() >= y),
            _ => false,
        };
        inputs.iter().flatten().copied().filter(complete).collect()
    }
}

impl<'t, T: Real> Reached<'t, T> {
    /// Returns x̄ᵢ = Jᵢᵀȳ for each input, or none if the op itself has added its only x̄ to `sum`. Then drops the saved values.
    fn pull(self, gy: Var<'t, T>, sum: Option<&mut Tensor<T>>, observer: Option<&dyn Observer<T>>) -> Summands<'t, T> {
        let added = |sum| self.op.add_vjp(&self.saved, &gy.value, sum);
        match observer {
            Some(_) => self.observed(&gy, observer, || if sum.is_some_and(added) { None } else { Some(self.vjp(&gy)) }),
            None if sum.is_some_and(added) => None,
            None => Some(self.vjp_once(gy)),
        }
        .unwrap_or_default()
    }
}

/// The sum of the summands so far, by node.
struct Cotangents<T: Real>(Vec<Option<Tensor<T>>>);

impl<T: Real> Cotangents<T> {
    fn add(&mut self, x: NodeId, gx: Tensor<T>) {
        match &mut self.0[x.index()] {
            Some(sum) => sum.add_assign(&gx),
            none => *none = Some(gx),
        }
    }
    fn take(&mut self, x: NodeId) -> Option<Tensor<T>> {
        self.0[x.index()].take()
    }
    fn take_all(&mut self, nodes: Vec<NodeId>) -> impl Iterator<Item = (NodeId, Tensor<T>)> {
        nodes.into_iter().filter_map(|x| Some((x, self.take(x)?)))
    }
    /// Returns the sum so far of the only input. Returns `None` if there are several inputs or no sum yet.
    fn of_only(&mut self, inputs: &[Option<NodeId>]) -> Option<&mut Tensor<T>> {
        if let [Some(x)] = inputs { self.0[x.index()].as_mut() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::anomaly::Watch;
    use crate::{ops, samples::Samples};

    /// With an observer, which reads the saved values, a tape calls `vjp`; without one `vjp_once`, which may free them.
    #[test]
    fn every_op_gives_the_same_bits_observed_or_not() {
        for op in ops::all::<f64>() {
            let mut g = Samples::new(3, 5);
            for (i, sample) in (op.samples)(&mut g).into_iter().enumerate() {
                let gradient = |tape: &Tape<f64>| {
                    let leaves: Vec<_> = sample.inputs.iter().map(|x| tape.leaf(x.clone())).collect();
                    let y = tape.record(sample.op.clone(), &leaves.iter().collect::<Vec<_>>());
                    let mut grads = tape.backward_from(&y, Samples::new(4, 5).normal(*y.shape()));
                    let bits = |g: Tensor<f64>| g.to_vec().into_iter().map(f64::to_bits).collect::<Vec<_>>();
                    leaves.iter().map(|x| grads.take(x).map(bits)).collect::<Vec<_>>()
                };
                let observed = gradient(&Tape::observed(Arc::new(Watch::default())));
                assert_eq!(gradient(&Tape::new()), observed, "{}, sample {i}", op.name);
                assert!(observed.iter().any(Option::is_some), "{}, sample {i}", op.name);
            }
        }
    }
}

//! A record of a tape's computation: values of the forward pass, and cotangents with their origin in the reverse pass.
//!
//! ```
//! use std::sync::Arc;
//! use gradus_autograd::trace::Recorder;
//! use gradus_autograd::{Tape, Tensor};
//!
//! let recorder = Arc::new(Recorder::default());
//! let tape = Tape::observed(recorder.clone());
//! let x = tape.leaf(Tensor::new([2], vec![0.5, -2.0]));
//! let y = &x * &x + x.tanh();
//! tape.backward(&y.sum_all());
//!
//! let trace = recorder.trace();
//! let x = &trace[x.node().unwrap().index()];
//! let from: Vec<&str> = x.summands.iter().map(|s| trace[s.from.index()].name()).collect();
//! assert_eq!(from, ["tanh", "mul", "mul"]); // x̄ = (1 − tanh² x) + x + x
//! ```

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gradus_tensor::{Device, Real, Tensor};

use crate::tape::observer::{Applied, Observer, Pulled};
use crate::tape::op::AnyOp;
use crate::tape::{NodeId, Site, Tape, Var};

/// A leaf or an application of an op: its value, its cotangent, and the terms of the cotangent.
#[derive(Clone, Debug)]
pub struct Traced<T: Real> {
    /// The op; `None` for a leaf.
    pub op: Option<Arc<dyn AnyOp<T>>>,
    /// The arguments of the application.
    pub ins: Vec<Argument<T>>,
    /// The place at which it was recorded.
    pub site: Site,
    /// The value.
    pub value: Tensor<T>,
    /// The cotangent after the reverse pass; `None` if the result does not depend on it.
    pub cotangent: Option<Tensor<T>>,
    /// The terms of the cotangent, in the order in which backward added them.
    pub summands: Vec<Summand<T>>,
    /// The number of elements saved for its VJP.
    pub saved: usize,
    /// The time of the evaluation.
    pub forward: Duration,
    /// The time of its VJP.
    pub backward: Duration,
}

/// An input of an application.
#[derive(Clone, Debug)]
pub struct Argument<T: Real> {
    /// The node; `None` for a constant.
    pub node: Option<NodeId>,
    /// The value.
    pub value: Tensor<T>,
}

/// One term of a cotangent.
#[derive(Clone, Debug)]
pub struct Summand<T: Real> {
    /// The node whose VJP computed it.
    pub from: NodeId,
    /// The index of the input of that node to which the term flows.
    pub input: usize,
    /// The term.
    pub value: Tensor<T>,
}

impl<T: Real> Traced<T> {
    fn new(op: Option<Arc<dyn AnyOp<T>>>, ins: Vec<Argument<T>>, value: &Tensor<T>, site: &Site) -> Self {
        let (site, value, zero) = (site.clone(), value.clone(), Duration::ZERO);
        Traced { op, ins, site, value, cotangent: None, summands: Vec::new(), saved: 0, forward: zero, backward: zero }
    }

    /// Returns the op's name, or `leaf`.
    pub fn name(&self) -> &'static str {
        self.op.as_ref().map_or("leaf", |op| op.name())
    }

    /// Returns a fused op's definition in primitives, evaluated and pulled back on the same numbers. It begins with a leaf for
    /// each input that has a node, in their order. Returns `None` for a leaf or a primitive.
    pub fn inside(&self) -> Option<Vec<Traced<T>>> {
        let recorder = Arc::new(Recorder::default());
        let tape = Tape::observed(recorder.clone());
        let var = |x: &Argument<T>| match x.node {
            Some(_) => tape.leaf(x.value.clone()),
            None => tape.constant(x.value.clone()),
        };
        let ins: Vec<Var<'_, T>> = self.ins.iter().map(var).collect();
        let y = self.op.as_ref()?.reference(&ins)?;
        if let Some(gy) = &self.cotangent {
            tape.backward_from(&y, gy.clone());
        }
        Some(recorder.trace())
    }
}

/// An observer that keeps everything its tape computes. The tape must be run backward, not [pulled back](Tape::pullback), since
/// the nodes that a pullback records are not observed. Tensors share their memory, so a recorder costs only the memory that would
/// have been freed.
#[derive(Debug)]
pub struct Recorder<T: Real> {
    nodes: Mutex<Vec<Traced<T>>>,
    device: Device,
}

impl<T: Real> Default for Recorder<T> {
    fn default() -> Self {
        Recorder::on(&Device::CPU)
    }
}

impl<T: Real> Recorder<T> {
    /// Creates a recorder for a computation on a device. It waits for the device before and after each op, so that the measured
    /// time is that op's alone.
    pub fn on(device: &Device) -> Self {
        Recorder { nodes: Mutex::default(), device: device.clone() }
    }

    /// Returns the record: entry i is node i.
    pub fn trace(&self) -> Vec<Traced<T>> {
        self.nodes().clone()
    }

    fn nodes(&self) -> MutexGuard<'_, Vec<Traced<T>>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, node: NodeId, traced: Traced<T>) {
        let mut nodes = self.nodes();
        assert_eq!(nodes.len(), node.index(), "a recorder is for one tape, from its first node on, and for no pullback");
        nodes.push(traced);
    }
}

impl<T: Real> Observer<T> for Recorder<T> {
    // A fault of the device is reported where a number is read.
    fn begins(&self) {
        let _ = self.device.wait();
    }

    fn ends(&self) {
        let _ = self.device.wait();
    }

    fn leaf(&self, node: NodeId, value: &Tensor<T>, site: &Site) {
        self.push(node, Traced::new(None, Vec::new(), value, site));
    }

    fn applied(&self, it: &Applied<'_, T>) {
        let Some(node) = it.node else { return };
        let saves = it.op.saves();
        let inputs: usize = it.ins.iter().enumerate().filter(|(i, _)| saves.keeps_input(*i)).map(|(_, x)| x.len()).sum();
        let output = if saves.keeps_output() { it.out.len() } else { 0 };
        let saved = inputs + output + it.residuals.iter().map(Tensor::len).sum::<usize>();
        let ins = it.ins.iter().zip(it.parents).map(|(&x, &node)| Argument { node, value: x.clone() }).collect();
        self.push(node, Traced { saved, forward: it.took, ..Traced::new(Some(it.op.clone()), ins, it.out, it.site) });
    }

    fn pulled(&self, it: &Pulled<'_, T>) {
        let mut nodes = self.nodes();
        let traced = &mut nodes[it.node.index()];
        (traced.cotangent, traced.backward) = (Some(it.cotangent.clone()), it.took);
        for (input, to, value) in it.summands() {
            nodes[to.index()].summands.push(Summand { from: it.node, input, value: value.clone() });
        }
    }

    fn gradient(&self, leaf: NodeId, value: &Tensor<T>, _: &Site) {
        self.nodes()[leaf.index()].cotangent = Some(value.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Attention;
    use gradus_tensor::Mask;

    fn vector(values: &[f64]) -> Tensor<f64> {
        Tensor::new([values.len()], values.to_vec())
    }

    #[test]
    fn each_traced_node_has_its_value_inputs_cotangent_and_summands() {
        let recorder = Arc::new(Recorder::default());
        let tape = Tape::observed(recorder.clone());
        let (x, c) = (tape.leaf(vector(&[1.0, 2.0])), tape.constant(vector(&[3.0, 4.0])));
        let y = tape.scope("h0", || &x * &c);
        let z = (&y + &x).exp();
        let grads = tape.backward(&z.sum_all());
        let trace = recorder.trace();
        assert_eq!(trace.iter().map(Traced::name).collect::<Vec<_>>(), ["leaf", "mul", "add", "exp", "sum", "reshape"]);
        let (leaf, mul) = (&trace[0], &trace[1]);
        assert_eq!((&*mul.site.scope, mul.ins[0].node, mul.ins[1].node), ("h0", x.node(), None));
        assert_eq!((mul.ins[1].value.to_vec(), mul.value.to_vec(), mul.saved), (vec![3.0, 4.0], vec![3.0, 8.0], 4));
        let e = [4f64.exp(), 10f64.exp()];
        assert_eq!(mul.cotangent.as_ref().unwrap().to_vec(), e);
        let from: Vec<_> = leaf.summands.iter().map(|s| (s.from.index(), s.input, s.value.to_vec())).collect();
        assert_eq!(from, [(2, 1, e.to_vec()), (1, 0, vec![3.0 * e[0], 4.0 * e[1]])]);
        assert_eq!(leaf.cotangent.as_ref().unwrap().to_vec(), grads.of(&x).unwrap().to_vec());
        assert!(mul.inside().is_none() && leaf.inside().is_none());
    }

    #[test]
    fn a_fused_op_expands_to_its_definition_with_equal_values() {
        let recorder = Arc::new(Recorder::default());
        let tape = Tape::observed(recorder.clone());
        let x = tape.leaf(Tensor::new([1, 3, 6], (0..18).map(|i| f64::from(i * 7 % 11) / 5.0 - 1.0).collect()));
        let y = x.self_attention(1, Attention::new(Mask::Causal));
        tape.backward(&(&y * &y).sum_all());
        let trace = recorder.trace();
        let inside = trace[1].inside().expect("fused");
        let near = |a: &Tensor<f64>, b: &Tensor<f64>| a.zip(b, |a, b| (a - b).abs()).to_vec().into_iter().all(|e| e < 1e-14);
        assert!(near(&inside.last().unwrap().value, y.value()));
        assert!(near(inside[0].cotangent.as_ref().unwrap(), trace[0].cotangent.as_ref().unwrap()));
        // The probabilities are in the trace: each row adds up to 1, with nothing after the diagonal.
        let p = inside.iter().rfind(|t| &*t.site.scope == "softmax").unwrap().value.to_vec();
        assert_eq!((p[1], p[2], p[5]), (0.0, 0.0, 0.0));
        assert!(p.chunks(3).all(|row| (row.iter().sum::<f64>() - 1.0).abs() < 1e-15));
    }
}

//! The nodes of a step, in the form that the page's script reads.

use gradus_autograd::check;
use gradus_autograd::trace::{Argument, Traced};
use gradus_autograd::{Shape, Tensor};
use serde::Serialize;

use super::update::{Leaf, ParameterUpdate};
use super::view::View;

/// The maximum number of operations of an application that is checked by differences, which take fifteen evaluations.
const PROVED: u64 = 4_000_000_000;
/// The relative size up to which a derivative is taken for the rounding error of a sum that cancels: 2⁶ roundings of its terms.
const ROUNDING: f64 = 64.0 * f64::EPSILON;
/// The maximum number of operations of a fused op that is opened. Its definition stores tensors that the kernel never stores:
/// scores and logits.
const OPENED: u64 = 10_000_000_000;
/// The maximum number of characters of an op's fields.
const DETAILS: usize = 300;

/// A leaf, or an application of an op.
#[derive(Clone, Debug, Serialize)]
pub struct Node {
    /// The index of the node in its list.
    pub id: usize,
    /// The op's name; `leaf` for a parameter, or for an input of a definition.
    pub op: &'static str,
    /// The path of the node's scopes.
    pub scope: String,
    /// A parameter's name; empty for other nodes.
    pub name: String,
    /// The line that applied the op.
    pub at: String,
    /// The op with its fields.
    pub details: String,
    /// The inputs.
    pub ins: Vec<Input>,
    /// The result.
    pub value: View,
    /// The cotangent of the result.
    pub grad: Option<View>,
    /// The summands of the cotangent.
    pub summands: Vec<Term>,
    /// The optimizer's update; `None` for a node that is not a parameter.
    pub update: Option<ParameterUpdate>,
    /// The check by differences of the cotangents that the node passes to its inputs.
    pub proof: Option<Proof>,
    /// The reason why there is no proof although a cotangent reached the node.
    pub unproved: Option<&'static str>,
    /// The nodes of a fused op's definition.
    pub inside: Option<Vec<Node>>,
    /// The reason why a fused op is not opened.
    pub closed: Option<&'static str>,
    /// The number of arithmetic operations.
    pub flops: u64,
    /// The number of bytes kept for backward.
    pub saved: u64,
    /// The time of the evaluation, in seconds.
    pub forward: f64,
    /// The time of the VJP, in seconds.
    pub backward: f64,
}

/// An input of an application.
#[derive(Clone, Debug, Serialize)]
pub struct Input {
    /// The input's node; `None` for a constant, whose value is in `view`.
    pub node: Option<usize>,
    /// The node from whose value a constant was detached.
    pub detached: Option<usize>,
    /// The shape of the input.
    pub shape: Vec<usize>,
    /// The value of a constant.
    pub view: Option<View>,
}

/// A summand of a cotangent.
#[derive(Clone, Debug, Serialize)]
pub struct Term {
    /// The node that computed the summand.
    pub from: usize,
    /// The input of that node to which it belongs.
    pub input: usize,
    /// The norm of the summand.
    pub norm: f64,
    /// The summand's view; `None` for a single summand, which is the cotangent itself.
    pub view: Option<View>,
}

/// A derivative along a random direction, computed twice.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Proof {
    /// The value by the VJP.
    pub value: f64,
    /// The value by central differences.
    pub expected: f64,
    /// The difference of the two, relative to their terms.
    pub error: f64,
    /// The step of the differences.
    pub step: f64,
}

/// Returns the nodes of a step, with fused ops opened. The first leaves are the parameters; `seed` draws the directions in which
/// derivatives are compared.
pub fn nodes(trace: &[Traced<f64>], parameters: &[Leaf<'_>], seed: u64) -> Vec<Node> {
    let node = |(id, it): (usize, &Traced<f64>)| {
        let (inside, closed) = match flops(it) {
            many if many > OPENED => {
                (None, Some("its definition needs far larger tensors than its kernel; use fewer --tokens to show it"))
            }
            // Fused ops in the definition are not opened.
            _ => (it.inside().map(|trace| (0..).zip(&trace).map(|(id, it)| plain(&trace, id, it, seed, &[])).collect()), None),
        };
        let parameter = parameters.get(id);
        let node = plain(trace, id, it, seed, parameter.map_or(&[], |p| p.rows));
        let name = parameter.map_or(String::new(), |p| p.name.clone());
        Node { inside, closed, name, update: parameter.map(|p| p.update.clone()), ..node }
    };
    trace.iter().enumerate().map(node).collect()
}

fn plain(trace: &[Traced<f64>], id: usize, it: &Traced<f64>, seed: u64, rows: &[usize]) -> Node {
    let view = |x: &Tensor<f64>| View::with_rows(x, rows);
    let input = |x: &Argument<f64>| Input {
        node: x.node.map(|n| n.index()),
        detached: x.node.is_none().then(|| trace[..id].iter().rposition(|y| same(&y.value, &x.value))).flatten(),
        shape: x.value.shape().to_vec(),
        view: x.node.is_none().then(|| View::of(&x.value)),
    };
    let alone = it.summands.len() == 1;
    let summands = it.summands.iter().map(|s| Term {
        from: s.from.index(),
        input: s.input,
        norm: s.value.dot(&s.value).sqrt(),
        view: (!alone).then(|| view(&s.value)),
    });
    let details: String = it.op.as_ref().map_or(String::new(), |op| format!("{op:?}"));
    let cut = details.chars().count() > DETAILS;
    let (proof, unproved) = match proof(trace, id, it, seed) {
        Ok(proof) => (proof, None),
        Err(why) => (None, Some(why)),
    };
    Node {
        id,
        op: it.name(),
        scope: it.site.scope.to_string(),
        name: String::new(),
        at: it.op.as_ref().map_or(String::new(), |_| format!("{}:{}", it.site.at.file(), it.site.at.line())),
        details: details.chars().take(DETAILS).chain(cut.then_some('…')).collect(),
        ins: it.ins.iter().map(input).collect(),
        value: view(&it.value),
        grad: it.cotangent.as_ref().map(view),
        summands: summands.collect(),
        update: None,
        proof,
        unproved,
        inside: None,
        closed: None,
        flops: flops(it),
        saved: (it.saved * size_of::<f64>()) as u64,
        forward: it.forward.as_secs_f64(),
        backward: it.backward.as_secs_f64(),
    }
}

/// Returns whether `x` is the tensor `y` itself, possibly expanded, and not another tensor of equal numbers.
fn same(y: &Tensor<f64>, x: &Tensor<f64>) -> bool {
    let fits = x.shares_buffer(y) && y.shape().broadcast(x.shape()) == Some(*x.shape());
    fits && y.expand(*x.shape()).to_vec() == x.to_vec()
}

fn flops(it: &Traced<f64>) -> u64 {
    let shapes: Vec<&Shape> = it.ins.iter().map(|x| x.value.shape()).collect();
    it.op.as_ref().map_or(0, |op| op.flops(&shapes, it.value.shape()))
}

/// Returns the proof of a node by differences. Returns an error with the reason if there is none although a cotangent reached it.
fn proof(trace: &[Traced<f64>], id: usize, it: &Traced<f64>, seed: u64) -> Result<Option<Proof>, &'static str> {
    if it.op.is_none() || it.cotangent.is_none() {
        return Ok(None);
    }
    if flops(it) > PROVED {
        return Err("not checked here: fifteen evaluations would take too long");
    }
    let to = |(i, x): (usize, &Argument<f64>)| {
        let summands = &trace[x.node?.index()].summands;
        summands.iter().find(|s| s.from.index() == id && s.input == i).map(|s| &s.value)
    };
    let summands: Vec<Option<&Tensor<f64>>> = it.ins.iter().enumerate().map(to).collect();
    let (c, step) = check::application(it, &summands, seed).ok_or("nothing to compare: the incoming gradient is 0")?;
    // Adding a constant to all logits does not change their softmax, so a zero bias there has only the rounding error of a sum.
    let size = it.cotangent.as_ref().map_or(0.0, |g| g.to_vec().into_iter().map(f64::abs).sum::<f64>());
    if c.scale.max(c.expected.abs()) <= ROUNDING * size {
        return Err("nothing to compare: the incoming gradient is 0 except for rounding");
    }
    Ok(Some(Proof { value: c.value, expected: c.expected, error: c.error(), step }))
}

//! The nodes of a step as the page reads them.

use gradus_autograd::check;
use gradus_autograd::trace::{Argument, Traced};
use gradus_autograd::{Shape, Tensor};
use serde::Serialize;

use super::update::{Leaf, ParameterUpdate};
use super::view::View;

/// Operations of one evaluation above which an application is not checked by differences, which take fifteen evaluations.
const PROVED: u64 = 4_000_000_000;
/// A derivative of no more than this share of what flowed in is the rounding of a sum that cancels, some 2⁶ roundings of it.
const ROUNDING: f64 = 64.0 * f64::EPSILON;
/// Operations above which a fused op is not opened: its definition holds what the kernel never stores, scores and logits.
const OPENED: u64 = 10_000_000_000;
/// The most characters of an op's fields.
const DETAILS: usize = 300;

/// A leaf, or an application of an op.
#[derive(Clone, Debug, Serialize)]
pub struct Node {
    /// Its index in its list.
    pub id: usize,
    /// The op's name; `leaf` for a parameter, or for an input of a definition.
    pub op: &'static str,
    /// The path of its scopes.
    pub scope: String,
    /// A leaf's name; else empty.
    pub name: String,
    /// The line that applied the op.
    pub at: String,
    /// The op with its fields.
    pub details: String,
    /// What it was applied to.
    pub ins: Vec<Input>,
    /// What it gave.
    pub value: View,
    /// Its cotangent.
    pub grad: Option<View>,
    /// What the cotangent is the sum of.
    pub summands: Vec<Term>,
    /// Of a parameter: what the optimizer made of its gradient.
    pub update: Option<ParameterUpdate>,
    /// What differences say of what flowed back through it.
    pub proof: Option<Proof>,
    /// Why there is no proof, where something flowed.
    pub unproved: Option<&'static str>,
    /// A fused op's definition.
    pub inside: Option<Vec<Node>>,
    /// Why a fused op is not opened.
    pub closed: Option<&'static str>,
    /// Arithmetic operations.
    pub flops: u64,
    /// Bytes kept for backward.
    pub saved: u64,
    /// Seconds that it took.
    pub forward: f64,
    /// Seconds that its VJP took.
    pub backward: f64,
}

/// An input of an application.
#[derive(Clone, Debug, Serialize)]
pub struct Input {
    /// Its node; `None` for a constant, which is shown here.
    pub node: Option<usize>,
    /// Of a constant: the node whose value it is, detached from it.
    pub detached: Option<usize>,
    /// Its shape.
    pub shape: Vec<usize>,
    /// A constant's value.
    pub view: Option<View>,
}

/// A summand of a cotangent.
#[derive(Clone, Debug, Serialize)]
pub struct Term {
    /// The node that gave it.
    pub from: usize,
    /// Which of its inputs gave it.
    pub input: usize,
    /// Its norm.
    pub norm: f64,
    /// The summand; `None` where it is the only one, and so the cotangent itself.
    pub view: Option<View>,
}

/// A derivative along a random direction, twice.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Proof {
    /// By the VJP.
    pub value: f64,
    /// By central differences.
    pub expected: f64,
    /// How far apart, relative to their terms.
    pub error: f64,
    /// The step of the differences.
    pub step: f64,
}

/// The nodes of a step, its fused ops opened. The first leaves are the parameters; `seed` draws the directions in which derivatives
/// are compared.
pub fn nodes(trace: &[Traced<f64>], parameters: &[Leaf<'_>], seed: u64) -> Vec<Node> {
    let node = |(id, it): (usize, &Traced<f64>)| {
        let (inside, closed) = match flops(it) {
            many if many > OPENED => {
                (None, Some("its definition would hold far larger tensors than its kernel; fewer --tokens open it"))
            }
            // Fused ops in its definition stay closed.
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

/// Is `x` the tensor `y` itself, expanded perhaps, and not another of the same numbers?
fn same(y: &Tensor<f64>, x: &Tensor<f64>) -> bool {
    let fits = x.shares_buffer(y) && y.shape().broadcast(x.shape()) == Some(*x.shape());
    fits && y.expand(*x.shape()).to_vec() == x.to_vec()
}

fn flops(it: &Traced<f64>) -> u64 {
    let shapes: Vec<&Shape> = it.ins.iter().map(|x| x.value.shape()).collect();
    it.op.as_ref().map_or(0, |op| op.flops(&shapes, it.value.shape()))
}

/// What differences say of what flowed back through a node; the reason where they say nothing though something flowed.
fn proof(trace: &[Traced<f64>], id: usize, it: &Traced<f64>, seed: u64) -> Result<Option<Proof>, &'static str> {
    if it.op.is_none() || it.cotangent.is_none() {
        return Ok(None);
    }
    if flops(it) > PROVED {
        return Err("not checked here: fifteen evaluations of it would take too long");
    }
    let to = |(i, x): (usize, &Argument<f64>)| {
        let summands = &trace[x.node?.index()].summands;
        summands.iter().find(|s| s.from.index() == id && s.input == i).map(|s| &s.value)
    };
    let summands: Vec<Option<&Tensor<f64>>> = it.ins.iter().enumerate().map(to).collect();
    let (c, step) = check::application(it, &summands, seed).ok_or("nothing to compare: what flows back is 0")?;
    // All answers' logits moved alike leave their softmax as it is, and a bias of 0 has only the rounding of the cotangents' sum.
    let size = it.cotangent.as_ref().map_or(0.0, |g| g.to_vec().into_iter().map(f64::abs).sum::<f64>());
    if c.scale.max(c.expected.abs()) <= ROUNDING * size {
        return Err("nothing to compare: what flows back cancels but for rounding");
    }
    Ok(Some(Proof { value: c.value, expected: c.expected, error: c.error(), step }))
}

//! Nodes: the records of leaves and of applications of ops on a tape.

use std::panic::Location;
use std::sync::Arc;

use gradus_tensor::{Real, Shape, Tensor};

use super::op::{AnyOp, Evaluated, Saves};

/// The place of a node on its tape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u32);

impl NodeId {
    pub(super) fn new(index: usize) -> Self {
        NodeId(u32::try_from(index).expect("a tape holds fewer than 2³² nodes"))
    }
    /// Returns its index: 0 is the first node recorded.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The place, in the program and in the model, at which a node was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The line that applied the op.
    pub at: &'static Location<'static>,
    /// The path of enclosing [`Tape::scope`](crate::Tape::scope)s: `h3.attn`.
    pub scope: Arc<str>,
}

/// A node as [`Tape::recorded`](crate::Tape::recorded) lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The op's name; `None` for a leaf.
    pub op: Option<&'static str>,
    /// The nodes of its inputs; `None` for a constant.
    pub inputs: Vec<Option<NodeId>>,
    /// The place at which it was recorded.
    pub site: Site,
}

/// A leaf or an application of an op.
#[derive(Clone, Debug)]
pub(super) struct Node<T: Real> {
    pub kind: Kind<T>,
    /// The nodes of its inputs; `None` for a constant.
    pub parents: Vec<Option<NodeId>>,
    pub site: Site,
}

/// The kind of a node.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "nearly every node is an application")]
pub(super) enum Kind<T: Real> {
    /// An input of the computation; gradients end here.
    Leaf {
        /// The first node that reads the leaf. The reverse pass reaches it last, so there the leaf's gradient is complete.
        first_reader: Option<NodeId>,
    },
    /// An application of an op.
    Applied(Application<T>),
    /// An application that the reverse pass has passed; its saved values are dropped.
    Freed(&'static str),
}

/// An op and the values that its VJP reads.
#[derive(Clone, Debug)]
pub(super) struct Application<T: Real> {
    pub op: Arc<dyn AnyOp<T>>,
    pub shapes: Vec<Shape>,
    pub ins: Vec<Option<Tensor<T>>>,
    pub out: Option<Tensor<T>>,
    pub residuals: Vec<Tensor<T>>,
}

/// Returns input `i` as it is saved.
fn saved<T: Real>(saves: Saves, i: usize, x: &Tensor<T>) -> Tensor<T> {
    if saves.is_factor(i) { x.as_factor() } else { x.clone() }
}

impl<T: Real> Application<T> {
    /// Saves the inputs and results that [`Op::SAVES`](super::op::Op::SAVES) names.
    pub fn of(op: Arc<dyn AnyOp<T>>, ins: &[&Tensor<T>], done: &mut Evaluated<T>) -> Self {
        let saves = op.saves();
        Application {
            shapes: ins.iter().map(|x| *x.shape()).collect(),
            ins: ins.iter().enumerate().map(|(i, &x)| saves.keeps_input(i).then(|| saved(saves, i, x))).collect(),
            out: saves.keeps_output().then(|| done.out.clone()),
            residuals: std::mem::take(&mut done.residuals),
            op,
        }
    }

    pub fn kept(&self) -> impl Iterator<Item = &Tensor<T>> {
        self.ins.iter().flatten().chain(&self.out).chain(&self.residuals)
    }
}

impl<T: Real> Node<T> {
    /// Returns the op's name; `None` for a leaf.
    pub fn name(&self) -> Option<&'static str> {
        match &self.kind {
            Kind::Leaf { .. } => None,
            Kind::Applied(it) => Some(it.op.name()),
            Kind::Freed(name) => Some(name),
        }
    }

    /// Returns the node without its saved values; `None` for a leaf.
    pub fn freed(&self) -> Option<Self> {
        Some(Node { kind: Kind::Freed(self.name()?), parents: self.parents.clone(), site: self.site.clone() })
    }

    /// Returns the application; `None` for a leaf or a freed node.
    pub fn application(&self) -> Option<&Application<T>> {
        if let Kind::Applied(it) = &self.kind { Some(it) } else { None }
    }
}

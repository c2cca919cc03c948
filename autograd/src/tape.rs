//! The tape: what was computed, in order.
//!
//! Every application of an op is pushed at the end, so the order of the nodes *is* a topological order, and the
//! reverse pass ([`crate::backward`]) is a loop from the last to the first. A node refers to earlier ones by index.

use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::sync::Arc;
use std::time::Instant;

use gradus_tensor::{Real, Shape, Tensor};

use crate::observer::{Applied, Observer};
use crate::op::{Declared, Op, Want};
use crate::var::Var;

/// The place of a node on its tape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u32);

impl NodeId {
    pub(crate) fn new(index: usize) -> Self {
        NodeId(u32::try_from(index).expect("a tape holds fewer than 2³² nodes"))
    }
    /// Its index: 0 is the first node recorded.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a node is.
#[derive(Clone, Debug)]
pub(crate) enum Kind<T: Real> {
    /// An input of the computation; gradients end here.
    Leaf,
    /// An application of an op.
    Op(Arc<dyn Op<T>>),
    /// An application that backward has passed; what it saved is gone.
    Freed(&'static str),
}

/// One application of an op, and what its VJP will need.
#[derive(Clone, Debug)]
pub(crate) struct Node<T: Real> {
    pub kind: Kind<T>,
    pub parents: Vec<Option<NodeId>>,
    pub shapes: Vec<Shape>,
    pub ins: Vec<Option<Tensor<T>>>,
    pub out: Option<Tensor<T>>,
    pub residuals: Vec<Tensor<T>>,
    pub site: Site,
}

impl<T: Real> Node<T> {
    /// A node that saves nothing.
    pub(crate) fn bare(kind: Kind<T>, site: Site) -> Self {
        Node { kind, parents: vec![], shapes: vec![], ins: vec![], out: None, residuals: vec![], site }
    }
}

/// Where in the program, and where in the model, a node was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The line that applied the op.
    pub at: &'static Location<'static>,
    /// The path of enclosing [`Tape::scope`]s: `h3.attn`.
    pub scope: Arc<str>,
}

/// A node, for the eye.
#[derive(Clone, Debug)]
pub struct Step {
    /// The op's name; `None` for a leaf.
    pub op: Option<&'static str>,
    /// The nodes of its inputs; `None` for a constant.
    pub inputs: Vec<Option<NodeId>>,
    /// Where it was recorded.
    pub site: Site,
}

/// An append-only list of applied ops (a Wengert list).
///
/// ```
/// use gradus_autograd::{Tape, Tensor};
/// let tape = Tape::new();
/// let x = tape.leaf(Tensor::new([2], vec![1.0, 2.0]));
/// let y = (&x * &x).sum_all();                       // y = Σ xᵢ²
/// let grads = tape.backward(&y);
/// assert_eq!(grads.of(&x).unwrap().to_vec(), [2.0, 4.0]);
/// ```
#[derive(Debug)]
pub struct Tape<T: Real = f32> {
    pub(crate) nodes: RefCell<Vec<Node<T>>>,
    scope: RefCell<Arc<str>>,
    on: bool,
    pub(crate) observer: Option<Arc<dyn Observer<T>>>,
    /// Is a reverse pass under way? What its VJPs apply is theirs, and not shown.
    pub(crate) reversing: Cell<bool>,
}

impl<T: Real> Default for Tape<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Real> Tape<T> {
    /// An empty tape.
    pub fn new() -> Self {
        let (nodes, scope) = (RefCell::default(), RefCell::new("".into()));
        Tape { nodes, scope, on: true, observer: None, reversing: Cell::new(false) }
    }

    /// An empty tape at which somebody [looks on](crate::observer).
    pub fn observed(observer: Arc<dyn Observer<T>>) -> Self {
        Self::new().seen_by(Some(observer))
    }

    /// This tape with somebody who [looks on](crate::observer), or nobody.
    pub fn seen_by(self, observer: Option<Arc<dyn Observer<T>>>) -> Self {
        Tape { observer, ..self }
    }

    /// A tape that records nothing: evaluation without gradients.
    pub fn off() -> Self {
        Tape { on: false, ..Self::new() }
    }

    /// A value to differentiate with respect to.
    #[track_caller]
    pub fn leaf(&self, value: Tensor<T>) -> Var<'_, T> {
        let site = self.site();
        if let (Some(observer), true) = (&self.observer, self.on && !self.reversing.get()) {
            observer.leaf(NodeId::new(self.len()), &value, &site);
        }
        let node = self.on.then(|| self.push(Node::bare(Kind::Leaf, site)));
        Var { tape: self, value, node }
    }

    /// A value that no gradient flows to.
    pub fn constant(&self, value: Tensor<T>) -> Var<'_, T> {
        Var { tape: self, value, node: None }
    }

    /// Applies an op. Only an op that declares its samples, and so can be checked, is recorded.
    ///
    /// Panics where the inputs' shapes break the op's rule, or belong to another tape.
    #[track_caller]
    pub fn apply<'t, O: Declared<T>>(&'t self, op: O, ins: &[&Var<'t, T>]) -> Var<'t, T> {
        self.record(Arc::new(op), ins)
    }

    #[track_caller]
    pub(crate) fn record<'t>(&'t self, op: Arc<dyn Op<T>>, ins: &[&Var<'t, T>]) -> Var<'t, T> {
        assert!(ins.iter().all(|v| std::ptr::eq(v.tape, self)), "{}: an input is on another tape", op.name());
        let shapes: Vec<&Shape> = ins.iter().map(|v| v.shape()).collect();
        let expected = op.shape(&shapes).unwrap_or_else(|e| panic!("{e}"));
        let tracked = self.on && ins.iter().any(|v| v.node.is_some());
        let values: Vec<&Tensor<T>> = ins.iter().map(|v| &v.value).collect();
        let observer = self.observer.as_ref().filter(|_| !self.reversing.get());
        let begun = observer.map(|_| Instant::now());
        let done = op.eval(&values, if tracked { Want::Vjp } else { Want::Value });
        assert_eq!(*done.out.shape(), expected, "{} broke its own shape rule", op.name());
        if let (Some(observer), Some(begun)) = (observer, begun) {
            let (took, site, node) = (begun.elapsed(), &self.site(), tracked.then(|| NodeId::new(self.len())));
            observer.applied(&Applied { op: &op, ins, out: &done.out, residuals: &done.residuals, node, site, took });
        }
        // Not a closure: `site` would see the closure's line instead of the caller's.
        let node = if tracked {
            let saves = op.saves();
            Some(self.push(Node {
                parents: ins.iter().map(|v| v.node).collect(),
                shapes: shapes.into_iter().copied().collect(),
                ins: values.iter().enumerate().map(|(i, v)| saves.keeps_input(i).then(|| (*v).clone())).collect(),
                out: saves.keeps_output().then(|| done.out.clone()),
                residuals: done.residuals,
                site: self.site(),
                kind: Kind::Op(op),
            }))
        } else {
            None
        };
        Var { tape: self, value: done.out, node }
    }

    /// Runs `f` with `name` added to the path that nodes remember: `tape.scope("h3", || …)`.
    pub fn scope<R>(&self, name: &str, f: impl FnOnce() -> R) -> R {
        if !self.on && self.observer.is_none() {
            return f();
        }
        let outer = self.scope.borrow().clone();
        let inner = if outer.is_empty() { name.into() } else { format!("{outer}.{name}").into() };
        *self.scope.borrow_mut() = inner;
        let result = f();
        *self.scope.borrow_mut() = outer;
        result
    }

    /// Number of nodes recorded.
    pub fn len(&self) -> usize {
        self.nodes.borrow().len()
    }

    /// Is nothing recorded?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Elements kept for the reverse pass; a value saved twice counts twice.
    pub fn saved_elements(&self) -> usize {
        let kept = |n: &Node<T>| n.ins.iter().flatten().chain(&n.out).chain(&n.residuals).map(Tensor::len).sum::<usize>();
        self.nodes.borrow().iter().map(kept).sum()
    }

    /// What was recorded, in order: step i is the node of index i.
    pub fn steps(&self) -> Vec<Step> {
        let step = |n: &Node<T>| {
            let op = match &n.kind {
                Kind::Leaf => None,
                Kind::Op(op) => Some(op.name()),
                Kind::Freed(name) => Some(*name),
            };
            Step { op, inputs: n.parents.clone(), site: n.site.clone() }
        };
        self.nodes.borrow().iter().map(step).collect()
    }

    /// The name of the first fused op recorded: one that has a definition in primitives.
    pub(crate) fn first_fused(&self) -> Option<&'static str> {
        let scratch = Self::off();
        let fused = |op: &dyn Op<T>, shapes: &[Shape]| {
            let ones: Vec<Var<'_, T>> = shapes.iter().map(|s| scratch.constant(Tensor::full(*s, T::one()))).collect();
            op.reference(&ones).is_some()
        };
        self.nodes.borrow().iter().find_map(|n| match &n.kind {
            Kind::Op(op) if fused(&**op, &n.shapes) => Some(op.name()),
            _ => None,
        })
    }

    fn push(&self, node: Node<T>) -> NodeId {
        let mut nodes = self.nodes.borrow_mut();
        nodes.push(node);
        NodeId::new(nodes.len() - 1)
    }

    #[track_caller]
    fn site(&self) -> Site {
        Site { at: Location::caller(), scope: self.scope.borrow().clone() }
    }
}

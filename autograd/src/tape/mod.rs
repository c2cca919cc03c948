//! The tape: a list of the computed ops, in order.
//!
//! Every application of an op is pushed at the end, so the order of the nodes *is* a topological order, and the
//! [reverse pass](backward) is a loop from the last to the first. A node refers to earlier ones by index.

use std::cell::RefCell;
use std::panic::Location;
use std::sync::Arc;

use gradus_tensor::{Device, Real, Shape, Tensor};

pub mod backward;
mod node;
pub mod observer;
pub mod op;
mod pullback;
mod reached;
mod var;

use node::{Application, Kind, Node};
use observer::Observer;
use op::{AnyOp, Op};

pub use node::{NodeId, Recorded, Site};
pub use var::Var;

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
    nodes: RefCell<Vec<Node<T>>>,
    scope: RefCell<Arc<str>>,
    on: bool,
    observer: RefCell<Option<Arc<dyn Observer<T>>>>,
}

impl<T: Real> Default for Tape<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Real> Tape<T> {
    /// Creates an empty tape.
    pub fn new() -> Self {
        Tape { nodes: RefCell::default(), scope: RefCell::new("".into()), on: true, observer: RefCell::default() }
    }

    /// Creates an empty tape with an [observer](mod@observer).
    pub fn observed(observer: Arc<dyn Observer<T>>) -> Self {
        Self::new().observed_by(Some(observer))
    }

    /// Returns this tape with an [observer](mod@observer), or with none.
    pub fn observed_by(self, observer: Option<Arc<dyn Observer<T>>>) -> Self {
        Tape { observer: RefCell::new(observer), ..self }
    }

    /// Creates a tape that records nothing, for evaluation without gradients.
    pub fn off() -> Self {
        Tape { on: false, ..Self::new() }
    }

    /// Adds a leaf, a value with respect to which results can be differentiated.
    #[track_caller]
    pub fn leaf(&self, value: Tensor<T>) -> Var<'_, T> {
        let node = self.on.then(|| self.next_id());
        if let Some(node) = node {
            let site = self.site(Location::caller());
            self.tell_leaf(node, &value, &site);
            self.push(Node { kind: Kind::Leaf { first_reader: None }, parents: Vec::new(), site });
        }
        Var { tape: self, value, node }
    }

    /// Returns a value without a node, to which no gradient flows.
    pub fn constant(&self, value: Tensor<T>) -> Var<'_, T> {
        Var { tape: self, value, node: None }
    }

    /// Applies an op. Only an op with samples, which can be checked, is recorded.
    ///
    /// Panics if the inputs' shapes break the op's rule, or if an input is on another tape.
    #[track_caller]
    pub fn apply<'t, O: Op<T>>(&'t self, op: O, ins: &[&Var<'t, T>]) -> Var<'t, T> {
        self.record(<dyn AnyOp<T>>::of(op), ins)
    }

    /// Computes y = f(x₀, x₁, …), and records a node if a gradient must flow back through f.
    #[track_caller]
    pub(crate) fn record<'t>(&'t self, op: Arc<dyn AnyOp<T>>, ins: &[&Var<'t, T>]) -> Var<'t, T> {
        assert!(ins.iter().all(|x| std::ptr::eq(x.tape, self)), "{}: an input is on another tape", op.name());
        let (x, shapes): (Vec<&Tensor<T>>, Vec<&Shape>) = ins.iter().map(|x| (&x.value, x.value.shape())).unzip();
        let expected = op.shape(&shapes).unwrap_or_else(|e| panic!("{e}"));
        let device = x.first().map_or(Device::CPU, |x| x.device());
        if !op.runs_on(&device) {
            return self.by_reference(&*op, ins, &device);
        }
        let node = (self.on && ins.iter().any(|x| x.node.is_some())).then(|| self.next_id());

        let mut y = self.evaluate(&op, ins, &x, node, Location::caller());

        assert_eq!(*y.out.shape(), expected, "{} broke its own shape rule", op.name());
        if node.is_some() {
            let (parents, site) = (ins.iter().map(|x| x.node).collect(), self.site(Location::caller()));
            self.push(Node { kind: Kind::Applied(Application::of(op, &x, &mut y)), parents, site });
        }
        Var { tape: self, value: y.out, node }
    }

    /// Records an op's definition in primitives, for a device that has no kernel for the op itself.
    fn by_reference<'t>(&'t self, op: &dyn AnyOp<T>, ins: &[&Var<'t, T>], device: &Device) -> Var<'t, T> {
        let ins: Vec<Var<'t, T>> = ins.iter().map(|&x| x.clone()).collect();
        self.scope(op.name(), || op.reference(&ins)).unwrap_or_else(|| {
            panic!(
                "`{}` has neither a kernel for {device} nor a reference in primitives: state one, or compute on the CPU",
                op.name()
            )
        })
    }

    /// Runs `f` with `name` added to the scope of the nodes that it records: `tape.scope("h3", || …)`.
    pub fn scope<R>(&self, name: &str, f: impl FnOnce() -> R) -> R {
        if !self.on && self.observer.borrow().is_none() {
            return f();
        }
        let outer = self.scope.borrow().clone();
        let inner = if outer.is_empty() { name.into() } else { format!("{outer}.{name}").into() };
        *self.scope.borrow_mut() = inner;
        let result = f();
        *self.scope.borrow_mut() = outer;
        result
    }

    /// Returns the number of nodes recorded.
    pub fn len(&self) -> usize {
        self.nodes.borrow().len()
    }

    /// Returns whether no node is recorded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of elements saved for the reverse pass; a value saved twice counts twice.
    pub fn saved_elements(&self) -> usize {
        self.nodes.borrow().iter().filter_map(Node::application).flat_map(Application::kept).map(Tensor::len).sum()
    }

    /// Returns the recorded nodes in order: entry i is the node of index i.
    pub fn recorded(&self) -> Vec<Recorded> {
        let recorded = |n: &Node<T>| Recorded { op: n.name(), inputs: n.parents.clone(), site: n.site.clone() };
        self.nodes.borrow().iter().map(recorded).collect()
    }

    /// Returns the name of the first fused op recorded, that is, the first op with a definition in primitives.
    pub(crate) fn first_fused(&self) -> Option<&'static str> {
        let scratch = Self::off();
        let fused = |it: &&Application<T>| {
            let ones: Vec<Var<'_, T>> = it.shapes.iter().map(|s| scratch.constant(Tensor::full(*s, T::one()))).collect();
            it.op.reference(&ones).is_some()
        };
        self.nodes.borrow().iter().filter_map(Node::application).find(fused).map(|it| it.op.name())
    }

    /// Returns the id of the next node.
    fn next_id(&self) -> NodeId {
        NodeId::new(self.len())
    }

    fn push(&self, node: Node<T>) {
        let mut nodes = self.nodes.borrow_mut();
        let id = NodeId::new(nodes.len());
        for parent in node.parents.iter().flatten() {
            if let Kind::Leaf { first_reader } = &mut nodes[parent.index()].kind {
                first_reader.get_or_insert(id);
            }
        }
        nodes.push(node);
    }

    fn site(&self, at: &'static Location<'static>) -> Site {
        Site { at, scope: self.scope.borrow().clone() }
    }
}

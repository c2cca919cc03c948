//! A value on a tape.

use std::fmt;

use gradus_tensor::{Real, Shape, Tensor};

use super::{NodeId, Tape};

/// A tensor and its place on a tape. A `Var` without a node is a constant: nothing flows back through it.
///
/// It stays on its tape's thread; a worker makes its own tape.
///
/// ```
/// fn can_move<X: Send>() {}
/// can_move::<gradus_autograd::Tape>();
/// ```
/// ```compile_fail,E0277
/// fn can_move<X: Send>() {}
/// can_move::<gradus_autograd::Var<'static>>();
/// ```
#[derive(Clone)]
pub struct Var<'t, T: Real = f32> {
    pub(super) tape: &'t Tape<T>,
    pub(super) value: Tensor<T>,
    pub(super) node: Option<NodeId>,
}

impl<'t, T: Real> Var<'t, T> {
    /// The tape it is on.
    pub fn tape(&self) -> &'t Tape<T> {
        self.tape
    }
    /// Its value.
    pub fn value(&self) -> &Tensor<T> {
        &self.value
    }
    /// Its value, without the place on the tape.
    pub fn into_value(self) -> Tensor<T> {
        self.value
    }
    /// The shape of its value.
    pub fn shape(&self) -> &Shape {
        self.value.shape()
    }
    /// Its node; `None` for a constant.
    pub fn node(&self) -> Option<NodeId> {
        self.node
    }
    /// A value on this tape that no gradient flows to.
    pub fn constant(&self, value: Tensor<T>) -> Self {
        self.tape.constant(value)
    }
    /// Zeros of this shape, as a constant.
    pub fn zeros_like(&self) -> Self {
        self.constant(self.value.zeros_like(*self.shape()))
    }
    /// The same value as a constant: the gradient stops here.
    pub fn detach(&self) -> Self {
        self.tape.constant(self.value.clone())
    }
}

impl<T: Real> fmt::Debug for Var<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.node {
            Some(n) => write!(f, "%{} = {:?}", n.index(), self.value),
            None => write!(f, "constant {:?}", self.value),
        }
    }
}

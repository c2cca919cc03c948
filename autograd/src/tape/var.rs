//! A value on a tape. A tape can move to another thread; a value on it cannot:
//!
//! ```
//! fn can_move<X: Send>() {}
//! can_move::<gradus_autograd::Tape>();
//! ```
//! ```compile_fail,E0277
//! fn can_move<X: Send>() {}
//! can_move::<gradus_autograd::Var<'static>>();
//! ```

use std::fmt;

use gradus_tensor::{Real, Shape, Tensor};

use super::{NodeId, Tape};

/// A tensor and its place on a tape. A `Var` without a node is a constant: nothing flows back through it.
///
/// ```
/// use gradus_autograd::{Tape, Tensor};
/// let tape = Tape::new();
/// let x = tape.leaf(Tensor::new([2, 2], vec![1.0f64, 2.0, 3.0, 4.0]));
/// let y = (2.0 * &x + 1.0).log().mean(&[1]); // operators, and a method for each op
/// assert_eq!(*y.shape(), [2, 1].into());
/// let gradient = tape.backward(&y.sum_all()).take(&x).unwrap(); // 1/(2x + 1)
/// assert!((gradient.to_vec()[0] - 1.0 / 3.0).abs() < 1e-15);
/// ```
///
/// The documentation of each method links to the op's formula and derivative. The ops of `+ − × ÷` are
/// [`add`](mod@crate::ops::add), [`sub`](mod@crate::ops::sub), [`mul`](mod@crate::ops::mul), [`div`](mod@crate::ops::div) and,
/// with a number, [`affine`](mod@crate::ops::affine). Operands of different shapes are broadcast.
///
/// A `Var` stays on its tape's thread; each worker thread makes its own tape.
#[derive(Clone)]
pub struct Var<'t, T: Real = f32> {
    pub(super) tape: &'t Tape<T>,
    pub(super) value: Tensor<T>,
    pub(super) node: Option<NodeId>,
}

impl<'t, T: Real> Var<'t, T> {
    /// Returns the tape it is on.
    pub fn tape(&self) -> &'t Tape<T> {
        self.tape
    }
    /// Returns its value.
    pub fn value(&self) -> &Tensor<T> {
        &self.value
    }
    /// Returns its value, without the place on the tape.
    pub fn into_value(self) -> Tensor<T> {
        self.value
    }
    /// Returns the shape of its value.
    pub fn shape(&self) -> &Shape {
        self.value.shape()
    }
    /// Returns its node; `None` for a constant.
    pub fn node(&self) -> Option<NodeId> {
        self.node
    }
    /// Returns a value on this tape to which no gradient flows.
    pub fn constant(&self, value: Tensor<T>) -> Self {
        self.tape.constant(value)
    }
    /// Returns zeros of this shape, as a constant.
    pub fn zeros_like(&self) -> Self {
        self.constant(self.value.zeros_like(*self.shape()))
    }
    /// Returns the same value as a constant, so that the gradient stops here.
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

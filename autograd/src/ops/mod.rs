//! The table of contents: every file is one op, listed once in [`all`].

use gradus_tensor::{Real, Shape, ShapeError};

use crate::Entry;

mod add;
mod affine;
mod expand;
mod gelu;
mod matmul;
mod mul;
mod permute;
mod reshape;
mod sum;
mod tanh;

pub mod operators;
pub mod pointwise;

/// Every op of this crate, in alphabetical order. Gradient checks, the catalogue and the FLOP audit loop over it.
pub fn all<T: Real>() -> Vec<Entry<T>> {
    use pointwise::Elementwise;
    vec![
        Entry::of::<add::Add>(),
        Entry::of::<affine::Affine>(),
        Entry::of::<expand::Expand>(),
        Entry::of::<gelu::Gelu>(),
        Entry::of::<matmul::MatMul>(),
        Entry::of::<mul::Mul>(),
        Entry::of::<permute::Permute>(),
        Entry::of::<reshape::Reshape>(),
        Entry::of::<sum::Sum>(),
        Entry::of::<Elementwise<tanh::Tanh>>(),
    ]
}

/// The shape rule of elementwise ops.
pub(crate) fn same(op: &'static str, ins: &[&Shape]) -> Result<Shape, ShapeError> {
    if ins.windows(2).all(|w| w[0] == w[1]) { Ok(*ins[0]) } else { Err(ShapeError::new(op, "inputs of one shape", ins)) }
}

/// Number of elements as a count of operations.
pub(crate) fn numel(shape: &Shape) -> u64 {
    shape.numel() as u64
}

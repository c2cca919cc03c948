//! The ops, one module each. A module's documentation begins with the function and its derivative. [`all`] lists the ops.

use crate::{Entry, Real, Shape};

pub mod add;
pub mod affine;
pub mod attention;
pub mod concat;
pub mod cross_entropy;
pub mod div;
pub mod dropout;
pub mod erf;
pub mod exp;
pub mod expand;
pub mod gather;
pub mod gelu;
pub mod layer_norm;
pub mod linear;
pub mod linear_cross_entropy;
pub mod linear_gelu;
pub mod log;
pub mod log_softmax;
pub mod lstm;
pub mod lstm_cell;
pub mod matmul;
pub mod max;
pub mod mul;
pub mod pad;
pub mod permute;
pub mod relu;
pub mod reshape;
pub mod rms_norm;
pub mod scatter_add;
pub mod select;
pub mod self_attention;
pub mod sigmoid;
pub mod slice;
pub mod softmax;
pub mod softplus;
pub mod sqrt;
pub mod sub;
pub mod sum;
pub mod tanh;

pub use attention::Attention;

pub mod operators;
pub mod pointwise;

/// Returns every op of this crate in alphabetical order, one line for each file. Checks, audits and pages loop over the list.
pub fn all<T: Real>() -> Vec<Entry<T>> {
    vec![
        Entry::of::<add::Add>(),
        Entry::of::<affine::Affine>(),
        Entry::of::<attention::Attention>(),
        Entry::of::<concat::Concat>(),
        Entry::of::<cross_entropy::CrossEntropy>(),
        Entry::of::<div::Div>(),
        Entry::of::<dropout::Dropout>(),
        Entry::of::<erf::Erf>(),
        Entry::of::<exp::Exp>(),
        Entry::of::<expand::Expand>(),
        Entry::of::<gather::Gather>(),
        Entry::of::<gelu::Gelu>(),
        Entry::of::<layer_norm::LayerNorm>(),
        Entry::of::<linear::Linear>(),
        Entry::of::<linear_cross_entropy::LinearCrossEntropy>(),
        Entry::of::<linear_gelu::LinearGelu>(),
        Entry::of::<log::Log>(),
        Entry::of::<log_softmax::LogSoftmax>(),
        Entry::of::<lstm::Lstm>(),
        Entry::of::<lstm_cell::LstmCell>(),
        Entry::of::<matmul::MatMul>(),
        Entry::of::<max::Max>(),
        Entry::of::<mul::Mul>(),
        Entry::of::<pad::Pad>(),
        Entry::of::<permute::Permute>(),
        Entry::of::<relu::Relu>(),
        Entry::of::<reshape::Reshape>(),
        Entry::of::<rms_norm::RmsNorm>(),
        Entry::of::<scatter_add::ScatterAdd>(),
        Entry::of::<select::Select<T>>(),
        Entry::of::<self_attention::SelfAttention>(),
        Entry::of::<sigmoid::Sigmoid>(),
        Entry::of::<slice::Slice>(),
        Entry::of::<softmax::Softmax>(),
        Entry::of::<softplus::Softplus>(),
        Entry::of::<sqrt::Sqrt>(),
        Entry::of::<sub::Sub>(),
        Entry::of::<sum::Sum>(),
        Entry::of::<tanh::Tanh>(),
    ]
}

/// Returns the shape for functions of rows along the last axis.
pub(crate) fn rows(ins: &[&Shape]) -> Result<Shape, String> {
    if ins[0].last().is_some_and(|&n| n > 0) { Ok(*ins[0]) } else { Err("[…,n] with n ≥ 1".into()) }
}

/// Returns the number of elements as a count of operations.
pub(crate) fn numel(shape: &Shape) -> u64 {
    shape.numel() as u64
}

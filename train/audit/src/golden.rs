//! A comparison of ops with those of PyTorch, at one input each: an extra witness for the ops with a case in `golden.json`.
//!
//! `tests/golden/ops.py` writes that file and needs PyTorch. An op without a case is checked only by the witnesses of
//! [`gradus_autograd::check`], and its page states so. Dropout cannot have a case: its mask is specific to this project.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use gradus_autograd::ops::Attention;
use gradus_autograd::{Tape, Tensor, Var};
use gradus_tensor::Mask;
use serde::Deserialize;

/// The errors of an op against PyTorch's, in f64, relative to the largest entry of each tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Golden {
    /// The error of the op's value.
    pub value: f64,
    /// The largest error of the op's gradients.
    pub gradient: f64,
}

impl Golden {
    /// The largest error allowed: both implementations round, in different orders.
    pub const TOLERANCE: f64 = 1e-13;

    /// Returns the larger of the two errors.
    pub fn worst(&self) -> f64 {
        self.value.max(self.gradient)
    }
}

/// The application of an op on a tape.
type Apply = for<'t> fn(&[Var<'t, f64>]) -> Var<'t, f64>;

/// The ops of `golden.json`, applied as in `tests/golden/ops.py`.
const APPLY: &[(&str, Apply)] = &[
    ("add", |x| &x[0] + &x[1]),
    ("affine", |x| x[0].affine(1.7, -0.3)),
    ("attention", |x| x[0].attention(&x[1], &x[2], None, causal())),
    ("concat", |x| Var::concat(&[&x[0], &x[1]], 1)),
    ("cross_entropy", |x| x[0].cross_entropy([4, 0, 2])),
    ("div", |x| &x[0] / &x[1]),
    ("erf", |x| x[0].erf()),
    ("exp", |x| x[0].exp()),
    ("expand", |x| x[0].expand([2, 3, 4])),
    ("gather", |x| x[0].gather(IDS, [2, 2])),
    ("gelu", |x| x[0].gelu()),
    ("layer_norm", |x| x[0].layer_norm(&x[1], &x[2], 1e-5)),
    ("linear", |x| x[0].linear(&x[1], &x[2])),
    ("linear_cross_entropy", |x| x[0].linear_cross_entropy(&x[1], None, [3, 0, 2].into(), [0.5, 0.25, 2.0].into())),
    ("log", |x| x[0].log()),
    ("log_softmax", |x| x[0].log_softmax()),
    ("lstm", |x| x[0].lstm(&x[1])),
    ("lstm_cell", |x| {
        let (h, c) = x[0].lstm_cell(&x[1]);
        let both = Var::concat(&[&h, &c], 0);
        let [b, units] = x[1].shape()[..] else { panic!("a matrix") };
        both.reshape([2, b, units])
    }),
    ("matmul", |x| x[0].matmul(&x[1])),
    ("max", |x| x[0].max(1)),
    ("mul", |x| &x[0] * &x[1]),
    ("pad", |x| x[0].pad(1, 1, 2)),
    ("permute", |x| x[0].permute(&[2, 0, 1])),
    ("relu", |x| x[0].relu()),
    ("reshape", |x| x[0].reshape([3, 4])),
    ("scatter_add", |x| x[0].scatter_add(IDS, 3)),
    ("select", |x| x[0].select(&Tensor::new([2, 3], vec![1.0, 0.0, 1.0, 0.0, 0.0, 1.0]), &x[1])),
    ("self_attention", |x| x[0].self_attention(2, causal())),
    ("sigmoid", |x| x[0].sigmoid()),
    ("slice", |x| x[0].slice(1, 1..4)),
    ("softmax", |x| x[0].softmax()),
    ("sqrt", |x| x[0].sqrt()),
    ("sub", |x| &x[0] - &x[1]),
    ("sum", |x| x[0].sum(&[0, 2])),
    ("tanh", |x| x[0].tanh()),
];

const IDS: [u32; 4] = [2, 0, 2, 1];

fn causal() -> Attention {
    Attention::new(Mask::Causal)
}

/// A tensor of the file.
#[derive(Deserialize)]
struct Array {
    shape: Vec<usize>,
    values: Vec<f64>,
}

impl Array {
    fn tensor(&self) -> Tensor<f64> {
        Tensor::new(&self.shape[..], self.values.clone())
    }
}

/// The case of an op.
#[derive(Deserialize)]
struct Case {
    inputs: Vec<Array>,
    y: Array,
    gy: Array,
    gradients: Vec<Array>,
}

/// The contents of the file.
#[derive(Deserialize)]
struct File {
    torch: String,
    ops: BTreeMap<String, Case>,
}

static FILE: LazyLock<File> =
    LazyLock::new(|| serde_json::from_str(include_str!("golden.json")).expect("the file that tests/golden/ops.py writes"));

/// Returns the version of PyTorch that computed the values.
pub fn torch() -> &'static str {
    &FILE.torch
}

/// Returns the errors of an op at PyTorch's input, or `None` if `golden.json` has no case of it.
pub fn golden(name: &str) -> Option<Golden> {
    let (_, apply) = APPLY.iter().find(|(op, _)| *op == name)?;
    let case = FILE.ops.get(name)?;
    let tape = Tape::new();
    let ins: Vec<Var<'_, f64>> = case.inputs.iter().map(|x| tape.leaf(x.tensor())).collect();
    let y = apply(&ins);
    let value = difference(y.value(), &case.y.tensor());
    let grads = tape.backward_from(&y, case.gy.tensor());
    let off = |(x, expected): (&Var<'_, f64>, &Array)| grads.of(x).map_or(f64::INFINITY, |g| difference(g, &expected.tensor()));
    Some(Golden { value, gradient: ins.iter().zip(&case.gradients).map(off).fold(0.0, f64::max) })
}

/// Returns the largest difference, relative to the largest entry of `expected`; infinite if shapes differ or a number is
/// non-finite.
fn difference(found: &Tensor<f64>, expected: &Tensor<f64>) -> f64 {
    if found.shape() != expected.shape() {
        return f64::INFINITY;
    }
    let largest = |t: &Tensor<f64>| t.to_vec().into_iter().map(f64::abs).max_by(f64::total_cmp).unwrap_or(0.0);
    let off = largest(&found.zip(expected, |a, b| a - b));
    match off {
        0.0 => 0.0,
        _ if off.is_nan() => f64::INFINITY,
        _ => off / largest(expected),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_non_finite_difference_is_infinite() {
        let t = |values: &[f64]| Tensor::new([values.len()], values.to_vec());
        assert_eq!(difference(&t(&[1.0, 2.0]), &t(&[1.0, 4.0])), 0.5);
        assert_eq!(difference(&t(&[0.0, 0.0]), &t(&[0.0, 0.0])), 0.0);
        for found in [t(&[f64::NAN, 4.0]), t(&[1.0, f64::INFINITY]), t(&[1.0])] {
            assert_eq!(difference(&found, &t(&[1.0, 4.0])), f64::INFINITY);
        }
        assert_eq!(difference(&t(&[1.0]), &t(&[0.0])), f64::INFINITY);
    }

    #[test]
    fn every_op_with_a_case_matches_pytorch() {
        for name in FILE.ops.keys() {
            let golden = golden(name).unwrap_or_else(|| panic!("{name}: golden.json has a case that APPLY does not apply"));
            assert!(golden.worst() <= Golden::TOLERANCE, "{name}: {golden:?}");
        }
    }

    #[test]
    fn every_case_is_of_an_op() {
        let ops: Vec<&str> = gradus_autograd::ops::all::<f64>().iter().map(|op| op.name).collect();
        for (name, _) in APPLY {
            let known = ops.contains(name) && FILE.ops.contains_key(*name);
            assert!(known, "{name}: run tests/golden/ops.py, or take it out of APPLY");
        }
    }
}

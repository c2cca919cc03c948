//! Would the witnesses notice a mistake?
//!
//! Samples decide what a check is worth: where every derivative is 0 (a saturated tanh, a relu below its kink, rows of one
//! element under softmax) any VJP passes. So an error is planted, and each first-order witness must notice it.

use std::sync::Arc;

use gradus_tensor::{Shape, ShapeError, Tensor};

use super::{Subject, Witness, adjoint, differences, forward_mode};
use crate::op::AnyOp;
use crate::{Evaluated, Saved, Saves, Var, Want};

/// A relative error that must not go unnoticed.
const ERROR: f64 = 1e-3;
/// Draws of samples among which it must be noticed, and their size.
const SEEDS: std::ops::Range<u64> = 0..8;
const SIZE: usize = 3;

/// Why the samples of an op prove nothing.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Toothless {
    /// There are none.
    #[error("`{0}` has no samples: add inputs from its domain to samples()")]
    NoSamples(&'static str),
    /// An input in whose gradient a witness misses the error.
    #[error(
        "`{op}`: {witness} does not notice an error of 0.1 % in the gradient of input {input}; add samples on which it is not 0"
    )]
    Unseen {
        /// The op.
        op: &'static str,
        /// The input.
        input: usize,
        /// The witness that passes the wrong gradient.
        witness: &'static str,
    },
}

/// For every input of the op there is a sample on which each first-order witness refuses a gradient that is off by 0.1 %.
pub fn teeth(subject: &Subject) -> Result<(), Toothless> {
    let cases: Vec<_> = SEEDS.flat_map(|seed| subject.cases(seed, SIZE)).collect();
    let Some(inputs) = cases.iter().map(|c| c.real.inputs.len()).max() else {
        return Err(Toothless::NoSamples(subject.name()));
    };
    let witnesses: [(&'static str, Witness); 3] =
        [("forward_mode", forward_mode), ("differences", differences), ("adjoint", adjoint)];
    for input in 0..inputs {
        for (name, witness) in witnesses {
            let seen = cases.iter().filter(|c| input < c.real.inputs.len()).any(|case| {
                let mut case = case.clone();
                case.real.op = Arc::new(Wrong { op: case.real.op, input });
                witness(&case).is_err()
            });
            if !seen {
                return Err(Toothless::Unseen { op: subject.name(), input, witness: name });
            }
        }
    }
    Ok(())
}

/// An op with a VJP that is off by 0.1 % for one input.
#[derive(Debug)]
struct Wrong {
    op: Arc<dyn AnyOp<f64>>,
    input: usize,
}

impl AnyOp<f64> for Wrong {
    fn name(&self) -> &'static str {
        self.op.name()
    }
    fn shape(&self, ins: &[&Shape]) -> Result<Shape, ShapeError> {
        self.op.shape(ins)
    }
    fn flops(&self, ins: &[&Shape], out: &Shape) -> u64 {
        self.op.flops(ins, out)
    }
    fn saves(&self) -> Saves {
        self.op.saves()
    }
    fn on_gpu(&self) -> bool {
        self.op.on_gpu()
    }
    fn eval(&self, ins: &[&Tensor<f64>], want: Want) -> Evaluated<f64> {
        self.op.eval(ins, want)
    }
    fn vjp<'t>(&self, saved: &Saved<'t, f64>, gy: &Var<'t, f64>) -> Vec<Option<Var<'t, f64>>> {
        let mut gx = self.op.vjp(saved, gy);
        gx[self.input] = gx[self.input].take().map(|g| (1.0 + ERROR) * g);
        gx
    }
    fn add_vjp(&self, _: &Saved<'_, f64>, _: &Tensor<f64>, _: &mut Tensor<f64>) -> bool {
        false
    }
    fn reference<'t>(&self, _: &[Var<'t, f64>]) -> Option<Var<'t, f64>> {
        None
    }
}

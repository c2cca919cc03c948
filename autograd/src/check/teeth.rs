//! A test of the witnesses: whether they detect a planted error.
//!
//! A check depends on its samples: if every derivative is 0 (a saturated tanh, a relu below its kink, rows of one element under
//! softmax), any VJP passes. So an error is planted, and each first-order witness must detect it.

use std::sync::Arc;

use gradus_tensor::{Device, Real, Shape, ShapeError, Tensor};

use super::case::drawn;
use super::{Subject, Witness, adjoint, adjoint_on, differences, forward_mode};
use crate::op::AnyOp;
use crate::{Entry, Evaluated, Sample, Samples, Saved, Saves, Var, Want};

/// The relative error that must be detected.
const ERROR: f64 = 1e-3;
/// The seeds among whose samples it must be detected.
const SEEDS: std::ops::Range<u64> = 0..8;
const SIZE: usize = 3;

/// The reason why the samples of an op prove nothing.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Toothless {
    /// The op has no samples.
    #[error("`{0}` has no samples: add inputs from its domain to samples()")]
    NoSamples(&'static str),
    /// An input in whose gradient a witness misses the error.
    #[error(
        "`{op}`: {witness} does not detect an error of 0.1 % in the gradient of input {input}; add samples on which it is not 0"
    )]
    Unseen {
        /// The name of the op.
        op: &'static str,
        /// The index of the input.
        input: usize,
        /// The witness that accepts the wrong gradient.
        witness: &'static str,
    },
}

/// Checks that for every input of the op there is a sample on which each first-order witness rejects a gradient that is off by
/// 0.1 %.
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

/// Checks in the same way that [`adjoint_on`](super::adjoint_on()) rejects such a gradient, on samples in f32 on `device`.
pub fn teeth_on(op: &Entry<f32>, device: &Device) -> Result<(), Toothless> {
    let of_seed = |seed| drawn(op, Samples::new(seed, SIZE).on(device), seed).into_iter().enumerate();
    let samples: Vec<_> = SEEDS.flat_map(|seed| of_seed(seed).map(move |(number, sample)| (seed, number, sample))).collect();
    let Some(inputs) = samples.iter().map(|(_, _, sample)| sample.inputs.len()).max() else {
        return Err(Toothless::NoSamples(op.name));
    };
    for input in 0..inputs {
        let seen = samples.iter().filter(|(_, _, sample)| input < sample.inputs.len()).any(|(seed, number, sample)| {
            let wrong = Sample { op: Arc::new(Wrong { op: sample.op.clone(), input }), inputs: sample.inputs.clone() };
            adjoint_on::of_sample(&wrong, *number, device, *seed, SIZE).is_err()
        });
        if !seen {
            return Err(Toothless::Unseen { op: op.name, input, witness: "adjoint_on" });
        }
    }
    Ok(())
}

/// An op with a VJP that is off by 0.1 % for one input.
#[derive(Debug)]
struct Wrong<T: Real> {
    op: Arc<dyn AnyOp<T>>,
    input: usize,
}

impl<T: Real> Wrong<T> {
    fn off<'t>(&self, mut gx: Vec<Option<Var<'t, T>>>) -> Vec<Option<Var<'t, T>>> {
        gx[self.input] = gx[self.input].take().map(|g| (1.0 + ERROR) * g);
        gx
    }
}

impl<T: Real> AnyOp<T> for Wrong<T> {
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
    fn runs_on(&self, device: &Device) -> bool {
        self.op.runs_on(device)
    }
    fn eval(&self, ins: &[&Tensor<T>], want: Want) -> Evaluated<T> {
        self.op.eval(ins, want)
    }
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        self.off(self.op.vjp(saved, gy))
    }
    fn vjp_once<'t>(&self, saved: Saved<'t, T>, gy: Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        self.off(self.op.vjp_once(saved, gy))
    }
    fn add_vjp(&self, _: &Saved<'_, T>, _: &Tensor<T>, _: &mut Tensor<T>) -> bool {
        false
    }
    fn reference<'t>(&self, _: &[Var<'t, T>]) -> Option<Var<'t, T>> {
        None
    }
}

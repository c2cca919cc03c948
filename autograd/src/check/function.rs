//! Any function of tensors as a case for the witnesses: a formula, an objective, or a whole model.

use std::fmt::Debug;
use std::sync::Arc;

use gradus_tensor::{Device, Real, Shape, ShapeError, Tensor};

use super::{Case, Outcome, WITNESSES, Witness};
use crate::op::AnyOp;
use crate::{Evaluated, Sample, Saved, Saves, Tape, Var, Want};

/// A function of tensors, written for any scalar. On `f64` a tape differentiates it, on [`Dual`](super::Dual) the chain rule.
///
/// ```
/// use gradus_autograd::check::{self, Function};
/// use gradus_autograd::{Real, Tensor, Var};
///
/// #[derive(Debug)]
/// struct Layer; // f(x, W) = Σ tanh(xW)²
/// impl Function for Layer {
///     fn call<'t, T: Real>(&self, ins: &[Var<'t, T>]) -> Var<'t, T> {
///         let y = ins[0].matmul(&ins[1]).tanh();
///         (&y * &y).sum_all()
///     }
/// }
/// let [x, w] = [0.3, -0.8].map(|v| Tensor::new([2, 2], vec![v, 0.5, 1.0, v]));
/// check::function("layer", Layer, &[x, w], 17).into_iter().for_each(|witness| drop(witness.unwrap()));
/// ```
pub trait Function: Debug + Send + Sync + 'static {
    /// Computes y = f(x₀, x₁, …). Everything in `ins` is differentiable; constants come from their tape.
    fn call<'t, T: Real>(&self, ins: &[Var<'t, T>]) -> Var<'t, T>;
}

/// The witnesses of a function's derivatives. They exclude the witnesses of an op's definition and cost
/// ([`fused`](super::fused()), [`audit`](super::audit())).
pub const DERIVATIVES: [(&str, Witness); 6] = *WITNESSES.first_chunk().unwrap();

impl Case {
    /// Creates the case of a function at these inputs; `seed` draws cotangents and directions. The function becomes a fused op,
    /// and the ops that it records are the definition.
    pub fn of<F: Function>(name: &'static str, f: F, inputs: &[Tensor<f64>], seed: u64) -> Self {
        let tape = Tape::off();
        let out = *f.call(&inputs.iter().map(|x| tape.constant(x.clone())).collect::<Vec<Var<'_, f64>>>()).shape();
        let whole = Arc::new(Whole { name, f, ins: inputs.iter().map(|x| *x.shape()).collect(), out });
        Case {
            real: Sample { op: whole.clone(), inputs: inputs.to_vec() },
            dual: Sample { op: whole.clone(), inputs: inputs.iter().map(Tensor::cast).collect() },
            count: Sample { op: whole, inputs: inputs.iter().map(Tensor::cast).collect() },
            sample: 0,
            seed,
            size: 1,
            whole: true,
        }
    }
}

/// Runs every witness of derivatives on a function. Returns the report or failure of each witness.
///
/// ```
/// use gradus_autograd::check::{self, Function};
/// use gradus_autograd::{Real, Tensor, Var};
///
/// /// −log softmax(Wx)₀
/// #[derive(Debug)]
/// struct Surprise;
/// impl Function for Surprise {
///     fn call<'t, T: Real>(&self, ins: &[Var<'t, T>]) -> Var<'t, T> {
///         let log_p = ins[0].matmul(&ins[1]).permute(&[1, 0]).log_softmax();
///         -log_p.slice(1, 0..1).sum_all()
///     }
/// }
/// let w = Tensor::new([3, 2], vec![0.5, -1.0, 0.3, 0.9, -0.7, 0.2]);
/// let x = Tensor::new([2, 1], vec![1.5, -0.4]);
/// for outcome in check::function("surprise", Surprise, &[w, x], 17) {
///     println!("{}", outcome?);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn function<F: Function>(name: &'static str, f: F, inputs: &[Tensor<f64>], seed: u64) -> Vec<Outcome> {
    let case = Case::of(name, f, inputs, seed);
    DERIVATIVES.iter().map(|(_, witness)| witness(&case)).collect()
}

/// A function as an op, for inputs of these shapes.
#[derive(Debug)]
struct Whole<F> {
    name: &'static str,
    f: F,
    ins: Vec<Shape>,
    out: Shape,
}

impl<T: Real, F: Function> AnyOp<T> for Whole<F> {
    fn name(&self) -> &'static str {
        self.name
    }
    fn shape(&self, ins: &[&Shape]) -> Result<Shape, ShapeError> {
        let same = ins.len() == self.ins.len() && ins.iter().zip(&self.ins).all(|(a, b)| *a == b);
        if same { Ok(self.out) } else { Err(ShapeError::new(self.name, "the input shapes of the first call", ins)) }
    }
    fn flops(&self, _: &[&Shape], _: &Shape) -> u64 {
        0 // no cost is stated
    }
    fn runs_on(&self, _: &Device) -> bool {
        true
    }
    fn saves(&self) -> Saves {
        Saves::INPUTS
    }
    fn eval(&self, ins: &[&Tensor<T>], _: Want) -> Evaluated<T> {
        let tape = Tape::off();
        self.f.call(&ins.iter().map(|&x| tape.constant(x.clone())).collect::<Vec<_>>()).into_value().into()
    }
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        let tape = Tape::new();
        let input = |i: usize| {
            let x = saved.x(i).value().clone();
            if saved.needs(i) { tape.leaf(x) } else { tape.constant(x) }
        };
        let ins: Vec<Var<'_, T>> = (0..self.ins.len()).map(input).collect();
        let mut grads = tape.backward_from(&self.f.call(&ins), gy.value().clone());
        ins.iter().map(|x| grads.take(x).map(|g| gy.tape().constant(g))).collect()
    }
    fn vjp_once<'t>(&self, saved: Saved<'t, T>, gy: Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        AnyOp::vjp(self, &saved, &gy)
    }
    fn add_vjp(&self, _: &Saved<'_, T>, _: &Tensor<T>, _: &mut Tensor<T>) -> bool {
        false
    }
    fn reference<'t>(&self, ins: &[Var<'t, T>]) -> Option<Var<'t, T>> {
        Some(self.f.call(ins))
    }
}

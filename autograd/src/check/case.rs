//! One op on one draw of inputs, in every scalar type that a witness uses.

use gradus_tensor::{Real, Tensor};

use super::{Count, Dual};
use crate::{Entry, Op, Sample, Samples, Tape, Var, Want, ops};

/// An op to check: its row in the list of ops, for each scalar type.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    real: Entry<f64>,
    dual: Entry<Dual>,
    count: Entry<Count>,
}

/// Returns every op of this crate.
pub fn subjects() -> Vec<Subject> {
    let rows = ops::all().into_iter().zip(ops::all()).zip(ops::all());
    rows.map(|((real, dual), count)| Subject { real, dual, count }).collect()
}

impl Subject {
    /// Creates the subject for an op of any crate.
    pub fn of<O: Op<f64> + Op<Dual> + Op<Count>>() -> Self {
        Subject { real: Entry::of::<O>(), dual: Entry::of::<O>(), count: Entry::of::<O>() }
    }
    /// Returns the op's name.
    pub fn name(&self) -> &'static str {
        self.real.name
    }
    /// Draws the op's samples for a seed, with extents up to `size`. Odd seeds store the last axis outermost.
    pub fn cases(&self, seed: u64, size: usize) -> Vec<Case> {
        let real = drawn(&self.real, Samples::new(seed, size), seed);
        let dual = drawn(&self.dual, Samples::new(seed, size), seed);
        let count = drawn(&self.count, Samples::new(seed, size), seed);
        let all = real.into_iter().zip(dual).zip(count).enumerate();
        all.map(|(sample, ((real, dual), count))| Case { real, dual, count, sample, seed, size, whole: false }).collect()
    }
}

/// Draws the op's samples. For odd seeds the last axis is outermost in memory; an op's result must not depend on this.
pub(super) fn drawn<T: Real>(op: &Entry<T>, mut g: Samples, seed: u64) -> Vec<Sample<T>> {
    let mut samples = (op.samples)(&mut g);
    if seed % 2 == 1 {
        samples.iter_mut().flat_map(|sample| &mut sample.inputs).for_each(|x| *x = turned(x));
    }
    samples
}

/// Returns the same values with the last axis outermost in memory.
fn turned<T: Real>(x: &Tensor<T>) -> Tensor<T> {
    let axes: Vec<usize> = (0..x.shape().len()).rev().collect();
    x.permute(&axes).dense().permute(&axes)
}

/// One op on one draw of inputs. The three samples are the same op on the same values: a seed draws them for every scalar.
#[derive(Clone, Debug)]
pub struct Case {
    /// The sample to check.
    pub real: Sample<f64>,
    /// The sample on dual numbers, evaluated with derivatives.
    pub dual: Sample<Dual>,
    /// The sample on counting numbers, evaluated with a count of operations.
    pub count: Sample<Count>,
    /// The index among the op's samples.
    pub sample: usize,
    /// The seed of the draw.
    pub seed: u64,
    /// The size of the draw.
    pub size: usize,
    /// Whether the case is a whole function. Over its chain of ops Σ |terms| grows far beyond any rounding error.
    pub(super) whole: bool,
}

impl Case {
    /// Returns the op's name.
    pub fn op(&self) -> &'static str {
        self.real.op.name()
    }

    /// Returns random numbers independent of the inputs.
    pub(super) fn draws(&self) -> Samples {
        self.draws_of(0)
    }

    /// Returns further random numbers, independent for each `number`.
    pub(super) fn draws_of(&self, number: u64) -> Samples {
        Samples::new(self.seed ^ 0xC07A_4CE5 ^ (self.sample as u64) << 40 ^ number << 52, self.size)
    }

    /// Returns y at other inputs.
    pub(super) fn eval(&self, inputs: &[Tensor<f64>]) -> Tensor<f64> {
        self.real.op.eval(&inputs.iter().collect::<Vec<_>>(), Want::Value).out
    }

    /// Returns x̄ at these inputs for the cotangent `gy`, by the op's own VJP; zeros where the tape has no gradient.
    pub(super) fn vjp(&self, inputs: &[Tensor<f64>], gy: &Tensor<f64>) -> Vec<Tensor<f64>> {
        self.vjp_of(inputs, gy, |_| true)
    }

    /// Returns x̄ if only the `wanted` inputs are leaves; zeros for the others.
    pub(super) fn vjp_of(&self, inputs: &[Tensor<f64>], gy: &Tensor<f64>, wanted: impl Fn(usize) -> bool) -> Vec<Tensor<f64>> {
        let tape = Tape::new();
        let var = |(i, x): (usize, &Tensor<f64>)| if wanted(i) { tape.leaf(x.clone()) } else { tape.constant(x.clone()) };
        let vars: Vec<Var<'_, f64>> = inputs.iter().enumerate().map(var).collect();
        let y = tape.record(self.real.op.clone(), &vars.iter().collect::<Vec<_>>());
        let mut grads = tape.backward_from(&y, gy.clone());
        vars.iter().map(|x| grads.take(x).unwrap_or_else(|| Tensor::zeros(*x.shape()))).collect()
    }

    /// Returns a description of the first input whose gradient in `grads` differs from it in shape.
    pub(super) fn misshapen(&self, grads: &[Tensor<f64>]) -> Option<String> {
        let pairs = grads.iter().zip(&self.real.inputs).enumerate();
        let mut wrong = pairs.filter(|(_, (g, x))| g.shape() != x.shape());
        let (i, (g, x)) = wrong.next()?;
        Some(format!("the gradient of input {i} should have its shape {}, got {}", x.shape(), g.shape()))
    }
}

/// Returns these values, in row-major order, as a tensor with x's shape and memory layout.
pub(super) fn like<T: Real, U: Real>(x: &Tensor<T>, values: Vec<U>) -> Tensor<U> {
    laid_out_as(x, &Tensor::new(*x.shape(), values))
}

/// Returns `y`, of x's shape, in x's memory layout.
pub(super) fn laid_out_as<T: Real, U: Real>(x: &Tensor<T>, y: &Tensor<U>) -> Tensor<U> {
    let mut order: Vec<usize> = (0..x.shape().len()).collect();
    order.sort_by_key(|&a| std::cmp::Reverse(x.strides()[a]));
    let mut back = order.clone();
    order.iter().enumerate().for_each(|(i, &a)| back[a] = i);
    y.permute(&order).dense().permute(&back)
}

/// Returns directions of length 0: one per input, of its shape.
pub(super) fn still(inputs: &[Tensor<f64>]) -> Vec<Tensor<f64>> {
    inputs.iter().map(|x| Tensor::zeros(*x.shape())).collect()
}

/// Returns x with one element moved by `step`.
pub(super) fn moved(x: &Tensor<f64>, element: usize, step: f64) -> Tensor<f64> {
    let mut values = x.to_vec();
    values[element] += step;
    like(x, values)
}

/// Returns `inputs` with one of them replaced.
pub(super) fn with<T: Real>(inputs: &[Tensor<T>], i: usize, x: Tensor<T>) -> Vec<Tensor<T>> {
    let mut inputs = inputs.to_vec();
    inputs[i] = x;
    inputs
}

//! The definition of an op: a function, its shape rule, its cost and its derivative.

use std::fmt::{self, Debug};
use std::sync::Arc;

use gradus_tensor::{Device, Real, Shape, ShapeError, Tensor};

use super::Var;
use crate::samples::Samples;

/// An op, y = f(x₀, x₁, …). Everything in `ins` is differentiable; indices, axes, masks and seeds are fields of the op.
///
/// The items that the checks need, [`MATH`](Op::MATH) and [`samples`](Op::samples), have no default. So an op without samples,
/// and hence without a check of its gradient, does not compile.
pub trait Op<T: Real>: Debug + Send + Sync + Sized + 'static {
    /// The name, in messages and tables.
    const NAME: &'static str;
    /// The function and its VJP on one line: `y = tanh x;  x̄ = ȳ ∘ (1 − y²)`.
    const MATH: &'static str;
    /// The values that the VJP reads. All other values are freed as soon as nothing needs them.
    const SAVES: Saves;
    /// Whether [`Op::eval`] and [`Op::vjp`] use only methods of tensors, which have kernels on a GPU. If not, a tape on a GPU
    /// records the op's [reference](Op::reference).
    const ON_GPU: bool = true;

    /// Returns the shape of y, or a description of the inputs it requires. By default it is the shape of the inputs, which must
    /// be equal.
    fn shape(&self, ins: &[&Shape]) -> Result<Shape, String> {
        if ins.windows(2).all(|w| w[0] == w[1]) { Ok(*ins[0]) } else { Err("inputs of one shape".into()) }
    }

    /// Returns the number of arithmetic operations of one evaluation: each + − × ÷ and each elementary function counts 1,
    /// comparisons and copies 0.
    fn flops(&self, _ins: &[&Shape], _out: &Shape) -> u64 {
        0
    }

    /// Computes y, and residuals if a VJP will follow.
    fn eval(&self, ins: &[&Tensor<T>], want: Want) -> Evaluated<T>;

    /// Computes the vector–Jacobian product: x̄ᵢ = Jᵢᵀ ȳ for each input that [`Saved::needs`] one, in the order of the inputs.
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>>;

    /// Computes the VJP when the saved values are not needed again. An op may free those that it has read, so that its results
    /// reuse their memory.
    fn vjp_once<'t>(&self, saved: Saved<'t, T>, gy: Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        self.vjp(&saved, &gy)
    }

    /// Adds x̄₀ to `sum` without materializing it, for an op of one input whose x̄₀ is nearly all zeros. Returns `false` if it
    /// did nothing, in which case [`Op::vjp`] gives the summand.
    fn add_vjp(&self, _saved: &Saved<'_, T>, _gy: &Tensor<T>, _sum: &mut Tensor<T>) -> bool {
        false
    }

    /// Records the definition of a fused op in primitives. The fast kernels are checked against it, and second derivatives are
    /// computed through it, for which a fused op saves all its inputs. Returns `None` if the op is a primitive.
    fn reference<'t>(&self, _ins: &[Var<'t, T>]) -> Option<Var<'t, T>> {
        None
    }

    /// Draws inputs from its domain and at its edges, on which every witness runs.
    fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)>;
}

/// An op behind a pointer, for tapes and witnesses: [`Op`] with the type erased.
#[allow(missing_docs, reason = "each is the function of Op")]
pub trait AnyOp<T: Real>: Debug + Send + Sync + 'static {
    fn name(&self) -> &'static str;
    fn saves(&self) -> Saves;
    /// Returns whether the op has kernels on the device ([`Op::ON_GPU`]).
    fn runs_on(&self, device: &Device) -> bool;
    fn shape(&self, ins: &[&Shape]) -> Result<Shape, ShapeError>;
    fn flops(&self, ins: &[&Shape], out: &Shape) -> u64;
    fn eval(&self, ins: &[&Tensor<T>], want: Want) -> Evaluated<T>;
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>>;
    fn vjp_once<'t>(&self, saved: Saved<'t, T>, gy: Var<'t, T>) -> Vec<Option<Var<'t, T>>>;
    fn add_vjp(&self, saved: &Saved<'_, T>, gy: &Tensor<T>, sum: &mut Tensor<T>) -> bool;
    fn reference<'t>(&self, ins: &[Var<'t, T>]) -> Option<Var<'t, T>>;
}

/// An adapter from [`Op`] to [`AnyOp`].
struct Stated<O>(O);

impl<O: Debug> Debug for Stated<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: Real, O: Op<T>> AnyOp<T> for Stated<O> {
    fn name(&self) -> &'static str {
        O::NAME
    }
    fn saves(&self) -> Saves {
        O::SAVES
    }
    fn runs_on(&self, device: &Device) -> bool {
        O::ON_GPU || device.is_cpu()
    }
    fn shape(&self, ins: &[&Shape]) -> Result<Shape, ShapeError> {
        self.0.shape(ins).map_err(|rule| ShapeError::new(O::NAME, rule, ins))
    }
    fn flops(&self, ins: &[&Shape], out: &Shape) -> u64 {
        self.0.flops(ins, out)
    }
    fn eval(&self, ins: &[&Tensor<T>], want: Want) -> Evaluated<T> {
        self.0.eval(ins, want)
    }
    fn vjp<'t>(&self, saved: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        self.0.vjp(saved, gy)
    }
    fn vjp_once<'t>(&self, saved: Saved<'t, T>, gy: Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
        self.0.vjp_once(saved, gy)
    }
    fn add_vjp(&self, saved: &Saved<'_, T>, gy: &Tensor<T>, sum: &mut Tensor<T>) -> bool {
        self.0.add_vjp(saved, gy, sum)
    }
    fn reference<'t>(&self, ins: &[Var<'t, T>]) -> Option<Var<'t, T>> {
        self.0.reference(ins)
    }
}

impl<T: Real> dyn AnyOp<T> {
    pub(crate) fn of(op: impl Op<T>) -> Arc<Self> {
        Arc::new(Stated(op))
    }
}

/// The purpose of an evaluation: only its value, or also a VJP that reads residuals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Only the value.
    Value,
    /// The value, and the residuals that the VJP would otherwise recompute.
    Vjp,
}

/// The result of an evaluation.
#[derive(Debug)]
pub struct Evaluated<T: Real> {
    /// The output y.
    pub out: Tensor<T>,
    /// Intermediate results for the VJP, not differentiable themselves.
    pub residuals: Vec<Tensor<T>>,
}

impl<T: Real> From<Tensor<T>> for Evaluated<T> {
    fn from(out: Tensor<T>) -> Self {
        Evaluated { out, residuals: Vec::new() }
    }
}

/// The values that a VJP reads: inputs, and the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saves {
    inputs: Inputs,
    output: bool,
    /// A bit for each of the first eight inputs that is a factor.
    factors: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inputs {
    None,
    One(usize),
    All,
}

impl Saves {
    /// No value, for a linear op.
    pub const NONE: Self = Saves { inputs: Inputs::None, output: false, factors: 0 };
    /// Every input.
    pub const INPUTS: Self = Saves { inputs: Inputs::All, output: false, factors: 0 };
    /// The output.
    pub const OUTPUT: Self = Saves { inputs: Inputs::None, output: true, factors: 0 };
    /// Every input and the output.
    pub const ALL: Self = Saves { inputs: Inputs::All, output: true, factors: 0 };

    /// Returns the value that saves input `i` only.
    pub const fn input(i: usize) -> Self {
        Saves { inputs: Inputs::One(i), output: false, factors: 0 }
    }
    /// Returns these values with input `i` saved [as a factor](Tensor::as_factor): the VJP reads it only in products.
    pub const fn factor(self, i: usize) -> Self {
        Saves { factors: self.factors | 1 << i, ..self }
    }
    /// Returns whether input `i` is saved as a factor.
    pub const fn is_factor(&self, i: usize) -> bool {
        i < 8 && self.factors >> i & 1 == 1
    }
    /// Returns whether input `i` is saved.
    pub const fn keeps_input(&self, i: usize) -> bool {
        match self.inputs {
            Inputs::None => false,
            Inputs::One(kept) => i == kept,
            Inputs::All => true,
        }
    }
    /// Returns whether the output is saved.
    pub const fn keeps_output(&self) -> bool {
        self.output
    }
}

/// The saved values of one application, passed to its VJP.
#[derive(Debug)]
pub struct Saved<'t, T: Real> {
    pub(crate) name: &'static str,
    pub(crate) shapes: Vec<Shape>,
    pub(crate) needs: Vec<bool>,
    pub(crate) ins: Vec<Option<Var<'t, T>>>,
    pub(crate) out: Option<Var<'t, T>>,
    pub(crate) residuals: Vec<Tensor<T>>,
}

impl<'t, T: Real> Saved<'t, T> {
    /// Returns input `i`; panics if [`Op::SAVES`] does not include it.
    pub fn x(&self, i: usize) -> &Var<'t, T> {
        self.ins[i]
            .as_ref()
            .unwrap_or_else(|| panic!("the VJP of `{}` reads input {i}, which its SAVES does not keep", self.name))
    }
    /// Returns the output; panics if [`Op::SAVES`] does not include it.
    pub fn y(&self) -> &Var<'t, T> {
        self.out.as_ref().unwrap_or_else(|| panic!("the VJP of `{}` reads its output, which its SAVES does not keep", self.name))
    }
    /// Returns residual `i` of the evaluation.
    pub fn residual(&self, i: usize) -> &Tensor<T> {
        let (name, left) = (self.name, self.residuals.len());
        self.residuals.get(i).unwrap_or_else(|| panic!("the VJP of `{name}` reads residual {i}, but eval left {left}"))
    }
    /// Moves out all residuals, so that they are freed when the returned vector is dropped.
    pub fn take_residuals(&mut self) -> Vec<Tensor<T>> {
        std::mem::take(&mut self.residuals)
    }
    /// Returns the shape of input `i`, which is always kept.
    pub fn shape(&self, i: usize) -> &Shape {
        &self.shapes[i]
    }
    /// Returns the number of inputs.
    pub fn inputs(&self) -> usize {
        self.needs.len()
    }
    /// Returns whether input `i` needs a gradient.
    pub fn needs(&self, i: usize) -> bool {
        self.needs[i]
    }
    /// Returns `f()` if input `i` needs a gradient, otherwise `None`: the usual element of a VJP's result.
    pub fn grad(&self, i: usize, f: impl FnOnce() -> Var<'t, T>) -> Option<Var<'t, T>> {
        self.needs(i).then(f)
    }
}

/// An op with inputs to check it on.
#[derive(Clone, Debug)]
pub struct Sample<T: Real> {
    /// The op.
    pub op: Arc<dyn AnyOp<T>>,
    /// The inputs.
    pub inputs: Vec<Tensor<T>>,
}

/// A row of the list of ops, [`crate::ops::all`].
#[derive(Clone, Copy, Debug)]
pub struct Entry<T: Real> {
    /// The op's [`Op::NAME`].
    pub name: &'static str,
    /// The op's [`Op::MATH`].
    pub math: &'static str,
    /// The function [`Op::samples`], with the ops behind pointers.
    pub samples: fn(&mut Samples) -> Vec<Sample<T>>,
}

impl<T: Real> Entry<T> {
    /// Returns the row of an op.
    pub fn of<O: Op<T>>() -> Self {
        let samples = |g: &mut Samples| {
            O::samples(g).into_iter().map(|(op, inputs)| Sample { op: <dyn AnyOp<T>>::of(op), inputs }).collect()
        };
        Entry { name: O::NAME, math: O::MATH, samples }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tape;

    /// The identity y = x, for elements in the CPU's memory.
    #[derive(Debug)]
    struct Same;

    impl<T: Real> Op<T> for Same {
        const NAME: &'static str = "same";
        const MATH: &'static str = "y = x;  x̄ = ȳ";
        const SAVES: Saves = Saves::NONE;
        const ON_GPU: bool = false;
        fn eval(&self, ins: &[&Tensor<T>], _: Want) -> Evaluated<T> {
            ins[0].clone().into()
        }
        fn vjp<'t>(&self, _: &Saved<'t, T>, gy: &Var<'t, T>) -> Vec<Option<Var<'t, T>>> {
            vec![Some(gy.clone())]
        }
        fn samples(g: &mut Samples) -> Vec<(Self, Vec<Tensor<T>>)> {
            vec![(Same, vec![g.normal([2])])]
        }
    }

    /// The op has no reference either, so a GPU could not run it (`tests/tests/gpu/ops.rs`).
    #[test]
    fn an_op_without_a_kernel_for_gpus_runs_on_the_cpu() {
        let tape = Tape::new();
        let x = tape.leaf(Tensor::new([2], vec![1.5f64, -3.0]));
        let y = tape.apply(Same, &[&x]);
        assert_eq!(tape.backward(&y.sum_all()).take(&x).unwrap().to_vec(), [1.0, 1.0]);
    }
}

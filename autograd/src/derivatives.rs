//! Derivatives as functions of functions.
//!
//! ```text
//! f: x ↦ y             J = ∂y/∂x        jvp   Jv               one forward pass, on dual numbers
//!                                       vjp   Jᵀȳ              one reverse pass
//! f: x ↦ one element   g = ∇f           grad  ∇f               one reverse pass
//!                      H = ∇²f          hvp   Hv = ∇⟨∇f, v⟩    a reverse pass that is recorded, and one through it
//! ```
//!
//! [`jacobian`] and [`hessian`] apply these once per element, for small functions. A function is a closure over values on a tape,
//! or better a `fn` for any scalar. Its constants come from the tape of its inputs.
//!
//! ```
//! use gradus_autograd::{Real, Tensor, Var, derivatives::*};
//!
//! /// f(x, y) = x²y        ∇f = (2xy, x²)        H = [2y, 2x; 2x, 0]
//! fn f<'t, T: Real>(x: &[Var<'t, T>]) -> Var<'t, T> {
//!     &x[0] * &x[0] * &x[1]
//! }
//! let at = [3.0, 2.0].map(Tensor::scalar);
//! let along = [1.0, 0.0].map(Tensor::scalar);
//! let items = |tensors: Vec<Tensor<f64>>| tensors.iter().map(Tensor::item).collect::<Vec<_>>();
//!
//! let (value, gradient) = grad(f, &at);
//! assert_eq!((value, items(gradient)), (18.0, vec![12.0, 9.0]));
//! assert_eq!(jvp(f, &at, &along).1.item(), 12.0);
//! assert_eq!(items(hvp(f, &at, &along)), [4.0, 6.0]);
//! ```
//!
//! The gradient of a gradient needs no further function: [`Tape::pullback`] records its own operations, which can be
//! differentiated any number of times.

use crate::check::Dual;
use crate::{Real, Tape, Tensor, Var};

/// Returns y = f(x) and the exact ẏ = Jv: f is evaluated on dual numbers, without a tape. `v` has one tensor per input, of that
/// input's shape.
pub fn jvp(
    f: impl for<'t> Fn(&[Var<'t, Dual>]) -> Var<'t, Dual>,
    x: &[Tensor<f64>],
    v: &[Tensor<f64>],
) -> (Tensor<f64>, Tensor<f64>) {
    same_shapes("jvp", x, v);
    let tape = Tape::off();
    let moving = |(x, v): (&Tensor<f64>, &Tensor<f64>)| {
        let duals = x.to_vec().into_iter().zip(v.to_vec()).map(|(x, v)| Dual::new(x, v)).collect();
        tape.constant(Tensor::new(*x.shape(), duals))
    };
    let ins: Vec<_> = x.iter().zip(v).map(moving).collect();
    let y = f(&ins).into_value();
    let part = |of: fn(&Dual) -> f64| Tensor::new(*y.shape(), y.to_vec().iter().map(of).collect());
    (part(|y| y.value), part(|y| y.tangent))
}

/// Returns y = f(x) and x̄ᵢ = Jᵢᵀȳ for every input; zeros if y does not depend on it.
pub fn vjp<T: Real>(
    f: impl for<'t> Fn(&[Var<'t, T>]) -> Var<'t, T>,
    x: &[Tensor<T>],
    gy: &Tensor<T>,
) -> (Tensor<T>, Vec<Tensor<T>>) {
    let tape = Tape::new();
    let ins = leaves(&tape, x);
    let y = f(&ins);
    assert!(y.shape() == gy.shape(), "vjp: the cotangent has f's shape {}, got {}", y.shape(), gy.shape());
    let mut grads = tape.backward_from(&y, gy.clone());
    let gx = ins.iter().map(|x| grads.take(x).unwrap_or_else(|| x.value().zeros_like(*x.shape()))).collect();
    (y.into_value(), gx)
}

/// Returns f(x) and ∇f for an f of one element; zeros for an input that it does not depend on.
pub fn grad<T: Real>(f: impl for<'t> Fn(&[Var<'t, T>]) -> Var<'t, T>, x: &[Tensor<T>]) -> (T, Vec<Tensor<T>>) {
    let tape = Tape::new();
    let ins = leaves(&tape, x);
    let y = f(&ins);
    one_element("grad", &y);
    let mut grads = tape.backward(&y);
    let gx = ins.iter().map(|x| grads.take(x).unwrap_or_else(|| x.value().zeros_like(*x.shape()))).collect();
    (y.value().item(), gx)
}

/// Returns Hv = ∇⟨∇f, v⟩ for an f of one element: reverse over reverse. H is never formed; the cost is a few evaluations of f.
pub fn hvp<T: Real>(f: impl for<'t> Fn(&[Var<'t, T>]) -> Var<'t, T>, x: &[Tensor<T>], v: &[Tensor<T>]) -> Vec<Tensor<T>> {
    same_shapes("hvp", x, v);
    let tape = Tape::new();
    let ins = leaves(&tape, x);
    let y = f(&ins);
    one_element("hvp", &y);
    let one = y.constant(y.value().full_like(*y.shape(), T::one()));
    let gradient = tape.pullback(&y, &one, &ins.iter().collect::<Vec<_>>());
    let along = gradient.into_iter().zip(v).filter_map(|(g, v)| Some((g? * tape.constant(v.clone())).sum_all()));
    let zeros = |x: &Var<'_, T>| x.value().zeros_like(*x.shape());
    let Some(slope) = along.reduce(|a, b| a + b) else { return ins.iter().map(zeros).collect() };
    let mut grads = tape.backward(&slope);
    ins.iter().map(|x| grads.take(x).unwrap_or_else(|| zeros(x))).collect()
}

/// Returns Jᵢ = ∂y/∂xᵢ for every input: a matrix with a row for each element of y and a column for each element of xᵢ, in
/// row-major order. The cost is one reverse pass per row.
pub fn jacobian<T: Real>(f: impl for<'t> Fn(&[Var<'t, T>]) -> Var<'t, T>, x: &[Tensor<T>]) -> Vec<Tensor<T>> {
    let tape = Tape::off();
    let shape = *f(&x.iter().map(|x| tape.constant(x.clone())).collect::<Vec<_>>()).shape();
    let rows: Vec<Vec<Tensor<T>>> = units(&shape, T::one()).map(|unit| vjp(&f, x, &unit).1).collect();
    let matrix = |i: usize| stack(rows.iter().map(|row| &row[i]), x[i].len());
    (0..x.len()).map(matrix).collect()
}

/// Returns Hᵢⱼ = ∂²f/∂xᵢ∂xⱼ for every pair of inputs of an f of one element, as matrices like [`jacobian`]'s. The cost is one
/// [`hvp`] per column.
pub fn hessian<T: Real>(f: impl for<'t> Fn(&[Var<'t, T>]) -> Var<'t, T>, x: &[Tensor<T>]) -> Vec<Vec<Tensor<T>>> {
    let zeros: Vec<Tensor<T>> = x.iter().map(|x| x.zeros_like(*x.shape())).collect();
    let rows = |i: usize| -> Vec<Vec<Tensor<T>>> {
        let along = |unit| zeros[..i].iter().cloned().chain([unit]).chain(zeros[i + 1..].iter().cloned()).collect::<Vec<_>>();
        units(x[i].shape(), T::one()).map(|unit| hvp(&f, x, &along(unit))).collect() // H is symmetric: its columns are its rows
    };
    let blocks = |i: usize| {
        let rows = rows(i);
        (0..x.len()).map(|j| stack(rows.iter().map(|row| &row[j]), x[j].len())).collect()
    };
    (0..x.len()).map(blocks).collect()
}

fn leaves<'t, T: Real>(tape: &'t Tape<T>, x: &[Tensor<T>]) -> Vec<Var<'t, T>> {
    x.iter().map(|x| tape.leaf(x.clone())).collect()
}

/// Returns e₁, e₂, …: tensors of this shape in which one element is `one` and the others are 0.
fn units<T: Real>(shape: &crate::Shape, one: T) -> impl Iterator<Item = Tensor<T>> {
    let shape = *shape;
    (0..shape.numel())
        .map(move |at| Tensor::new(shape, (0..shape.numel()).map(|i| if i == at { one } else { T::zero() }).collect()))
}

/// Returns the matrix whose rows are these tensors of `columns` elements each.
fn stack<'a, T: Real>(rows: impl Iterator<Item = &'a Tensor<T>>, columns: usize) -> Tensor<T> {
    let all: Vec<Tensor<T>> = rows.cloned().collect();
    Tensor::new([all.len(), columns], all.iter().flat_map(Tensor::to_vec).collect())
}

/// Panics unless y has one element, since only a single number has a gradient. For several elements, [`vjp`] takes the cotangent
/// that weights them.
fn one_element<T: Real>(name: &str, y: &Var<'_, T>) {
    assert!(y.value().len() == 1, "{name}: f gives one element, got shape {}; sum it, or use vjp or jacobian", y.shape());
}

fn same_shapes<T: Real>(name: &str, x: &[Tensor<T>], v: &[Tensor<T>]) {
    let shapes = |tensors: &[Tensor<T>]| tensors.iter().map(|t| *t.shape()).collect::<Vec<_>>();
    let (x, v) = (shapes(x), shapes(v));
    assert_eq!(x, v, "{name}: a direction has the shapes of the inputs");
}

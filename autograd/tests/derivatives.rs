//! Derivatives of functions against their closed forms.

use std::panic::{AssertUnwindSafe, catch_unwind};

use gradus_autograd::derivatives::{grad, hessian, hvp, jacobian, jvp, vjp};
use gradus_autograd::{Real, Tensor, Var};

/// Computes f(x, y) = (Σ xᵢ²y, tanh x₀).
fn two<'t, T: Real>(ins: &[Var<'t, T>]) -> Var<'t, T> {
    let (x, y) = (&ins[0], &ins[1]);
    let squares = (x * x * y).sum_all().reshape([1]);
    Var::concat(&[&squares, &x.slice(0, 0..1).tanh()], 0)
}

fn at() -> [Tensor<f64>; 2] {
    [Tensor::new([2], vec![0.5, -1.5]), Tensor::scalar(3.0)]
}

#[test]
fn a_jacobian_has_a_row_for_each_output_and_a_column_for_each_input() {
    let [x, y] = at();
    let j = jacobian(two, &[x, y]);
    let slope = 1.0 - 0.5f64.tanh().powi(2);
    assert_eq!((&j[0].shape()[..], &j[1].shape()[..]), (&[2, 2][..], &[2, 1][..]));
    for (found, expected) in j[0].to_vec().iter().chain(&j[1].to_vec()).zip([3.0, -9.0, slope, 0.0, 2.5, 0.0]) {
        assert!((found - expected).abs() < 1e-15, "{found}: {expected}");
    }
}

/// Checks the Hessian of f = Σ xᵢ²y:  ∂²f/∂x² = 2y·1,  ∂²f/∂x∂y = 2x,  ∂²f/∂y² = 0.
#[test]
fn a_hessian_has_a_block_for_each_pair_of_inputs() {
    let h = hessian(|ins| (&ins[0] * &ins[0] * &ins[1]).sum_all(), &at());
    assert_eq!(h[0][0].to_vec(), [6.0, 0.0, 0.0, 6.0]);
    assert_eq!((h[0][1].to_vec(), h[1][0].to_vec()), (vec![1.0, -3.0], vec![1.0, -3.0]));
    assert_eq!((&h[0][1].shape()[..], &h[1][0].shape()[..], h[1][1].to_vec()), (&[2, 1][..], &[1, 2][..], vec![0.0]));
}

#[test]
fn jvp_and_vjp_equal_products_with_the_jacobian() {
    let j = jacobian(two, &at());
    let v = [Tensor::new([2], vec![0.3, 0.7]), Tensor::scalar(-2.0)];
    let u = Tensor::new([2], vec![1.1, -0.4]);
    let ((y, along), (again, back)) = (jvp(two, &at(), &v), vjp(two, &at(), &u));
    assert_eq!(y, again);
    let all = |t: &[Tensor<f64>]| t.iter().flat_map(Tensor::to_vec).collect::<Vec<_>>();
    for row in 0..2 {
        let entries: Vec<f64> = j.iter().flat_map(|j| j.slice(0, row..row + 1).to_vec()).collect();
        let expected: f64 = entries.iter().zip(all(&v)).map(|(j, v)| j * v).sum();
        assert!((along.to_vec()[row] - expected).abs() < 1e-14);
    }
    let column = |k: usize, row: usize| if k < 2 { j[0].to_vec()[2 * row + k] } else { j[1].to_vec()[row] };
    for (k, found) in all(&back).into_iter().enumerate() {
        assert!((found - (1.1 * column(k, 0) - 0.4 * column(k, 1))).abs() < 1e-14);
    }
}

#[test]
fn derivatives_by_unused_inputs_are_zero() {
    let (value, gradient) = grad(|ins| ins[0].sum_all(), &at());
    assert_eq!((value, gradient[0].to_vec(), gradient[1].to_vec()), (-1.0, vec![1.0, 1.0], vec![0.0]));
    // A linear function has zero second derivatives, and a constant one zero first derivatives.
    let second = hvp(|ins| ins[0].sum_all(), &at(), &at());
    assert!(second.iter().flat_map(Tensor::to_vec).all(|h| h == 0.0));
    let constant = vjp(|ins| ins[0].detach().sum_all(), &at(), &Tensor::scalar(1.0)).1;
    assert!(constant.iter().flat_map(Tensor::to_vec).all(|g| g == 0.0));
}

/// Checks f(w) = Σ (w₂·w)²/2, whose table w is both gathered from and a factor of a product. The gather adds its rows to the
/// product's gradient in place, which it must not do if that gradient is differentiated again.
#[test]
fn a_tied_table_has_second_derivatives() {
    fn f<'t, T: Real>(ins: &[Var<'t, T>]) -> Var<'t, T> {
        let z = ins[0].gather([2], [1]).matmul(&ins[0].t());
        (&z * &z).sum_all() * 0.5
    }
    let w = [Tensor::new([3, 2], vec![0.5, -1.0, 2.0, 0.25, 1.5, -0.75])];
    let v = [Tensor::new([3, 2], vec![1.0, 0.5, -0.5, 2.0, 0.25, -1.5])];
    let at = |h: f64| grad(f, &[w[0].zip(&v[0], |w, v| w + h * v)]).1[0].to_vec();
    // f is of fourth order: h² times its fourth derivative is about 1e-9, and rounding over h 1e-10.
    let h = 1e-5;
    for ((up, down), exact) in at(h).iter().zip(at(-h)).zip(hvp(f, &w, &v)[0].to_vec()) {
        assert!(((up - down) / (2.0 * h) - exact).abs() < 1e-8, "{exact}");
    }
}

/// Computes x ∘ x for two elements.
fn squares<'t, T: Real>(x: &[Var<'t, T>]) -> Var<'t, T> {
    &x[0] * &x[0]
}

/// The gradient of several numbers would silently be the gradient of their sum. A direction has the shapes of the inputs.
#[test]
fn a_function_of_several_elements_and_a_direction_of_another_shape_are_refused() {
    let x = [Tensor::new([2], vec![1.0, 2.0])];
    type Of = fn(&[Tensor<f64>; 1]);
    let calls: [(&str, Of); 5] = [
        ("grad: f gives one element, got shape [2]", |x| drop(grad(squares, x))),
        ("hvp: f gives one element, got shape [2]", |x| drop(hvp(squares, x, x))),
        ("hvp: f gives one element, got shape [2]", |x| drop(hessian(squares, x))),
        ("jvp: a direction has the shapes of the inputs", |x| drop(jvp(squares, x, &[]))),
        ("hvp: a direction has the shapes of the inputs", |x| drop(hvp(squares, x, &at()[1..]))),
    ];
    for (expected, call) in calls {
        let panic = catch_unwind(AssertUnwindSafe(|| call(&x))).expect_err("refused");
        let message = panic.downcast_ref::<String>().expect("a message");
        assert!(message.contains(expected), "{message}");
    }
    let panic = catch_unwind(|| vjp(squares, &[Tensor::new([2], vec![1.0, 2.0])], &Tensor::scalar(1.0))).expect_err("refused");
    assert_eq!(panic.downcast_ref::<String>().unwrap(), "vjp: the cotangent has f's shape [2], got []");
}

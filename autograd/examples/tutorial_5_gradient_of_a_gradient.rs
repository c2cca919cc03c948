//! Tutorial, 5 of 5: the gradient of a gradient.
//!
//! ```text
//! f(x) = log Σ e^xᵢ        ∇f = softmax x = p        H = diag p − p pᵀ        Hv = p ∘ (v − ⟨p, v⟩)
//! ```
//!
//! VJPs are written in the same ops as functions. So the tape can record the reverse pass too, and the results of the pass can be
//! differentiated again, any number of times.
//!
//! `cargo run -p gradus-autograd --example tutorial_5_gradient_of_a_gradient`

use gradus_autograd::derivatives::{grad, hessian, hvp};
use gradus_autograd::{Real, Tape, Tensor, Var};

fn log_sum_exp<'t, T: Real>(ins: &[Var<'t, T>]) -> Var<'t, T> {
    ins[0].exp().sum_all().log()
}

fn main() {
    println!("a pullback is recorded: derivatives of tanh at 0.6, each from the one before");
    let tape = Tape::<f64>::new();
    let x = tape.leaf(Tensor::scalar(0.6));
    let one = tape.constant(Tensor::scalar(1.0));
    let mut y = x.tanh();
    let t = 0.6f64.tanh();
    let s = 1.0 - t * t;
    for (name, by_hand) in
        [("y′ = 1 − t²", s), ("y″ = −2t(1 − t²)", -2.0 * t * s), ("y‴ = −2(1 − t²)(1 − 3t²)", -2.0 * s * (1.0 - 3.0 * t * t))]
    {
        y = tape.pullback(&y, &one, &[&x]).remove(0).expect("it depends on x");
        println!("  {name:<24} {:+.15}   by hand {by_hand:+.15}", y.value().item());
        assert!((y.value().item() - by_hand).abs() < 1e-14);
    }
    println!("  the tape has grown to {} steps", tape.len());

    println!("\nthe Hessian of log Σ eˣ, one product with it per column:");
    let at = [Tensor::new([3], vec![0.0, 1.0, -1.0])];
    let p = grad(log_sum_exp, &at).1.remove(0).to_vec();
    let h = hessian(log_sum_exp, &at).remove(0).remove(0).to_vec();
    for (i, row) in h.chunks(3).enumerate() {
        let by_hand: Vec<f64> = (0..3).map(|j| if i == j { p[i] - p[i] * p[j] } else { -p[i] * p[j] }).collect();
        println!("  {row:+.6?}   diag p − ppᵀ: {by_hand:+.6?}");
        row.iter().zip(&by_hand).for_each(|(found, expected)| assert!((found - expected).abs() < 1e-15));
    }

    println!("\na single product, as for a model whose Hessian does not fit in memory:");
    let v = [Tensor::new([3], vec![1.0, 1.0, 1.0])];
    let product = hvp(log_sum_exp, &at, &v).remove(0).to_vec();
    println!("  H·(1, 1, 1) = {product:+.16?}: adding a constant to all x leaves softmax as it is");

    println!("\nan application: Newton's method finds the minimum of eˣ + e⁻²ˣ, x = ⅓ ln 2");
    let mut x = Tensor::scalar(1.0);
    for step in 0..6 {
        let (_, slope) = grad(least, &[x.clone()]);
        let curvature = hessian(least, &[x.clone()]);
        println!("  step {step}: x = {:.15}, slope {:+.1e}", x.item(), slope[0].item());
        x = Tensor::scalar(x.item() - slope[0].item() / curvature[0][0].to_vec()[0]);
    }
    assert!((x.item() - 2f64.ln() / 3.0).abs() < 1e-12);
}

/// Computes eˣ + e⁻²ˣ.
fn least<'t, T: Real>(ins: &[Var<'t, T>]) -> Var<'t, T> {
    ins[0].exp() + (-2.0 * &ins[0]).exp()
}

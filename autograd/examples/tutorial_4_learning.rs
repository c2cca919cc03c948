//! Tutorial, 4 of 5: a network that learns, after its gradient is checked.
//!
//! ```text
//! p = σ(tanh(xW₁ + b₁) W₂ + b₂)        L = −mean(t log p + (1 − t) log(1 − p))        θ ← θ − rate · θ̄
//! ```
//!
//! Two inputs, four hidden units, one output, and the exclusive or: the smallest task that a single layer cannot learn.
//!
//! `cargo run -p gradus-autograd --example tutorial_4_learning`

use gradus_autograd::check::{self, Function};
use gradus_autograd::derivatives::grad;
use gradus_autograd::{Real, Samples, Tensor, Var};

/// The four rows of the truth table.
const X: [f64; 8] = [0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0];
const TARGETS: [f64; 4] = [0.0, 1.0, 1.0, 0.0];

/// The loss as a function of W₁ (2, 4), b₁ (4), W₂ (4, 1), b₂ (1).
#[derive(Debug)]
struct Xor;

/// Computes P(1) of each row.
fn predict<'t, T: Real>(parameters: &[Var<'t, T>]) -> Var<'t, T> {
    let tape = parameters[0].tape();
    let x = tape.constant(Tensor::new([4, 2], X.map(T::lit).to_vec()));
    x.linear(&parameters[0], &parameters[1]).tanh().linear(&parameters[2], &parameters[3]).sigmoid()
}

impl Function for Xor {
    fn call<'t, T: Real>(&self, parameters: &[Var<'t, T>]) -> Var<'t, T> {
        let p = predict(parameters);
        let t = p.tape().constant(Tensor::new([4, 1], TARGETS.map(T::lit).to_vec()));
        let likelihood = &t * p.log() + (1.0 - &t) * (1.0 - &p).log();
        -0.25 * likelihood.sum_all()
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut draw = Samples::new(2, 1);
    let mut parameters = [draw.normal([2, 4]), Tensor::zeros([4]), draw.normal([4, 1]), Tensor::zeros([1])];

    println!("gradient check, before training:");
    for outcome in check::function("xor", Xor, &parameters, 1) {
        let report = outcome?;
        println!("  {:13} worst relative error {:.1e}", report.witness, report.error());
    }

    println!("\ngradient descent:");
    for step in 0..=500 {
        let (loss, gradient) = grad(|p| Xor.call(p), &parameters);
        if step % 100 == 0 {
            println!("  step {step:3}: loss {loss:.4}");
        }
        for (p, g) in parameters.iter_mut().zip(&gradient) {
            *p = p.zip(g, |p, g| p - 2.0 * g);
        }
    }

    let tape = gradus_autograd::Tape::off();
    let leaves: Vec<_> = parameters.iter().map(|p| tape.constant(p.clone())).collect();
    println!("\npredictions now:");
    for ((x, t), p) in X.chunks(2).zip(TARGETS).zip(predict(&leaves).value().to_vec()) {
        println!("  {} xor {} = {p:.3}, should be {t}", x[0], x[1]);
        assert!((p - t).abs() < 0.1);
    }
    Ok(())
}

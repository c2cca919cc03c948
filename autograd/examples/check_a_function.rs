//! A check of a function's gradient: seven lines for the function, one for the check.
//!
//! ```text
//! f(W, b, x) = Σ tanh(xW + b)²
//! ```
//!
//! `cargo run -p gradus-autograd --example check_a_function`

use gradus_autograd::check::{self, Function};
use gradus_autograd::{Real, Tensor, Var};

#[derive(Debug)]
struct Layer;

impl Function for Layer {
    // Generic over the scalar: on f64 the tape differentiates it, on dual numbers it returns its exact derivatives.
    fn call<'t, T: Real>(&self, ins: &[Var<'t, T>]) -> Var<'t, T> {
        let [w, b, x] = ins else { panic!("three inputs") };
        let y = (x.matmul(w) + b).tanh();
        (&y * &y).sum_all()
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let w = Tensor::new([2, 3], vec![0.5, -1.0, 0.3, 0.9, -0.7, 0.2]);
    let b = Tensor::new([3], vec![0.1, 0.0, -0.4]);
    let x = Tensor::new([2, 2], vec![1.5, -0.4, 0.2, 0.8]);

    // The arguments are the inputs, and a seed that draws the directions. An error reports the expected number, its place, and
    // the way to reproduce it.
    for outcome in check::function("layer", Layer, &[w, b, x], 17) {
        let report = outcome?;
        println!("{:13} {:4} values compared, worst relative error {:.1e}", report.witness, report.compared, report.error());
    }
    Ok(())
}

//! A neuron, its tape, its gradient, and the gradient of its gradient.
//!
//! ```text
//! y = tanh(wx + b)        ∂y/∂w = (1 − y²)x        ∂²y/∂w² = −2y(1 − y²)x²
//! ```
//!
//! `cargo run -p gradus-autograd --example one_neuron`

use gradus_autograd::{Tape, Tensor};

fn main() {
    let tape = Tape::<f64>::new();
    let w = tape.leaf(Tensor::scalar(0.7));
    let b = tape.leaf(Tensor::scalar(-0.2));
    let x = tape.constant(Tensor::scalar(1.5));
    let y = tape.scope("neuron", || (&w * &x + &b).tanh());

    println!("the tape: what was computed, in order");
    for (i, step) in tape.steps().iter().enumerate() {
        let inputs: Vec<String> = step.inputs.iter().map(|n| n.map_or("constant".into(), |n| n.index().to_string())).collect();
        println!("  {i}  {:<5} of [{}]  line {}", step.op.unwrap_or("leaf"), inputs.join(", "), step.site.at.line());
    }

    // A pullback is recorded too, so that what it gives can be differentiated again.
    let one = tape.constant(Tensor::scalar(1.0));
    let slope = tape.pullback(&y, &one, &[&w]).remove(0).expect("y depends on w");
    let (out, first) = (y.value().item(), slope.value().item());
    let second = tape.backward(&slope).of(&w).expect("so does its slope").item();

    let (x, s) = (1.5, 1.0 - out * out);
    println!("y       = {out:+.15}");
    println!("∂y/∂w   = {first:+.15}   by hand {:+.15}", s * x);
    println!("∂²y/∂w² = {second:+.15}   by hand {:+.15}", -2.0 * out * s * x * x);
}

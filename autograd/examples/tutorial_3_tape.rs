//! Tutorial, 3 of 5: the tape, and the reverse loop.
//!
//! ```text
//! y = Σ (x ∘ x + tanh x)        x̄ = x + x + (1 − tanh² x): a value that is used three times gets three summands
//! ```
//!
//! A tape is a list of the computed ops, in order. So the reverse pass is one loop from its end to its beginning: when it reaches
//! a node, it has passed everything that used the node, and the node's cotangent is complete. `tape/backward.rs` is that loop.
//!
//! `cargo run -p gradus-autograd --example tutorial_3_tape`

use std::sync::Arc;

use gradus_autograd::trace::Recorder;
use gradus_autograd::{Tape, Tensor};

fn main() {
    let recorder = Arc::new(Recorder::default()); // keeps what would otherwise be freed
    let tape = Tape::<f64>::observed(recorder.clone());
    let x = tape.leaf(Tensor::new([2], vec![0.5, -2.0]));
    let y = tape.scope("square", || &x * &x) + tape.scope("squash", || x.tanh());
    let y = y.sum_all();

    println!("the tape: what was computed, in order, and where in the program");
    for (i, step) in tape.recorded().iter().enumerate() {
        let inputs: Vec<String> =
            step.inputs.iter().map(|n| n.map_or("constant".into(), |n| format!("%{}", n.index()))).collect();
        let (op, scope) = (step.op.unwrap_or("leaf"), &step.site.scope);
        println!("  %{i}  {op:<8} {:<10} line {:<3} {scope}", inputs.join(", "), step.site.at.line());
    }
    println!("  kept for the reverse pass: {} numbers", tape.saved_elements());

    println!("\nthe reverse loop, summand by summand:");
    let grads = tape.backward(&y);
    let trace = recorder.trace();
    for (i, node) in trace.iter().enumerate().rev() {
        for s in &node.summands {
            println!("  %{i} ← %{} ({})  {:+.4?}", s.from.index(), trace[s.from.index()].name(), s.value.to_vec());
        }
    }
    let mut sum = [0.0; 2];
    for s in &trace[x.node().expect("a leaf").index()].summands {
        sum.iter_mut().zip(s.value.to_vec()).for_each(|(sum, g)| *sum += g);
    }

    let gradient = grads.of(&x).expect("y depends on x").to_vec();
    println!("\nx̄ = {gradient:.6?}, the sum of its summands {sum:.6?}");
    for (g, x) in gradient.iter().zip([0.5f64, -2.0]) {
        assert!((g - (2.0 * x + 1.0 - x.tanh().powi(2))).abs() < 1e-15);
    }
    println!("kept now: {} numbers. Backward frees as it passes.", tape.saved_elements());
}

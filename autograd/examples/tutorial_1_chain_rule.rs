//! Tutorial, 1 of 5: the chain rule on numbers.
//!
//! ```text
//! y = tanh(wx + b)        u = wx + b        ∂y/∂w = y′(u) · ∂u/∂w = (1 − y²) · x
//! ```
//!
//! A computation is a chain of small steps. Each step has its own derivative, and the derivative of the whole is their product.
//! Forward from the input or backward from the result, the factors are the same. With many inputs and one result, backward is
//! cheaper: one pass serves all inputs.
//!
//! `cargo run -p gradus-autograd --example tutorial_1_chain_rule`

use gradus_autograd::{Tape, Tensor};

fn main() {
    let (w, x, b) = (0.7f64, 1.5, -0.2);

    println!("forward, step by step, each with its own derivative:");
    let p = w * x;
    println!("  p = w·x    = {p:+.6}      ∂p/∂w = x = {x:+.6}");
    let u = p + b;
    println!("  u = p + b  = {u:+.6}      ∂u/∂p = 1");
    let y = u.tanh();
    println!("  y = tanh u = {y:+.6}      ∂y/∂u = 1 − y² = {:+.6}", 1.0 - y * y);

    println!("\nbackward: a bar means ∂y/∂, and each bar is the next one times one factor");
    let y_bar = 1.0;
    let u_bar = y_bar * (1.0 - y * y);
    let (p_bar, b_bar) = (u_bar, u_bar);
    let (w_bar, x_bar) = (p_bar * x, p_bar * w);
    println!("  ȳ = 1,  ū = ȳ·(1 − y²) = {u_bar:+.6},  p̄ = ū,  b̄ = ū = {b_bar:+.6}");
    println!("  w̄ = p̄·x = {w_bar:+.6},  x̄ = p̄·w = {x_bar:+.6}");

    println!("\nthe same on a tape, which keeps the steps and does the second half by itself:");
    let tape = Tape::<f64>::new();
    let [tw, tx, tb] = [w, x, b].map(|value| tape.leaf(Tensor::scalar(value)));
    let ty = (&tw * &tx + &tb).tanh();
    let grads = tape.backward(&ty);
    for (name, leaf, by_hand) in [("w̄", &tw, w_bar), ("x̄", &tx, x_bar), ("b̄", &tb, b_bar)] {
        let found = grads.of(leaf).expect("y depends on it").item();
        println!("  {name} = {found:+.6}");
        assert!((found - by_hand).abs() < 1e-15);
    }

    println!("\ncheck: move w a little:");
    for h in [1e-1, 1e-3, 1e-5] {
        let f = |w: f64| (w * x + b).tanh();
        let slope = (f(w + h) - f(w - h)) / (2.0 * h);
        println!("  (y(w + h) − y(w − h))/2h at h = {h:.0e}: {slope:+.9}, off by {:.0e}", (slope - w_bar).abs());
    }
}

//! Tutorial, 2 of 5: vectors, and the reason why the Jacobian is never formed.
//!
//! ```text
//! y = tanh(Wx)        dy = diag(1 − y²) (dW x + W dx)
//! x̄ = Wᵀ ((1 − y²) ∘ ȳ)        W̄ = ((1 − y²) ∘ ȳ) xᵀ
//! ```
//!
//! A step from n numbers to m has a matrix of m·n derivatives, its Jacobian J. The reverse pass never needs J itself but only the
//! product of its transpose with one vector: Jᵀȳ, the vector–Jacobian product. For a matrix product this is another matrix
//! product, for tanh one factor per element. The definition of an op consists of its function and its VJP.
//!
//! `cargo run -p gradus-autograd --example tutorial_2_vectors`

use gradus_autograd::derivatives::{jacobian, jvp, vjp};
use gradus_autograd::{Real, Tensor, Var};

/// Computes y = tanh(Wx), of W (2, 3) and x (3, 1).
fn layer<'t, T: Real>(ins: &[Var<'t, T>]) -> Var<'t, T> {
    ins[0].matmul(&ins[1]).tanh()
}

fn main() {
    let w = Tensor::new([2, 3], vec![0.5, -1.0, 0.3, 0.9, -0.7, 0.2]);
    let x = Tensor::new([3, 1], vec![1.5, -0.4, 0.8]);
    let at = [w.clone(), x.clone()];
    let gy = Tensor::new([2, 1], vec![1.0, -2.0]);

    println!("the whole Jacobians, one reverse pass per row (small functions only):");
    let j = jacobian(layer, &at);
    println!("  ∂y/∂W {}: {:.4?}", j[0].shape(), j[0].to_vec());
    println!("  ∂y/∂x {}: {:.4?}", j[1].shape(), j[1].to_vec());

    println!("\nJᵀȳ for ȳ = (1, −2), one reverse pass:");
    let (y, gradients) = vjp(layer, &at, &gy);
    println!("  W̄ = {:.6?}", gradients[0].to_vec());
    println!("  x̄ = {:.6?}", gradients[1].to_vec());

    println!("\nby hand, with s = (1 − y²) ∘ ȳ:");
    let s: Vec<f64> = y.to_vec().iter().zip(gy.to_vec()).map(|(y, g)| (1.0 - y * y) * g).collect();
    let by_hand: Vec<f64> = (0..3).map(|k| (0..2).map(|i| w.to_vec()[3 * i + k] * s[i]).sum()).collect();
    println!("  x̄ = Wᵀs = {by_hand:.6?}");
    for (found, expected) in gradients[1].to_vec().iter().zip(&by_hand) {
        assert!((found - expected).abs() < 1e-15);
    }

    println!("\nforward mode goes the other way: Jv for one direction v, on dual numbers, without a tape");
    let v = [Tensor::zeros([2, 3]), Tensor::new([3, 1], vec![1.0, 0.0, 0.0])];
    let (_, along) = jvp(layer, &at, &v);
    println!("  v = e₁ in x: Jv = {:.6?}, the first column of ∂y/∂x", along.to_vec());

    println!(
        "\nboth must agree: ⟨ȳ, Jv⟩ = ⟨Jᵀȳ, v⟩. This is how every op here is checked: forward mode shares no line with the ops' derivatives."
    );
    let (left, right) = (gy.dot(&along), gradients[1].dot(&v[1]));
    println!("  {left:+.15} = {right:+.15}");
    assert!((left - right).abs() < 1e-15);
}

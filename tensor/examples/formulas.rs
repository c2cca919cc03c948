//! Formulas as a paper writes them, with tensors alone: attention, and linear regression by gradient descent.
//!
//!     cargo run -p gradus-tensor --example formulas

use gradus_tensor::Tensor;
use gradus_tensor::rng::Philox;

fn main() {
    let mut rng = Philox::new(1);
    let mut normal = |shape: [usize; 2]| Tensor::<f64>::normal(shape, 1.0, &mut rng);

    // O = softmax(QKᵀ/√D) V: four queries, six keys, vectors of eight.
    let (q, k, v) = (normal([4, 8]), normal([6, 8]), normal([6, 8]));
    let p = (q.matmul(&k.t()) * (1.0 / 8f64.sqrt())).softmax();
    let o = p.matmul(&v);
    assert_eq!(o.shape()[..], [4, 8]);
    assert!(p.sum(&[1]).to_vec().iter().all(|row| (row - 1.0).abs() < 1e-15)); // a distribution per query

    // y = Xw* + noise; find w by w ← w − η·Xᵀ(Xw − y)/n.
    let (n, truth) = (200, Tensor::new([3, 1], vec![2.0, -1.0, 0.5]));
    let x = normal([n, 3]);
    let y = x.matmul(&truth) + 0.01 * normal([n, 1]);
    let mut w = truth.zeros_like([3, 1]);
    for _ in 0..200 {
        let gradient = x.t().matmul(&(x.matmul(&w) - &y)) * (1.0 / n as f64);
        w = w - 0.5 * gradient;
    }
    let error = (w.clone() - truth).sum_squares().sqrt();
    println!("w = {w:?}, off by {error:.4}");
    assert!(error < 0.01);

    // One layer of a language model: h = LN(x), y = x + W₂ gelu(W₁h + b₁) + b₂.
    let (x, gain, bias) = (normal([5, 16]), Tensor::full([16], 1.0), Tensor::zeros([16]));
    let (w1, b1, w2, b2) = (normal([16, 64]), Tensor::zeros([64]), normal([64, 16]), Tensor::zeros([16]));
    let (h, _) = x.layer_norm(&gain, &bias, 1e-5);
    let y = &x + h.linear(&w1, &b1).gelu().linear(&w2, &b2);
    assert!(y.is_finite() && *y.shape() == *x.shape());
}

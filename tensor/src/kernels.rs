//! The table of kernels: all computations in bulk, on slices.
//!
//! [`Kernels::NAIVE`] supports any [`Scalar`], [`Kernels::FAST`] `f32` and `f64`. Tests compare each fast kernel with its naive
//! twin. All slices are dense and row-major unless strides are given. Kernels panic if lengths disagree. Results have the same
//! bits on any number of threads: the tree of a reduction depends on shapes alone.

use crate::Scalar;
use crate::cpu::gemm::{Bf16, Fused, Gemm, Products};
use crate::cpu::*;
use crate::operands::{AdamStep, AttentionGrads, AttentionOperands, Heads, Mat, MatMut, Onto, OutputGrads, OutputOperands};
use crate::rng::DropoutKey;

/// The kernels of a scalar type.
#[derive(Debug)]
#[allow(clippy::type_complexity, reason = "a kernel names each slice that it reads and writes")]
pub struct Kernels<T: 'static> {
    /// Computes C ← onto + A·B. (m,k)·(k,n) → (m,n).
    pub matmul: fn(a: Mat<'_, T>, b: Mat<'_, T>, c: MatMut<'_, T>, onto: Onto<'_, T>),
    /// Computes yᵢ = e^xᵢ.
    pub exp: fn(x: &[T], y: &mut [T]),
    /// Computes yᵢ = tanh xᵢ.
    pub tanh: fn(x: &[T], y: &mut [T]),
    /// Computes yᵢ = σ(xᵢ) = 1/(1 + e^−xᵢ).
    pub sigmoid: fn(x: &[T], y: &mut [T]),
    /// Computes y = gelu x, tanh form.
    pub gelu: fn(x: &[T], y: &mut [T]),
    /// Computes x̄ = ȳ ∘ gelu′(x).
    pub gelu_vjp: fn(x: &[T], gy: &[T], gx: &mut [T]),
    /// Computes y = softmax x for each row of n.
    pub softmax: fn(x: &[T], y: &mut [T], n: usize),
    /// Computes x̄ = y ∘ (ȳ − ⟨ȳ, y⟩) for each row of n.
    pub softmax_vjp: fn(y: &[T], gy: &[T], gx: &mut [T], n: usize),
    /// Computes y = x − log Σ eˣ for each row of n.
    pub log_softmax: fn(x: &[T], y: &mut [T], n: usize),
    /// Computes x̄ = ȳ − eʸ·Σȳ for each row of n.
    pub log_softmax_vjp: fn(y: &[T], gy: &[T], gx: &mut [T], n: usize),
    /// Computes y = (x − μ)·r ∘ gain + bias, r = (σ² + ε)^(−1/2), for rows of n = gain.len(). Writes μ and r, one per row.
    pub layer_norm: fn(x: &[T], gain: &[T], bias: &[T], eps: f64, y: &mut [T], mean: &mut [T], rstd: &mut [T]),
    /// Computes x̄ (rows), and the gradients of gain and bias (n). All are overwritten.
    pub layer_norm_vjp: fn(x: &[T], gain: &[T], mean: &[T], rstd: &[T], gy: &[T], gx: &mut [T], ggain: &mut [T], gbias: &mut [T]),
    /// Computes loss = lse − logit\[target\] and lse = log Σ e^logit for rows of n logits; one of each per row.
    pub cross_entropy: fn(logits: &[T], targets: &[u32], loss: &mut [T], lse: &mut [T]),
    /// Computes glogits = gy_row · (e^(logit − lse) − \[target\]).
    pub cross_entropy_vjp: fn(logits: &[T], targets: &[u32], lse: &[T], gy: &[T], glogits: &mut [T]),
    /// Computes y = x·r ∘ gain, r = (mean x² + ε)^(−1/2), for rows of n = gain.len(). Writes r, one per row.
    pub rms_norm: fn(x: &[T], gain: &[T], eps: f64, y: &mut [T], rrms: &mut [T]),
    /// Computes x̄ (rows) and the gain's gradient (n). Both are overwritten.
    pub rms_norm_vjp: fn(x: &[T], gain: &[T], rrms: &[T], gy: &[T], gx: &mut [T], ggain: &mut [T]),
    /// Computes the loss of the tied output: logits = h·wᵀ + bias. Writes loss (n), each row's −log p(target), and, if requested,
    /// the gradients of Σᵢ weightᵢ·lossᵢ. Logits are held for a chunk of rows at a time.
    pub linear_cross_entropy: fn(x: &OutputOperands<'_, T>, loss: &mut [T], grads: Option<OutputGrads<'_, T>>),
    /// Computes o (B, Tq, H, D), dense, and lse (B, H, Tq), the log-sum-exp of each row of scores.
    pub attention: fn(x: &AttentionOperands<'_, T>, o: &mut [T], lse: &mut [T]),
    /// Computes the gradients of [`Kernels::attention`]. `o` (B, Tq, H, D) is dense, `go` is read through strides, and `lse` is
    /// from the forward pass.
    pub attention_vjp: fn(x: &AttentionOperands<'_, T>, o: &[T], lse: &[T], go: Heads<'_, T>, grads: AttentionGrads<'_, T>),
    /// Computes one step of an LSTM of `units` H. gates (B, 4H) holds the pre-activations and is overwritten by [i | f | g | o].
    /// The new cell `c` and the output `h` (B, H) follow from the cell `before` (B, H).
    pub lstm_cell: fn(units: usize, gates: &mut [T], before: &[T], c: &mut [T], h: &mut [T]),
    /// Computes the gradients of [`Kernels::lstm_cell`] from its results. `gc`, the gradient of the new cell, is overwritten by
    /// the gradient of the previous cell. Writes the gradient of the pre-activations to gz (B, 4H).
    pub lstm_cell_vjp: fn(units: usize, gates: &[T], before: &[T], c: &[T], gh: &[T], gc: &mut [T], gz: &mut [T]),
    /// Computes an LSTM over whole sequences, from a state of zeros; `sizes` = \[B, H\]. x (T, B, 4H) is the inputs' share of the
    /// pre-activations, and w is (H, 4H). Writes the gates (T, B, 4H), the cells c and the outputs h (T, B, H).
    pub lstm: fn(x: &[T], w: &[T], sizes: [usize; 2], gates: &mut [T], c: &mut [T], h: &mut [T]),
    /// Computes the gradients of [`Kernels::lstm`] from its results and gy (T, B, H): gx (T, B, 4H), and gw (H, 4H) if requested.
    pub lstm_vjp: fn(w: &[T], sizes: [usize; 2], gates: &[T], c: &[T], h: &[T], gy: &[T], gx: &mut [T], gw: Option<&mut [T]>),
    /// Copies table row `ids[i]` to row i of y; rows of d. Panics if an id is out of range.
    pub gather: fn(table: &[T], d: usize, ids: &[u32], y: &mut [T]),
    /// Adds row i of x to table row `ids[i]`, in the order of i.
    pub scatter_add: fn(table: &mut [T], d: usize, ids: &[u32], x: &[T]),
    /// Computes y = x ∘ mask/(1 − p) for rows of n. The mask depends on the key alone. The kernel is also the VJP.
    pub dropout: fn(key: &DropoutKey, x: &[T], y: &mut [T], n: usize),
    /// Computes yⱼ = Σᵢ xᵢⱼ over rows of n. y is overwritten.
    pub sum_rows: fn(x: &[T], y: &mut [T], n: usize),
    /// Computes yᵢ = Σⱼ xᵢⱼ over rows of n. y is overwritten.
    pub sum_cols: fn(x: &[T], y: &mut [T], n: usize),
    /// Returns Σ xᵢ² in f64.
    pub sum_squares: fn(x: &[T]) -> f64,
    /// Computes y += x.
    pub accumulate: fn(y: &mut [T], x: &[T]),
    /// Computes z = x + y.
    pub add: fn(x: &[T], y: &[T], z: &mut [T]),
    /// Computes z = x − y.
    pub sub: fn(x: &[T], y: &[T], z: &mut [T]),
    /// Computes z = x ∘ y.
    pub mul: fn(x: &[T], y: &[T], z: &mut [T]),
    /// Computes y = a·x + b.
    pub affine: fn(x: &[T], a: T, b: T, y: &mut [T]),
    /// Computes one Adam update in one pass over p, m, v and g. `clip` is the factor of every gradient.
    pub adam: fn(step: &AdamStep, clip: T, p: &mut [T], m: &mut [T], v: &mut [T], g: &[T]),
}

impl<T: Scalar> Kernels<T> {
    /// The naive kernels: plain loops, which define every kernel.
    pub const NAIVE: Self = Kernels {
        matmul: matmul::naive,
        exp: unary::naive_exp,
        tanh: unary::naive_tanh,
        sigmoid: unary::naive_sigmoid,
        gelu: gelu::naive,
        gelu_vjp: gelu::naive_vjp,
        softmax: softmax::naive,
        softmax_vjp: softmax::naive_vjp,
        log_softmax: log_softmax::naive,
        log_softmax_vjp: log_softmax::naive_vjp,
        layer_norm: layer_norm::naive,
        layer_norm_vjp: layer_norm::naive_vjp,
        rms_norm: rms_norm::naive,
        rms_norm_vjp: rms_norm::naive_vjp,
        cross_entropy: cross_entropy::naive,
        cross_entropy_vjp: cross_entropy::naive_vjp,
        linear_cross_entropy: linear_cross_entropy::naive,
        attention: attention::naive::attention,
        attention_vjp: attention::naive::attention_vjp,
        lstm_cell: lstm::naive_cell,
        lstm_cell_vjp: lstm::naive_cell_vjp,
        lstm: lstm::naive,
        lstm_vjp: lstm::naive_vjp,
        gather: embedding::naive,
        scatter_add: embedding::naive_scatter_add,
        dropout: dropout::naive,
        sum_rows: reduce::naive_sum_rows,
        sum_cols: reduce::naive_sum_cols,
        sum_squares: reduce::naive_sum_squares,
        accumulate: elementwise::naive_accumulate,
        add: elementwise::naive_add,
        sub: elementwise::naive_sub,
        mul: elementwise::naive_mul,
        affine: elementwise::naive_affine,
        adam: adam::naive,
    };
}

impl<T: Gemm> Kernels<T> {
    /// The fast kernels, vectorised and parallel.
    pub const FAST: Self = Kernels {
        matmul: matmul::fast,
        exp: unary::fast_exp,
        tanh: unary::fast_tanh,
        sigmoid: unary::fast_sigmoid,
        gelu: gelu::fast,
        gelu_vjp: gelu::fast_vjp,
        softmax: softmax::fast,
        softmax_vjp: softmax::fast_vjp,
        log_softmax: log_softmax::fast,
        log_softmax_vjp: log_softmax::fast_vjp,
        layer_norm: layer_norm::fast,
        layer_norm_vjp: layer_norm::fast_vjp,
        rms_norm: rms_norm::fast,
        rms_norm_vjp: rms_norm::fast_vjp,
        cross_entropy: cross_entropy::fast,
        cross_entropy_vjp: cross_entropy::fast_vjp,
        linear_cross_entropy: linear_cross_entropy::fast::<T, Fused>,
        attention: attention::fast::attention::<T, Fused>,
        attention_vjp: attention::fast::attention_vjp::<T, Fused>,
        lstm_cell: lstm::fast_cell,
        lstm_cell_vjp: lstm::fast_cell_vjp,
        lstm: lstm::fast::<T, Fused>,
        lstm_vjp: lstm::fast_vjp::<T, Fused>,
        gather: embedding::fast,
        scatter_add: embedding::fast_scatter_add,
        dropout: dropout::fast,
        sum_rows: reduce::fast_sum_rows,
        sum_cols: reduce::fast_sum_cols,
        sum_squares: reduce::fast_sum_squares,
        accumulate: elementwise::fast_accumulate,
        add: elementwise::fast_add,
        sub: elementwise::fast_sub,
        mul: elementwise::fast_mul,
        affine: elementwise::fast_affine,
        adam: adam::fast,
    };
}

impl Kernels<f32> {
    /// The fast kernels with products in bf16: the factors of every product are rounded, and sums are in `f32`.
    pub const BF16: Self = Kernels {
        matmul: <Bf16 as Products<f32>>::matmul,
        linear_cross_entropy: linear_cross_entropy::fast::<f32, Bf16>,
        attention: attention::fast::attention::<f32, Bf16>,
        attention_vjp: attention::fast::attention_vjp::<f32, Bf16>,
        lstm: lstm::fast::<f32, Bf16>,
        lstm_vjp: lstm::fast_vjp::<f32, Bf16>,
        ..Self::FAST
    };
}

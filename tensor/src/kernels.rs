//! The table of kernels: everything that is computed in bulk, on slices.
//!
//! [`Kernels::NAIVE`] serves any [`Scalar`], [`Kernels::FAST`] `f32` and `f64`; the naive twin is the fast one's oracle. All
//! slices are dense and row-major unless strides are given; lengths that disagree panic. Results have the same bits on any number
//! of threads: a reduction's tree depends on shapes alone.

use crate::Scalar;
use crate::cpu::gemm::Gemm;
use crate::cpu::*;
use crate::operands::{AdamStep, AttentionGrads, AttentionOperands, Heads, Mat, MatMut, Onto, OutputGrads, OutputOperands};
use crate::rng::DropoutKey;

/// The kernels of a scalar type.
#[derive(Debug)]
#[allow(clippy::type_complexity, reason = "a kernel names each slice that it reads and writes")]
pub struct Kernels<T: 'static> {
    /// C ← onto + A·B. (m,k)·(k,n) → (m,n).
    pub matmul: fn(a: Mat<'_, T>, b: Mat<'_, T>, c: MatMut<'_, T>, onto: Onto<'_, T>),
    /// yᵢ = e^xᵢ.
    pub exp: fn(x: &[T], y: &mut [T]),
    /// yᵢ = tanh xᵢ.
    pub tanh: fn(x: &[T], y: &mut [T]),
    /// yᵢ = σ(xᵢ) = 1/(1 + e^−xᵢ).
    pub sigmoid: fn(x: &[T], y: &mut [T]),
    /// y = gelu x, tanh form.
    pub gelu: fn(x: &[T], y: &mut [T]),
    /// x̄ = ȳ ∘ gelu′(x).
    pub gelu_vjp: fn(x: &[T], gy: &[T], gx: &mut [T]),
    /// Each row of n: y = softmax x.
    pub softmax: fn(x: &[T], y: &mut [T], n: usize),
    /// x̄ = y ∘ (ȳ − ⟨ȳ, y⟩), by rows of n.
    pub softmax_vjp: fn(y: &[T], gy: &[T], gx: &mut [T], n: usize),
    /// Each row of n: y = x − log Σ eˣ.
    pub log_softmax: fn(x: &[T], y: &mut [T], n: usize),
    /// x̄ = ȳ − eʸ·Σȳ, by rows of n.
    pub log_softmax_vjp: fn(y: &[T], gy: &[T], gx: &mut [T], n: usize),
    /// Rows of n = gain.len(): y = (x − μ)·r ∘ gain + bias, r = (σ² + ε)^(−1/2); writes μ and r, one per row.
    pub layer_norm: fn(x: &[T], gain: &[T], bias: &[T], eps: f64, y: &mut [T], mean: &mut [T], rstd: &mut [T]),
    /// x̄ (rows), and gain and bias gradients (n), each written.
    pub layer_norm_vjp: fn(x: &[T], gain: &[T], mean: &[T], rstd: &[T], gy: &[T], gx: &mut [T], ggain: &mut [T], gbias: &mut [T]),
    /// Rows of n logits: loss = lse − logit\[target\], and lse = log Σ e^logit; one of each per row.
    pub cross_entropy: fn(logits: &[T], targets: &[u32], loss: &mut [T], lse: &mut [T]),
    /// glogits = gy_row · (e^(logit − lse) − \[target\]).
    pub cross_entropy_vjp: fn(logits: &[T], targets: &[u32], lse: &[T], gy: &[T], glogits: &mut [T]),
    /// Rows of n = gain.len(): y = x·r ∘ gain, r = (mean x² + ε)^(−1/2); writes r, one per row.
    pub rms_norm: fn(x: &[T], gain: &[T], eps: f64, y: &mut [T], rrms: &mut [T]),
    /// x̄ (rows) and the gain's gradient (n), each written.
    pub rms_norm_vjp: fn(x: &[T], gain: &[T], rrms: &[T], gy: &[T], gx: &mut [T], ggain: &mut [T]),
    /// Tied output and its loss: logits = h·wᵀ + bias; writes loss (n), each row's −log p(target), and the gradients of
    /// Σᵢ weightᵢ·lossᵢ where wanted. Logits are held a chunk of rows at a time.
    pub linear_cross_entropy: fn(x: &OutputOperands<'_, T>, loss: &mut [T], grads: Option<OutputGrads<'_, T>>),
    /// o (B, Tq, H, D) dense; lse (B, H, Tq), the log-sum-exp of each row of scores.
    pub attention: fn(x: &AttentionOperands<'_, T>, o: &mut [T], lse: &mut [T]),
    /// Gradients of [`Kernels::attention`]; `o` (B, Tq, H, D) dense, `go` read through strides, `lse` from the forward pass.
    pub attention_vjp: fn(x: &AttentionOperands<'_, T>, o: &[T], lse: &[T], go: Heads<'_, T>, grads: AttentionGrads<'_, T>),
    /// One step of an LSTM of `units` H. gates (B, 4H): pre-activations, overwritten by [i | f | g | o]; from the cell `before`
    /// (B, H) the new cell `c` and the output `h` (B, H).
    pub lstm_cell: fn(units: usize, gates: &mut [T], before: &[T], c: &mut [T], h: &mut [T]),
    /// Gradients of [`Kernels::lstm_cell`], from what it wrote: `gc`, the new cell's, is overwritten by that of the cell before;
    /// gz (B, 4H), that of the pre-activations, is written.
    pub lstm_cell_vjp: fn(units: usize, gates: &[T], before: &[T], c: &[T], gh: &[T], gc: &mut [T], gz: &mut [T]),
    /// An LSTM over whole sequences, from a state of zeros; `sizes` = \[B, H\]. x (T, B, 4H): the inputs' share of the
    /// pre-activations; w (H, 4H). Writes the gates (T, B, 4H), the cells c and the outputs h (T, B, H).
    pub lstm: fn(x: &[T], w: &[T], sizes: [usize; 2], gates: &mut [T], c: &mut [T], h: &mut [T]),
    /// Gradients of [`Kernels::lstm`], from what it wrote and gy (T, B, H): gx (T, B, 4H) and, where wanted, gw (H, 4H).
    pub lstm_vjp: fn(w: &[T], sizes: [usize; 2], gates: &[T], c: &[T], h: &[T], gy: &[T], gx: &mut [T], gw: Option<&mut [T]>),
    /// y row i = table row `ids[i]`; rows of d. An id out of range panics.
    pub gather: fn(table: &[T], d: usize, ids: &[u32], y: &mut [T]),
    /// table row `ids[i]` += x row i, in the order of i.
    pub scatter_add: fn(table: &mut [T], d: usize, ids: &[u32], x: &[T]),
    /// Rows of n: y = x ∘ mask/(1 − p), the mask a function of the key alone; its own VJP.
    pub dropout: fn(key: &DropoutKey, x: &[T], y: &mut [T], n: usize),
    /// yⱼ = Σᵢ xᵢⱼ over rows of n (written).
    pub sum_rows: fn(x: &[T], y: &mut [T], n: usize),
    /// yᵢ = Σⱼ xᵢⱼ over rows of n (written).
    pub sum_cols: fn(x: &[T], y: &mut [T], n: usize),
    /// Σ xᵢ² in f64.
    pub sum_squares: fn(x: &[T]) -> f64,
    /// y += x.
    pub accumulate: fn(y: &mut [T], x: &[T]),
    /// z = x + y.
    pub add: fn(x: &[T], y: &[T], z: &mut [T]),
    /// z = x − y.
    pub sub: fn(x: &[T], y: &[T], z: &mut [T]),
    /// z = x ∘ y.
    pub mul: fn(x: &[T], y: &[T], z: &mut [T]),
    /// y = a·x + b.
    pub affine: fn(x: &[T], a: T, b: T, y: &mut [T]),
    /// One Adam update in one pass over p, m, v, g; `clip` is the factor on every gradient.
    pub adam: fn(step: &AdamStep, clip: T, p: &mut [T], m: &mut [T], v: &mut [T], g: &[T]),
}

impl<T: Scalar> Kernels<T> {
    /// Plain loops, which define every kernel.
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
    /// Vectorised and parallel.
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
        linear_cross_entropy: linear_cross_entropy::fast,
        attention: attention::fast::attention,
        attention_vjp: attention::fast::attention_vjp,
        lstm_cell: lstm::fast_cell,
        lstm_cell_vjp: lstm::fast_cell_vjp,
        lstm: lstm::fast,
        lstm_vjp: lstm::fast_vjp,
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

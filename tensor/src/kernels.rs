//! The table of kernels: everything a scalar computes in bulk, on slices.
//!
//! Every method has a naive default that any [`Real`] can run; [`Fast`] overrides it for `f32` and `f64`, and the naive
//! twin is its oracle. All slices are dense and row-major unless strides are given; lengths that disagree panic.
//! Results have the same bits on any number of threads: a reduction's tree depends on shapes alone.

use crate::Real;
use crate::cpu;
use crate::rng::DropoutKey;
use crate::simd::Float;

/// A matrix read through strides: element (i, j) is `data[i·row_stride + j·col_stride]`.
#[derive(Clone, Copy, Debug)]
pub struct Mat<'a, T> {
    /// Elements, from (0, 0) on.
    pub data: &'a [T],
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub cols: usize,
    /// Elements from a row to the next.
    pub row_stride: usize,
    /// Elements from a column to the next.
    pub col_stride: usize,
}

/// A matrix to write, rows dense up to `row_stride`: element (i, j) is `data[i·row_stride + j]`.
#[derive(Debug)]
pub struct MatMut<'a, T> {
    /// Elements, from (0, 0) on.
    pub data: &'a mut [T],
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub cols: usize,
    /// Elements from a row to the next, ≥ `cols`.
    pub row_stride: usize,
}

/// What a product is added to.
#[derive(Clone, Copy, Debug)]
pub enum Onto<'a, T> {
    /// Nothing: C ← A·B.
    Nothing,
    /// C ← C + A·B.
    Itself,
    /// A row as long as C's, the same for every row: cᵢⱼ ← xⱼ + (A·B)ᵢⱼ.
    Row(&'a [T]),
}

impl<T> Onto<'_, T> {
    /// For the columns from `j` on.
    pub fn columns_from(self, j: usize) -> Self {
        match self {
            Onto::Row(x) => Onto::Row(&x[j..]),
            other => other,
        }
    }
}

/// One of q, k, v of attention, (B, H, T, D), read through strides; the last axis is dense.
#[derive(Clone, Copy, Debug)]
pub struct Heads<'a, T> {
    /// Elements, from (0, 0, 0, 0) on.
    pub data: &'a [T],
    /// Elements from a sequence, a head, a position to the next.
    pub strides: [usize; 3],
}

/// Which keys a query may attend to.
#[derive(Clone, Debug, PartialEq)]
pub enum Mask {
    /// Every key.
    Full,
    /// Query i of Tq sees key j of Tk where j ≤ i + Tk − Tq: queries are the last Tq positions (requires Tk ≥ Tq).
    Causal,
    /// `allowed[i·Tk + j]`; every query must be allowed some key.
    Allowed(std::sync::Arc<[bool]>),
}

impl Mask {
    /// May query `i` of `queries` attend to key `j` of `keys`?
    pub fn allows(&self, i: usize, j: usize, queries: usize, keys: usize) -> bool {
        match self {
            Mask::Full => true,
            Mask::Causal => j + queries <= i + keys,
            Mask::Allowed(a) => a[i * keys + j],
        }
    }
}

/// Sizes and options of one attention call.
#[derive(Clone, Debug)]
pub struct AttentionSpec {
    /// Sequences B.
    pub batch: usize,
    /// Heads H.
    pub heads: usize,
    /// Query positions Tq.
    pub queries: usize,
    /// Key positions Tk.
    pub keys: usize,
    /// Width of a head D (of q, k and v).
    pub width: usize,
    /// Factor on q·k, 1/√D.
    pub scale: f64,
    /// Which keys a query sees.
    pub mask: Mask,
    /// Dropout on the probabilities; row ((b·H + h)·Tq + i) of the key's rows, column j.
    pub dropout: Option<DropoutKey>,
}

/// A differentiable additive bias on the scores, (B|1, H|1, Tq, Tk), dense; a size of 1 is broadcast.
#[derive(Clone, Copy, Debug)]
pub struct ScoreBias<'a, T> {
    /// Elements.
    pub data: &'a [T],
    /// B or 1.
    pub batch: usize,
    /// H or 1.
    pub heads: usize,
}

/// Where one of gq, gk, gv stands in the buffer of attention's gradients; the last axis is dense.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Position of (0, 0, 0, 0).
    pub offset: usize,
    /// Elements from a sequence, a head, a position to the next.
    pub strides: [usize; 3],
}

/// Where the gradients of attention go. The three share one buffer, so that they may interleave there (the gradient of
/// a packed qkv) or follow one another; their places are disjoint and every element is written.
#[derive(Debug)]
pub struct AttentionGrads<'a, T> {
    /// gq, gk and gv.
    pub data: &'a mut [T],
    /// Their places: gq (B, H, Tq, D), gk and gv (B, H, Tk, D).
    pub places: [Place; 3],
    /// Gradient of the score bias, in its own (broadcast) shape; summed over broadcast axes in a fixed order.
    pub gbias: Option<&'a mut [T]>,
}

/// One Adam update's numbers (see `gradus_train::optim`): p ← p − rate·(m̂-form) with everything folded into factors.
#[derive(Clone, Copy, Debug)]
pub struct AdamStep {
    /// Factor on every gradient (the clipping factor).
    pub grad_scale: f64,
    /// β₁.
    pub beta1: f64,
    /// β₂.
    pub beta2: f64,
    /// Step on m/(√v·`v_scale` + ε).
    pub step: f64,
    /// Factor on √v before ε is added: 1 where ε stands outside the bias correction, 1/√(1−β₂ᵗ) where inside.
    pub v_scale: f64,
    /// ε.
    pub eps: f64,
    /// Decoupled decay: p ← p − decay·p (p before the update).
    pub decay: f64,
    /// L2 in the gradient: g ← g·grad_scale + l2·p.
    pub l2: f64,
}

/// The naive loops, for any scalar.
#[derive(Clone, Copy, Debug)]
pub struct Naive;
/// Vectorised and parallel kernels of `f32` and `f64`.
#[derive(Clone, Copy, Debug)]
pub struct Fast;

/// What a scalar computes in bulk.
#[allow(clippy::too_many_arguments, reason = "operands and their sizes")] // a kernel names each slice that it reads and writes; a struct would only rename them
pub trait Kernels<T: Real>: Sync {
    /// C ← onto + A·B. (m,k)·(k,n) → (m,n).
    fn matmul(&self, a: Mat<'_, T>, b: Mat<'_, T>, c: MatMut<'_, T>, onto: Onto<'_, T>) {
        cpu::matmul::naive(a, b, c, onto)
    }
    /// yᵢ = e^xᵢ.
    fn exp(&self, x: &[T], y: &mut [T]) {
        cpu::exp::naive(x, y)
    }
    /// yᵢ = tanh xᵢ.
    fn tanh(&self, x: &[T], y: &mut [T]) {
        cpu::tanh::naive(x, y)
    }
    /// yᵢ = σ(xᵢ) = 1/(1 + e^−xᵢ).
    fn sigmoid(&self, x: &[T], y: &mut [T]) {
        cpu::sigmoid::naive(x, y)
    }
    /// y = gelu x, tanh form.
    fn gelu(&self, x: &[T], y: &mut [T]) {
        cpu::gelu::naive(x, y)
    }
    /// x̄ = ȳ ∘ gelu′(x).
    fn gelu_vjp(&self, x: &[T], gy: &[T], gx: &mut [T]) {
        cpu::gelu::naive_vjp(x, gy, gx)
    }
    /// Each row of n: y = softmax x.
    fn softmax(&self, x: &[T], y: &mut [T], n: usize) {
        cpu::softmax::naive(x, y, n)
    }
    /// x̄ = y ∘ (ȳ − ⟨ȳ, y⟩), by rows of n.
    fn softmax_vjp(&self, y: &[T], gy: &[T], gx: &mut [T], n: usize) {
        cpu::softmax::naive_vjp(y, gy, gx, n)
    }
    /// Each row of n: y = x − log Σ eˣ.
    fn log_softmax(&self, x: &[T], y: &mut [T], n: usize) {
        cpu::log_softmax::naive(x, y, n)
    }
    /// x̄ = ȳ − eʸ·Σȳ, by rows of n.
    fn log_softmax_vjp(&self, y: &[T], gy: &[T], gx: &mut [T], n: usize) {
        cpu::log_softmax::naive_vjp(y, gy, gx, n)
    }
    /// Rows of n = gain.len(): y = (x − μ)·r ∘ gain + bias, r = (σ² + ε)^(−1/2); writes μ and r, one a row.
    fn layer_norm(&self, x: &[T], gain: &[T], bias: &[T], eps: f64, y: &mut [T], mean: &mut [T], rstd: &mut [T]) {
        cpu::layer_norm::naive(x, gain, bias, eps, y, mean, rstd)
    }
    /// x̄ (rows), and gain and bias gradients (n), each written.
    fn layer_norm_vjp(
        &self,
        x: &[T],
        gain: &[T],
        mean: &[T],
        rstd: &[T],
        gy: &[T],
        gx: &mut [T],
        ggain: &mut [T],
        gbias: &mut [T],
    ) {
        cpu::layer_norm::naive_vjp(x, gain, mean, rstd, gy, gx, ggain, gbias)
    }
    /// Rows of n logits: loss = lse − logit\[target\], and lse = log Σ e^logit; one of each a row.
    fn cross_entropy(&self, logits: &[T], targets: &[u32], loss: &mut [T], lse: &mut [T]) {
        cpu::cross_entropy::naive(logits, targets, loss, lse)
    }
    /// glogits = gy_row · (e^(logit − lse) − \[target\]).
    fn cross_entropy_vjp(&self, logits: &[T], targets: &[u32], lse: &[T], gy: &[T], glogits: &mut [T]) {
        cpu::cross_entropy::naive_vjp(logits, targets, lse, gy, glogits)
    }
    /// Tied output and its loss. h (n, d), w (V, d): logits = h·wᵀ; writes loss (n), each row's −log p(target); with `grads`
    /// also the gradients of Σᵢ weightᵢ·lossᵢ: gh (n, d) and gw (V, d), written. Logits live a chunk of rows at a time.
    #[allow(clippy::too_many_arguments, reason = "operands and their sizes")]
    fn linear_cross_entropy(
        &self,
        h: &[T],
        w: &[T],
        d: usize,
        targets: &[u32],
        weights: &[T],
        loss: &mut [T],
        grads: Option<(&mut [T], &mut [T])>,
    ) {
        cpu::linear_cross_entropy::naive(h, w, d, targets, weights, loss, grads)
    }
    /// o (B, Tq, H, D) dense; lse (B, H, Tq), the log-sum-exp of each row of scores.
    fn attention(
        &self,
        spec: &AttentionSpec,
        q: Heads<'_, T>,
        k: Heads<'_, T>,
        v: Heads<'_, T>,
        bias: Option<ScoreBias<'_, T>>,
        o: &mut [T],
        lse: &mut [T],
    ) {
        cpu::attention::naive(spec, q, k, v, bias, o, lse)
    }
    /// Gradients of [`Kernels::attention`]; `o` (B, Tq, H, D) dense, `go` read through strides, `lse` as the forward wrote it.
    fn attention_vjp(
        &self,
        spec: &AttentionSpec,
        q: Heads<'_, T>,
        k: Heads<'_, T>,
        v: Heads<'_, T>,
        bias: Option<ScoreBias<'_, T>>,
        o: &[T],
        lse: &[T],
        go: Heads<'_, T>,
        grads: AttentionGrads<'_, T>,
    ) {
        cpu::attention::naive_vjp(spec, q, k, v, bias, o, lse, go, grads)
    }
    /// One step of an LSTM of `units` H. gates (B, 4H): pre-activations, overwritten by [i | f | g | o]; from the cell `before`
    /// (B, H) the new cell `c` and the output `h` (B, H).
    fn lstm_cell(&self, units: usize, gates: &mut [T], before: &[T], c: &mut [T], h: &mut [T]) {
        cpu::lstm::naive_cell(units, gates, before, c, h)
    }
    /// Gradients of [`Kernels::lstm_cell`], from what it wrote: `gc`, the new cell's, is overwritten by that of the cell before;
    /// gz (B, 4H), that of the pre-activations, is written.
    fn lstm_cell_vjp(&self, units: usize, gates: &[T], before: &[T], c: &[T], gh: &[T], gc: &mut [T], gz: &mut [T]) {
        cpu::lstm::naive_cell_vjp(units, gates, before, c, gh, gc, gz)
    }
    /// An LSTM over whole sequences, from a state of zeros; `sizes` = \[B, H\]. x (T, B, 4H): what the inputs give to the
    /// pre-activations; w (H, 4H). Writes the gates (T, B, 4H), the cells c and the outputs h (T, B, H).
    fn lstm(&self, x: &[T], w: &[T], sizes: [usize; 2], gates: &mut [T], c: &mut [T], h: &mut [T]) {
        cpu::lstm::naive(x, w, sizes, gates, c, h)
    }
    /// Gradients of [`Kernels::lstm`], from what it wrote and gy (T, B, H): gx (T, B, 4H) and, where wanted, gw (H, 4H).
    fn lstm_vjp(&self, w: &[T], sizes: [usize; 2], gates: &[T], c: &[T], h: &[T], gy: &[T], gx: &mut [T], gw: Option<&mut [T]>) {
        cpu::lstm::naive_vjp(w, sizes, gates, c, h, gy, gx, gw)
    }
    /// y row i = table row `ids[i]`; rows of d. An id out of range panics.
    fn gather(&self, table: &[T], d: usize, ids: &[u32], y: &mut [T]) {
        cpu::embedding::naive(table, d, ids, y)
    }
    /// table row `ids[i]` += x row i, in the order of i.
    fn scatter_add(&self, table: &mut [T], d: usize, ids: &[u32], x: &[T]) {
        cpu::embedding::naive_scatter_add(table, d, ids, x)
    }
    /// Rows of n: y = x ∘ mask/(1 − p), the mask a function of the key alone; its own VJP.
    fn dropout(&self, key: &DropoutKey, x: &[T], y: &mut [T], n: usize) {
        cpu::dropout::naive(key, x, y, n)
    }
    /// yⱼ = Σᵢ xᵢⱼ over rows of n (written).
    fn sum_rows(&self, x: &[T], y: &mut [T], n: usize) {
        cpu::reduce::naive_sum_rows(x, y, n)
    }
    /// yᵢ = Σⱼ xᵢⱼ over rows of n (written).
    fn sum_cols(&self, x: &[T], y: &mut [T], n: usize) {
        cpu::reduce::naive_sum_cols(x, y, n)
    }
    /// Σ xᵢ² in f64.
    fn sum_squares(&self, x: &[T]) -> f64 {
        cpu::reduce::naive_sum_squares(x)
    }
    /// y += x.
    fn accumulate(&self, y: &mut [T], x: &[T]) {
        cpu::elementwise::naive_accumulate(y, x)
    }
    /// z = x + y.
    fn add(&self, x: &[T], y: &[T], z: &mut [T]) {
        cpu::elementwise::naive_add(x, y, z)
    }
    /// z = x − y.
    fn sub(&self, x: &[T], y: &[T], z: &mut [T]) {
        cpu::elementwise::naive_sub(x, y, z)
    }
    /// z = x ∘ y.
    fn mul(&self, x: &[T], y: &[T], z: &mut [T]) {
        cpu::elementwise::naive_mul(x, y, z)
    }
    /// y = a·x + b.
    fn affine(&self, x: &[T], a: T, b: T, y: &mut [T]) {
        cpu::elementwise::naive_affine(x, a, b, y)
    }
    /// One Adam update in one pass over p, m, v, g.
    fn adam(&self, step: &AdamStep, p: &mut [T], m: &mut [T], v: &mut [T], g: &[T]) {
        cpu::adam::naive(step, p, m, v, g)
    }
}

impl<T: Real> Kernels<T> for Naive {}

impl<T: Float> Kernels<T> for Fast {
    fn matmul(&self, a: Mat<'_, T>, b: Mat<'_, T>, c: MatMut<'_, T>, onto: Onto<'_, T>) {
        cpu::matmul::fast(a, b, c, onto)
    }
    fn exp(&self, x: &[T], y: &mut [T]) {
        cpu::exp::fast(x, y)
    }
    fn tanh(&self, x: &[T], y: &mut [T]) {
        cpu::tanh::fast(x, y)
    }
    fn sigmoid(&self, x: &[T], y: &mut [T]) {
        cpu::sigmoid::fast(x, y)
    }
    fn gelu(&self, x: &[T], y: &mut [T]) {
        cpu::gelu::fast(x, y)
    }
    fn gelu_vjp(&self, x: &[T], gy: &[T], gx: &mut [T]) {
        cpu::gelu::fast_vjp(x, gy, gx)
    }
    fn softmax(&self, x: &[T], y: &mut [T], n: usize) {
        cpu::softmax::fast(x, y, n)
    }
    fn softmax_vjp(&self, y: &[T], gy: &[T], gx: &mut [T], n: usize) {
        cpu::softmax::fast_vjp(y, gy, gx, n)
    }
    fn log_softmax(&self, x: &[T], y: &mut [T], n: usize) {
        cpu::log_softmax::fast(x, y, n)
    }
    fn log_softmax_vjp(&self, y: &[T], gy: &[T], gx: &mut [T], n: usize) {
        cpu::log_softmax::fast_vjp(y, gy, gx, n)
    }
    fn layer_norm(&self, x: &[T], gain: &[T], bias: &[T], eps: f64, y: &mut [T], mean: &mut [T], rstd: &mut [T]) {
        cpu::layer_norm::fast(x, gain, bias, eps, y, mean, rstd)
    }
    fn layer_norm_vjp(
        &self,
        x: &[T],
        gain: &[T],
        mean: &[T],
        rstd: &[T],
        gy: &[T],
        gx: &mut [T],
        ggain: &mut [T],
        gbias: &mut [T],
    ) {
        cpu::layer_norm::fast_vjp(x, gain, mean, rstd, gy, gx, ggain, gbias)
    }
    fn cross_entropy(&self, logits: &[T], targets: &[u32], loss: &mut [T], lse: &mut [T]) {
        cpu::cross_entropy::fast(logits, targets, loss, lse)
    }
    fn cross_entropy_vjp(&self, logits: &[T], targets: &[u32], lse: &[T], gy: &[T], glogits: &mut [T]) {
        cpu::cross_entropy::fast_vjp(logits, targets, lse, gy, glogits)
    }
    fn linear_cross_entropy(
        &self,
        h: &[T],
        w: &[T],
        d: usize,
        targets: &[u32],
        weights: &[T],
        loss: &mut [T],
        grads: Option<(&mut [T], &mut [T])>,
    ) {
        cpu::linear_cross_entropy::fast(h, w, d, targets, weights, loss, grads)
    }
    fn attention(
        &self,
        spec: &AttentionSpec,
        q: Heads<'_, T>,
        k: Heads<'_, T>,
        v: Heads<'_, T>,
        bias: Option<ScoreBias<'_, T>>,
        o: &mut [T],
        lse: &mut [T],
    ) {
        cpu::attention::fast(spec, q, k, v, bias, o, lse)
    }
    fn attention_vjp(
        &self,
        spec: &AttentionSpec,
        q: Heads<'_, T>,
        k: Heads<'_, T>,
        v: Heads<'_, T>,
        bias: Option<ScoreBias<'_, T>>,
        o: &[T],
        lse: &[T],
        go: Heads<'_, T>,
        grads: AttentionGrads<'_, T>,
    ) {
        cpu::attention::fast_vjp(spec, q, k, v, bias, o, lse, go, grads)
    }
    fn lstm_cell(&self, units: usize, gates: &mut [T], before: &[T], c: &mut [T], h: &mut [T]) {
        cpu::lstm::fast_cell(units, gates, before, c, h)
    }
    fn lstm_cell_vjp(&self, units: usize, gates: &[T], before: &[T], c: &[T], gh: &[T], gc: &mut [T], gz: &mut [T]) {
        cpu::lstm::fast_cell_vjp(units, gates, before, c, gh, gc, gz)
    }
    fn lstm(&self, x: &[T], w: &[T], sizes: [usize; 2], gates: &mut [T], c: &mut [T], h: &mut [T]) {
        cpu::lstm::fast(x, w, sizes, gates, c, h)
    }
    fn lstm_vjp(&self, w: &[T], sizes: [usize; 2], gates: &[T], c: &[T], h: &[T], gy: &[T], gx: &mut [T], gw: Option<&mut [T]>) {
        cpu::lstm::fast_vjp(w, sizes, gates, c, h, gy, gx, gw)
    }
    fn gather(&self, table: &[T], d: usize, ids: &[u32], y: &mut [T]) {
        cpu::embedding::fast(table, d, ids, y)
    }
    fn scatter_add(&self, table: &mut [T], d: usize, ids: &[u32], x: &[T]) {
        cpu::embedding::fast_scatter_add(table, d, ids, x)
    }
    fn dropout(&self, key: &DropoutKey, x: &[T], y: &mut [T], n: usize) {
        cpu::dropout::fast(key, x, y, n)
    }
    fn sum_rows(&self, x: &[T], y: &mut [T], n: usize) {
        cpu::reduce::fast_sum_rows(x, y, n)
    }
    fn sum_cols(&self, x: &[T], y: &mut [T], n: usize) {
        cpu::reduce::fast_sum_cols(x, y, n)
    }
    fn sum_squares(&self, x: &[T]) -> f64 {
        cpu::reduce::fast_sum_squares(x)
    }
    fn accumulate(&self, y: &mut [T], x: &[T]) {
        cpu::elementwise::fast_accumulate(y, x)
    }
    fn add(&self, x: &[T], y: &[T], z: &mut [T]) {
        cpu::elementwise::fast_add(x, y, z)
    }
    fn sub(&self, x: &[T], y: &[T], z: &mut [T]) {
        cpu::elementwise::fast_sub(x, y, z)
    }
    fn mul(&self, x: &[T], y: &[T], z: &mut [T]) {
        cpu::elementwise::fast_mul(x, y, z)
    }
    fn affine(&self, x: &[T], a: T, b: T, y: &mut [T]) {
        cpu::elementwise::fast_affine(x, a, b, y)
    }
    fn adam(&self, step: &AdamStep, p: &mut [T], m: &mut [T], v: &mut [T], g: &[T]) {
        cpu::adam::fast(step, p, m, v, g)
    }
}

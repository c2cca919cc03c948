//! What kernels take besides plain slices: matrices and heads through their strides, masks, and the numbers of an Adam step.

use std::sync::Arc;

use crate::rng::DropoutKey;

/// A matrix read through strides: element (i, j) is `data[i·row_stride + j·col_stride]`.
#[derive(Clone, Copy, Debug)]
pub struct Mat<'a, T> {
    /// Elements, from (0, 0) on.
    pub data: &'a [T],
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub cols: usize,
    /// Elements from one row to the next.
    pub row_stride: usize,
    /// Elements from one column to the next.
    pub col_stride: usize,
}

impl<'a, T> Mat<'a, T> {
    /// Row after row.
    pub fn dense(data: &'a [T], rows: usize, cols: usize) -> Self {
        Mat { data, rows, cols, row_stride: cols, col_stride: 1 }
    }

    /// Column after column: the transpose of what `data` holds row after row.
    pub fn transposed(data: &'a [T], rows: usize, cols: usize) -> Self {
        Mat { data, rows, cols, row_stride: 1, col_stride: rows }
    }
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
    /// Elements from one row to the next, ≥ `cols`.
    pub row_stride: usize,
}

impl<'a, T> MatMut<'a, T> {
    /// Row after row.
    pub fn dense(data: &'a mut [T], rows: usize, cols: usize) -> Self {
        MatMut { data, rows, cols, row_stride: cols }
    }
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
    /// Elements from one sequence, head or position to the next.
    pub strides: [usize; 3],
}

/// Which keys a query may attend to.
#[derive(Clone, Debug, PartialEq)]
pub enum Mask {
    /// Every key.
    Full,
    /// Query i of Tq sees key j of Tk where j ≤ i + Tk − Tq: queries are the last Tq positions (requires Tk ≥ Tq).
    Causal,
    /// Element (b, i, j) of (B|1, Tq, Tk), row-major: one mask per sequence, or one for all of them.
    Allowed(Arc<[bool]>),
}

impl Mask {
    /// The mask's row of query `i` in sequence `b`, of `queries` and `keys`; empty where it has none.
    pub(crate) fn row(&self, b: usize, i: usize, queries: usize, keys: usize) -> &[bool] {
        match self {
            Mask::Full | Mask::Causal => &[],
            Mask::Allowed(allowed) if allowed.is_empty() => &[],
            Mask::Allowed(allowed) => &allowed[(b * queries + i) * keys % allowed.len()..][..keys],
        }
    }
}

/// Sizes and options of one attention.
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
    /// Factor on q·k, 1/√D in the paper.
    pub scale: f64,
    /// Which keys a query sees.
    pub mask: Mask,
    /// Number of keys of each sequence (B); those after them are padding, which no query sees. `None`: all Tk.
    pub lengths: Option<Arc<[usize]>>,
    /// Dropout on the probabilities; row ((b·H + h)·Tq + i) of the key's rows, column j.
    pub dropout: Option<DropoutKey>,
}

impl AttentionSpec {
    /// Number of keys of sequence `b`.
    pub(crate) fn length(&self, b: usize) -> usize {
        self.lengths.as_ref().map_or(self.keys, |lengths| lengths[b])
    }

    /// Leading keys that query `i` of sequence `b` reaches; an [allowed](Mask::Allowed) mask may hide some of them.
    pub(crate) fn reach(&self, b: usize, i: usize) -> usize {
        let length = self.length(b);
        if self.mask == Mask::Causal { length.min(i + 1 + self.keys - self.queries) } else { length }
    }

    /// Does query `i` of sequence `b` see key `j`?
    pub fn allows(&self, b: usize, i: usize, j: usize) -> bool {
        j < self.reach(b, i) && self.mask.row(b, i, self.queries, self.keys).get(j).is_none_or(|&allowed| allowed)
    }

    /// Does query `i` of sequence `b` see no key at all?
    pub(crate) fn is_blind(&self, b: usize, i: usize) -> bool {
        let (reach, row) = (self.reach(b, i), self.mask.row(b, i, self.queries, self.keys));
        reach == 0 || !row.is_empty() && !row[..reach].contains(&true)
    }
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

/// What attention reads.
#[derive(Clone, Copy, Debug)]
pub struct AttentionOperands<'a, T> {
    /// Sizes and options.
    pub spec: &'a AttentionSpec,
    /// Queries (B, H, Tq, D).
    pub q: Heads<'a, T>,
    /// Keys (B, H, Tk, D).
    pub k: Heads<'a, T>,
    /// Values (B, H, Tk, D).
    pub v: Heads<'a, T>,
    /// What is added to the scores.
    pub bias: Option<ScoreBias<'a, T>>,
}

/// Where the gradients of q, k and v go, one buffer for the three; each element is written.
#[derive(Debug)]
pub struct AttentionGrads<'a, T> {
    /// Room for all of them.
    pub data: &'a mut [T],
    /// Side by side, (B, T, 3, H, D), the gradient of a packed projection; or one after the other, (B, Tq, H, D), then (B, Tk, H,
    /// D) twice.
    pub packed: bool,
    /// Gradient of the score bias, in its own (broadcast) shape; summed over broadcast axes in a fixed order.
    pub gbias: Option<&'a mut [T]>,
}

/// Where one of the three lies.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    /// Position of (0, 0, 0, 0).
    pub offset: usize,
    /// Elements from one sequence, head or position to the next.
    pub strides: [usize; 3],
}

impl Place {
    /// Position of (b, h, t, 0).
    pub(crate) fn of(&self, [b, h, t]: [usize; 3]) -> usize {
        let [of_b, of_h, of_t] = self.strides;
        self.offset + b * of_b + h * of_h + t * of_t
    }
}

impl AttentionSpec {
    /// The places of q, k and v, or of their gradients, in a buffer of the three.
    pub(crate) fn places(&self, packed: bool) -> [Place; 3] {
        let (c, d) = (self.heads * self.width, self.width);
        if packed {
            return [0, 1, 2].map(|i| Place { offset: i * c, strides: [self.queries * 3 * c, d, 3 * c] });
        }
        let (of_q, of_k) = (self.batch * self.queries * c, self.batch * self.keys * c);
        let place = |offset, positions: usize| Place { offset, strides: [positions * c, d, c] };
        [place(0, self.queries), place(of_q, self.keys), place(of_q + of_k, self.keys)]
    }
}

/// Does every row of (B, H, positions, width) lie inside a slice of `len`?
pub(crate) fn fits(strides: [usize; 3], sizes: [usize; 3], width: usize, len: usize) -> bool {
    if sizes.contains(&0) || width == 0 {
        return true;
    }
    let last =
        sizes.iter().zip(strides).try_fold(0usize, |last, (&size, stride)| last.checked_add((size - 1).checked_mul(stride)?));
    last.and_then(|last| last.checked_add(width)).is_some_and(|end| end <= len)
}

/// What a tied output and its loss read.
#[derive(Clone, Copy, Debug)]
pub struct OutputOperands<'a, T> {
    /// Hidden states (n, d).
    pub h: &'a [T],
    /// A row per class (V, d).
    pub w: &'a [T],
    /// Added to each row of logits (V).
    pub bias: Option<&'a [T]>,
    /// d.
    pub width: usize,
    /// Each row's class (n).
    pub targets: &'a [u32],
    /// Each row's weight (n).
    pub weights: &'a [T],
}

/// Where the gradients of a tied output and its loss go; each is written.
#[derive(Debug)]
pub struct OutputGrads<'a, T> {
    /// Gradient of h (n, d).
    pub h: &'a mut [T],
    /// Gradient of w (V, d).
    pub w: &'a mut [T],
    /// Gradient of the bias (V).
    pub bias: Option<&'a mut [T]>,
}

/// The numbers of one Adam step (see `gradus_train::optim`): p ← p − rate·(m̂-form) with everything folded into factors.
#[derive(Clone, Copy, Debug)]
pub struct AdamStep {
    /// β₁.
    pub beta1: f64,
    /// β₂.
    pub beta2: f64,
    /// Factor on m/(√v·`v_scale` + ε).
    pub step: f64,
    /// Factor on √v before ε is added: 1 where ε is outside the bias correction, 1/√(1−β₂ᵗ) where it is inside.
    pub v_scale: f64,
    /// ε.
    pub eps: f64,
    /// Decoupled decay: p ← p − decay·p (p before the update).
    pub decay: f64,
    /// L2 in the gradient: g ← clip·g + l2·p.
    pub l2: f64,
}

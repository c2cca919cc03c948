//! The operands of kernels other than plain slices: matrices and heads with strides, masks, and the numbers of an Adam step.

use std::sync::Arc;

use crate::rng::DropoutKey;

pub use crate::forms::Packed;

/// The form of a matrix that products in bf16 read.
#[derive(Clone, Copy, Debug, Default)]
pub enum Form<'a> {
    /// Its elements.
    #[default]
    Elements,
    /// Its elements rounded to bf16, at the places of the elements; [`Mat::data`] is empty.
    Rounded(&'a [u16]),
    /// Packed forms of its elements, kept from one product to the next.
    Kept(&'a Packed),
}

/// A matrix read through strides: element (i, j) is `data[i·row_stride + j·col_stride]`.
#[derive(Clone, Copy, Debug)]
pub struct Mat<'a, T> {
    /// The elements, from (0, 0) on.
    pub data: &'a [T],
    /// The number of rows.
    pub rows: usize,
    /// The number of columns.
    pub cols: usize,
    /// The elements from one row to the next.
    pub row_stride: usize,
    /// The elements from one column to the next.
    pub col_stride: usize,
    /// The form for products in bf16. Other kernels read the elements.
    pub form: Form<'a>,
}

impl<'a, T> Mat<'a, T> {
    /// Returns a matrix stored row by row.
    pub fn dense(data: &'a [T], rows: usize, cols: usize) -> Self {
        Mat { data, rows, cols, row_stride: cols, col_stride: 1, form: Form::Elements }
    }

    /// Returns a matrix stored column by column: the transpose of the row-major matrix in `data`.
    pub fn transposed(data: &'a [T], rows: usize, cols: usize) -> Self {
        Mat { data, rows, cols, row_stride: 1, col_stride: rows, form: Form::Elements }
    }
}

/// A matrix to write, with contiguous rows: element (i, j) is `data[i·row_stride + j]`.
#[derive(Debug)]
pub struct MatMut<'a, T> {
    /// The elements, from (0, 0) on.
    pub data: &'a mut [T],
    /// The number of rows.
    pub rows: usize,
    /// The number of columns.
    pub cols: usize,
    /// The elements from one row to the next, ≥ `cols`.
    pub row_stride: usize,
}

impl<'a, T> MatMut<'a, T> {
    /// Returns a matrix stored row by row.
    pub fn dense(data: &'a mut [T], rows: usize, cols: usize) -> Self {
        MatMut { data, rows, cols, row_stride: cols }
    }
}

/// The term that a product is added to.
#[derive(Clone, Copy, Debug)]
pub enum Onto<'a, T> {
    /// No term: C ← A·B.
    Nothing,
    /// The current C: C ← C + A·B.
    Itself,
    /// A row as long as C's, added to every row: cᵢⱼ ← xⱼ + (A·B)ᵢⱼ.
    Row(&'a [T]),
}

impl<T> Onto<'_, T> {
    /// Returns the term for the columns from `j` on.
    pub fn columns_from(self, j: usize) -> Self {
        match self {
            Onto::Row(x) => Onto::Row(&x[j..]),
            other => other,
        }
    }
}

/// One of q, k and v of attention, (B, H, T, D), read through strides. The last axis is dense.
#[derive(Clone, Copy, Debug)]
pub struct Heads<'a, T> {
    /// The elements, from (0, 0, 0, 0) on.
    pub data: &'a [T],
    /// The elements from one sequence, head or position to the next.
    pub strides: [usize; 3],
}

/// The keys that a query may attend to.
#[derive(Clone, Debug, PartialEq)]
pub enum Mask {
    /// Every key.
    Full,
    /// Query i of Tq attends to key j of Tk if j ≤ i + Tk − Tq: queries are the last Tq positions (requires Tk ≥ Tq).
    Causal,
    /// An explicit mask (B|1, Tq, Tk) of elements (b, i, j), row-major: one mask per sequence, or one for all sequences.
    Allowed(Arc<[bool]>),
}

impl Mask {
    /// Returns the mask's row of query `i` in sequence `b`, given the numbers of `queries` and `keys`; empty if the mask has no
    /// rows.
    pub(crate) fn row(&self, b: usize, i: usize, queries: usize, keys: usize) -> &[bool] {
        match self {
            Mask::Full | Mask::Causal => &[],
            Mask::Allowed(allowed) if allowed.is_empty() => &[],
            Mask::Allowed(allowed) => &allowed[(b * queries + i) * keys % allowed.len()..][..keys],
        }
    }
}

/// The sizes and options of an attention.
#[derive(Clone, Debug)]
pub struct AttentionSpec {
    /// The number of sequences B.
    pub batch: usize,
    /// The number of heads H.
    pub heads: usize,
    /// The number of query positions Tq.
    pub queries: usize,
    /// The number of key positions Tk.
    pub keys: usize,
    /// The width D of a head (of q, k and v).
    pub width: usize,
    /// The factor of q·k, usually 1/√D.
    pub scale: f64,
    /// The keys that a query attends to.
    pub mask: Mask,
    /// The number of keys of each sequence (B). The later keys are padding, which no query attends to. `None` means all Tk.
    pub lengths: Option<Arc<[usize]>>,
    /// The dropout of the probabilities: row ((b·H + h)·Tq + i) of the key's rows, column j.
    pub dropout: Option<DropoutKey>,
}

impl AttentionSpec {
    /// Returns the number of keys of sequence `b`.
    pub(crate) fn length(&self, b: usize) -> usize {
        self.lengths.as_ref().map_or(self.keys, |lengths| lengths[b])
    }

    /// Returns the number of leading keys that query `i` of sequence `b` reaches. An [allowed](Mask::Allowed) mask may exclude
    /// some of them.
    pub(crate) fn reach(&self, b: usize, i: usize) -> usize {
        let length = self.length(b);
        if self.mask == Mask::Causal { length.min(i + 1 + self.keys - self.queries) } else { length }
    }

    /// Returns whether query `i` of sequence `b` attends to key `j`.
    pub fn allows(&self, b: usize, i: usize, j: usize) -> bool {
        j < self.reach(b, i) && self.mask.row(b, i, self.queries, self.keys).get(j).is_none_or(|&allowed| allowed)
    }

    /// Returns whether query `i` of sequence `b` attends to no key.
    pub(crate) fn is_blind(&self, b: usize, i: usize) -> bool {
        let (reach, row) = (self.reach(b, i), self.mask.row(b, i, self.queries, self.keys));
        reach == 0 || !row.is_empty() && !row[..reach].contains(&true)
    }
}

/// A differentiable additive bias on the scores, (B|1, H|1, Tq, Tk), dense; a size of 1 is broadcast.
#[derive(Clone, Copy, Debug)]
pub struct ScoreBias<'a, T> {
    /// The elements.
    pub data: &'a [T],
    /// B or 1.
    pub batch: usize,
    /// H or 1.
    pub heads: usize,
}

/// The operands of attention.
#[derive(Clone, Copy, Debug)]
pub struct AttentionOperands<'a, T> {
    /// The sizes and options.
    pub spec: &'a AttentionSpec,
    /// The queries (B, H, Tq, D).
    pub q: Heads<'a, T>,
    /// The keys (B, H, Tk, D).
    pub k: Heads<'a, T>,
    /// The values (B, H, Tk, D).
    pub v: Heads<'a, T>,
    /// The bias that is added to the scores.
    pub bias: Option<ScoreBias<'a, T>>,
}

/// The gradients of q, k and v in one buffer, and the gradient of the bias. Every element is overwritten.
#[derive(Debug)]
pub struct AttentionGrads<'a, T> {
    /// The buffer of the three gradients.
    pub data: &'a mut [T],
    /// Whether the gradients are side by side, (B, T, 3, H, D), as the gradient of a packed projection. Otherwise they follow one
    /// another: (B, Tq, H, D), then (B, Tk, H, D) twice.
    pub packed: bool,
    /// The gradient of the score bias, in the bias's (broadcast) shape. It is summed over broadcast axes in a fixed order.
    pub gbias: Option<&'a mut [T]>,
}

/// The place of q, k or v, or of its gradient, in a buffer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HeadLayout {
    /// The position of (0, 0, 0, 0).
    pub offset: usize,
    /// The elements from one sequence, head or position to the next.
    pub strides: [usize; 3],
}

impl HeadLayout {
    /// Returns the position of (b, h, t, 0).
    pub(crate) fn of(&self, [b, h, t]: [usize; 3]) -> usize {
        let [of_b, of_h, of_t] = self.strides;
        self.offset + b * of_b + h * of_h + t * of_t
    }
}

impl AttentionSpec {
    /// Returns the places of q, k and v, or of their gradients, in a buffer of the three.
    pub(crate) fn places(&self, packed: bool) -> [HeadLayout; 3] {
        let (c, d) = (self.heads * self.width, self.width);
        if packed {
            return [0, 1, 2].map(|i| HeadLayout { offset: i * c, strides: [self.queries * 3 * c, d, 3 * c] });
        }
        let (of_q, of_k) = (self.batch * self.queries * c, self.batch * self.keys * c);
        let place = |offset, positions: usize| HeadLayout { offset, strides: [positions * c, d, c] };
        [place(0, self.queries), place(of_q, self.keys), place(of_q + of_k, self.keys)]
    }
}

/// Returns whether every row of (B, H, positions, width) lies inside a slice of `len`.
pub(crate) fn fits(strides: [usize; 3], sizes: [usize; 3], width: usize, len: usize) -> bool {
    if sizes.contains(&0) || width == 0 {
        return true;
    }
    let last =
        sizes.iter().zip(strides).try_fold(0usize, |last, (&size, stride)| last.checked_add((size - 1).checked_mul(stride)?));
    last.and_then(|last| last.checked_add(width)).is_some_and(|end| end <= len)
}

/// The operands of a tied output and its loss.
#[derive(Clone, Copy, Debug)]
pub struct OutputOperands<'a, T> {
    /// The hidden states (n, d).
    pub h: &'a [T],
    /// The weights (V, d), one row per class.
    pub w: &'a [T],
    /// The form of the weights for products in bf16.
    pub w_form: Form<'a>,
    /// The bias (V), added to each row of logits.
    pub bias: Option<&'a [T]>,
    /// The width d.
    pub width: usize,
    /// The class of each row (n).
    pub targets: &'a [u32],
    /// The weight of each row (n).
    pub weights: &'a [T],
}

/// The gradients of a tied output and its loss. All are overwritten.
#[derive(Debug)]
pub struct OutputGrads<'a, T> {
    /// The gradient of h (n, d).
    pub h: &'a mut [T],
    /// The gradient of w (V, d).
    pub w: &'a mut [T],
    /// The gradient of the bias (V).
    pub bias: Option<&'a mut [T]>,
}

/// The numbers of one Adam step (see `gradus_train::optim`): p ← p − rate·(m̂-form), with all constants folded into factors.
#[derive(Clone, Copy, Debug)]
pub struct AdamStep {
    /// β₁.
    pub beta1: f64,
    /// β₂.
    pub beta2: f64,
    /// The factor of m/(√v·`v_scale` + ε).
    pub step: f64,
    /// The factor of √v before ε is added: 1 if ε is outside the bias correction, 1/√(1−β₂ᵗ) if it is inside.
    pub v_scale: f64,
    /// ε.
    pub eps: f64,
    /// The decoupled decay: p ← p − decay·p (p before the update).
    pub decay: f64,
    /// The L2 coefficient in the gradient: g ← clip·g + l2·p.
    pub l2: f64,
}

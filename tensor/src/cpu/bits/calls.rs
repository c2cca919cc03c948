//! Calls of each kernel on drawn numbers, generic over the scalar so that they serve both twins. The sizes are around the sizes
//! of vectors, tiles and blocks. Slices begin and end at any offset.

use std::sync::atomic::{AtomicUsize, Ordering};

pub(super) use super::sequences::{attention, attention_vjp, lstm, lstm_cell, lstm_cell_vjp, lstm_vjp};
use crate::Scalar;
use crate::kernels::Kernels;
use crate::operands::{AdamStep, Form, Mat, MatMut, Onto, OutputGrads, OutputOperands};
use crate::rng::DropoutKey;

/// The drawn inputs of a call.
pub(crate) struct Drawn<S> {
    /// The numbers that the call reads, in an order that depends on `seed`.
    pub pool: Vec<S>,
    pub seed: u64,
    /// The sizes: two below 72 and one below 300.
    pub sizes: [usize; 3],
    pub wrong: WrongLength,
}

/// A slice of a call that has a wrong length, by default none. `taken` counts the slices of the call.
#[derive(Debug, Default)]
pub(crate) struct WrongLength {
    pub which: usize,
    pub by: isize,
    pub taken: AtomicUsize,
}

impl<S: Scalar> Drawn<S> {
    /// Returns the `salt`-th choice of this case, below n.
    pub(super) fn choice(&self, salt: u64, n: usize) -> usize {
        let mut x = self.seed ^ salt.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for _ in 0..2 {
            x = (x ^ x >> 31).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        }
        (x >> 33) as usize % n
    }

    /// Returns the length of the next slice: n, unless this slice has a wrong length. A slice of length 0 is not passed.
    pub(super) fn len(&self, n: usize) -> usize {
        let WrongLength { which, by, taken } = &self.wrong;
        if n > 0 && taken.fetch_add(1, Ordering::Relaxed) == *which { n.strict_add_signed(*by) } else { n }
    }

    /// Returns a number.
    fn value(&self, salt: u64, i: usize) -> S {
        self.pool[self.choice(salt << 32 | i as u64, self.pool.len())]
    }

    /// Returns a slice of n numbers.
    pub(super) fn values(&self, salt: u64, n: usize) -> Vec<S> {
        (0..self.len(n)).map(|i| self.value(salt, i)).collect()
    }

    /// Overwrites a slice by numbers.
    pub(super) fn fill(&self, salt: u64, x: &mut [S]) {
        x.iter_mut().enumerate().for_each(|(i, x)| *x = self.value(salt, i));
    }

    fn ids(&self, salt: u64, n: usize, below: usize) -> Vec<u32> {
        (0..self.len(n)).map(|i| self.choice(salt << 32 | i as u64, below) as u32).collect()
    }

    /// Returns the numbers of rows and columns.
    fn rows(&self) -> [usize; 2] {
        let [rows, n, _] = self.sizes;
        [rows, n + 1]
    }

    pub(super) fn dropout(&self) -> DropoutKey {
        let [p, key, row] = [0, 1, 2].map(|salt| self.choice(salt, 1 << 20));
        DropoutKey::new(p as f64 / (1 << 20) as f64, [key as u32, 3], 5, u64::from(u32::MAX) - row as u64)
    }
}

/// Returns the slices of these lengths after `kernel` wrote them. They hold NaN before the call. Each slice follows
/// `drawn.seed % 5` elements that must stay NaN.
pub(super) fn written<S: Scalar, const N: usize>(
    drawn: &Drawn<S>,
    lengths: [usize; N],
    kernel: impl FnOnce([&mut [S]; N]),
) -> Vec<S> {
    let (before, lengths) = ((drawn.seed % 5) as usize, lengths.map(|n| drawn.len(n)));
    let mut out = vec![S::lit(f64::NAN); lengths.iter().map(|n| before + n).sum()];
    let mut rest = &mut out[..];
    kernel(lengths.map(|n| &mut rest.split_off_mut(..before + n).expect("as long as all of them")[before..]));
    out
}

/// Kernels that read slices of n elements and write one.
macro_rules! elementwise {
    ($($name:ident($($operand:tt),*)),* $(,)?) => {$(
        pub(super) fn $name<S: Scalar>(k: &Kernels<S>, drawn: &Drawn<S>) -> Vec<S> {
            let n = drawn.sizes[2];
            written(drawn, [n], |[out]| (k.$name)($(elementwise!(@ drawn n $operand),)* out))
        }
    )*};
    (@ $drawn:ident $n:ident number) => { $drawn.value(7, 0) };
    (@ $drawn:ident $n:ident other) => { $drawn.value(8, 0) };
    (@ $drawn:ident $n:ident $salt:literal) => { &$drawn.values($salt, $n) };
}

elementwise!(exp(1), tanh(1), sigmoid(1), gelu(1), gelu_vjp(1, 2), add(1, 2), sub(1, 2), mul(1, 2), affine(1, number, other));

pub(super) fn accumulate<S: Scalar>(k: &Kernels<S>, drawn: &Drawn<S>) -> Vec<S> {
    let n = drawn.sizes[2];
    written(drawn, [n], |[y]| {
        drawn.fill(1, y);
        (k.accumulate)(y, &drawn.values(2, n));
    })
}

pub(super) fn adam<S: Scalar>(k: &Kernels<S>, drawn: &Drawn<S>) -> Vec<S> {
    let n = drawn.sizes[2];
    let number = |salt| drawn.choice(salt, 1000) as f64 / 1000.0;
    let step = AdamStep {
        beta1: number(1),
        beta2: number(2),
        step: number(3),
        v_scale: 1.0 + number(4),
        eps: number(5) * 1e-8,
        decay: number(6),
        l2: number(7),
    };
    written(drawn, [n; 3], |mut state| {
        state.iter_mut().zip(1..).for_each(|(x, salt)| drawn.fill(salt, x));
        let [p, m, v] = state;
        (k.adam)(&step, drawn.value(8, 0), p, m, v, &drawn.values(4, n));
    })
}

/// Kernels that read rows of n elements and write as many.
macro_rules! by_rows {
    ($($name:ident($($salt:literal),*)),* $(,)?) => {$(
        pub(super) fn $name<S: Scalar>(k: &Kernels<S>, drawn: &Drawn<S>) -> Vec<S> {
            let [rows, n] = drawn.rows();
            written(drawn, [rows * n], |[out]| (k.$name)($(&drawn.values($salt, rows * n),)* out, n))
        }
    )*};
}

by_rows!(softmax(1), softmax_vjp(1, 2), log_softmax(1), log_softmax_vjp(1, 2));

pub(super) fn dropout<S: Scalar>(k: &Kernels<S>, drawn: &Drawn<S>) -> Vec<S> {
    let [rows, n] = [drawn.sizes[0] % 8, drawn.sizes[2] + 1];
    written(drawn, [rows * n], |[y]| (k.dropout)(&drawn.dropout(), &drawn.values(1, rows * n), y, n))
}

pub(super) fn sum_rows<S: Scalar>(k: &Kernels<S>, drawn: &Drawn<S>) -> Vec<S> {
    let [rows, n] = drawn.rows();
    written(drawn, [n], |[y]| (k.sum_rows)(&drawn.values(1, rows * n), y, n))
}

pub(super) fn sum_cols<S: Scalar>(k: &Kernels<S>, drawn: &Drawn<S>) -> Vec<S> {
    let [rows, n] = drawn.rows();
    written(drawn, [rows], |[y]| (k.sum_cols)(&drawn.values(1, rows * n), y, n))
}

/// Calls the kernel, which sums in f64, so that the result has no spread. The factors of 1 model the roundings that it may have.
pub(super) fn sum_squares<S: Scalar>(k: &Kernels<S>, drawn: &Drawn<S>) -> Vec<S> {
    let sum = S::lit((k.sum_squares)(&drawn.values(1, drawn.sizes[0])));
    vec![sum * S::one() * S::one() * S::one() * S::one()]
}

pub(super) fn layer_norm<S: Scalar>(k: &Kernels<S>, drawn: &Drawn<S>) -> Vec<S> {
    let [rows, n] = drawn.rows();
    let [x, gain, bias] = [(1, rows * n), (2, n), (3, n)].map(|(salt, n)| drawn.values(salt, n));
    written(drawn, [rows * n, rows, rows], |[y, mean, rstd]| (k.layer_norm)(&x, &gain, &bias, 1e-5, y, mean, rstd))
}

pub(super) fn layer_norm_vjp<S: Scalar>(k: &Kernels<S>, drawn: &Drawn<S>) -> Vec<S> {
    let [rows, n] = drawn.rows();
    let [x, gain, mean, rstd, gy] =
        [(1, rows * n), (2, n), (3, rows), (4, rows), (5, rows * n)].map(|(salt, n)| drawn.values(salt, n));
    written(drawn, [rows * n, n, n], |[gx, ggain, gbias]| {
        (k.layer_norm_vjp)(&x, &gain, &mean, &rstd, &gy, gx, ggain, gbias);
    })
}

pub(super) fn rms_norm<S: Scalar>(k: &Kernels<S>, drawn: &Drawn<S>) -> Vec<S> {
    let [rows, n] = drawn.rows();
    let (x, gain) = (drawn.values(1, rows * n), drawn.values(2, n));
    written(drawn, [rows * n, rows], |[y, rrms]| (k.rms_norm)(&x, &gain, 1e-5, y, rrms))
}

pub(super) fn rms_norm_vjp<S: Scalar>(k: &Kernels<S>, drawn: &Drawn<S>) -> Vec<S> {
    let [rows, n] = drawn.rows();
    let [x, gain, rrms, gy] = [(1, rows * n), (2, n), (3, rows), (4, rows * n)].map(|(salt, n)| drawn.values(salt, n));
    written(drawn, [rows * n, n], |[gx, ggain]| (k.rms_norm_vjp)(&x, &gain, &rrms, &gy, gx, ggain))
}

pub(super) fn cross_entropy<S: Scalar>(k: &Kernels<S>, drawn: &Drawn<S>) -> Vec<S> {
    let [rows, n] = drawn.rows();
    let (logits, targets) = (drawn.values(1, rows * n), drawn.ids(2, rows, n));
    written(drawn, [rows; 2], |[loss, lse]| (k.cross_entropy)(&logits, &targets, loss, lse))
}

pub(super) fn cross_entropy_vjp<S: Scalar>(k: &Kernels<S>, drawn: &Drawn<S>) -> Vec<S> {
    let [rows, n] = drawn.rows();
    let (logits, targets) = (drawn.values(1, rows * n), drawn.ids(2, rows, n));
    let (lse, gy) = (drawn.values(3, rows), drawn.values(4, rows));
    written(drawn, [rows * n], |[gz]| (k.cross_entropy_vjp)(&logits, &targets, &lse, &gy, gz))
}

pub(super) fn linear_cross_entropy<S: Scalar>(k: &Kernels<S>, drawn: &Drawn<S>) -> Vec<S> {
    let ([rows, classes], width) = (drawn.rows(), 1 + drawn.sizes[2] % 40);
    let has_bias = drawn.choice(2, 2) == 1;
    let biases = if has_bias { classes } else { 0 };
    let [h, w, weights, bias] =
        [(1, rows * width), (2, classes * width), (3, rows), (4, biases)].map(|(salt, n)| drawn.values(salt, n));
    let (targets, bias) = (drawn.ids(5, rows, classes), has_bias.then_some(&bias[..]));
    let x = OutputOperands { h: &h, w: &w, w_form: Form::Elements, bias, width, targets: &targets, weights: &weights };
    if drawn.choice(3, 3) == 0 {
        return written(drawn, [rows], |[loss]| (k.linear_cross_entropy)(&x, loss, None));
    }
    written(drawn, [rows, rows * width, classes * width, biases], |[loss, h, w, bias]| {
        (k.linear_cross_entropy)(&x, loss, Some(OutputGrads { h, w, bias: has_bias.then_some(bias) }));
    })
}

pub(super) fn gather<S: Scalar>(k: &Kernels<S>, drawn: &Drawn<S>) -> Vec<S> {
    let [count, d] = drawn.rows();
    let (table, ids) = (drawn.values(1, 5 * d), drawn.ids(2, count, 5));
    written(drawn, [count * d], |[y]| (k.gather)(&table, d, &ids, y))
}

pub(super) fn scatter_add<S: Scalar>(k: &Kernels<S>, drawn: &Drawn<S>) -> Vec<S> {
    let [count, d] = drawn.rows();
    let (x, ids) = (drawn.values(1, count * d), drawn.ids(2, count, 5));
    written(drawn, [5 * d], |[table]| {
        drawn.fill(3, table);
        (k.scatter_add)(table, d, &ids, &x);
    })
}

/// Returns a matrix (rows, cols) in an unusual layout: rows with a gap, columns with a gap, or every other element. `data` holds
/// the elements. The last element of its slice is the last of the matrix.
fn laid_out<'a, S: Scalar>(drawn: &Drawn<S>, salt: u64, [rows, cols]: [usize; 2], data: &'a mut Vec<S>) -> Mat<'a, S> {
    let (row_stride, col_stride) = [(cols + 3, 1), (1, rows + 1), (2 * cols, 2)][drawn.choice(salt, 3)];
    let end = if rows * cols == 0 { 0 } else { (rows - 1) * row_stride + (cols - 1) * col_stride + 1 };
    *data = drawn.values((rows + 2 * cols) as u64, end);
    Mat { data, rows, cols, row_stride, col_stride, form: Form::Elements }
}

pub(super) fn matmul<S: Scalar>(k: &Kernels<S>, drawn: &Drawn<S>) -> Vec<S> {
    let [m, n, depth] = drawn.sizes;
    let m = if drawn.choice(1, 3) == 0 { 1 } else { m }; // a single row has a separate kernel
    let [mut a, mut b] = [vec![], vec![]];
    let (a, b) = (laid_out(drawn, 2, [m, depth], &mut a), laid_out(drawn, 3, [depth, n], &mut b));
    let (term, row_stride) = (drawn.choice(4, 3), n + drawn.choice(5, 3));
    let row = drawn.values(3, if term == 2 { n } else { 0 });
    let onto = [Onto::Nothing, Onto::Itself, Onto::Row(&row)][term];
    written(drawn, [(m * row_stride).saturating_sub(row_stride - n)], |[data]| {
        if let Onto::Itself = onto {
            drawn.fill(6, data);
        }
        (k.matmul)(a, b, MatMut { data, rows: m, cols: n, row_stride }, onto);
    })
}

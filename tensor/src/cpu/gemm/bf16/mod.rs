//! The matrix product in bf16: C ← onto + A·B with both factors rounded to bf16 and sums in f32.
//!
//! ```text
//! c ← onto                                             nothing, the old C, or a row
//! c ← c + (e + o)                                      for each block of 32 along k, in order
//! e = Σ a₂ᵢ·b₂ᵢ        o = Σ a₂ᵢ₊₁·b₂ᵢ₊₁                  two chains of 16 fused multiply-adds from +0, i ascending
//! ```
//!
//! k is padded with +0 to whole blocks. A subnormal is a zero of its sign, as an operand and as a result. Every operation rounds
//! to nearest even with an unbounded exponent first, and then flushes. This is the arithmetic of AMX's TDPBF16PS.
//! AVX512_BF16's VDPBF16PS computes the same bits if the pairs of its factors are (k, k + 2) and (k + 1, k + 3), and fused
//! multiply-adds do if they flush. The order depends on k alone: neither tiles, cache blocks nor threads change a bit. The sign
//! and the payload of a NaN are not defined.

#[cfg(target_arch = "x86_64")]
mod amx;
mod matmul;
mod multiply;
mod pack;
mod path;
mod plain;
#[cfg(target_arch = "x86_64")]
mod vectors;

use self::multiply::part;
use self::pack::{Factor, Left, Right};
pub use self::path::Bf16Path;
use self::path::path;
use super::super::parallel::{self, Shared};
use super::super::same_len;
use super::{Products, Strided};
use crate::buffer::{Buffer, with_scratch};
use crate::forms::Key;
use crate::operands::{Mat, MatMut, Onto, Packed};

/// The number of elements along k that are added to C at once.
const BLOCK: usize = 32;

/// Rounds to bf16: to nearest even, subnormals to a zero of their sign, a NaN to a quiet NaN.
#[inline(always)]
fn round(x: f32) -> u16 {
    let bits = x.to_bits();
    let high = (bits >> 16) as u16;
    let rounded = ((bits.wrapping_add(0x7FFF + (bits >> 16 & 1))) >> 16) as u16;
    match bits & 0x7FFF_FFFF {
        0..0x0080_0000 => high & 0x8000,
        0x7F80_0001.. => high | 0x40,
        _ => rounded,
    }
}

/// Returns the value of a bf16.
#[inline(always)]
pub(crate) fn widen(x: u16) -> f32 {
    f32::from_bits(u32::from(x) << 16)
}

/// Computes one element of the product by its definition. `a` and `b` give the elements of the factors along k.
#[cfg(test)]
fn element(onto: f32, k: usize, a: impl Fn(usize) -> f32, b: impl Fn(usize) -> f32) -> f32 {
    let pair = |p: usize| if p < k { (widen(round(a(p))), widen(round(b(p)))) } else { (0.0, 0.0) };
    (0..k).step_by(BLOCK).fold(onto, |c, first| chains(c, |p| pair(first + p)))
}

/// Computes c + (e + o) for one block.
fn chains(c: f32, pair: impl Fn(usize) -> (f32, f32)) -> f32 {
    let chain = |first: usize| (first..BLOCK).step_by(2).map(&pair).fold(0.0, |sum, (a, b)| multiply_add(a, b, sum));
    flush(flush(c) + flush(chain(0) + chain(1)))
}

/// Computes a·b + c, rounded with an unbounded exponent and then flushed. If |a·b + c| is below the least normal number by more
/// than half of the distance to the next number with 24 bits, it is not rounded up to that number. f64 decides this exactly.
fn multiply_add(a: f32, b: f32, c: f32) -> f32 {
    let exact = f64::from(a) * f64::from(b) + f64::from(c);
    let sum = a.mul_add(b, c);
    if exact.abs() < f64::from(f32::MIN_POSITIVE) - 2f64.powi(-151) { 0f32.copysign(sum) } else { sum }
}

fn flush(x: f32) -> f32 {
    if x.is_subnormal() { 0f32.copysign(x) } else { x }
}

/// Factors rounded to bf16, sums in f32.
#[derive(Debug)]
pub(crate) struct Bf16;

impl Products<f32> for Bf16 {
    const QUERIES: usize = BLOCK; // sums over the queries from any step on have the same blocks
    type Packed<'a> = Right<'a>;

    /// About the width: the logits of a chunk then have the bytes of w̄.
    fn rows_of_logits(_: usize, width: usize) -> usize {
        width.next_multiple_of(8 * BLOCK).min(16 * BLOCK)
    }

    fn matmul(a: Mat<'_, f32>, b: Mat<'_, f32>, c: MatMut<'_, f32>, onto: Onto<'_, f32>) {
        matmul::matmul(a, b, c, onto);
    }

    fn row(x: &[f32], b: Mat<'_, f32>, y: &mut [f32]) {
        let (k, n) = (b.rows, b.cols);
        with_scratch(Right::len(k, n), |space| {
            let x = Strided { at: x.as_ptr(), strides: [k, 1] };
            let b = Strided { at: b.data.as_ptr(), strides: [b.row_stride, b.col_stride] };
            // SAFETY: the slices have these elements.
            unsafe { Self::times(&Self::pack(b, k, n, space), [1, k, n], x, 0, y.as_mut_ptr(), n, Onto::Nothing) };
        });
    }

    fn packed_len(k: usize, n: usize) -> usize {
        Right::len(k, n)
    }

    unsafe fn pack(b: Strided<f32>, k: usize, n: usize, space: &mut [f32]) -> Right<'_> {
        let b = Factor { at: b.at, line: b.strides[1], along: b.strides[0] };
        // SAFETY: by the caller's contract.
        unsafe { Right::new(path(), b, k, n, words(space), 1) }
    }

    unsafe fn times(
        b: &Right<'_>,
        [m, k, n]: [usize; 3],
        a: Strided<f32>,
        first: usize,
        c: *mut f32,
        ld: usize,
        onto: Onto<'_, f32>,
    ) {
        assert!(first.is_multiple_of(BLOCK), "a part of a packed factor begins at a block of {BLOCK}, got row {first}");
        let (first, a) = (first / BLOCK, Factor { at: a.at, line: a.strides[0], along: a.strides[1] });
        with_scratch(Left::len(b.path, m, k), |space| {
            // SAFETY: by the caller's contract.
            unsafe {
                let a = Left::new(b.path, a, m, k, words(space), 1);
                part(&a, 0, 0..m, b, 0..n, first..first + k.div_ceil(BLOCK), c, ld, onto);
            }
        });
    }
}

/// A packed form of a row-major matrix, written again in blocks of its rows after they changed.
#[derive(Debug)]
pub(crate) struct Repacked {
    key: Key,
    space: Buffer<f32>,
    to: Shared<u32>,
}

impl Repacked {
    /// Returns room for the form of this key. Returns `None` if this CPU multiplies another layout.
    pub(crate) fn new(key: Key) -> Option<Self> {
        let mut space = Buffer::recycled(Right::len(key.sizes[0], key.sizes[1]));
        let to = Shared::new(words(&mut space));
        (key.layout == path().name).then_some(Repacked { key, space, to })
    }

    /// Packs rows of the matrix, whose elements are `data`, from `first` on: a multiple of [`Repacked::ROWS`].
    ///
    /// # Safety
    /// No other call packs these rows at the same time.
    pub(crate) unsafe fn rows(&self, first: usize, data: &[f32]) {
        let Key { sizes, transposed, .. } = self.key;
        let (k, n) = (sizes[0], sizes[1]);
        let width = if transposed { k } else { n };
        let rows = data.len() / width;
        assert!(first.is_multiple_of(Self::ROWS) && first + rows <= if transposed { n } else { k }, "rows of a form");
        let at = data.as_ptr().wrapping_sub(first * width);
        let here = first / Self::ROWS..(first + rows).div_ceil(Self::ROWS);
        let (from, halves, blocks) = match transposed {
            true => (Factor { at, line: width, along: 1 }, 2 * here.start..2 * here.end, 0..k.div_ceil(BLOCK)),
            false => (Factor { at, line: 1, along: width }, 0..2 * n.div_ceil(32), here),
        };
        // SAFETY: only elements of these rows are read, and the room of a block of rows is its own.
        unsafe { Right::pack(path(), from, sizes, halves, blocks, self.to.at(0)) };
    }

    /// The rows of a block: a block along k, and the columns of a panel.
    pub(crate) const ROWS: usize = 32;

    /// Adds the form, of which all rows are packed, to those of the matrix.
    pub(crate) fn keep(self, packed: &Packed) {
        packed.put(self.key, self.space);
    }
}

/// Rounds elements to bf16, in parallel.
pub(crate) fn round_all(x: &[f32], y: &mut [u16]) {
    same_len("round_all", &[x.len(), y.len()]);
    parallel::each_2(1, x, y, |x, y| {
        #[cfg(target_arch = "x86_64")]
        if pack::rounds() {
            // SAFETY: `rounds` found the instructions.
            return unsafe { pack::round_line(x, y) };
        }
        x.iter().zip(y).for_each(|(&x, y)| *y = round(x));
    });
}

/// Returns packed memory as words.
fn as_words(space: &[f32]) -> &[u32] {
    // SAFETY: the types have the same size and alignment, and any bits are a value of both.
    unsafe { std::slice::from_raw_parts(space.as_ptr().cast(), space.len()) }
}

/// Returns scratch memory as words.
fn words(space: &mut [f32]) -> &mut [u32] {
    // SAFETY: the types have the same size and alignment, and any bits are a value of both.
    unsafe { std::slice::from_raw_parts_mut(space.as_mut_ptr().cast(), space.len()) }
}

#[cfg(test)]
mod tests;

//! The product of matrices in memory, in parallel. The larger factor is packed in chunks right before they are multiplied, while
//! they are in the second-level cache.
//!
//! ```text
//! m ≥ n: pieces of rows       B packed whole, A in chunks
//! m < n: pieces of columns    A packed whole, B in chunks unless it is kept packed
//! ```

use std::ops::Range;

use rayon::prelude::*;

use super::multiply::{DEEP, part};
use super::pack::{Factor, Left, Right};
use super::path::{Path, path};
use super::{BLOCK, as_words, words};
use crate::buffer::with_scratch;
use crate::cpu::matmul::{WORTH_IT, check};
use crate::cpu::parallel::Shared;
use crate::forms::Key;
use crate::operands::{Form, Mat, MatMut, Onto};

/// The rows of a chunk of A, at most, and its elements along k: 256 KiB.
const CHUNK_OF_A: [usize; 2] = [128, 4 * DEEP * BLOCK];
/// The columns of a chunk of B and its elements along k: 128 KiB.
const CHUNK_OF_B: [usize; 2] = [256, DEEP * BLOCK];

/// Computes C ← onto + A·B.
pub(super) fn matmul(a: Mat<'_, f32>, b: Mat<'_, f32>, c: MatMut<'_, f32>, onto: Onto<'_, f32>) {
    check(&a, &b, &c, onto);
    let (m, k, n) = (c.rows, a.cols, c.cols);
    if m == 0 || n == 0 {
        return;
    }
    let threads = if m * n * k < WORTH_IT { 1 } else { rayon::current_num_threads() };
    let product = Product { path: path(), a, b, ld: c.row_stride, c: Shared::new(c.data), onto, threads };
    match b.form {
        _ if m >= n => product.with_right(|b| product.in_pieces(m, product.path.rows, |rows| product.rows(rows, b))),
        Form::Kept(_) => product.with_right(|b| {
            product.with_left(|a| {
                product.in_pieces(n, 32, |cols| product.block(a, 0, 0..m, b, cols.clone(), 0..b.blocks, [0, cols.start]));
            });
        }),
        _ => product.with_left(|a| product.in_pieces(n, 32, |cols| product.columns(a, cols))),
    }
}

/// A product that holds the borrow of its result.
struct Product<'a> {
    path: &'static Path,
    a: Mat<'a, f32>,
    b: Mat<'a, f32>,
    c: Shared<f32>,
    ld: usize,
    onto: Onto<'a, f32>,
    threads: usize,
}

impl Product<'_> {
    /// Passes the packed A to f.
    fn with_left(&self, f: impl FnOnce(&Left<'_>)) {
        with_scratch(Left::len(self.path, self.a.rows, self.a.cols), |space| f(&left(self.path, self.a, space, self.threads)));
    }

    /// Passes the packed B to f: the form that is kept, or one for this product.
    fn with_right(&self, f: impl FnOnce(&Right<'_>)) {
        let Product { path, b, .. } = *self;
        let len = Right::len(b.rows, b.cols);
        if let Form::Kept(packed) = b.form {
            let key = Key { sizes: [b.rows, b.cols], transposed: b.col_stride != 1, layout: path.name };
            let kept = packed.get(key, len, |space| {
                right(path, b, space, self.threads);
            });
            if let Some(kept) = kept {
                return f(&Right { path, words: as_words(kept), cols: b.cols, blocks: b.rows.div_ceil(BLOCK) });
            }
        }
        with_scratch(len, |space| f(&right(path, b, space, self.threads)));
    }

    /// Runs a task for each piece of `len` rows or columns: one piece per thread, or two if they are long.
    fn in_pieces(&self, len: usize, whole: usize, task: impl Fn(Range<usize>) + Sync + Send) {
        let pieces = if len >= 512 * self.threads { 2 * self.threads } else { self.threads };
        let cut = len.div_ceil(pieces).next_multiple_of(whole);
        match self.threads {
            1 => task(0..len),
            _ => (0..len).into_par_iter().step_by(cut).for_each(|first| task(first..len.min(first + cut))),
        }
    }

    /// Computes rows of C, packing the rows of A in chunks.
    fn rows(&self, rows: Range<usize>, b: &Right<'_>) {
        let (path, k) = (self.path, self.a.cols);
        let (height, deep) = (CHUNK_OF_A[0] / path.rows * path.rows, CHUNK_OF_A[1]);
        with_scratch(Left::len(path, height.min(rows.len()), deep.min(k)), |space| {
            for i in rows.clone().step_by(height) {
                let here = height.min(rows.end - i);
                for p in (0..k.max(1)).step_by(deep) {
                    let chunk = part_of(self.a, i..i + here, p..k.min(p + deep));
                    let a = left(path, chunk, &mut space[..Left::len(path, here, chunk.cols)], 1);
                    let along = p / BLOCK..p / BLOCK + a.blocks;
                    self.block(&a, 0, 0..here, b, 0..self.b.cols, along, [i, 0]);
                }
            }
        });
    }

    /// Computes columns of C, packing the columns of B in chunks.
    fn columns(&self, a: &Left<'_>, cols: Range<usize>) {
        let (path, k, [width, deep]) = (self.path, self.b.rows, CHUNK_OF_B);
        with_scratch(Right::len(deep.min(k), width.min(cols.len())), |space| {
            for j in cols.clone().step_by(width) {
                let here = width.min(cols.end - j);
                for p in (0..k.max(1)).step_by(deep) {
                    let chunk = part_of(self.b, p..k.min(p + deep), j..j + here);
                    let b = right(path, chunk, &mut space[..Right::len(chunk.rows, here)], 1);
                    self.block(a, p / BLOCK, 0..self.a.rows, &b, 0..here, 0..b.blocks, [0, j]);
                }
            }
        });
    }

    /// Multiplies rows of A, from its block `first` along k on, by columns and blocks of B. Adds to C at element `at`, after the
    /// first block of all to `onto`.
    #[allow(clippy::too_many_arguments, reason = "operands and their parts")]
    fn block(
        &self,
        a: &Left<'_>,
        first: usize,
        rows: Range<usize>,
        b: &Right<'_>,
        cols: Range<usize>,
        along: Range<usize>,
        [i, j]: [usize; 2],
    ) {
        let begins = first == 0 && along.start == 0;
        let onto = if begins { self.onto.columns_from(j) } else { Onto::Itself };
        // SAFETY: C is borrowed mutably, and tasks have disjoint pieces of it.
        unsafe { part(a, first, rows, b, cols, along, self.c.at(i * self.ld + j), self.ld, onto) }
    }
}

/// Returns the elements of these rows and columns.
fn part_of<'a>(x: Mat<'a, f32>, rows: Range<usize>, cols: Range<usize>) -> Mat<'a, f32> {
    let at = rows.start * x.row_stride + cols.start * x.col_stride;
    let form = match x.form {
        Form::Rounded(halves) => Form::Rounded(halves.get(at..).unwrap_or_default()),
        _ => Form::Elements,
    };
    Mat { data: x.data.get(at..).unwrap_or_default(), rows: rows.len(), cols: cols.len(), form, ..x }
}

/// Packs a left factor.
fn left<'a>(path: &'static Path, a: Mat<'_, f32>, space: &'a mut [f32], threads: usize) -> Left<'a> {
    let Mat { data, rows, cols, row_stride: line, col_stride: along, form } = a;
    // SAFETY: `check` found all elements inside their slices.
    unsafe {
        match form {
            Form::Rounded(x) => Left::new(path, Factor { at: x.as_ptr(), line, along }, rows, cols, words(space), threads),
            _ => Left::new(path, Factor { at: data.as_ptr(), line, along }, rows, cols, words(space), threads),
        }
    }
}

/// Packs a right factor.
pub(super) fn right<'a>(path: &'static Path, b: Mat<'_, f32>, space: &'a mut [f32], threads: usize) -> Right<'a> {
    let Mat { data, rows, cols, row_stride: along, col_stride: line, form } = b;
    // SAFETY: `check` found all elements inside their slices.
    unsafe {
        match form {
            Form::Rounded(x) => Right::new(path, Factor { at: x.as_ptr(), line, along }, rows, cols, words(space), threads),
            _ => Right::new(path, Factor { at: data.as_ptr(), line, along }, rows, cols, words(space), threads),
        }
    }
}

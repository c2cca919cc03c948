//! The matrix product on one thread: C ← onto + A·B.
//!
//! ```text
//!            ≤ 512 columns of B (256 of f64), packed
//!                 ┌──┬──┬──┐ panels, `tile.cols` wide, one column of panels in cache
//!               k │  │  │  │ ≤ 256 at a time
//!                 └──┴──┴──┘
//!      ┌────────┐ ┌──┬──┬──┐
//! rows │ strip  │ │▒▒│  │  │ tile: `tile.rows` × `tile.cols` sums, which never leave the registers
//!      └────────┘ └──┴──┴──┘
//! ```
//!
//! B is copied into panels whose rows follow one another. A is read in place, through its strides. Within each block of
//! [`K_BLOCK`], an element of C is one chain of fused multiply-adds over k. The blocks are added in order. The order does not
//! depend on the position and the size of the tiles. The crate `matrixmultiply`, used on CPUs that have no tiles here, computes
//! in the same order: the bits are equal on every CPU with fused multiply-adds.

mod bf16;
mod float;
mod tile;

use std::fmt::Debug;

use rayon::prelude::*;

use super::{matmul, matvec};
use crate::buffer::with_scratch;
use crate::operands::{Mat, MatMut, Onto};
use crate::simd::vectorized;
pub use bf16::Bf16Path;
pub(crate) use bf16::{Bf16, Repacked, round_all, widen};
pub(crate) use float::{Gemm, prefetch};
use tile::Tiles;

/// The number of elements packed between the prefetch of a line and its use.
const PACKED_AHEAD: usize = 2048;

/// The number of multiply-adds that follow one another in a register. Longer sums are accumulated in C.
pub(crate) const K_BLOCK: usize = 256;
/// The bytes of B that are packed at a time, about half of a core's second-level cache.
const PACKED_BYTES: usize = 512 << 10;

/// A matrix in memory: element (i, j) is at `at + i·strides[0] + j·strides[1]`.
#[derive(Clone, Copy, Debug)]
pub struct Strided<T> {
    pub(crate) at: *const T,
    pub(crate) strides: [usize; 2],
}

// SAFETY: code that reads through the pointer guarantees that nothing writes there.
unsafe impl<T: Sync> Sync for Strided<T> {}

impl<T> Strided<T> {
    /// The submatrix from element (i, j) on.
    fn from(self, i: usize, j: usize) -> Self {
        Strided { at: self.at.wrapping_add(i * self.strides[0] + j * self.strides[1]), ..self }
    }
}

/// The arithmetic of the products in a kernel.
pub(crate) trait Products<T: Gemm>: 'static {
    /// The number of queries that attention scores at a time: whole tiles, and scores that fit into the first-level cache.
    const QUERIES: usize;
    /// A right factor (k, n), packed to be multiplied by more than one matrix.
    type Packed<'a>: Debug + Send + Sync;

    /// Returns the number of rows whose logits the output layer holds at a time, a multiple of the block along k. With gradients,
    /// each chunk of rows reads w (classes, width) twice, and reads and writes w̄, so it must not be small.
    fn rows_of_logits(classes: usize, width: usize) -> usize;

    /// Computes C ← onto + A·B in parallel.
    fn matmul(a: Mat<'_, T>, b: Mat<'_, T>, c: MatMut<'_, T>, onto: Onto<'_, T>);

    /// Computes y ← x·B on one thread, for a B that is contiguous along one axis and used once.
    fn row(x: &[T], b: Mat<'_, T>, y: &mut [T]);

    /// Returns the number of elements of space for a packed (k, n).
    fn packed_len(k: usize, n: usize) -> usize;

    /// Packs B (k, n) into `space`, which has the length [`Products::packed_len`].
    ///
    /// # Safety
    /// Every element of B lies in its allocation.
    unsafe fn pack(b: Strided<T>, k: usize, n: usize, space: &mut [T]) -> Self::Packed<'_>;

    /// Computes C (m, n) ← onto + A (m, k)·B[first .. first + k, .. n]. `first` is a multiple of [`Products::QUERIES`]; it is 0
    /// unless B has at most [`K_BLOCK`] rows.
    ///
    /// # Safety
    /// The contract of [`product`].
    unsafe fn times(
        b: &Self::Packed<'_>,
        sizes: [usize; 3],
        a: Strided<T>,
        first: usize,
        c: *mut T,
        ld: usize,
        onto: Onto<'_, T>,
    );
}

/// Fused multiply-adds in the precision of the scalar.
#[derive(Debug)]
pub(crate) struct Fused;

impl<T: Gemm> Products<T> for Fused {
    const QUERIES: usize = 28; // a multiple of the 14 rows of an AVX-512 tile
    type Packed<'a> = Packed<'a, T>;

    fn rows_of_logits(classes: usize, _: usize) -> usize {
        const LOGITS: usize = 512 * 40_478; // 83 MB of f32
        (LOGITS / classes.max(1)).clamp(K_BLOCK, 1024) / K_BLOCK * K_BLOCK
    }

    fn matmul(a: Mat<'_, T>, b: Mat<'_, T>, c: MatMut<'_, T>, onto: Onto<'_, T>) {
        matmul::fast(a, b, c, onto);
    }

    fn row(x: &[T], b: Mat<'_, T>, y: &mut [T]) {
        matvec::fast(
            Mat::dense(x, 1, b.rows),
            b,
            MatMut { row_stride: y.len(), rows: 1, cols: y.len(), data: y },
            Onto::Nothing,
            1,
        );
    }

    fn packed_len(k: usize, n: usize) -> usize {
        Packed::<T>::len(k, n)
    }

    unsafe fn pack(b: Strided<T>, k: usize, n: usize, space: &mut [T]) -> Packed<'_, T> {
        // SAFETY: by the caller's contract.
        unsafe { Packed::new(b, k, n, space) }
    }

    unsafe fn times(b: &Packed<'_, T>, sizes: [usize; 3], a: Strided<T>, first: usize, c: *mut T, ld: usize, onto: Onto<'_, T>) {
        // SAFETY: by the caller's contract.
        unsafe { b.times(sizes, a, first, c, ld, onto) }
    }
}

/// Computes C (m, n) ← onto + A (m, k)·B (k, n). The rows of C are contiguous and `ld` apart.
///
/// # Safety
/// Every element that sizes and strides reach lies in its allocation. During the call nothing writes between the first and the
/// last element of A or B, and nothing else aliases C. (If the row to add is too short, the function panics.)
pub(crate) unsafe fn product<T: Gemm>(
    [m, k, n]: [usize; 3],
    a: Strided<T>,
    b: Strided<T>,
    c: *mut T,
    ld: usize,
    onto: Onto<'_, T>,
) {
    let Some(tiles) = T::tiles() else {
        // SAFETY: by the caller's contract.
        return unsafe { elsewhere([m, k, n], a, b, c, ld, onto) };
    };
    // SAFETY: by the caller's contract.
    unsafe { product_by(tiles, [m, k, n], a, b, c, ld, onto) }
}

/// Computes [`product`] with the given tiles.
///
/// # Safety
/// The contract of [`product`].
unsafe fn product_by<T: Gemm>(
    tiles: &Tiles<T>,
    [m, k, n]: [usize; 3],
    a: Strided<T>,
    b: Strided<T>,
    c: *mut T,
    ld: usize,
    onto: Onto<'_, T>,
) {
    let width = columns_at_once(tiles);
    with_scratch(K_BLOCK.min(k) * width.min(n.next_multiple_of(tiles.cols)), |packed| {
        for j in (0..n).step_by(width) {
            let cols = width.min(n - j);
            let mut onto = onto.columns_from(j);
            for p in (0..k.max(1)).step_by(K_BLOCK) {
                let depth = K_BLOCK.min(k - p);
                // SAFETY: by the caller's contract, each block of A, B and C lies inside its matrix.
                unsafe {
                    pack(tiles, depth, cols, b.from(p, j), packed);
                    block(tiles, [m, depth, cols], a.from(0, p), packed, [depth, 0], c.add(j), ld, onto);
                }
                onto = Onto::Itself;
            }
        }
    });
}

/// Returns the number of columns of B whose panels pass at a time.
fn columns_at_once<T>(tiles: &Tiles<T>) -> usize {
    PACKED_BYTES / size_of::<T>() / K_BLOCK / tiles.cols * tiles.cols
}

/// A right factor (k, n) in panels, to be multiplied by more than one matrix.
#[derive(Debug)]
pub(crate) struct Packed<'a, T> {
    panels: &'a [T],
    k: usize,
    n: usize,
}

impl<'a, T: Gemm> Packed<'a, T> {
    /// Returns the number of elements in the panels of a (k, n) matrix.
    pub(crate) fn len(k: usize, n: usize) -> usize {
        k * n.next_multiple_of(Self::panel())
    }

    fn panel() -> usize {
        T::tiles().map_or(1, |tiles| tiles.cols)
    }

    /// Packs B (k, n) into `space`, which has the length [`Packed::len`].
    ///
    /// # Safety
    /// Every element of B lies in its allocation.
    pub(crate) unsafe fn new(b: Strided<T>, k: usize, n: usize, space: &'a mut [T]) -> Self {
        for (i, to) in space[..Self::len(k, n)].chunks_mut((K_BLOCK * n.next_multiple_of(Self::panel())).max(1)).enumerate() {
            // SAFETY: by the caller's contract.
            unsafe { Self::pack(b, i * K_BLOCK, k, n, to) };
        }
        Packed { panels: space, k, n }
    }

    /// Computes [`Packed::new`] in parallel.
    ///
    /// # Safety
    /// The contract of [`Packed::new`]; nothing writes to B meanwhile.
    pub(crate) unsafe fn in_parallel(b: Strided<T>, k: usize, n: usize, space: &'a mut [T]) -> Self {
        let blocks = space[..Self::len(k, n)].par_chunks_mut((K_BLOCK * n.next_multiple_of(Self::panel())).max(1)).enumerate();
        // SAFETY: by the caller's contract.
        blocks.for_each(|(i, to)| unsafe { Self::pack(b, i * K_BLOCK, k, n, to) });
        Packed { panels: space, k, n }
    }

    /// Packs a block of at most [`K_BLOCK`] of the k rows, from `p` on.
    ///
    /// # Safety
    /// Every element of B lies in its allocation.
    unsafe fn pack(b: Strided<T>, p: usize, k: usize, n: usize, to: &mut [T]) {
        match T::tiles() {
            // SAFETY: by the caller's contract.
            Some(tiles) => unsafe { pack(tiles, K_BLOCK.min(k - p), n, b.from(p, 0), to) },
            None => {
                for (at, x) in to.iter_mut().enumerate() {
                    // SAFETY: by the caller's contract.
                    *x = unsafe { *b.from(p + at / n, at % n).at };
                }
            }
        }
    }

    /// Computes C (m, n) ← onto + A (m, k)·B[first .. first + k, .. n]. `first` is 0 unless B has at most [`K_BLOCK`] rows.
    ///
    /// # Safety
    /// The contract of [`product`].
    pub(crate) unsafe fn times(
        &self,
        [m, k, n]: [usize; 3],
        a: Strided<T>,
        first: usize,
        c: *mut T,
        ld: usize,
        onto: Onto<'_, T>,
    ) {
        let fits = first + k <= self.k && n <= self.n && (first == 0 || self.k <= K_BLOCK);
        assert!(fits, "({m}, {k}, {n}) from row {first} of a packed ({}, {})", self.k, self.n);
        let Some(tiles) = T::tiles() else {
            let b = Strided { at: self.panels[first * self.n..].as_ptr(), strides: [self.n, 1] };
            // SAFETY: by the caller's contract; without tiles, B was packed row by row without padding.
            return unsafe { elsewhere([m, k, n], a, b, c, ld, onto) };
        };
        let (width, at_once) = (self.n.next_multiple_of(tiles.cols), columns_at_once(tiles));
        for j in (0..n).step_by(at_once) {
            let (cols, mut onto) = (at_once.min(n - j), onto.columns_from(j));
            for p in (0..k.max(1)).step_by(K_BLOCK) {
                // Panels have the depth they were packed with; `depth` rows of each are read.
                let (depth, packed) = (K_BLOCK.min(k - p), K_BLOCK.min(self.k - p));
                let panels = &self.panels[p * width..][..packed * width][j * packed..];
                // SAFETY: by the caller's contract.
                unsafe { block(tiles, [m, depth, cols], a.from(0, p), panels, [packed, first], c.add(j), ld, onto) };
                onto = Onto::Itself;
            }
        }
    }
}

/// Computes the product by `matrixmultiply`, on CPUs without tiles.
///
/// # Safety
/// The contract of [`product`].
unsafe fn elsewhere<T: Gemm>([m, k, n]: [usize; 3], a: Strided<T>, b: Strided<T>, c: *mut T, ld: usize, onto: Onto<'_, T>) {
    if let Onto::Row(x) = onto {
        for i in 0..m {
            // SAFETY: by the caller's contract, each row of C has n elements.
            unsafe { std::ptr::copy_nonoverlapping(x[..n].as_ptr(), c.add(i * ld), n) };
        }
    }
    let beta = if let Onto::Nothing = onto { T::zero() } else { T::one() };
    // SAFETY: by the caller's contract.
    unsafe { T::gemm([m, k, n], a, b, beta, c, ld) }
}

/// Packs B (k ≤ K_BLOCK, n) into panels. Panel q holds the columns from q·cols on, row by row, with zeros past the last column.
///
/// # Safety
/// The contract of [`product`].
unsafe fn pack<T: Gemm>(tiles: &Tiles<T>, k: usize, n: usize, b: Strided<T>, panels: &mut [T]) {
    let width = tiles.cols;
    let [row, col] = b.strides;
    let columns = |q: usize| width.min(n - q * width);
    let panels = &mut panels[..n.next_multiple_of(width) * k];
    if !n.is_multiple_of(width) {
        panels[n / width * k * width..].fill(T::zero());
    }
    if row == 1 {
        for (q, panel) in panels.chunks_exact_mut((k * width).max(1)).enumerate() {
            // SAFETY: by the caller's contract, there are that many columns of length k, `col` apart.
            let b = unsafe { std::slice::from_raw_parts(b.from(0, q * width).at, (columns(q) - 1) * col + k) };
            pack_columns(b, col, columns(q), k, panel, width);
        }
        return;
    }
    if col == 1 && k > 0 && n > 0 {
        // SAFETY: by the caller's contract, there are that many rows of length n, `row` apart.
        let b = unsafe { std::slice::from_raw_parts(b.at, (k - 1) * row + n) };
        return pack_rows(b, row, n, k, panels, width);
    }
    for p in 0..k {
        for q in 0..n.div_ceil(width) {
            let (from, to) = (b.from(p, q * width).at, &mut panels[(q * k + p) * width..][..columns(q)]);
            for (j, to) in to.iter_mut().enumerate() {
                // SAFETY: by the caller's contract.
                *to = unsafe { *from.add(j * col) };
            }
        }
    }
}

vectorized! {
    /// Packs k contiguous rows of length n, `ld` apart, into panels. Rows are read in order, so that memory is read sequentially.
    fn pack_rows<T: Gemm>(rows: &[T], ld: usize, n: usize, k: usize, panels: &mut [T], width: usize) {
        let whole = n / width * width;
        match width {
            32 => whole_panels::<T, 32>(rows, ld, whole, k, panels),
            16 => whole_panels::<T, 16>(rows, ld, whole, k, panels),
            _ => whole_panels::<T, 8>(rows, ld, whole, k, panels),
        }
        let last = &mut panels[whole * k..];
        for p in 0..if n > whole { k } else { 0 } {
            last[p * width..][..n - whole].copy_from_slice(&rows[p * ld..][whole..n]);
        }
    }
}

/// Packs rows into panels of constant width, whose copies need no calls.
#[inline(always)]
fn whole_panels<T: Copy, const WIDTH: usize>(rows: &[T], ld: usize, n: usize, k: usize, panels: &mut [T]) {
    let ahead = (PACKED_AHEAD / n.max(1)).max(1) * ld;
    for p in 0..k {
        for (q, from) in rows[p * ld..][..n].as_chunks::<WIDTH>().0.iter().enumerate() {
            for line in (0..WIDTH).step_by(64 / size_of::<T>()) {
                prefetch(from.as_ptr().wrapping_add(ahead + line));
            }
            *panels[(q * k + p) * WIDTH..].first_chunk_mut().expect("a panel has k rows") = *from;
        }
    }
}

vectorized! {
    /// Packs a panel of `cols` contiguous columns, `ld` apart (0: one column, broadcast). Squares of 8 × 8 are transposed.
    fn pack_columns<T: Gemm>(columns: &[T], ld: usize, cols: usize, k: usize, panel: &mut [T], width: usize) {
        let (turned, deep) = (cols / 8 * 8, k / 8 * 8);
        for j in (0..turned).step_by(8) {
            for p in (0..deep).step_by(8) {
                let none = [T::zero(); 8];
                let mut square = [&none; 8];
                for (l, column) in square.iter_mut().enumerate() {
                    prefetch(columns.as_ptr().wrapping_add((j + 8 + l) * ld + p)); // the next columns
                    *column = columns[(j + l) * ld + p..].first_chunk().expect("eight rows from p on");
                }
                // SAFETY: on x86, FMA is set only if the CPU has it, and then it has AVX.
                for (l, across) in unsafe { T::turn::<FMA>(square) }.iter().enumerate() {
                    panel[(p + l) * width + j..][..8].copy_from_slice(across);
                }
            }
        }
        for j in 0..cols {
            for p in if j < turned { deep } else { 0 }..k {
                panel[p * width + j] = columns[j * ld + p];
            }
        }
    }
}

/// Computes a block of rows from k ≤ K_BLOCK rows, from `first` on, of packed panels of `depth` rows.
///
/// # Safety
/// The contract of [`product`].
#[allow(clippy::too_many_arguments, reason = "operands and their sizes")]
unsafe fn block<T: Gemm>(
    tiles: &Tiles<T>,
    [m, k, n]: [usize; 3],
    a: Strided<T>,
    panels: &[T],
    [depth, first]: [usize; 2],
    c: *mut T,
    ld: usize,
    onto: Onto<'_, T>,
) {
    let (height, width) = (tiles.rows, tiles.cols);
    assert!(panels.len() >= depth * n.next_multiple_of(width) && first + k <= depth, "panels hold (k, n)");
    for i in (0..m).step_by(height) {
        let (rows, a) = (height.min(m - i), a.from(i, 0));
        for (q, j) in (0..n).step_by(width).enumerate() {
            let panel = panels[(q * depth + first) * width..].as_ptr();
            // Once per strip, the next rows are prefetched.
            let ahead = if q == 0 && i + height < m { a.from(height, 0).at } else { std::ptr::null() };
            // SAFETY: by the caller's contract, the tile lies inside C, and its rows of A and its panel hold k.
            unsafe { tiles.run(rows, width.min(n - j), k, a, ahead, panel, c.add(i * ld + j), ld, onto.columns_from(j)) }
        }
    }
}

#[cfg(test)]
mod tests;

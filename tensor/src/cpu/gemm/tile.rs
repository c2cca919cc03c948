//! The innermost loop of the matrix product: a tile of C stays in vector registers while k runs.

use super::Strided;
use crate::operands::Onto;
use crate::simd::Float;

/// The kernel of a tile with a fixed number of rows and of vectors of columns. Its arguments are k, A, the rows of A after these,
/// a panel of B, C, its row stride, and onto.
type TileFn<T> = unsafe fn(usize, Strided<T>, *const T, *const T, *mut T, usize, Onto<'_, T>);

/// The tile kernels of one level of the CPU, for every number of rows up to the largest.
#[derive(Debug)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // only x86-64 has tiles
pub struct Tiles<T: 'static> {
    /// The rows of the largest tile.
    pub(super) rows: usize,
    /// The columns of the largest tile and of a panel: two vectors.
    pub(super) cols: usize,
    /// The kernel of r rows and v vectors is `table[r − 1][v − 1]`.
    table: &'static [[TileFn<T>; 2]],
}

/// The number of elements of the largest tile.
const LARGEST: usize = 14 * 32;

impl<T: Float> Tiles<T> {
    /// Computes C (rows, cols) ← onto + A (rows, k)·panel (k, self.cols).
    ///
    /// # Safety
    /// A has the rows, the panel k rows of `self.cols` elements, and C the rows and columns. Nothing else aliases C.
    #[inline]
    #[allow(clippy::too_many_arguments, reason = "operands and their sizes")]
    pub(super) unsafe fn run(
        &self,
        rows: usize,
        cols: usize,
        k: usize,
        a: Strided<T>,
        ahead: *const T,
        panel: *const T,
        c: *mut T,
        ld: usize,
        onto: Onto<'_, T>,
    ) {
        let lanes = self.cols / 2;
        let tile = self.table[rows - 1][cols.div_ceil(lanes) - 1];
        if cols.is_multiple_of(lanes) {
            // SAFETY: by the caller's contract; the tables of a level are used only on CPUs that have it.
            return unsafe { tile(k, a, ahead, panel, c, ld, onto) };
        }
        // The last vector extends past C's edge, so the tile is computed into a temporary.
        let mut aside = [T::zero(); LARGEST];
        // SAFETY: as above; `aside` holds the largest tile.
        unsafe { tile(k, a, ahead, panel, aside.as_mut_ptr(), self.cols, Onto::Nothing) };
        for i in 0..rows {
            for j in 0..cols {
                // SAFETY: by the caller's contract.
                unsafe {
                    let (sum, c) = (aside[i * self.cols + j], c.add(i * ld + j));
                    *c = match onto {
                        Onto::Nothing => sum,
                        Onto::Itself => *c + sum,
                        Onto::Row(x) => x[j] + sum,
                    };
                }
            }
        }
    }
}

/// Defines the tiles of one kind of vector: one or two vectors wide, with as many rows as leave registers for the factors.
#[cfg(target_arch = "x86_64")]
macro_rules! tiles {
    ($name:ident: $t:ty, $features:literal, $lanes:literal, rows [$($rows:literal)*],
     $zero:ident, $load:ident, $splat:ident, $fused:ident, $add:ident, $store:ident) => {
        pub(super) mod $name {
            use std::arch::x86_64::*;

            use super::{Onto, Strided, TileFn, Tiles};

            const TABLE: &[[TileFn<$t>; 2]] = &[$([tile::<$rows, 1>, tile::<$rows, 2>]),*];
            pub(crate) static TILES: Tiles<$t> = Tiles { rows: TABLE.len(), cols: 2 * $lanes, table: TABLE };

            /// Computes a tile of R rows by V vectors.
            ///
            /// # Safety
            /// The contract of [`Tiles::run`], on a CPU with the features.
            #[target_feature(enable = $features)]
            unsafe fn tile<const R: usize, const V: usize>(
                k: usize,
                Strided { at: a, strides: [row, col] }: Strided<$t>,
                ahead: *const $t,
                panel: *const $t,
                c: *mut $t,
                ld: usize,
                onto: Onto<'_, $t>,
            ) {
                // SAFETY: by the caller's contract, A has k columns of R rows, the panel k rows, and C R rows of V vectors.
                unsafe {
                    for i in 0..R {
                        for j in 0..V {
                            _mm_prefetch::<_MM_HINT_T0>(c.wrapping_add(i * ld + $lanes * j).cast());
                        }
                    }
                    let mut sums = [[$zero(); V]; R];
                    let (mut a, mut panel) = (a, panel);
                    for p in 0..k {
                        // Prefetch A for the next tile down: one line per column, or one line per row and LANES columns.
                        if !ahead.is_null() {
                            let ahead = ahead.wrapping_add(p * col);
                            if col != 1 {
                                _mm_prefetch::<_MM_HINT_T0>(ahead.wrapping_add((R - 1) * row).cast());
                            } else if p % $lanes == 0 {
                                for i in 0..R {
                                    _mm_prefetch::<_MM_HINT_T0>(ahead.wrapping_add(i * row).cast());
                                }
                            }
                        }
                        let mut b = [$zero(); V];
                        for j in 0..V {
                            b[j] = $load(panel.add($lanes * j));
                        }
                        for i in 0..R {
                            let x = $splat(*a.add(i * row));
                            for j in 0..V {
                                sums[i][j] = $fused(x, b[j], sums[i][j]);
                            }
                        }
                        (a, panel) = (a.wrapping_add(col), panel.wrapping_add(2 * $lanes));
                    }
                    for i in 0..R {
                        for j in 0..V {
                            let c = c.add(i * ld + $lanes * j);
                            let sum = match onto {
                                Onto::Nothing => sums[i][j],
                                Onto::Itself => $add($load(c), sums[i][j]),
                                Onto::Row(x) => $add($load(x[$lanes * j..][..$lanes].as_ptr()), sums[i][j]),
                            };
                            $store(c, sum);
                        }
                    }
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
tiles!(avx512_f32: f32, "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma", 16, rows [1 2 3 4 5 6 7 8 9 10 11 12 13 14],
    _mm512_setzero_ps, _mm512_loadu_ps, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_add_ps, _mm512_storeu_ps);
#[cfg(target_arch = "x86_64")]
tiles!(avx512_f64: f64, "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma", 8, rows [1 2 3 4 5 6 7 8 9 10 11 12 13 14],
    _mm512_setzero_pd, _mm512_loadu_pd, _mm512_set1_pd, _mm512_fmadd_pd, _mm512_add_pd, _mm512_storeu_pd);
#[cfg(target_arch = "x86_64")]
tiles!(avx2_f32: f32, "avx2,fma", 8, rows [1 2 3 4 5 6],
    _mm256_setzero_ps, _mm256_loadu_ps, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_add_ps, _mm256_storeu_ps);
#[cfg(target_arch = "x86_64")]
tiles!(avx2_f64: f64, "avx2,fma", 4, rows [1 2 3 4 5 6],
    _mm256_setzero_pd, _mm256_loadu_pd, _mm256_set1_pd, _mm256_fmadd_pd, _mm256_add_pd, _mm256_storeu_pd);

/// Returns every kind of tile that this CPU can run, for tests.
#[cfg(all(test, target_arch = "x86_64"))]
pub(super) fn available() -> (Vec<&'static Tiles<f32>>, Vec<&'static Tiles<f64>>) {
    use crate::simd::{Level, level};
    match level() {
        Level::Baseline => (vec![], vec![]),
        Level::Avx2 => (vec![&avx2_f32::TILES], vec![&avx2_f64::TILES]),
        Level::Avx512 => (vec![&avx2_f32::TILES, &avx512_f32::TILES], vec![&avx2_f64::TILES, &avx512_f64::TILES]),
    }
}

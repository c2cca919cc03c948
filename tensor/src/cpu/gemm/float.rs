//! The operations that matrix products need of a float besides arithmetic.

use super::Strided;
use super::tile::{self, Tiles};
use crate::simd::{Float, Level, level};

/// A float whose products are computed by tiles or by `matrixmultiply`.
pub trait Gemm: Float {
    /// Returns the transpose of a square.
    ///
    /// # Safety
    /// If `AVX` is true, the CPU must have AVX.
    #[inline(always)]
    unsafe fn turn<const AVX: bool>(square: [&[Self; 8]; 8]) -> [[Self; 8]; 8] {
        turn(square)
    }

    /// Returns the tiles of this CPU, or `None` if [`Gemm::gemm`] computes its products.
    fn tiles() -> Option<&'static Tiles<Self>>;

    /// Computes C (m, n) ← A·B + beta·C by `matrixmultiply`, on one thread. The rows of C are contiguous and `ld` apart.
    ///
    /// # Safety
    /// Every element that the sizes and strides reach must lie in its allocation, and C's may not be aliased.
    unsafe fn gemm(sizes: [usize; 3], a: Strided<Self>, b: Strided<Self>, beta: Self, c: *mut Self, ld: usize);
}

#[inline(always)]
fn turn<T: Copy>(square: [&[T; 8]; 8]) -> [[T; 8]; 8] {
    std::array::from_fn(|i| std::array::from_fn(|j| square[j][i]))
}

/// Computes [`turn`] in sixteen shuffles, which the compiler does not find.
///
/// # Safety
/// The CPU must have AVX.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn turn_f32(square: [&[f32; 8]; 8]) -> [[f32; 8]; 8] {
    use std::arch::x86_64::*;
    let mut turned = [[0.0; 8]; 8];
    // Written out: a closure would not inherit the caller's target features.
    // SAFETY: the caller guarantees AVX; every row holds eight numbers.
    unsafe {
        for half in 0..2 {
            // Columns 4·half to 4·half + 3: row r in the lower lane, row r + 4 in the upper.
            let mut rows = [_mm256_setzero_ps(); 4];
            for r in 0..4 {
                let lower = _mm_loadu_ps(square[r].as_ptr().add(4 * half));
                let upper = _mm_loadu_ps(square[r + 4].as_ptr().add(4 * half));
                rows[r] = _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(lower), upper);
            }
            let [a, b, c, d] = rows;
            let (ab_low, ab_high) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
            let (cd_low, cd_high) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
            let to = &mut turned[4 * half..];
            _mm256_storeu_ps(to[0].as_mut_ptr(), _mm256_shuffle_ps::<0x44>(ab_low, cd_low));
            _mm256_storeu_ps(to[1].as_mut_ptr(), _mm256_shuffle_ps::<0xEE>(ab_low, cd_low));
            _mm256_storeu_ps(to[2].as_mut_ptr(), _mm256_shuffle_ps::<0x44>(ab_high, cd_high));
            _mm256_storeu_ps(to[3].as_mut_ptr(), _mm256_shuffle_ps::<0xEE>(ab_high, cd_high));
        }
    }
    turned
}

macro_rules! gemm {
    ($t:ident, $gemm:ident, $avx2:ident, $avx512:ident, { $($turn:tt)* }) => {
        impl Gemm for $t {
            $($turn)*

            fn tiles() -> Option<&'static Tiles<$t>> {
                match level() {
                    Level::Baseline => None,
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx2 => Some(&tile::$avx2::TILES),
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx512 => Some(&tile::$avx512::TILES),
                    #[cfg(not(target_arch = "x86_64"))]
                    _ => unreachable!("only x86-64 has levels"),
                }
            }

            #[inline]
            unsafe fn gemm([m, k, n]: [usize; 3], a: Strided<$t>, b: Strided<$t>, beta: $t, c: *mut $t, ld: usize) {
                let [[ra, ca], [rb, cb]] = [a, b].map(|x| x.strides.map(|s| s as isize));
                // SAFETY: by the caller's contract. Alpha is 1, so that splitting rows or columns does not change bits.
                unsafe { matrixmultiply::$gemm(m, k, n, 1.0, a.at, ra, ca, b.at, rb, cb, beta, c, ld as isize, 1) }
            }
        }
    };
}

gemm!(f32, sgemm, avx2_f32, avx512_f32, {
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn turn<const AVX: bool>(square: [&[f32; 8]; 8]) -> [[f32; 8]; 8] {
        // SAFETY: by the caller's contract.
        if AVX { unsafe { turn_f32(square) } } else { turn(square) }
    }
});
gemm!(f64, dgemm, avx2_f64, avx512_f64, {});

/// Prefetches the cache line of an address, valid or not. Does nothing on architectures without a stable hint.
#[inline(always)]
pub fn prefetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which reads nothing and faults at no address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

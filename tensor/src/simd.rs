//! Vector arithmetic in plain Rust: loops that the compiler vectorises, compiled once for each level of the CPU.
//!
//! Only exponentials and products fuse a multiplication with an addition, and those wherever there is a vector unit that can;
//! reductions run over [`LANES`] partial sums whatever the width of a register. So all levels that have such a unit give the
//! same bits.

use crate::Real;
use crate::cpu::gemm::{Tiles, tiles_f32, tiles_f64};

/// Partial sums of a reduction; enough to hide the latency of an addition in the widest registers.
pub const LANES: usize = 32;

/// What a CPU offers beyond the baseline of its architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // only x86-64 has levels
pub enum Level {
    /// What the target guarantees.
    Baseline,
    /// x86-64 with AVX2 and FMA.
    Avx2,
    /// x86-64 with AVX-512 F, VL, BW and DQ.
    Avx512,
}

/// The level of this CPU (detected once, then read from a cache).
pub fn level() -> Level {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        let wide = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq");
        return if wide { Level::Avx512 } else { Level::Avx2 };
    }
    Level::Baseline
}

/// Compiles a function of `T: Float` once per [`Level`] and calls the one for this CPU.
///
/// The body must be a plain loop over `#[inline(always)]` arithmetic. In it, the constant `FMA` says whether this level has
/// a fused multiply-add in hardware.
macro_rules! vectorized {
    ($(#[$meta:meta])* $vis:vis fn $name:ident<T: Float>($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block) => {
        $(#[$meta])*
        #[allow(clippy::too_many_arguments, reason = "operands and their sizes")]
        $vis fn $name<T: $crate::simd::Float>($($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            #[allow(clippy::too_many_arguments, clippy::extra_unused_type_parameters, reason = "operands and their sizes")]
            fn body<T: $crate::simd::Float, const FMA: bool>($($arg: $ty),*) $(-> $ret)? $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            #[allow(clippy::too_many_arguments, reason = "operands and their sizes")]
            fn avx2<T: $crate::simd::Float>($($arg: $ty),*) $(-> $ret)? {
                body::<T, true>($($arg),*)
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,avx512f,avx512vl,avx512bw,avx512dq")]
            #[allow(clippy::too_many_arguments, reason = "operands and their sizes")]
            fn avx512<T: $crate::simd::Float>($($arg: $ty),*) $(-> $ret)? {
                body::<T, true>($($arg),*)
            }

            match $crate::simd::level() {
                $crate::simd::Level::Baseline => body::<T, { cfg!(target_feature = "fma") || cfg!(target_arch = "aarch64") }>($($arg),*),
                #[cfg(target_arch = "x86_64")]
                // SAFETY: `level` found AVX2 and FMA on this CPU.
                $crate::simd::Level::Avx2 => unsafe { avx2::<T>($($arg),*) },
                #[cfg(target_arch = "x86_64")]
                // SAFETY: `level` found AVX-512 F, VL, BW and DQ, AVX2 and FMA on this CPU.
                $crate::simd::Level::Avx512 => unsafe { avx512::<T>($($arg),*) },
                #[cfg(not(target_arch = "x86_64"))]
                _ => unreachable!("only x86-64 has levels"),
            }
        }
    };
}
pub(crate) use vectorized;

/// 1/k!.
const INVERSE_FACTORIALS: [f64; 15] = {
    let (mut table, mut k) = ([1.0; 15], 1);
    while k < 15 {
        table[k] = table[k - 1] / k as f64;
        k += 1;
    }
    table
};

/// `f32` and `f64`: the scalars with fast kernels.
///
/// ```text
/// eˣ = 2ⁿ·eʳ,   n = round(x/ln 2),   r = x − n·ln 2 in two parts, |r| ≤ ½ln 2
/// eʳ − 1 = r + r²·(1/2! + r/3! + … + r^(K−2)/K!)          the rest, r^(K+1)/(K+1)!, is below half a unit in the last place
/// eˣ − 1 = 2ⁿ(eʳ − 1) + (2ⁿ − 1)          tanh x = (e²ˣ − 1)/((e²ˣ − 1) + 2)
/// ```
///
/// n is rounded by adding and taking away 1.5·2^(bits of the mantissa), which leaves n in the low bits of the sum. All of it is
/// straight-line arithmetic and selection, so a loop over it vectorises.
pub trait Float: Real {
    /// 1.5·2^(bits of the mantissa): adding it rounds to an integer.
    const ROUND: Self;
    /// ln 2 with trailing zeros, so that n·LN2_HIGH is exact.
    const LN2_HIGH: Self;
    /// What LN2_HIGH leaves of ln 2.
    const LN2_LOW: Self;
    /// Where eˣ is 0 and where it is ∞, with a margin.
    const EXP_RANGE: [Self; 2];
    /// Beyond it tanh is ±1.
    const TANH_RANGE: Self;
    /// K, the degree of the polynomial.
    const DEGREE: usize;

    /// 2^a and 2^b with a + b = n, from n + ROUND (the product reaches where 2ⁿ alone would not).
    fn powers_of_two(shifted: Self) -> [Self; 2];
    /// |x|.
    fn magnitude(self) -> Self;
    /// |self| with the sign of another.
    fn signed_like(self, sign: Self) -> Self;
    /// a·b + c, rounded once.
    fn fused(a: Self, b: Self, c: Self) -> Self;
    /// a·b + c, rounded once where the CPU can.
    #[inline(always)]
    fn multiply_add<const FMA: bool>(a: Self, b: Self, c: Self) -> Self {
        if FMA { Self::fused(a, b, c) } else { a * b + c }
    }

    /// A square with rows and columns exchanged.
    ///
    /// # Safety
    /// With `AVX` the CPU must have it.
    unsafe fn turn<const AVX: bool>(square: [&[Self; 8]; 8]) -> [[Self; 8]; 8];

    /// The tiles of this CPU; `None`: its products are [`Float::gemm`]'s.
    fn tiles() -> Option<&'static Tiles<Self>>;

    /// C ← A·B + beta·C by `matrixmultiply`, on one thread; strides in elements, C's columns dense.
    ///
    /// # Safety
    /// Every element that the sizes and strides reach must lie in its allocation, and C's may not be aliased.
    #[allow(clippy::too_many_arguments, reason = "operands and their sizes")]
    unsafe fn gemm(
        m: usize,
        k: usize,
        n: usize,
        a: *const Self,
        a_strides: [usize; 2],
        b: *const Self,
        b_strides: [usize; 2],
        beta: Self,
        c: *mut Self,
        c_row_stride: usize,
    );

    /// Lends a recycled buffer of `len` elements with unspecified contents.
    fn with_scratch<R>(len: usize, f: impl FnOnce(&mut [Self]) -> R) -> R;

    /// eˣ − 1 = 2ⁿ·m + (2ⁿ − 1): m, and n + ROUND.
    #[inline(always)]
    fn exp_parts<const FMA: bool>(x: Self) -> (Self, Self) {
        let shifted = Self::multiply_add::<FMA>(x, Self::lit(std::f64::consts::LOG2_E), Self::ROUND);
        let n = shifted - Self::ROUND;
        let r = Self::multiply_add::<FMA>(n, -Self::LN2_HIGH, x);
        let r = Self::multiply_add::<FMA>(n, -Self::LN2_LOW, r);
        let mut series = Self::lit(INVERSE_FACTORIALS[Self::DEGREE]);
        for k in (2..Self::DEGREE).rev() {
            series = Self::multiply_add::<FMA>(series, r, Self::lit(INVERSE_FACTORIALS[k]));
        }
        (Self::multiply_add::<FMA>(r * r, series, r), shifted)
    }

    /// eˣ within 1.1 units in the last place; 0 at −∞, ∞ on overflow, NaN for NaN.
    #[inline(always)]
    fn fast_exp<const FMA: bool>(self) -> Self {
        let [low, high] = Self::EXP_RANGE;
        let x = if self < low { low } else { self };
        let x = if x > high { high } else { x };
        let (m, shifted) = Self::exp_parts::<FMA>(x);
        let [a, b] = Self::powers_of_two(shifted);
        (Self::one() + m) * a * b
    }

    /// tanh x within 2.5 units in the last place; NaN for NaN, −0 for −0.
    #[inline(always)]
    fn fast_tanh<const FMA: bool>(self) -> Self {
        let x = self.magnitude();
        let x = if x > Self::TANH_RANGE { Self::TANH_RANGE } else { x };
        let (m, shifted) = Self::exp_parts::<FMA>(x + x);
        let [a, b] = Self::powers_of_two(shifted);
        let e = a * b * m + (a * b - Self::one());
        (e / (e + Self::lit(2.0))).signed_like(self)
    }

    /// 1/(1 + e^−x).
    #[inline(always)]
    fn fast_sigmoid<const FMA: bool>(self) -> Self {
        Self::one() / (Self::one() + (-self).fast_exp::<FMA>())
    }
}

#[inline(always)]
fn turn<T: Copy>(square: [&[T; 8]; 8]) -> [[T; 8]; 8] {
    std::array::from_fn(|i| std::array::from_fn(|j| square[j][i]))
}

/// [`turn`] in sixteen shuffles, which the compiler does not find by itself.
///
/// # Safety
/// The CPU must have AVX.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn turn_f32(square: [&[f32; 8]; 8]) -> [[f32; 8]; 8] {
    use std::arch::x86_64::*;
    let mut turned = [[0.0; 8]; 8];
    // Written out: a closure would not have the caller's instructions.
    // SAFETY: AVX by the caller; every row holds eight numbers.
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

macro_rules! float {
    ($t:ident, $bits:ident, $signed:ident, $gemm:ident, $tiles:ident, $values:tt) => {
        impl Float for $t {
            const ROUND: $t = 1.5 / $t::EPSILON;
            float!(constants $values);

            #[inline(always)]
            fn powers_of_two(shifted: $t) -> [$t; 2] {
                const MANTISSA: u32 = $t::MANTISSA_DIGITS - 1;
                const BIAS: $signed = $t::MAX_EXP as $signed - 1;
                let n = (shifted.to_bits() as $signed).wrapping_sub(Self::ROUND.to_bits() as $signed);
                let half = n >> 1;
                [half, n.wrapping_sub(half)].map(|e| $t::from_bits((e.wrapping_add(BIAS) << MANTISSA) as $bits))
            }
            #[inline(always)]
            fn magnitude(self) -> $t {
                self.abs()
            }
            #[inline(always)]
            fn signed_like(self, sign: $t) -> $t {
                self.copysign(sign)
            }
            #[inline(always)]
            fn fused(a: $t, b: $t, c: $t) -> $t {
                a.mul_add(b, c)
            }
            fn tiles() -> Option<&'static Tiles<$t>> {
                $tiles()
            }
            #[inline]
            unsafe fn gemm(
                m: usize,
                k: usize,
                n: usize,
                a: *const $t,
                a_strides: [usize; 2],
                b: *const $t,
                b_strides: [usize; 2],
                beta: $t,
                c: *mut $t,
                c_row_stride: usize,
            ) {
                let ([ra, ca], [rb, cb]) = (a_strides.map(|s| s as isize), b_strides.map(|s| s as isize));
                // SAFETY: the caller's; alpha is 1, so that splitting rows or columns does not change bits.
                unsafe { matrixmultiply::$gemm(m, k, n, 1.0, a, ra, ca, b, rb, cb, beta, c, c_row_stride as isize, 1) }
            }
            #[inline(always)]
            unsafe fn turn<const AVX: bool>(square: [&[$t; 8]; 8]) -> [[$t; 8]; 8] {
                float!(turn $t AVX square)
            }
            fn with_scratch<R>(len: usize, f: impl FnOnce(&mut [$t]) -> R) -> R {
                crate::buffer::with_scratch(len, f)
            }
        }
    };
    (turn f32 $avx:ident $square:ident) => {{
        #[cfg(target_arch = "x86_64")]
        if $avx {
            // SAFETY: the caller's.
            return unsafe { turn_f32($square) };
        }
        turn($square)
    }};
    (turn $t:ident $avx:ident $square:ident) => {
        turn($square)
    };
    (constants { $($name:ident: $ty:ty = $value:expr),* $(,)? }) => {
        $(const $name: $ty = $value;)*
    };
}

float!(f32, u32, i32, sgemm, tiles_f32, {
    LN2_HIGH: f32 = f32::from_bits(0x3F31_7200), // 15 bits
    LN2_LOW: f32 = (std::f64::consts::LN_2 - f32::from_bits(0x3F31_7200) as f64) as f32,
    EXP_RANGE: [f32; 2] = [-110.0, 100.0],
    TANH_RANGE: f32 = 10.0,
    DEGREE: usize = 7,
});
float!(f64, u64, i64, dgemm, tiles_f64, {
    LN2_HIGH: f64 = 6.931_471_803_691_238e-1, // 33 bits
    LN2_LOW: f64 = 1.908_214_929_270_587_7e-10,
    EXP_RANGE: [f64; 2] = [-760.0, 720.0],
    TANH_RANGE: f64 = 22.0,
    DEGREE: usize = 13,
});

/// Asks for the cache line of an address, whatever is there; nothing on architectures whose hint is not stable.
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

/// The sum of all lanes, by halves.
#[inline(always)]
pub fn add_lanes<T: Float>(mut lanes: [T; LANES]) -> T {
    let mut width = LANES;
    while width > 1 {
        width /= 2;
        for i in 0..width {
            lanes[i] += lanes[i + width];
        }
    }
    lanes[0]
}

/// Σ f(xᵢ) in lanes.
#[inline(always)]
pub fn sum_of<T: Float>(x: &[T], f: impl Fn(T) -> T) -> T {
    let mut lanes = [T::zero(); LANES];
    let (blocks, rest) = x.as_chunks::<LANES>();
    for block in blocks {
        for l in 0..LANES {
            lanes[l] += f(block[l]);
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane += f(x);
    }
    add_lanes(lanes)
}

/// Σ f(xᵢ, yᵢ) in lanes; slices of one length.
#[inline(always)]
pub fn sum_of_2<T: Float>(x: &[T], y: &[T], f: impl Fn(T, T) -> T) -> T {
    let mut lanes = [T::zero(); LANES];
    let ((xs, x_rest), (ys, y_rest)) = (x.as_chunks::<LANES>(), y.as_chunks::<LANES>());
    for (x, y) in xs.iter().zip(ys) {
        for l in 0..LANES {
            lanes[l] += f(x[l], y[l]);
        }
    }
    for ((lane, &x), &y) in lanes.iter_mut().zip(x_rest).zip(y_rest) {
        *lane += f(x, y);
    }
    add_lanes(lanes)
}

/// The largest element, −∞ of none; NaN is passed over.
#[inline(always)]
pub fn largest_of<T: Float>(x: &[T]) -> T {
    let least = T::lit(f64::NEG_INFINITY);
    let mut lanes = [least; LANES];
    let (blocks, rest) = x.as_chunks::<LANES>();
    for block in blocks {
        for l in 0..LANES {
            lanes[l] = if block[l] > lanes[l] { block[l] } else { lanes[l] };
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane = if x > *lane { x } else { *lane };
    }
    lanes.iter().fold(least, |most, &x| if x > most { x } else { most })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// |got − want| in units of the last place of `want`, a value of higher precision.
    fn ulps(got: f32, want: f64) -> f64 {
        let unit = f64::from(f32::EPSILON) * 2f64.powi((want.abs().log2().floor() as i32).max(-126));
        (f64::from(got) - want).abs() / unit
    }

    #[test]
    fn single_precision_is_within_units_of_the_last_place() {
        single_precision::<false>();
        single_precision::<true>();
    }

    fn single_precision<const FMA: bool>() {
        let mut worst = [0.0f64; 3];
        for i in -200_000..200_000 {
            let x = i as f32 * 4.3e-4;
            worst[0] = worst[0].max(ulps(x.fast_exp::<FMA>(), libm::exp(f64::from(x))));
            worst[1] = worst[1].max(ulps((x * 0.1).fast_tanh::<FMA>(), libm::tanh(f64::from(x * 0.1))));
            worst[2] = worst[2].max(ulps((x * 0.2).fast_sigmoid::<FMA>(), 1.0 / (1.0 + libm::exp(f64::from(-x * 0.2)))));
        }
        assert!(worst[0] < 1.1 && worst[1] < 2.5 && worst[2] < 2.5, "{worst:?}");
    }

    #[test]
    fn double_precision_agrees_with_libm() {
        double_precision::<false>();
        double_precision::<true>();
    }

    fn double_precision<const FMA: bool>() {
        // Both sides err by up to about one unit; tanh by two.
        for i in -100_000..100_000 {
            let x = f64::from(i) * 7e-3;
            let (exp, tanh) = (libm::exp(x), libm::tanh(x * 0.03));
            assert!((x.fast_exp::<FMA>() - exp).abs() <= 5e-16 * exp, "exp {x}");
            assert!(((x * 0.03).fast_tanh::<FMA>() - tanh).abs() <= 1e-15 * tanh.abs(), "tanh {x}");
        }
    }

    #[test]
    fn edges_of_the_range() {
        edges::<false>();
        edges::<true>();
    }

    fn edges<const FMA: bool>() {
        assert_eq!(f32::NEG_INFINITY.fast_exp::<FMA>(), 0.0);
        assert_eq!(f64::NEG_INFINITY.fast_exp::<FMA>(), 0.0);
        assert_eq!((-1e9f32).fast_exp::<FMA>(), 0.0);
        assert_eq!(0f32.fast_exp::<FMA>(), 1.0);
        assert_eq!((-0f64).fast_exp::<FMA>(), 1.0);
        assert_eq!(89f32.fast_exp::<FMA>(), f32::INFINITY);
        assert_eq!(f64::INFINITY.fast_exp::<FMA>(), f64::INFINITY);
        assert!(f32::NAN.fast_exp::<FMA>().is_nan() && f64::NAN.fast_exp::<FMA>().is_nan());
        assert!((-100f32).fast_exp::<FMA>() > 0.0, "subnormal results are kept");
        assert_eq!(f32::INFINITY.fast_tanh::<FMA>(), 1.0);
        assert_eq!(f64::NEG_INFINITY.fast_tanh::<FMA>(), -1.0);
        assert!(f32::NAN.fast_tanh::<FMA>().is_nan());
        assert_eq!((-0f32).fast_tanh::<FMA>().to_bits(), (-0f32).to_bits());
        assert_eq!(1e-20f32.fast_tanh::<FMA>(), 1e-20);
        assert_eq!(f32::NEG_INFINITY.fast_sigmoid::<FMA>(), 0.0);
        assert_eq!(f32::INFINITY.fast_sigmoid::<FMA>(), 1.0);
    }

    #[test]
    fn reductions_take_every_element_once() {
        for n in 0..100 {
            let x: Vec<f64> = (0..n).map(|i| f64::from(i * i) - 500.0).collect();
            let ones = vec![1.0; x.len()];
            assert_eq!(sum_of(&x, |x| x), x.iter().sum());
            assert_eq!(sum_of_2(&x, &ones, |x, y| x * y), x.iter().sum());
            assert_eq!(largest_of(&x), x.iter().copied().fold(f64::NEG_INFINITY, f64::max));
        }
    }
}

//! The floating-point formats: their constants, and arithmetic on their bits.

use crate::Scalar;

/// `f32` and `f64`: the scalars with fast kernels.
pub trait Float: Scalar {
    /// The constant 1.5·2^(bits of the mantissa): adding it rounds to an integer.
    const ROUND: Self;
    /// The value of ln 2 with trailing zeros, so that n·LN2_HIGH is exact.
    const LN2_HIGH: Self;
    /// The difference of ln 2 and LN2_HIGH.
    const LN2_LOW: Self;
    /// The bounds below which eˣ is 0 and above which it is ∞, with a margin.
    const EXP_RANGE: [Self; 2];
    /// The bound above which |tanh x| is 1.
    const TANH_RANGE: Self;
    /// The degree K of the polynomial.
    const DEGREE: usize;

    /// Returns 2^a and 2^b with a + b = n, from n + ROUND. Multiplying by both in turn also works for n at which 2ⁿ overflows or
    /// underflows.
    fn powers_of_two(shifted: Self) -> (Self, Self);
    /// Returns |x|.
    fn magnitude(self) -> Self;
    /// Returns |self| with the sign of `sign`.
    fn signed_like(self, sign: Self) -> Self;
    /// Returns a·b + c, rounded once.
    fn fused(a: Self, b: Self, c: Self) -> Self;
    /// Returns a·b + c, rounded once if `FMA` is true.
    #[inline(always)]
    fn multiply_add<const FMA: bool>(a: Self, b: Self, c: Self) -> Self {
        if FMA { Self::fused(a, b, c) } else { a * b + c }
    }
}

macro_rules! float {
    ($t:ident, $bits:ident, $signed:ident, $values:tt) => {
        impl Float for $t {
            const ROUND: $t = 1.5 / $t::EPSILON;
            float!(constants $values);

            #[inline(always)]
            fn powers_of_two(shifted: $t) -> ($t, $t) {
                const MANTISSA: u32 = $t::MANTISSA_DIGITS - 1;
                const BIAS: $signed = $t::MAX_EXP as $signed - 1;
                let n = (shifted.to_bits() as $signed).wrapping_sub(Self::ROUND.to_bits() as $signed);
                // A pair: the compiler joins the elements of an array in one wide integer, which costs 1.4 times the time of eˣ.
                let (a, b) = (n >> 1, n.wrapping_sub(n >> 1));
                let power = |e: $signed| $t::from_bits((e.wrapping_add(BIAS) << MANTISSA) as $bits);
                (power(a), power(b))
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
        }
    };
    (constants { $($name:ident: $ty:ty = $value:expr),* $(,)? }) => {
        $(const $name: $ty = $value;)*
    };
}

float!(f32, u32, i32, {
    LN2_HIGH: f32 = f32::from_bits(0x3F31_7200), // 15 bits
    LN2_LOW: f32 = (std::f64::consts::LN_2 - f32::from_bits(0x3F31_7200) as f64) as f32,
    EXP_RANGE: [f32; 2] = [-110.0, 100.0],
    TANH_RANGE: f32 = 10.0,
    DEGREE: usize = 7,
});
float!(f64, u64, i64, {
    LN2_HIGH: f64 = 6.931_471_803_691_238e-1, // 33 bits
    LN2_LOW: f64 = 1.908_214_929_270_587_7e-10,
    EXP_RANGE: [f64; 2] = [-760.0, 720.0],
    TANH_RANGE: f64 = 22.0,
    DEGREE: usize = 13,
});

//! Exponentials as polynomials, and the functions computed from them.

use super::Float;

/// The values of 1/k!.
const INVERSE_FACTORIALS: [f64; 15] = {
    let (mut table, mut k) = ([1.0; 15], 1);
    while k < 15 {
        table[k] = table[k - 1] / k as f64;
        k += 1;
    }
    table
};

/// eˣ and related functions in straight-line arithmetic and selection, so that a loop over them vectorises.
///
/// ```text
/// eˣ = 2ⁿ·eʳ,   n = round(x/ln 2),   r = x − n·ln 2 in two parts, |r| ≤ ½ln 2
/// eʳ − 1 = r + r²·(1/2! + r/3! + … + r^(K−2)/K!)          the rest, r^(K+1)/(K+1)!, is below half a unit in the last place
/// eˣ − 1 = 2ⁿ(eʳ − 1) + (2ⁿ − 1)          tanh x = (e²ˣ − 1)/((e²ˣ − 1) + 2)
/// ```
///
/// n is rounded by adding and subtracting 1.5·2^(bits of the mantissa), which leaves n in the low bits of the sum.
pub trait Elementary: Float {
    /// Returns m and n + ROUND with eˣ − 1 = 2ⁿ·m + (2ⁿ − 1).
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

    /// Returns eˣ within 1.1 units in the last place; 0 at −∞, ∞ on overflow, NaN for NaN.
    #[inline(always)]
    fn fast_exp<const FMA: bool>(self) -> Self {
        let [low, high] = Self::EXP_RANGE;
        let x = if self < low { low } else { self };
        let x = if x > high { high } else { x };
        let (m, shifted) = Self::exp_parts::<FMA>(x);
        let (a, b) = Self::powers_of_two(shifted);
        (Self::one() + m) * a * b
    }

    /// Returns tanh x within 2.5 units in the last place; NaN for NaN, −0 for −0.
    #[inline(always)]
    fn fast_tanh<const FMA: bool>(self) -> Self {
        let x = self.magnitude();
        let x = if x > Self::TANH_RANGE { Self::TANH_RANGE } else { x };
        let (m, shifted) = Self::exp_parts::<FMA>(x + x);
        let (a, b) = Self::powers_of_two(shifted);
        let e = a * b * m + (a * b - Self::one());
        (e / (e + Self::lit(2.0))).signed_like(self)
    }

    /// Returns 1/(1 + e^−x).
    #[inline(always)]
    fn fast_sigmoid<const FMA: bool>(self) -> Self {
        Self::one() / (Self::one() + (-self).fast_exp::<FMA>())
    }
}

impl<T: Float> Elementary for T {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns |got − want| in units in the last place of `want`, a value of higher precision.
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
        // Both functions err by up to about one unit in the last place, tanh by two.
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
}

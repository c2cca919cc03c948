//! Statistics for verdicts: Student's t for means over seeds, and the binomial distribution for fractions of seeds.
//!
//! ```text
//! d̄ ± t·s/√n    t the quantile of Student's distribution with n − 1 degrees of freedom (Student 1908)
//! k of n        the fractions that a two-sided binomial test at this level does not reject (Clopper & Pearson 1934):
//!               from the α/2 quantile of Beta(k, n − k + 1) to the 1 − α/2 quantile of Beta(k + 1, n − k)
//! ```

use gradus_data::sets::scores::mean_and_deviation;
use statrs::distribution::{Beta, ContinuousCDF, StudentsT};

/// The tolerance for equality: scores are sums of fractions, and equal ones may differ by rounding.
pub(crate) const DUST: f64 = 1e-9;

/// Returns Student's distribution with the given degrees of freedom.
fn student(freedom: usize) -> StudentsT {
    StudentsT::new(0.0, 1.0, freedom as f64).expect("at least one degree of freedom")
}

/// Returns half the width of the interval of a mean of `n` values with the sample deviation `s`. For normal values, the interval
/// covers the true mean with probability `confidence`. Infinite for fewer than two values.
pub fn half_width(n: usize, s: f64, confidence: f64) -> f64 {
    match n {
        0 | 1 => f64::INFINITY,
        _ => student(n - 1).inverse_cdf(0.5 + confidence / 2.0) * s / (n as f64).sqrt(),
    }
}

/// Returns the two-sided p-value for a mean of zero; 1 for fewer than two values.
pub fn p_value(values: &[f64]) -> f64 {
    let n = values.len();
    match mean_and_deviation(values) {
        (mean, Some(s)) if !(mean.is_finite() && s.is_finite()) => 1.0, // no measurement
        (mean, Some(s)) if n > 1 && (s > DUST || mean.abs() < DUST) => {
            let t = if s > DUST { mean.abs() / s * (n as f64).sqrt() } else { 0.0 };
            2.0 * student(n - 1).sf(t)
        }
        (_, Some(_)) if n > 1 => 0.0, // the same value in all seeds
        _ => 1.0,
    }
}

/// Returns the interval of fractions that are compatible with `k` successes in `n` trials.
///
/// # Panics
/// Panics if there are no trials, or more successes than trials.
pub fn shares(k: usize, n: usize, confidence: f64) -> [f64; 2] {
    assert!(k <= n && n > 0, "{k} of {n}");
    let quantile = |a: usize, b: usize, p| {
        let beta = Beta::new(a as f64, b as f64).expect("positive numbers");
        bisect(|x| beta.cdf(x) < p)
    };
    let tail = (1.0 - confidence) / 2.0;
    let low = if k == 0 { 0.0 } else { quantile(k, n - k + 1, tail) };
    let high = if k == n { 1.0 } else { quantile(k + 1, n - k, 1.0 - tail) };
    [low, high]
}

/// Returns the point between 0 and 1 up to which a condition holds, by bisection.
fn bisect(holds: impl Fn(f64) -> bool) -> f64 {
    let [mut low, mut high] = [0.0, 1.0];
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        *(if holds(middle) { &mut low } else { &mut high }) = middle;
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_close(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-9 * expected.abs().max(1e-3), "{found}, expected {expected}");
    }

    #[test]
    fn missing_or_non_finite_values_give_a_p_value_of_1() {
        assert_eq!([p_value(&[0.1, f64::NAN, 0.2]), p_value(&[f64::INFINITY, 0.1]), p_value(&[])], [1.0; 3]);
    }

    /// `scipy.stats.t.ppf(0.5 + c / 2, n - 1) / n**0.5`.
    #[test]
    fn half_widths_match_scipy() {
        for (n, confidence, expected) in T_PPF {
            assert_close(half_width(n, 1.0, confidence), expected);
            assert_close(half_width(n, 2.5, confidence), 2.5 * expected);
        }
        assert_eq!([half_width(0, 1.0, 0.95), half_width(1, 1.0, 0.95)], [f64::INFINITY; 2]);
    }

    /// `scipy.stats.ttest_1samp(values, 0).pvalue`.
    #[test]
    fn p_values_match_scipy() {
        for (values, expected) in TTEST {
            assert_close(p_value(values), expected);
            let mirrored: Vec<f64> = values.iter().map(|v| -v).collect();
            assert_close(p_value(&mirrored), expected);
        }
        assert_eq!([p_value(&[]), p_value(&[1.0]), p_value(&[0.0, 0.0]), p_value(&[1.0, 1.0])], [1.0, 1.0, 1.0, 0.0]);
        assert_eq!(p_value(&[0.1 + 0.2 - 0.3, 0.0]), 1.0, "a rounding error is no difference");
    }

    /// `scipy.stats.binomtest(k, n).proportion_ci(c, method="exact")`.
    #[test]
    fn binomial_intervals_match_scipy() {
        for (k, n, confidence, expected) in BINOMIAL {
            shares(k, n, confidence).into_iter().zip(expected).for_each(|(found, expected)| assert_close(found, expected));
        }
    }

    // SciPy 1.17.1.
    const T_PPF: [(usize, f64, f64); 11] = [
        (2, 0.95, 8.984643532093752),
        (3, 0.95, 2.4841377117503303),
        (3, 0.99, 5.7301108937150005),
        (8, 0.95, 0.8360209216297112),
        (8, 0.99, 1.237254185102796),
        (8, 0.975, 1.0045315375920003),
        (8, 0.9833333333333333, 1.1057567108175086),
        (16, 0.95, 0.532862386389944),
        (30, 0.999, 0.6681128920697883),
        (100, 0.95, 0.19842169515864175),
        (1000, 0.95, 0.06205468564164483),
    ];
    const TTEST: [(&[f64], f64); 7] = [
        (&[0.05, 0.15, 0.2], 0.09417837268432341),
        (&[0.1, 0.11, 0.12], 0.002743489394425921),
        (&[0.0, 0.3, 0.1], 0.26970325665977857),
        (&[-0.1, 0.05], 0.7951672353008665),
        (&[0.131, 0.205, 0.071, 0.02, -0.03, 0.11, 0.09, 0.15], 0.009191114374403377),
        (&[0.001, 0.002, -0.001, 0.0005], 0.3910022189557705),
        (&[5.0, -3.0, 2.0, 8.0, 1.0, -1.0, 0.5, 3.3, 2.2, 1.1, -0.7, 4.4], 0.04936908084213347),
    ];
    const BINOMIAL: [(usize, usize, f64, [f64; 2]); 10] = [
        (0, 8, 0.95, [0.0, 0.3694166475528192]),
        (8, 8, 0.95, [0.6305833524471808, 1.0]),
        (5, 8, 0.95, [0.2448632163664999, 0.9147665858624069]),
        (1, 3, 0.95, [0.008403758659612647, 0.9057006759492866]),
        (3, 3, 0.95, [0.2924017738212867, 1.0]),
        (2, 8, 0.99, [0.013735894157278534, 0.7421693873363148]),
        (7, 8, 0.95, [0.4734903291248362, 0.9968402764687477]),
        (50, 100, 0.95, [0.39832112950330095, 0.6016788704966991]),
        (1, 1, 0.95, [0.025000000000000022, 1.0]),
        (0, 1, 0.9, [0.0, 0.95]),
    ];
}

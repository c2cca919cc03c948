//! Means over seeds.

use std::fmt;

use gradus_data::sets::scores::mean_and_deviation;

/// A mean over seeds, with its deviation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    /// The mean.
    pub mean: f64,
    /// The sample standard deviation; `None` for one seed.
    pub deviation: Option<f64>,
}

impl Mean {
    /// Computes the mean of one value per seed. Returns `None` without values.
    pub fn of(values: &[f64]) -> Option<Self> {
        let (mean, deviation) = mean_and_deviation(values);
        (!values.is_empty()).then_some(Mean { mean, deviation })
    }

    /// Formats the mean times `times`, with `digits` decimals: `81.2 ± 0.7`.
    pub fn told(&self, times: f64, digits: usize) -> String {
        let mean = format!("{:.digits$}", times * self.mean);
        // A mean that rounds to 0 has no sign.
        let is_zero = mean.bytes().all(|b| matches!(b, b'-' | b'0' | b'.'));
        let mean = mean.replace('-', if is_zero { "" } else { "−" });
        self.deviation.map_or(mean.clone(), |d| format!("{mean} ± {:.digits$}", times * d))
    }
}

impl fmt::Display for Mean {
    /// Formats the mean in percentage points.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.told(100.0, 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_is_printed_in_points() {
        assert_eq!(Mean::of(&[0.5]).unwrap().to_string(), "50.0");
        assert_eq!(Mean::of(&[0.5, 0.6]).unwrap().to_string(), "55.0 ± 7.1");
        assert_eq!(Mean::of(&[-0.05]).unwrap().to_string(), "−5.0");
        assert_eq!(Mean::of(&[-0.0004]).unwrap().to_string(), "0.0");
        assert_eq!(Mean::of(&[]), None);
    }
}

//! Axes: the position of a value, the values with a tick, and the text of a tick.

use std::ops::Range;

use gradus_io::numbers::scientific;

/// The largest magnitude that is shown; its square is still finite.
const LARGEST: f64 = 1e150;

/// The mapping from values to positions on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// A linear scale.
    Linear,
    /// A logarithmic scale, for positive values only.
    Log,
    /// A scale that is linear in the square root, from 0 on, which expands small values.
    Root,
}

impl Scale {
    /// Returns whether the value has a position on the scale. Magnitudes beyond `LARGEST`, and below its inverse on a logarithmic
    /// scale, are excluded, because they are not measurements and would make ranges infinite.
    pub fn shows(self, value: f64) -> bool {
        let least = match self {
            Self::Linear => -LARGEST,
            Self::Log => 1.0 / LARGEST,
            Self::Root => 0.0,
        };
        value >= least && value <= LARGEST
    }

    /// Returns the position of the value, up to a linear map.
    pub fn place(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Log => value.ln(),
            Self::Root => value.sqrt(),
        }
    }

    /// Returns the value at a position.
    fn value(self, place: f64) -> f64 {
        match self {
            Self::Linear => place,
            Self::Log => place.exp(),
            Self::Root => place.max(0.0).powi(2),
        }
    }
}

/// An axis of a plot.
#[derive(Clone, Debug)]
pub struct Axis {
    /// The label of the axis, with the unit.
    pub label: String,
    /// The scale of the axis.
    pub scale: Scale,
    /// The suffix of each tick's number, such as ` %`.
    pub suffix: &'static str,
}

impl Axis {
    /// Creates an axis without a suffix.
    pub fn new(label: &str, scale: Scale) -> Self {
        Self { label: label.into(), scale, suffix: "" }
    }

    /// Returns the range of `values`, widened by `margin` times its width at both ends and never empty.
    pub(super) fn range(&self, values: impl Iterator<Item = f64>, margin: f64) -> Range<f64> {
        let places = values.map(|value| self.scale.place(value));
        let (low, high) = places.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), p| (low.min(p), high.max(p)));
        let (low, high) = match (low, high) {
            (low, high) if low > high => (self.scale.place(1.0), self.scale.place(2.0)),
            // A half may be negligible next to the values, so it grows with them.
            (low, high) if high - low < 1e-9 * high.abs().max(1e-9) => {
                let half = f64::max(0.5, 1e-8 * high.abs());
                (low - half, high + half)
            }
            both => both,
        };
        let room = margin * (high - low);
        self.scale.value(low - room)..self.scale.value(high + room)
    }

    /// Returns round values in the range, at most about `most`.
    pub(super) fn ticks(&self, range: &Range<f64>, most: usize) -> Vec<f64> {
        let most = most.max(2);
        if self.scale == Scale::Root {
            let ticks = root_ticks(range, most);
            if ticks.len() > 2 {
                return ticks;
            }
        }
        if self.scale == Scale::Log {
            // The finest of these families with few enough ticks. If it has fewer than three in the range, the ticks are linear.
            const FAMILIES: [&[f64]; 5] = [
                &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0],
                &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0],
                &[1.0, 2.0, 5.0],
                &[1.0, 3.0],
                &[1.0],
            ];
            let decades = range.start.log10().floor() as i32..=range.end.log10().floor() as i32;
            let family = |heads: &[f64]| -> Vec<f64> {
                let all = decades.clone().flat_map(|decade| heads.iter().map(move |head| head * 10f64.powi(decade)));
                all.filter(|value| range.contains(value)).collect()
            };
            let found = FAMILIES.iter().map(|heads| family(heads)).find(|ticks| ticks.len() <= most + 2);
            if let Some(ticks) = found.filter(|ticks| ticks.len() > 2) {
                return ticks;
            }
        }
        let rough = (range.end - range.start) / most as f64;
        let decade = 10f64.powf(rough.log10().floor());
        let step = decade * [1.0, 2.0, 5.0, 10.0].into_iter().find(|head| head * decade >= rough).unwrap_or(10.0);
        let (first, last) = ((range.start / step).ceil() as i64, (range.end / step).floor() as i64);
        // Division for steps below one, so that 3 / 10 prints as 0.3.
        let value = |index: i64| if step < 1.0 { index as f64 / (1.0 / step).round() } else { index as f64 * step };
        (first..=last).map(value).collect()
    }

    /// Returns the text of a tick: `250k`, `1.5M`, `0.002`.
    pub(super) fn text(&self, value: f64) -> String {
        let (scaled, unit) = match value.abs() {
            size if size >= 1e9 => (value / 1e9, "G"),
            size if size >= 1e6 => (value / 1e6, "M"),
            size if size >= 1e4 => (value / 1e3, "k"),
            size if size < 1e-4 && size > 0.0 => {
                let sign = if value < 0.0 { "−" } else { "" };
                return format!("{sign}{}{}", scientific(size.ln(), 0), self.suffix);
            }
            _ => (value, ""),
        };
        let digits = format!("{scaled:.6}");
        format!("{}{unit}{}", digits.trim_end_matches('0').trim_end_matches('.'), self.suffix).replace('-', "−")
    }
}

/// Returns round values from the largest down, each far enough from the one before it and from the start of the range; and 0.
fn root_ticks(range: &Range<f64>, most: usize) -> Vec<f64> {
    let (first, last) = (range.start.sqrt(), range.end.sqrt());
    let least = 0.7 * (last - first) / most as f64;
    let decade = range.end.log10().floor() as i32;
    let round = (decade - 8..=decade).rev().flat_map(|decade| [5, 3, 2, 1].map(|head| f64::from(head) * 10f64.powi(decade)));
    let mut ticks: Vec<f64> = Vec::new();
    for tick in round.filter(|&tick| tick <= range.end && tick.sqrt() - first >= least) {
        if ticks.last().is_none_or(|above| above.sqrt() - tick.sqrt() >= least) {
            ticks.push(tick);
        }
    }
    ticks.extend(Some(0.0).filter(|_| range.start == 0.0));
    ticks.reverse();
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_few_and_inside() {
        let linear = Axis::new("", Scale::Linear);
        assert_eq!(linear.ticks(&(0.0..1.0), 5), [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]);
        assert_eq!(linear.ticks(&(3.0..2.1e6), 4), [1e6, 2e6]);
        let log = Axis::new("", Scale::Log);
        assert_eq!(log.ticks(&(0.9..8.0), 7), [1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let root = Axis::new("", Scale::Root);
        assert_eq!(root.ticks(&(0.0..3.1), 7), [0.0, 0.05, 0.2, 0.5, 1.0, 2.0, 3.0]);
        assert_eq!(root.ticks(&(0.0..0.08), 4), [0.0, 0.01, 0.03, 0.05]);
        for (low, decades) in [(1e-3, 0.2), (0.5, 0.5), (2.0, 1.0), (7.0, 4.0), (1.0, 9.0)] {
            let range = low..low * 10f64.powf(decades);
            let ticks = log.ticks(&range, 6);
            assert!((2..=10).contains(&ticks.len()), "{range:?}: {ticks:?}");
            assert!(ticks.iter().all(|tick| *tick >= range.start && *tick <= range.end), "{range:?}: {ticks:?}");
        }
    }

    #[test]
    fn tick_labels_are_short() {
        let axis = Axis { suffix: " %", ..Axis::new("", Scale::Linear) };
        let texts = [0.0, -0.3, 1500.0, 250_000.0, 1.5e6, 2e-3, 3e-5].map(|value| axis.text(value));
        assert_eq!(texts, ["0 %", "−0.3 %", "1500 %", "250k %", "1.5M %", "0.002 %", "3·10⁻⁵ %"]);
    }

    /// A gradient norm of 8.7e307 would have too many ticks.
    #[test]
    fn extreme_values_have_few_ticks_or_are_left_out() {
        let extremes = [8.7e307, -8.7e307, f64::MAX, f64::MIN, f64::INFINITY, f64::NAN, 5e-324, 1e-200];
        let all = [LARGEST, -LARGEST, 1.0 / LARGEST, 1e100, 1e-100, 0.0, -0.0, 1.0, 1e20].into_iter().chain(extremes);
        for scale in [Scale::Linear, Scale::Log, Scale::Root] {
            let shown: Vec<f64> = all.clone().filter(|value| scale.shows(*value)).collect();
            assert!(extremes.iter().filter(|value| scale.shows(**value)).all(|value| value.abs() < 1.0 && scale != Scale::Log));
            for (a, b) in shown.iter().flat_map(|a| shown.iter().map(move |b| (*a, *b))) {
                let axis = Axis::new("", scale);
                let range = axis.range([a, b].into_iter(), 0.05);
                assert!(range.start.is_finite() && range.end.is_finite() && range.start < range.end, "{a} {b}: {range:?}");
                for most in [4, 9] {
                    let ticks = axis.ticks(&range, most);
                    assert!(ticks.len() <= 2 * most + 2 && ticks.iter().all(|tick| tick.is_finite()), "{a} {b}: {ticks:?}");
                }
            }
        }
    }

    #[test]
    fn an_axis_range_is_never_empty() {
        for scale in [Scale::Linear, Scale::Log, Scale::Root] {
            for values in [vec![], vec![3.0], vec![2.0, 2.0], vec![1.0, 5.0], vec![1e20, 1e20]] {
                let range = Axis::new("", scale).range(values.iter().copied(), 0.05);
                assert!(range.start < range.end && scale.shows(range.start), "{values:?}: {range:?}");
                assert!(values.iter().all(|value| range.contains(value)));
            }
        }
    }
}

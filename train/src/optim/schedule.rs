//! The factor s on the learning rate.
//!
//! ```text
//! steps t = 1 … T        x = (t − 1)/T        w = warm-up as a fraction of T
//! ```
//!
//! so the first step of a warm-up has rate 0 (Adam's moments still change), and no step reaches x = 1. With w = 0 there
//! is no warm-up: s starts from its value after it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::OptimError;

/// The shape of a schedule. The three named `warmup_…` are those of the paper's code (`opt.py`), in which the warm-up is
/// x ≤ w.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum), value(rename_all = "snake_case"))]
#[serde(rename_all = "snake_case")]
pub enum ScheduleKind {
    /// Linear up, then cosine down to 0 over the steps that are left (the paper's pre-training, §4.1).
    ///
    /// ```text
    /// s = x/w                                x < w
    /// s = ½(1 + cos π(x − w)/(1 − w))        x ≥ w
    /// ```
    #[default]
    Paper,
    /// Linear up, then linear down to 0 (the paper's fine-tuning; its code's `warmup_linear`).
    ///
    /// ```text
    /// s = x/w · (1 − x)        x ≤ w        the decay applies to the warm-up too: the peak is 1 − w
    /// s = 1 − x                x > w
    /// ```
    WarmupLinear,
    /// Linear up, then the cosine of the whole run (the code's `warmup_cosine`).
    ///
    /// ```text
    /// s = x/w                  x ≤ w
    /// s = ½(1 + cos πx)        x > w        not re-based: a cosine that starts at x = 0
    /// ```
    WarmupCosine,
    /// Linear up, then constant (the code's `warmup_constant`).
    ///
    /// ```text
    /// s = x/w                  x ≤ w
    /// s = 1                    x > w
    /// ```
    WarmupConstant,
    /// Always 1; has no warm-up.
    Constant,
}

impl ScheduleKind {
    /// All shapes.
    pub const ALL: [Self; 5] = [Self::Paper, Self::WarmupLinear, Self::WarmupCosine, Self::WarmupConstant, Self::Constant];
}

/// The name in files and on the command line: `warmup_linear`.
impl fmt::Display for ScheduleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The length of the warm-up. A whole number counts steps (`2000`); a number with a decimal point is a fraction of all
/// steps (`0.002`).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a number of steps (2000), or with a decimal point a fraction of them (0.02)")]
pub enum Warmup {
    /// N steps, w = N/T.
    Steps(u64),
    /// The fraction w, 0 to 1.
    Share(f64),
}

impl FromStr for Warmup {
    type Err = OptimError;

    fn from_str(text: &str) -> Result<Self, OptimError> {
        if let Ok(steps) = text.parse() {
            return Ok(Warmup::Steps(steps));
        }
        let share = text.parse().ok().map(Warmup::Share).filter(|w| w.share(1).is_finite());
        share.ok_or_else(|| refuse_warmup(text.to_owned())).and_then(Warmup::checked)
    }
}

impl fmt::Display for Warmup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warmup::Steps(n) => write!(f, "{n}"),
            Warmup::Share(w) => write!(f, "{w:?}"),
        }
    }
}

impl Warmup {
    /// Returns w for a run of `total` steps.
    pub fn share(self, total: u64) -> f64 {
        match self {
            Warmup::Steps(n) => n as f64 / total.max(1) as f64,
            Warmup::Share(w) => w,
        }
    }

    fn checked(self) -> Result<Self, OptimError> {
        match self {
            Warmup::Share(w) if !(0.0..=1.0).contains(&w) => Err(refuse_warmup(self.to_string())),
            _ => Ok(self),
        }
    }
}

fn refuse_warmup(found: String) -> OptimError {
    OptimError {
        field: "warmup",
        expected: "a whole number of steps (2000), or with a decimal point a fraction of them from 0.0 to 1.0 (0.002)",
        found,
        remedy: "Leave the decimal point out to count steps",
    }
}

/// A schedule: the factor on the rate as a function of the step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Schedule {
    /// The shape.
    #[serde(rename = "schedule")]
    pub kind: ScheduleKind,
    /// The warm-up. A warm-up longer than the run never ends.
    pub warmup: Warmup,
}

impl Default for Schedule {
    /// Returns the schedule of the paper's pre-training: 2,000 steps up, then a cosine down to 0.
    fn default() -> Self {
        Schedule { kind: ScheduleKind::Paper, warmup: Warmup::Steps(2000) }
    }
}

impl Schedule {
    /// Returns s for step t = 1 … `total`. A step beyond the last has the rate of x = 1.
    pub fn factor(&self, t: u64, total: u64) -> f64 {
        let x = (t.saturating_sub(1) as f64 / total.max(1) as f64).min(1.0);
        let w = self.warmup.share(total);
        let up = if w > 0.0 { x / w } else { 1.0 };
        let cosine = |x: f64| 0.5 * (1.0 + (std::f64::consts::PI * x).cos());
        match self.kind {
            ScheduleKind::Paper if x < w => up,
            ScheduleKind::Paper if w < 1.0 => cosine((x - w) / (1.0 - w)),
            ScheduleKind::Paper => 1.0, // x = w = 1
            ScheduleKind::WarmupLinear if x <= w => up * (1.0 - x),
            ScheduleKind::WarmupLinear => 1.0 - x,
            ScheduleKind::WarmupCosine if x <= w => up,
            ScheduleKind::WarmupCosine => cosine(x),
            ScheduleKind::WarmupConstant if x <= w => up,
            ScheduleKind::WarmupConstant | ScheduleKind::Constant => 1.0,
        }
    }

    /// Returns an error if the warm-up is a fraction outside 0 to 1.
    pub fn validate(&self) -> Result<(), OptimError> {
        self.warmup.checked().map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ScheduleKind::*;

    /// Ten steps computed by hand; √½ = 0.7071… and cos 36° = 0.8090….
    #[test]
    fn tables() {
        let c = |degrees: f64| 0.5 * (1.0 + degrees.to_radians().cos());
        let rows = [
            // x =                    0    .1     .2     .3     .4     .5     .6     .7     .8     .9
            (WarmupLinear, 0.2, [0.0, 0.45, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]),
            (WarmupLinear, 0.0, [1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]),
            (WarmupCosine, 0.2, [0.0, 0.5, 1.0, c(54.0), c(72.0), 0.5, c(108.0), c(126.0), c(144.0), c(162.0)]),
            (WarmupCosine, 0.25, [0.0, 0.4, 0.8, c(54.0), c(72.0), 0.5, c(108.0), c(126.0), c(144.0), c(162.0)]),
            (WarmupConstant, 0.4, [0.0, 0.25, 0.5, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]),
            (Paper, 0.2, [0.0, 0.5, 1.0, c(22.5), c(45.0), c(67.5), 0.5, c(112.5), c(135.0), c(157.5)]),
            (Paper, 0.0, [1.0, c(18.0), c(36.0), c(54.0), c(72.0), 0.5, c(108.0), c(126.0), c(144.0), c(162.0)]),
            (Paper, 1.0, [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]),
            (Constant, 0.2, [1.0; 10]),
        ];
        for (kind, w, expected) in rows {
            let by_share = Schedule { kind, warmup: Warmup::Share(w) };
            for (i, &s) in expected.iter().enumerate() {
                let found = by_share.factor(i as u64 + 1, 10);
                assert!((found - s).abs() < 1e-15, "{kind} w = {w}, t = {}: {found}, expected {s}", i + 1);
            }
            if (w * 10.0).fract() == 0.0 {
                let by_steps = Schedule { kind, warmup: Warmup::Steps((w * 10.0) as u64) };
                assert!((1..=10).all(|t| by_steps.factor(t, 10) == by_share.factor(t, 10)), "{kind} w = {w}");
            }
        }
    }

    #[test]
    fn schedules_stay_at_their_final_value() {
        for (kind, end) in [(Paper, 0.0), (WarmupLinear, 0.0), (WarmupCosine, 0.0), (WarmupConstant, 1.0)] {
            let schedule = Schedule { kind, warmup: Warmup::Steps(3) };
            assert_eq!([schedule.factor(11, 10), schedule.factor(99, 10)], [end; 2], "{kind}");
        }
        let long = Schedule { kind: Paper, warmup: Warmup::Steps(2000) };
        assert_eq!(long.factor(51, 100), 0.025, "a warm-up longer than the run");
        assert_eq!(long.factor(1, 0), 0.0, "no steps at all");
        let whole = Schedule { kind: Paper, warmup: Warmup::Share(1.0) };
        assert_eq!([whole.factor(11, 10), whole.factor(99, 10)], [1.0; 2], "a warm-up of the whole run has no cosine after it");
    }

    #[test]
    fn warm_ups_are_parsed_and_printed() {
        assert_eq!("2000".parse(), Ok(Warmup::Steps(2000)));
        assert_eq!("0.002".parse(), Ok(Warmup::Share(0.002)));
        assert_eq!("1.0".parse(), Ok(Warmup::Share(1.0)));
        for (wrong, found) in [("-1", "-1.0"), ("1.5", "1.5"), ("NaN", "NaN"), ("inf", "inf"), ("ten", "ten"), ("", "")] {
            let error = wrong.parse::<Warmup>().unwrap_err();
            assert_eq!((error.field, &*error.found), ("warmup", found), "{error}");
        }
        for (warmup, written) in [(Warmup::Steps(1), "1"), (Warmup::Share(1.0), "1.0")] {
            let schedule = Schedule { kind: WarmupCosine, warmup };
            assert_eq!(warmup.to_string().parse(), Ok(warmup));
            let json = serde_json::to_string(&schedule).unwrap();
            assert_eq!(json, format!(r#"{{"schedule":"warmup_cosine","warmup":{written}}}"#));
            assert_eq!(serde_json::from_str::<Schedule>(&json).unwrap(), schedule);
            assert_eq!(toml::from_str::<Schedule>(&toml::to_string(&schedule).unwrap()).unwrap(), schedule);
        }
        let error = Schedule { kind: Paper, warmup: Warmup::Share(-0.1) }.validate().unwrap_err();
        assert_eq!((error.field, &*error.found), ("warmup", "-0.1"));
    }
}

//! The report of a witness.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::Case;

/// A number and its expected value.
#[derive(Clone, Copy, Debug)]
pub struct Comparison {
    /// The input whose gradient it belongs to; `None` for a value or a scalar of all inputs.
    pub input: Option<usize>,
    /// The element's index in row-major order.
    pub element: usize,
    /// The number that the op computes.
    pub value: f64,
    /// The number that the witness expects.
    pub expected: f64,
    /// The unit of the error.
    pub scale: f64,
}

impl Comparison {
    /// Returns |value − expected| / scale; infinite if the scale is 0 and the difference is not, or if the difference is NaN.
    pub fn error(&self) -> f64 {
        let difference = (self.value - self.expected).abs();
        if difference == 0.0 {
            return 0.0;
        }
        let error = difference / self.scale;
        if error.is_nan() { f64::INFINITY } else { error }
    }
}

/// The result of a witness: how close an op came to the expected numbers.
#[derive(Clone, Debug)]
pub struct Report {
    /// The name of the witness.
    pub witness: &'static str,
    /// The name of the op.
    pub op: &'static str,
    /// The index among the op's samples.
    pub sample: usize,
    /// The seed of the draw.
    pub seed: u64,
    /// The size of the draw.
    pub size: usize,
    /// Whether the case is a function at given inputs, for which the seed draws only cotangents and directions.
    pub function: bool,
    /// The number of comparisons.
    pub compared: usize,
    /// The comparison with the largest error in units of its tolerance; `None` if nothing was compared.
    pub worst: Option<Comparison>,
    /// The largest error allowed.
    pub tolerance: f64,
    /// The curve of a witness along a line: each step size h, and the error or remainder at it.
    pub curve: Vec<(f64, f64)>,
}

impl Report {
    /// Creates an empty report.
    pub(super) fn new(witness: &'static str, op: &'static str, sample: usize, seed: u64, size: usize) -> Self {
        let (compared, worst, tolerance, curve) = (0, None, 0.0, Vec::new());
        Report { witness, op, sample, seed, size, function: false, compared, worst, tolerance, curve }
    }

    /// Returns the worst relative error; 0 if nothing was compared.
    pub fn error(&self) -> f64 {
        self.worst.map_or(0.0, |w| w.error())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { witness, op, sample, seed, size, tolerance, .. } = self;
        match self.function {
            true => write!(f, "{witness} of `{op}`, seed {seed}: ")?,
            false => write!(f, "{witness} of `{op}`, sample {sample} of cases(seed {seed}, size {size}): ")?,
        }
        let Some(w) = self.worst else { return write!(f, "nothing to compare") };
        if *witness == "taylor" {
            return write!(f, "the remainder falls with a slope of {:.3}, at least {:.2} expected", w.value, 2.0 - tolerance);
        }
        match (w.input, *witness) {
            (Some(input), "adjoint_on") => write!(f, "along a direction of input {input}: ")?,
            (Some(input), _) => write!(f, "input {input}, element {}: ", w.element)?,
            (None, "adjoint" | "v_curve") => write!(f, "along a direction: ")?,
            (None, _) => write!(f, "element {}: ", w.element)?,
        }
        write!(f, "{:e} where {:e} is expected; error {:.1e} of {:.1e}, ", w.value, w.expected, w.error(), w.scale)?;
        write!(f, "at most {tolerance:.0e} allowed; {} compared", self.compared)
    }
}

/// The failure of an op at a witness.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Failure {
    /// A number is off by more than the tolerance.
    #[error("{0}")]
    Disagrees(Report),
    /// A rule without a tolerance is broken.
    #[error("{report}; {rule}")]
    Breaks {
        /// The report of the case.
        report: Report,
        /// The rule, and the way it is broken.
        rule: String,
    },
}

/// The outcome of a witness for an op.
pub type Outcome = Result<Report, Box<Failure>>;

/// A collector of comparisons.
pub(super) struct Ledger(Report);

impl Ledger {
    /// Runs a witness. A panic, for example of an op that reads a value that it did not save, is a broken rule too.
    pub(super) fn of(witness: &'static str, case: &Case, says: impl FnOnce(Ledger) -> Outcome) -> Outcome {
        let &Case { sample, seed, size, whole, .. } = case;
        Self::on(&Report { function: whole, ..Report::new(witness, case.op(), sample, seed, size) }, says)
    }
    /// Runs a witness on a sample that `blank`, an empty report, names.
    pub(super) fn on(blank: &Report, says: impl FnOnce(Ledger) -> Outcome) -> Outcome {
        let said = catch_unwind(AssertUnwindSafe(|| says(Ledger(blank.clone()))));
        said.unwrap_or_else(|panic| Ledger(blank.clone()).broken(format!("it panicked: {}", message(&*panic))))
    }
    /// Records a comparison and the error allowed for it.
    pub(super) fn compare(&mut self, tolerance: f64, c: Comparison) {
        let report = &mut self.0;
        report.compared += 1;
        let share = |c: &Comparison, t: f64| if c.error() == 0.0 { 0.0 } else { c.error() / t };
        if report.worst.is_none_or(|w| share(&c, tolerance) > share(&w, report.tolerance)) {
            (report.worst, report.tolerance) = (Some(c), tolerance);
        }
    }
    /// Records the errors or remainders along a line.
    pub(super) fn draw(&mut self, curve: Vec<(f64, f64)>) {
        self.0.curve = curve;
    }
    /// Returns the outcome.
    pub(super) fn close(self) -> Outcome {
        if self.0.error() <= self.0.tolerance { Ok(self.0) } else { Err(Box::new(Failure::Disagrees(self.0))) }
    }
    /// Returns the outcome for a broken rule.
    pub(super) fn broken(self, rule: String) -> Outcome {
        Err(Box::new(Failure::Breaks { report: self.0, rule }))
    }
}

/// Returns the message of a panic.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("no message")
}

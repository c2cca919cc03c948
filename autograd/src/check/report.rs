//! What a witness has to say.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::Case;

/// A number and what it should be.
#[derive(Clone, Copy, Debug)]
pub struct Comparison {
    /// The input whose gradient it belongs to; `None` for a value or a scalar of all inputs.
    pub input: Option<usize>,
    /// Its place in row-major order.
    pub element: usize,
    /// What the op gives.
    pub value: f64,
    /// What the witness gives.
    pub expected: f64,
    /// What errors are measured in.
    pub scale: f64,
}

impl Comparison {
    /// |value − expected| / scale; infinite where a difference has no scale or is NaN.
    pub fn error(&self) -> f64 {
        let difference = (self.value - self.expected).abs();
        if difference == 0.0 {
            return 0.0;
        }
        let error = difference / self.scale;
        if error.is_nan() { f64::INFINITY } else { error }
    }
}

/// How close an op came to what a witness expects.
#[derive(Clone, Debug)]
pub struct Report {
    /// The witness.
    pub witness: &'static str,
    /// The op.
    pub op: &'static str,
    /// Which of the op's samples.
    pub sample: usize,
    /// The seed that drew it.
    pub seed: u64,
    /// The size it was drawn at.
    pub size: usize,
    /// Is it a function at given inputs, for which the seed draws cotangents and directions alone?
    pub function: bool,
    /// Numbers compared.
    pub compared: usize,
    /// The comparison furthest off, in units of its tolerance; `None` where there was nothing to compare.
    pub worst: Option<Comparison>,
    /// The largest error allowed.
    pub tolerance: f64,
    /// For a witness along a line: each step size h, and the error or remainder at it.
    pub curve: Vec<(f64, f64)>,
}

impl Report {
    /// Nothing compared yet.
    pub(super) fn new(witness: &'static str, op: &'static str, sample: usize, seed: u64, size: usize) -> Self {
        let (compared, worst, tolerance, curve) = (0, None, 0.0, Vec::new());
        Report { witness, op, sample, seed, size, function: false, compared, worst, tolerance, curve }
    }

    /// The worst relative error; 0 where nothing was compared.
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

/// What a witness says of a wrong op.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Failure {
    /// A number is off by more than the tolerance.
    #[error("{0}")]
    Disagrees(Report),
    /// A rule is broken that no tolerance measures.
    #[error("{report}; {rule}")]
    Breaks {
        /// Where.
        report: Report,
        /// Which rule, and how.
        rule: String,
    },
}

/// How an op did.
pub type Outcome = Result<Report, Box<Failure>>;

/// Collects comparisons.
pub(super) struct Ledger(Report);

impl Ledger {
    /// What a witness says. A panic, say of an op that reads what it did not save, is a broken rule too.
    pub(super) fn of(witness: &'static str, case: &Case, says: impl FnOnce(Ledger) -> Outcome) -> Outcome {
        let &Case { sample, seed, size, whole, .. } = case;
        Self::on(&Report { function: whole, ..Report::new(witness, case.op(), sample, seed, size) }, says)
    }
    /// The same, of a sample that `blank`, an empty report, names.
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
    /// Keeps the errors or remainders along a line.
    pub(super) fn draw(&mut self, curve: Vec<(f64, f64)>) {
        self.0.curve = curve;
    }
    /// The verdict.
    pub(super) fn close(self) -> Outcome {
        if self.0.error() <= self.0.tolerance { Ok(self.0) } else { Err(Box::new(Failure::Disagrees(self.0))) }
    }
    /// The verdict where a rule is broken.
    pub(super) fn broken(self, rule: String) -> Outcome {
        Err(Box::new(Failure::Breaks { report: self.0, rule }))
    }
}

/// What a panic said.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("no message")
}

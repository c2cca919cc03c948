//! Progress of long work: reported by the work, displayed by a monitor.
//!
//! The work is independent of the terminal. It begins a [`Job`] on a [`Monitor`], and reports to the returned [`Progress`].
//!
//! ```
//! use gradus_io::progress::{Job, Monitor, Progress, Silent};
//!
//! fn count(to: u64, monitor: &dyn Monitor) {
//!     let mut progress = monitor.begin(Job::new("counting", to, "numbers"));
//!     (1..=to).for_each(|n| progress.reach(n));
//!     progress.finish();
//! }
//!
//! count(1000, &Silent);
//! ```

use std::fmt;

/// A job of a known number of steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// A description of the work.
    pub label: String,
    /// The number of steps.
    pub total: u64,
    /// The unit of the steps: `steps`, `merges`, `bytes`.
    pub unit: String,
    /// The unit of the rate, and its amount per step, such as 2,048 tokens.
    pub counted: (String, f64),
    /// The number of steps done before, which do not count in the rate.
    pub done: u64,
}

impl Job {
    /// Creates a job `label` of `total` steps in `unit`s.
    pub fn new(label: &str, total: u64, unit: &str) -> Self {
        Job { label: label.into(), total, unit: unit.into(), counted: (unit.into(), 1.0), done: 0 }
    }

    /// Sets another unit for the rate, with `each` per step, such as `tokens`.
    #[must_use]
    pub fn counting(mut self, what: &str, each: f64) -> Self {
        self.counted = (what.into(), each);
        self
    }

    /// Sets the initial position, for a resumed run.
    #[must_use]
    pub fn starting_at(mut self, position: u64) -> Self {
        self.done = position;
        self
    }
}

/// A display of progress: a terminal, a log, or nothing.
pub trait Monitor: fmt::Debug + Sync {
    /// Begins a job.
    fn begin(&self, job: Job) -> Box<dyn Progress>;
    /// Shows a line to the user, unless quiet.
    fn say(&self, words: &str);
    /// Shows a line to the user, even if quiet.
    fn warn(&self, words: &str) {
        self.say(words);
    }
}

/// The progress of one [`Job`].
pub trait Progress: Send {
    /// Reports that `position` steps are done.
    fn reach(&mut self, position: u64);
    /// Excludes the time since the last [`Progress::reach`] from the rate.
    fn skip(&mut self) {}
    /// Sets the text next to the numbers, such as `loss 2.31`. It is shown from the next [`Progress::reach`] on.
    fn note(&mut self, _: String) {}
    /// Shows a line to the user, unless quiet.
    fn say(&mut self, _: &str) {}
    /// Shows a line to the user, even if quiet.
    fn warn(&mut self, words: &str);
    /// Reduces the total to the steps already done: the work needs fewer steps than expected.
    fn complete(&mut self) {}
    /// Reports that the work is done. Dropping the progress without this call reports a failure.
    fn finish(self: Box<Self>) {}
}

/// A monitor that displays nothing, not even warnings.
#[derive(Clone, Copy, Debug)]
pub struct Silent;

impl Monitor for Silent {
    fn begin(&self, _: Job) -> Box<dyn Progress> {
        Box::new(Silent)
    }
    fn say(&self, _: &str) {}
}

impl Progress for Silent {
    fn reach(&mut self, _: u64) {}
    fn warn(&mut self, _: &str) {}
}

//! How far a long piece of work is: reported by the work, shown by a monitor.
//!
//! The work knows no terminal. It begins a [`Job`] with the [`Monitor`] it was given, and reports to the [`Progress`] it gets.
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

/// A piece of work, from 0 to a known number of steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// What is done.
    pub label: String,
    /// Number of steps.
    pub total: u64,
    /// What the steps are: `steps`, `merges`, `bytes`.
    pub unit: String,
    /// What the rate counts, and how many of it a step is worth: 2,048 tokens, say.
    pub counted: (String, f64),
    /// Steps that were done before; they do not count for the rate.
    pub done: u64,
}

impl Job {
    /// `label`, over `total` `unit`s.
    pub fn new(label: &str, total: u64, unit: &str) -> Self {
        Job { label: label.into(), total, unit: unit.into(), counted: (unit.into(), 1.0), done: 0 }
    }

    /// Gives the rate in something other than steps, `each` per step: `tokens`, say.
    #[must_use]
    pub fn counting(mut self, what: &str, each: f64) -> Self {
        self.counted = (what.into(), each);
        self
    }

    /// Begins at `position` rather than 0, as a resumed run does.
    #[must_use]
    pub fn starting_at(mut self, position: u64) -> Self {
        self.done = position;
        self
    }
}

/// What watches the work: a terminal, a log, nothing.
pub trait Monitor: fmt::Debug + Sync {
    /// A piece of work begins.
    fn begin(&self, job: Job) -> Box<dyn Progress>;
    /// Says a line to the reader; not when quiet.
    fn say(&self, words: &str);
    /// Says a line to the reader even when quiet.
    fn warn(&self, words: &str) {
        self.say(words);
    }
}

/// The progress of one [`Job`].
pub trait Progress: Send {
    /// `position` steps are done.
    fn reach(&mut self, position: u64);
    /// Excludes the time since the last [`Progress::reach`] from the rate.
    fn skip(&mut self) {}
    /// Sets the words beside the numbers: `loss 2.31`, say. They are shown from the next [`Progress::reach`] on.
    fn note(&mut self, note: String);
    /// Says a line to the reader; not when quiet.
    fn say(&mut self, words: &str);
    /// Says a line to the reader even when quiet.
    fn warn(&mut self, words: &str);
    /// Reduces the total to the steps already done: the work needs fewer steps than expected.
    fn complete(&mut self) {}
    /// The work is done. If dropped without this, the work has failed.
    fn finish(self: Box<Self>);
}

/// Nobody watches; warnings are not shown either.
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
    fn note(&mut self, _: String) {}
    fn say(&mut self, _: &str) {}
    fn warn(&mut self, _: &str) {}
    fn finish(self: Box<Self>) {}
}

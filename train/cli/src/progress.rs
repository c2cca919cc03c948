//! Progress on standard error: a bar on a terminal, plain lines elsewhere, nothing with `--quiet`. Standard output is only for
//! results.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use gradus_io::numbers::{count, duration, figure};
use gradus_io::progress::{Job, Monitor, Progress};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::error::CliError;
use crate::output;

/// The display of progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Display {
    /// A bar that is redrawn in its place.
    Bar,
    /// A line at the end, and one every [`INTERVAL`] until then.
    Lines,
    /// Only warnings.
    Quiet,
}

impl Display {
    /// Returns [`Display::Quiet`] if `quiet`; otherwise a bar if standard error is a terminal, and lines if not.
    pub fn choose(quiet: bool) -> Self {
        match quiet {
            true => Self::Quiet,
            false if io::stderr().is_terminal() => Self::Bar,
            false => Self::Lines,
        }
    }

    /// Shows the progress of `work`, which reports how many steps are done.
    pub fn during<R>(self, job: Job, work: impl FnOnce(&mut dyn FnMut(usize)) -> Result<R, CliError>) -> Result<R, CliError> {
        let total = job.total;
        let mut progress = self.begin(job);
        let result = work(&mut |done| progress.reach(done as u64))?;
        progress.reach(total);
        progress.finish();
        Ok(result)
    }
}

impl Monitor for Display {
    fn begin(&self, job: Job) -> Box<dyn Progress> {
        Box::new(Shown::new(job, *self, Box::new(io::stderr())))
    }

    fn say(&self, words: &str) {
        if *self != Display::Quiet {
            output::say(words);
        }
    }

    fn warn(&self, words: &str) {
        output::say(words);
    }
}

/// The time between two plain lines.
const INTERVAL: Duration = Duration::from_secs(10);

/// The progress of one piece of work.
struct Shown {
    job: Job,
    note: String,
    rate: Rate,
    begin: Instant,
    line_at: Instant,
    display: Display,
    bar: ProgressBar,
    out: Box<dyn Write + Send>,
}

impl Shown {
    /// Creates the display of a new `job`; messages and lines go to `out`.
    fn new(job: Job, display: Display, out: Box<dyn Write + Send>) -> Self {
        let target = if display == Display::Bar { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let style = ProgressStyle::with_template("{prefix} ▕{bar:24.cyan}▏ {percent:>3} %  {wide_msg}")
            .expect("the template is valid")
            .progress_chars("█▉▊▋▌▍▎▏ ");
        let bar = ProgressBar::with_draw_target(Some(job.total), target).with_style(style);
        let bar = bar.with_prefix(job.label.clone()).with_position(job.done);
        let now = Instant::now();
        Self { job, note: String::new(), rate: Rate::default(), begin: now, line_at: now, display, bar, out }
    }

    /// Writes the whole state as a line.
    fn line(&mut self) {
        let Job { total, done, .. } = self.job;
        let percent = if total == 0 { 100.0 } else { 100.0 * done as f64 / total as f64 };
        let _ = writeln!(self.out, "{}: {percent:.0} %, {}", self.job.label, self.status());
    }

    /// Returns the numbers and the note.
    fn status(&self) -> String {
        let Job { total, done, unit, counted: (what, each), .. } = &self.job;
        let mut parts = vec![format!("{} of {} {unit}", count(*done), count(*total))];
        if let Some(rate) = self.rate.per_second() {
            parts.push(format!("{} {what}/s", figure(rate * each)));
            match total.saturating_sub(*done) {
                0 => parts.push(format!("took {}", duration(self.begin.elapsed().as_secs_f64()))),
                left => parts.push(format!("{} left", duration(left as f64 / rate))),
            }
        }
        if !self.note.is_empty() {
            parts.push(self.note.clone());
        }
        parts.join(", ")
    }
}

impl Progress for Shown {
    fn reach(&mut self, position: u64) {
        let now = Instant::now();
        self.rate.observe(now - self.begin, position.saturating_sub(self.job.done));
        self.job.done = position;
        match self.display {
            Display::Bar => {
                self.bar.set_message(self.status());
                self.bar.set_position(position);
            }
            Display::Lines if now - self.line_at >= INTERVAL => {
                self.line_at = now;
                self.line();
            }
            Display::Lines | Display::Quiet => {}
        }
    }

    fn skip(&mut self) {
        self.rate.at = self.begin.elapsed();
    }

    fn note(&mut self, note: String) {
        self.note = note;
    }

    fn say(&mut self, words: &str) {
        if self.display != Display::Quiet {
            self.warn(words);
        }
    }

    fn warn(&mut self, words: &str) {
        let out = &mut self.out;
        self.bar.suspend(|| drop(writeln!(out, "{words}")));
    }

    fn complete(&mut self) {
        self.job.total = self.job.done;
        self.bar.set_length(self.job.done);
    }

    fn finish(mut self: Box<Self>) {
        if self.display == Display::Lines {
            self.line();
        }
        self.bar.finish_and_clear();
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.bar.finish_and_clear(); // an error on its way must not be printed over a bar
    }
}

/// The recent rate: work divided by time, both decayed exponentially.
#[derive(Debug, Default)]
struct Rate {
    at: Duration,
    work: f64,
    time: f64,
    observations: u64,
    /// Whether the last observation was excluded as a pause.
    has_paused: bool,
}

impl Rate {
    /// Seconds after which an observation counts 1/e.
    const MEMORY: f64 = 15.0;
    /// The number of later observations after which an observation counts 1/e, if these take longer than [`Self::MEMORY`].
    const OBSERVATIONS: f64 = 20.0;
    /// The minimum duration of a pause: in seconds, and as a multiple of the time expected for the work.
    const PAUSE: (f64, f64) = (5.0, 10.0);

    /// Records that `work` more was done by the time `at` since the beginning. A pause, such as that of a closed laptop, is
    /// excluded. A second pause in a row is not: the work has become slow.
    fn observe(&mut self, at: Duration, work: u64) {
        let seconds = at.saturating_sub(self.at).as_secs_f64();
        self.at = at;
        let share = self.per_second().filter(|_| self.observations >= 5).map(|rate| work as f64 / rate);
        let (least, times) = Self::PAUSE;
        let is_pause = seconds >= least && share.is_some_and(|share| seconds > times * share);
        self.has_paused = is_pause && !self.has_paused;
        if self.has_paused {
            return;
        }
        let fade = (-seconds / Self::MEMORY).max(-1.0 / Self::OBSERVATIONS).exp();
        self.work = self.work * fade + work as f64;
        self.time = self.time * fade + seconds;
        self.observations += 1;
    }

    /// Returns the work per second, or `None` before the first observation.
    fn per_second(&self) -> Option<f64> {
        (self.work > 0.0 && self.time > 0.0).then(|| self.work / self.time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(display: Display) -> String {
        let (written, out) = io::pipe().unwrap();
        let job = Job::new("pretrain", 2000, "steps").counting("tokens", 1024.0);
        let mut progress = Box::new(Shown::new(job, display, Box::new(out)));
        (1..=500).for_each(|step| progress.reach(step));
        progress.say("a sample");
        progress.warn("a warning");
        // Eleven seconds pass.
        progress.begin -= INTERVAL;
        progress.line_at -= INTERVAL;
        progress.note("loss 2.31".into());
        (501..=2000).for_each(|step| progress.reach(step));
        progress.finish();
        io::read_to_string(written).unwrap()
    }

    #[test]
    fn lines_come_at_intervals_and_at_the_end() {
        let text = run(Display::Lines);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert_eq!(lines[..2], ["a sample", "a warning"]);
        assert!(lines[2].starts_with("pretrain: 25 %, 501 of 2,000 steps, "), "{text}");
        assert!(lines[2].contains(" tokens/s, ") && lines[2].ends_with(" left, loss 2.31"), "{text}");
        assert!(lines[3].starts_with("pretrain: 100 %, 2,000 of 2,000 steps, "), "{text}");
        assert!(lines[3].contains(", took "), "{text}");
    }

    #[test]
    fn work_that_is_complete_ends_at_100_percent() {
        let (written, out) = io::pipe().unwrap();
        let mut progress = Box::new(Shown::new(Job::new("merges", 300, "merges"), Display::Lines, Box::new(out)));
        progress.reach(41);
        progress.complete();
        progress.finish();
        let text = io::read_to_string(written).unwrap();
        assert!(text.starts_with("merges: 100 %, 41 of 41 merges"), "{text}");
    }

    #[test]
    fn quiet_prints_only_warnings() {
        assert_eq!(run(Display::Quiet), "a warning\n");
    }

    #[test]
    fn the_bar_prints_messages_above_itself() {
        // Drawn on a hidden terminal; the messages above the bar are still printed.
        assert_eq!(run(Display::Bar), "a sample\na warning\n");
    }

    #[test]
    fn the_remaining_time_ignores_pauses_and_evaluations() {
        let at = Duration::from_secs_f64;
        let mut rate = Rate::default();
        let per_second = |rate: &Rate| rate.per_second().unwrap();
        // After steps of 20 s, one of 30 s changes the rate little.
        for step in 1..=20 {
            rate.observe(at(20.0 * f64::from(step)), 1);
        }
        rate.observe(at(430.0), 1);
        assert!((18.0..=22.0).contains(&per_second(&rate).recip()), "{rate:?}");
        // An hour of sleep does not change the rate; lasting slowness does.
        let before = per_second(&rate);
        rate.observe(at(4030.0), 1);
        assert_eq!(per_second(&rate), before);
        for step in 1..=60 {
            rate.observe(at(4030.0 + 600.0 * f64::from(step)), 1);
        }
        assert!((550.0..=601.0).contains(&per_second(&rate).recip()), "{rate:?}");
        // Evaluations of 9 s between steps of 1 s are excluded.
        let job = Job::new("x", 100, "steps");
        let mut progress = Shown::new(job, Display::Quiet, Box::new(io::sink()));
        for step in 1..=20 {
            progress.begin -= Duration::from_secs(9);
            progress.skip();
            progress.begin -= Duration::from_secs(1);
            progress.reach(step);
        }
        assert!((0.9..=1.0).contains(&per_second(&progress.rate)), "{:?}", progress.rate);
    }

    #[test]
    fn the_rate_ignores_a_slow_start_and_earlier_progress() {
        let mut rate = Rate::default();
        assert_eq!(rate.per_second(), None);
        let mut at = 0;
        for (seconds, work) in [(20, 10), (200, 100)] {
            for _ in 0..seconds {
                at += 1;
                rate.observe(Duration::from_secs(at), work);
            }
            let found = rate.per_second().unwrap();
            assert!((found / work as f64 - 1.0).abs() < 1e-3, "{found} at {at} s");
        }
        let job = Job::new("x", 100, "steps").starting_at(90);
        let mut resumed = Shown::new(job, Display::Quiet, Box::new(io::sink()));
        resumed.begin -= Duration::from_secs(10);
        resumed.reach(95);
        let found = resumed.rate.per_second().unwrap();
        assert!((0.4..=0.5).contains(&found), "5 steps in 10 s, not 95: {found}");
        assert!(resumed.status().ends_with(" s left"), "{}", resumed.status());
    }
}

//! How far a long piece of work is: a bar on a terminal, plain lines elsewhere, nothing when asked to be quiet.
//!
//! All of it goes to standard error: standard output belongs to results.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Display {
    /// A bar that is redrawn in its place.
    Bar,
    /// A line at the end, and one every [`INTERVAL`] until then.
    Lines,
    /// Warnings alone.
    Quiet,
}

impl Display {
    /// [`Display::Quiet`] if so wished; otherwise a bar if standard error is a terminal, and lines if not.
    pub fn choose(quiet: bool) -> Self {
        match quiet {
            true => Self::Quiet,
            false if io::stderr().is_terminal() => Self::Bar,
            false => Self::Lines,
        }
    }
}

/// The time between two plain lines.
pub const INTERVAL: Duration = Duration::from_secs(10);

/// The progress of one piece of work, from 0 to a known number of steps.
pub struct Progress {
    label: String,
    unit: String,
    total: u64,
    position: u64,
    /// What the rate counts, and how many of it a step is worth: 2,048 tokens, say.
    counted: (String, f64),
    note: String,
    rate: Rate,
    begin: Instant,
    line_at: Instant,
    display: Display,
    bar: ProgressBar,
    out: Box<dyn Write + Send>,
}

impl Progress {
    /// The progress of `label` over `total` `unit`s (`steps`, `merges`, `bytes`).
    pub fn new(label: &str, total: u64, unit: &str, display: Display) -> Self {
        Self::with_writer(label, total, unit, display, Box::new(io::stderr()))
    }

    /// [`Progress::new`], its words and lines going to `out`.
    fn with_writer(label: &str, total: u64, unit: &str, display: Display, out: Box<dyn Write + Send>) -> Self {
        let bar = match display {
            Display::Bar => ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr()),
            Display::Lines | Display::Quiet => ProgressBar::hidden(),
        };
        let style = ProgressStyle::with_template("{prefix} ▕{bar:24.cyan}▏ {percent:>3} %  {wide_msg}")
            .expect("the template is valid")
            .progress_chars("█▉▊▋▌▍▎▏ ");
        bar.set_style(style);
        bar.set_prefix(label.to_string());
        let now = Instant::now();
        Self {
            label: label.into(),
            unit: unit.into(),
            total,
            position: 0,
            counted: (unit.into(), 1.0),
            note: String::new(),
            rate: Rate::default(),
            begin: now,
            line_at: now,
            display,
            bar,
            out,
        }
    }

    /// Gives the rate in something else than steps, of which each step is worth `each`: `tokens`, say.
    #[must_use]
    pub fn counting(mut self, what: &str, each: f64) -> Self {
        self.counted = (what.into(), each);
        self
    }

    /// Begins at `position` rather than 0, as a resumed run does; what was done before does not count for the rate.
    #[must_use]
    pub fn starting_at(mut self, position: u64) -> Self {
        self.position = position;
        self.bar.set_position(position);
        self
    }

    /// `position` steps are done.
    pub fn reach(&mut self, position: u64) {
        let now = Instant::now();
        self.rate.observe(now - self.begin, position.saturating_sub(self.position));
        self.position = position;
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

    /// Sets the words beside the numbers: `loss 2.31`, say. They are shown from the next [`Progress::reach`] on.
    pub fn note(&mut self, note: impl Into<String>) {
        self.note = note.into();
    }

    /// Says a line to the reader, above the bar; not when quiet.
    pub fn say(&mut self, words: &str) {
        if self.display != Display::Quiet {
            self.warn(words);
        }
    }

    /// Says a line to the reader even when quiet.
    pub fn warn(&mut self, words: &str) {
        // A reader who has closed standard error wants no words; the work goes on.
        let out = &mut self.out;
        self.bar.suspend(|| drop(writeln!(out, "{words}")));
    }

    /// Ends the display, with a last line where lines are written.
    pub fn finish(mut self) {
        if self.display == Display::Lines {
            self.line();
        }
        self.bar.finish_and_clear();
    }

    /// Writes the whole state as a line.
    fn line(&mut self) {
        let percent = if self.total == 0 { 100.0 } else { 100.0 * self.position as f64 / self.total as f64 };
        let line = format!("{}: {percent:.0} %, {}", self.label, self.status());
        let _ = writeln!(self.out, "{line}");
    }

    /// The numbers and the note.
    fn status(&self) -> String {
        let mut parts = vec![format!("{} of {} {}", count(self.position), count(self.total), self.unit)];
        if let Some(rate) = self.rate.per_second() {
            let (what, each) = &self.counted;
            parts.push(format!("{} {what}/s", figure(rate * each)));
            match self.total.saturating_sub(self.position) {
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

impl std::fmt::Debug for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Progress({}: {})", self.label, self.status())
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear(); // an error on its way must not be printed over a bar
    }
}

/// The recent rate: work over time, both fading with the same time constant.
#[derive(Debug, Default)]
struct Rate {
    at: Duration,
    work: f64,
    time: f64,
}

impl Rate {
    /// Seconds after which an observation counts 1/e.
    const MEMORY: f64 = 15.0;

    /// `work` more was done by the time `at` since the beginning.
    fn observe(&mut self, at: Duration, work: u64) {
        let seconds = at.saturating_sub(self.at).as_secs_f64();
        let fade = (-seconds / Self::MEMORY).exp();
        self.work = self.work * fade + work as f64;
        self.time = self.time * fade + seconds;
        self.at = at;
    }

    /// Work per second; none before any was seen.
    fn per_second(&self) -> Option<f64> {
        (self.work > 0.0 && self.time > 0.0).then(|| self.work / self.time)
    }
}

/// A whole number with its thousands apart: `116,534,784`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// So many of something: `1 thread`, `1,000 threads`.
pub fn many(number: usize, one: &str) -> String {
    format!("{} {one}{}", count(number as u64), if number == 1 { "" } else { "s" })
}

/// A positive measurement to about three digits: `9,480`, `23.4`, `0.0213`.
pub fn figure(value: f64) -> String {
    match value.abs() {
        _ if !value.is_finite() => "–".into(),
        0.0 => "0".into(),
        size if size >= 100.0 => count(value.round().max(0.0) as u64),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        size if size >= 1e-3 => format!("{value:.4}"),
        _ => format!("{value:.2e}"),
    }
}

/// A time in words: `8 s`, `3 min 20 s`, `2 h 05 min`.
pub fn duration(seconds: f64) -> String {
    let whole = seconds.round().max(0.0) as u64;
    match whole {
        0..60 => format!("{whole} s"),
        60..3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3600, whole / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Shared {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    fn run(display: Display) -> String {
        let out = Shared::default();
        let mut progress =
            Progress::with_writer("pretrain", 2000, "steps", display, Box::new(out.clone())).counting("tokens", 1024.0);
        (1..=500).for_each(|step| progress.reach(step));
        progress.say("a sample");
        progress.warn("a warning");
        // Eleven seconds pass.
        progress.begin -= INTERVAL;
        progress.line_at -= INTERVAL;
        progress.note("loss 2.31");
        (501..=2000).for_each(|step| progress.reach(step));
        progress.finish();
        out.text()
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
    fn quiet_lets_warnings_through_and_nothing_else() {
        assert_eq!(run(Display::Quiet), "a warning\n");
    }

    #[test]
    fn the_bar_shares_its_words_with_the_lines() {
        // Drawn on a hidden terminal: the words spoken above the bar still come.
        assert_eq!(run(Display::Bar), "a sample\na warning\n");
    }

    #[test]
    fn the_rate_forgets_a_slow_beginning_and_what_was_done_before() {
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
        let mut resumed = Progress::with_writer("x", 100, "steps", Display::Quiet, Box::new(io::sink())).starting_at(90);
        resumed.begin -= Duration::from_secs(10);
        resumed.reach(95);
        let found = resumed.rate.per_second().unwrap();
        assert!((0.4..=0.5).contains(&found), "5 steps in 10 s, not 95: {found}");
        assert!(resumed.status().ends_with(" s left"), "{}", resumed.status());
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!([0, 999, 1000, 116_534_784].map(count), ["0", "999", "1,000", "116,534,784"]);
        assert_eq!([8.4, 59.6, 200.0, 7500.0].map(duration), ["8 s", "1 min 00 s", "3 min 20 s", "2 h 05 min"]);
        assert_eq!([9480.2, 23.44, 1.234, 0.0213, 2.5e-5, 0.0].map(figure), ["9,480", "23.4", "1.23", "0.0213", "2.50e-5", "0"]);
        assert_eq!(figure(f64::NAN), "–");
    }
}

//! Measures the growth of encoding time and memory with the length of hostile text, for both modes: a line without end, a million
//! accents on one letter, nested damage, every character of Unicode.
//!
//! ```text
//! cargo run --release -p gradus-text --example slopes -- [--tokenizer DIR] [--from BYTES] [--to BYTES] [FAMILY…]
//! ```
//!
//! For each family of texts it prints the seconds and the peak of memory at sizes that double, and the slope of log time over log
//! size, fitted by least squares: 1 is linear, 2 quadratic. Each size is encoded in a process of its own, so that the peaks are
//! independent. On Linux, the peak is that of resident memory beyond the text's own.

use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use gradus_text::{BpeTrainer, Mode, Tokenizer};

/// Names of families, and the repeated text of each.
pub const FAMILIES: &[(&str, &str)] = &[
    ("words", "The cat sat on the mat and "),
    ("one letter", "a"),
    ("one word", "thecatsatonthematandtheratsatonthehat"),
    ("capital with dot", "İ"),
    ("smiles", ":)"),
    ("faces", "(^_^)"),
    ("brackets", "("),
    ("brackets both", "([{}])"),
    ("marks", "\u{301}"),
    ("marks to sort", "\u{301}\u{327}\u{345}"),
    ("letter and marks", "e\u{301}\u{327}"),
    ("mojibake", "Ã©"),
    ("mojibake of quotes", "â€™"),
    ("mojibake, lost bytes", "â€ "),
    ("C1 controls", "\u{85}\u{99}"),
    ("entities", "&eacute;"),
    ("ampersands", "&"),
    ("unknown tokens", "<unk>"),
    ("unknown, cut off", "<unk"),
    ("less-than", "<"),
    ("numbers", "3.14,15;9-2:6%"),
    ("units", "10km/h"),
    ("address", "a.b.c.d/"),
    ("mail", "a@"),
    ("schemes", "http://a.b:80"),
    ("colons", "http:"),
    ("apostrophes", "'"),
    ("contractions", "don't"),
    ("possessives", "'s"),
    ("families of emoji", "👩\u{200d}👩\u{200d}👧\u{200d}👦"),
    ("dots", "."),
    ("initials", "a."),
    ("ellipses", "…"),
    ("hyphens", "-"),
    ("hyphens and letters", "--a"),
    ("dashes", "—"),
    ("blanks", " "),
    ("line ends", "\n"),
    ("carriage returns", "\r\n"),
    ("escapes", "\u{1b}["),
    ("escapes of numbers", "\u{1b}[1;2"),
    ("NUL", "\0"),
    ("ideographs", "日本"),
    ("syllables", "각"),
    ("parts of syllables", "\u{1100}\u{1161}\u{11a8}"),
    ("ligatures", "ﬃ"),
    ("full width", "Ａｶ"),
];

/// Families that are not repetitions.
const OTHERS: &[&str] = &[
    "nested mojibake",
    "nested entities",
    "nests of mojibake",
    "nests of entities",
    "any letters",
    "a letter with marks",
    "every character",
];

fn text(family: &str, bytes: usize) -> String {
    let one = |first: &str, rest: &str, last: &str| format!("{first}{}{last}", rest.repeat(bytes / rest.len()));
    match family {
        "nested mojibake" => one("", "Â", "©"),
        "nested entities" => one("&", "amp;", ""),
        "nests of mojibake" => one("", &format!("{}©", "Â".repeat(100)), ""), // more than the passes that a text gets
        "nests of entities" => one("", &format!("&{}", "amp;".repeat(100)), ""),
        "a letter with marks" => one("e", "\u{301}", ""),
        "any letters" => {
            let mut state = 1u64;
            let mut letter = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                char::from(b'a' + (state >> 33) as u8 % 26)
            };
            (0..bytes).map(|_| letter()).collect()
        }
        "every character" => {
            let all: String = ('\0'..=char::MAX).collect();
            let mut out = all.repeat(bytes / all.len());
            out.extend(all.chars().take((bytes - out.len()) / 4));
            out
        }
        _ => {
            let (_, unit) = FAMILIES.iter().find(|(name, _)| *name == family).unwrap_or_else(|| panic!("no family {family:?}"));
            unit.repeat(bytes / unit.len())
        }
    }
}

/// Returns a small vocabulary of the words and letters of this file.
fn trained() -> Result<Tokenizer, Box<dyn Error>> {
    let trainer = BpeTrainer { specials: vec!["<start>".into()], ..BpeTrainer::new(400) };
    let mut words = trainer.word_counts();
    words.add(include_str!("slopes.rs"));
    Ok(trainer.train(&words, |_, _| {})?)
}

/// Returns a number of kilobytes from Linux's status of this process; 0 elsewhere.
fn kilobytes(field: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default();
    line.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(0)
}

/// Returns the CPU time of this thread in seconds on Linux, so that other load has no effect; elsewhere the time since `since`.
fn seconds(since: Instant) -> f64 {
    std::thread::yield_now(); // updates the statistics
    let account = std::fs::read_to_string("/proc/self/schedstat").ok();
    let nanoseconds = account.and_then(|account| account.split(' ').next()?.parse::<f64>().ok());
    nanoseconds.map_or(since.elapsed().as_secs_f64(), |nanoseconds| nanoseconds / 1e9)
}

/// Measures one encoding and prints the seconds (the least of three, if short) and kilobytes for the parent process.
fn measure(tokenizer: &Tokenizer, family: &str, bytes: usize) -> Result<(), Box<dyn Error>> {
    tokenizer.encode("Ã© warm.")?;
    let (text, since) = (text(family, bytes), Instant::now());
    let before = kilobytes("VmRSS:");
    let _ = std::fs::write("/proc/self/clear_refs", "5"); // resets the peak
    let (mut peak, mut least) = (0, f64::INFINITY);
    for _ in 0..if bytes > 1 << 24 { 1 } else { 3 } {
        let start = seconds(since);
        let ids = tokenizer.encode(&text)?;
        least = least.min(seconds(since) - start);
        peak = if peak == 0 { kilobytes("VmHWM:").saturating_sub(before) } else { peak };
        drop(ids);
    }
    println!("{least} {peak}");
    Ok(())
}

/// Returns the slope of log y over log x.
fn slope(points: &[(f64, f64)]) -> f64 {
    let logs: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.max(1e-9).ln())).collect();
    let n = logs.len() as f64;
    let (mx, my) = (logs.iter().map(|p| p.0).sum::<f64>() / n, logs.iter().map(|p| p.1).sum::<f64>() / n);
    logs.iter().map(|(x, y)| (x - mx) * (y - my)).sum::<f64>() / logs.iter().map(|(x, _)| (x - mx).powi(2)).sum::<f64>()
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut rest = std::env::args().skip(1);
    let (mut directory, mut from, mut to, mut only, mut asked) = (None, 1 << 20, 1 << 23, Vec::new(), None);
    while let Some(word) = rest.next() {
        let mut value = || rest.next().ok_or(format!("{word} needs a value"));
        match &*word {
            "--tokenizer" => directory = Some(value()?),
            "--from" => from = value()?.parse()?,
            "--to" => to = value()?.parse()?,
            "--one" => asked = Some(value()?),
            _ => only.push(word),
        }
    }
    if let Some(mode) = asked {
        let tokenizer = match &directory {
            Some(directory) => Tokenizer::load(Path::new(directory))?,
            None => trained()?,
        };
        return measure(&tokenizer.with_mode(mode.parse()?)?, &only[0], from);
    }
    let families = FAMILIES.iter().map(|(name, _)| *name).chain(OTHERS.iter().copied());
    println!("| family | mode | bytes | seconds | bytes of memory per byte | slope |\n|-|-|-|-|-|-|");
    let mut steepest = (0.0, String::new());
    for family in families.filter(|family| only.is_empty() || only.iter().any(|name| name == family)) {
        for mode in Mode::ALL {
            let sizes: Vec<usize> = std::iter::successors(Some(from), |n| Some(2 * n)).take_while(|n| *n <= to).collect();
            let (mut times, mut memory) = (Vec::new(), Vec::new());
            for &bytes in &sizes {
                let mut child = Command::new(std::env::current_exe()?);
                child.args(["--one", mode.name(), "--from", &bytes.to_string(), family]);
                child.args(directory.iter().flat_map(|directory| ["--tokenizer", directory]));
                let output = child.output()?;
                let said = String::from_utf8_lossy(&output.stdout);
                let numbers: Vec<f64> = said.split_whitespace().filter_map(|number| number.parse().ok()).collect();
                let [seconds, kilobytes] = numbers[..] else {
                    return Err(format!("{family}, {mode}, {bytes} bytes: {}", String::from_utf8_lossy(&output.stderr)).into());
                };
                times.push((bytes as f64, seconds));
                memory.push(kilobytes * 1024.0 / bytes as f64);
            }
            let join = |numbers: Vec<String>| numbers.join(" · ");
            let slope = slope(&times);
            println!(
                "| {family} | {mode} | {} | {} | {} | {slope:.2} |",
                join(sizes.iter().map(usize::to_string).collect()),
                join(times.iter().map(|(_, seconds)| format!("{seconds:.3}")).collect()),
                join(memory.iter().map(|bytes| format!("{bytes:.1}")).collect()),
            );
            if slope > steepest.0 {
                steepest = (slope, format!("{family}, {mode}"));
            }
        }
    }
    println!("\nThe steepest: {:.2} ({})", steepest.0, steepest.1);
    Ok(())
}

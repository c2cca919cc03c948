//! The report of a pre-training run.

use std::path::Path;

use gradus_io::files::{FileError, write_atomically};
use gradus_io::numbers::{count, duration, figure};

use crate::document::Document;
use crate::html::{Block, Figure, Row};
use crate::metrics::{self, EvaluationRecord, Follows, ProcessTimes, Record, SampleRecord, Summary, VALIDATION};
use crate::scale::{Axis, Scale};
use crate::svg::{self, Curve, Ink, Level, Plot};

/// The number of samples shown; the metrics file contains all.
const SAMPLES: usize = 12;

/// The definitions of the numbers.
const FOOT: &str = "Loss is the mean negative log-likelihood in nats per predicted token; perplexity is its exponential. Bits \
    per byte are the sum of these nats, divided by ln 2 and the number of bytes of the text, so models with different tokens can \
    be compared. Evaluations are made without dropout, the train loss with it. An evaluation before the last may read a part of \
    the held-out text.";

/// The definitions of the numbers for a model that predicts masked tokens.
const FOOT_MASKED: &str = "Loss is the mean of −ln P in nats per predicted token, given the text with most of these tokens \
    masked; masked perplexity is its exponential. Neither is a probability of the text: compare them only between models with \
    the same masking. (`gradus evaluate` masks one token at a time: its pseudo-perplexity is a different figure.) Evaluations \
    are made without dropout, the train loss with it. An evaluation before the last may read a part of the held-out text.";

/// The definition of the limit.
const FOOT_LIMIT: &str =
    " The exact limit is −ln p of the same text under the source that generated it: on average, no model's loss is lower.";

/// The definition of the losses of pairs.
const FOOT_PAIRS: &str = " Texts are read in pairs: the train loss of a step includes next-sentence prediction (whether the \
    second text follows the first), in nats per pair; the held-out loss is of tokens only; the results on held-out pairs are \
    shown beside it.";

/// The result of another model on the same held-out text.
#[derive(Clone, Debug, PartialEq)]
pub struct Baseline {
    /// The name of the model: `Kneser–Ney 5-gram`.
    pub name: String,
    /// The mean negative log-likelihood in nats per predicted token, over the same tokens.
    pub nll: f64,
}

/// The status of a run when its report is written.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Standing {
    /// A complete run.
    #[default]
    Finished,
    /// A run in progress, whose pages reload themselves.
    Lasts {
        /// The number of steps done.
        step: u64,
        /// The total number of steps.
        of: u64,
    },
    /// A run that ended before the last step.
    Stopped {
        /// The number of steps done.
        step: u64,
        /// The total number of steps.
        of: u64,
        /// The command that continues the run.
        resume: String,
    },
}

/// The number of seconds between reloads of the pages of a run in progress.
const RELOAD: u32 = 10;

/// The content of a report on a pre-training run.
#[derive(Clone, Debug, Default)]
pub struct PretrainReport {
    /// The title.
    pub title: String,
    /// A summary in a few sentences.
    pub lead: String,
    /// The status of the run.
    pub standing: Standing,
    /// The run's records, from its metrics file. The limit is taken from the evaluations on [`VALIDATION`].
    pub records: Vec<Record>,
    /// Whether the model predicts masked tokens. Its loss is then not the negative log-probability of the text.
    pub masked: bool,
    /// The results of other models on the same held-out text.
    pub baselines: Vec<Baseline>,
    /// A reference excess over the limit: 0.10 for 10 %.
    pub mark: Option<f64>,
    /// The number of parameters.
    pub parameters: u64,
    /// The SHA-256 of the final parameters, in hexadecimal.
    pub parameters_sha256: String,
    /// Every setting and its value, in display order.
    pub configuration: Vec<(String, String)>,
    /// The command that reproduces the run.
    pub command: String,
    /// The seed of the run.
    pub seed: u64,
    /// The programs, versions and the machine, by name.
    pub versions: Vec<(String, String)>,
}

impl PretrainReport {
    /// Plots the loss over tokens: raw and smoothed, with the held-out loss, the limit and the baselines. It is also written as
    /// a separate file. The unit is nats per token, on a logarithmic axis to show the end of the curve.
    pub fn loss_plot(&self) -> Plot {
        let level = |name: &str, y: f64, ink: Ink| Level { name: format!("{name}: {y:.3}"), y, ink };
        let limit = self.limit().map(|limit| level("exact limit", limit, Ink::Limit));
        let baselines = self.baselines.iter().map(|baseline| level(&baseline.name, baseline.nll, Ink::Baseline));
        let levels: Vec<_> = limit.into_iter().chain(baselines).collect();
        let train: Vec<_> = metrics::steps(&self.records).map(|step| (step.tokens as f64, step.loss)).collect();
        let held_out: Vec<_> = self.evaluations().map(|record| (record.at.tokens as f64, record.nll)).collect();
        let smoothed = svg::smooth(&train);
        let end = |before: &str, points: &[(f64, f64)]| {
            let last = points.iter().rev().find(|point| point.1.is_finite());
            last.map_or(String::new(), |last| format!("{before}{:.3}", last.1))
        };
        let named = |name: &str, points: &[(f64, f64)]| name.to_string() + &end(": ", points);
        let description = format!(
            "Loss in {} over tokens seen: {}, {}{}.",
            self.unit(),
            "train".to_string() + &end(" ends at ", &smoothed),
            "held-out".to_string() + &end(" ends at ", &held_out),
            levels.iter().map(|level| format!(", {}", level.name)).collect::<String>()
        );
        Plot {
            title: "Loss over tokens seen".into(),
            description,
            x: Axis::new("tokens seen", Scale::Linear),
            y: Axis::new(&format!("loss, {}", self.unit()), Scale::Log),
            curves: vec![
                Curve { name: String::new(), points: train, ink: Ink::Raw, dots: false },
                Curve { name: named("train", &smoothed), points: smoothed, ink: Ink::Train, dots: false },
                Curve { name: named("held-out", &held_out), points: held_out, ink: Ink::Validation, dots: true },
            ],
            levels,
            size: svg::WIDE,
        }
    }

    /// Returns the report as a document.
    pub fn document(&self) -> Document {
        let summary = Summary::of(&self.records);
        let mut document = Document {
            kicker: "Gradus · pre-training".into(),
            title: self.title.clone(),
            lead: self.lead.clone(),
            foot: if self.masked { FOOT_MASKED } else { FOOT }.into(),
            ..Document::default()
        };
        if self.limit().is_some() {
            document.foot.push_str(FOOT_LIMIT);
        }
        if self.evaluations().any(|record| record.follows.is_some()) {
            document.foot.push_str(FOOT_PAIRS);
        }
        let stands = match &self.standing {
            Standing::Finished => None,
            Standing::Lasts { step, of } => {
                document.reload = Some(RELOAD);
                let (step, of) = (count(*step), count(*of));
                Some(format!(
                    "Step {step} of {of}. This page is rewritten at each evaluation and reloads itself until the run ends."
                ))
            }
            Standing::Stopped { step, of, resume } => {
                Some(format!("Stopped at step {} of {}; `{resume}` continues.", count(*step), count(*of)))
            }
        };
        document.section("", stands.map(Block::Text).into_iter().chain([Block::Figures(self.figures(&summary))]).collect());
        document.section("Loss during training", self.curves());
        document.section("Comparison with baselines", self.comparison());
        document.section("Generated texts", self.samples());
        document.section("Course of training", self.training());
        document.section("Warnings", self.warnings());
        document.section("Configuration", self.configuration());
        document.section("How to reproduce it", self.repeat());
        document
    }

    /// Writes `report.html` and the loss curve, `loss.svg`, to a folder, each atomically.
    ///
    /// # Errors
    /// Returns an error if a file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), FileError> {
        let (plot, path) = (self.loss_plot(), folder.join("loss.svg"));
        let svg = match self.standing {
            Standing::Lasts { .. } => plot.reloading(RELOAD),
            _ => plot.standalone(),
        };
        write_atomically(&path, |out| out.write_all(svg.as_bytes()))?;
        self.document().write(&folder.join("report.html"))
    }

    /// Returns the unit of losses.
    fn unit(&self) -> &'static str {
        if self.masked { "nats per predicted token" } else { "nats per token" }
    }

    fn evaluations(&self) -> impl DoubleEndedIterator<Item = &EvaluationRecord> {
        metrics::evaluations(&self.records, VALIDATION)
    }

    /// Returns the exact limit in nats per token, if the records contain it.
    fn limit(&self) -> Option<f64> {
        self.evaluations().rev().find_map(|record| record.limit)
    }

    fn figures(&self, summary: &Summary) -> Vec<Figure> {
        let mut figures = Vec::new();
        let mut add = |name: &str, value: String, hint: String| figures.push(Figure { name: name.into(), value, hint });
        if let Some(best) = &summary.best {
            let over = best.over.map_or(String::new(), |over| format!(", over {} tokens", count(over)));
            let at = format!("{}, at step {}{over}", self.unit(), count(best.at.step));
            add("Best held-out loss", format!("{:.3}", best.nll), at);
            let perplexity = if self.masked { "Masked perplexity" } else { "Perplexity" };
            add(perplexity, figure(best.perplexity), "on held-out text".into());
            if let Some(bits) = best.bits_per_byte {
                let limit = best.limit_bits_per_byte().map_or(String::new(), |limit| format!("limit {limit:.3}"));
                add("Bits per byte", format!("{bits:.3}"), limit);
            }
            if let Some(Follows { nll, right, pairs }) = best.follows {
                let share = right as f64 / pairs as f64;
                add("Next-sentence accuracy", percent(share), format!("of {} pairs; {nll:.3} nats per pair", count(pairs)));
            }
            if let Some(excess) = best.excess {
                let first = self.mark.and_then(|mark| Some((mark, metrics::first_within(&self.records, mark)?)));
                let reached =
                    first.map(|(mark, first)| format!("{} reached after {}", percent(mark), duration(first.at.elapsed)));
                add("Over the exact limit", percent(excess), reached.unwrap_or_default());
            }
        }
        if let Some(loss) = summary.train_loss {
            add("Final train loss", format!("{loss:.3}"), format!("mean of the last {} records", Summary::LAST));
        }
        add("Parameters", count(self.parameters), String::new());
        add("Tokens seen", count(summary.tokens), format!("in {} steps", count(summary.steps)));
        let rate = summary.tokens_per_second.map_or(String::new(), |rate| format!("{} tokens/s (median)", figure(rate)));
        add("Time", duration(summary.elapsed), rate);
        figures
    }

    fn curves(&self) -> Vec<Block> {
        let loss = "Each step's loss (faint), its moving mean, and the loss on held-out text (dots). The vertical axis is \
                    logarithmic: equal heights are equal ratios. The last dot of a finished run is over all held-out text, those before it \
                    over a sample, where that is smaller.";
        let time = "The same held-out text over the time of training.";
        let plots = [(self.loss_plot(), loss), (self.time_plot(), time)].into_iter().filter(|(plot, _)| !plot.is_empty());
        plots.map(|(plot, caption)| Block::Plots(vec![plot], caption.into())).collect()
    }

    /// Plots the excess over the limit over time, or bits per byte if no limit is known.
    fn time_plot(&self) -> Plot {
        let last = self.evaluations().last().map_or(0.0, |record| record.at.elapsed);
        let (unit, seconds) = match last {
            _ if last < 180.0 => ("seconds", 1.0),
            _ if last < 10_800.0 => ("minutes", 60.0),
            _ => ("hours", 3600.0),
        };
        let points = |of: fn(&EvaluationRecord) -> Option<f64>| -> Vec<_> {
            self.evaluations().filter_map(|record| Some((record.at.elapsed / seconds, of(record)?))).collect()
        };
        let (limit, last) = (self.limit(), self.evaluations().last());
        let baselines = self.baselines.iter();
        let (title, y, points, levels) = if let Some(limit) = limit {
            let over = |nll: f64| 100.0 * (nll / limit - 1.0);
            let named = |baseline: &Baseline| Level {
                name: format!("{}: {:.0} %", baseline.name, over(baseline.nll)),
                y: over(baseline.nll),
                ink: Ink::Baseline,
            };
            let mark = self.mark.map(|mark| Level { name: percent(mark), y: 100.0 * mark, ink: Ink::Muted });
            let axis = Axis { suffix: " %", ..Axis::new("held-out loss above the limit, percent of the limit", Scale::Log) };
            let levels: Vec<_> = baselines.map(named).chain(mark).collect();
            ("Excess over the exact limit", axis, points(|record| record.excess.map(|excess| 100.0 * excess)), levels)
        } else {
            // Both measures are over the same text, so they are proportional.
            let ratio = last.and_then(|record| Some(record.bits_per_byte? / record.nll));
            let named = |baseline: &Baseline| {
                let y = baseline.nll * ratio?;
                Some(Level { name: format!("{}: {y:.3}", baseline.name), y, ink: Ink::Baseline })
            };
            let axis = Axis::new("bits per byte of held-out text", Scale::Log);
            ("Bits per byte", axis, points(|record| record.bits_per_byte), baselines.filter_map(named).collect())
        };
        let suffix = y.suffix;
        let digits = if suffix.is_empty() { 3 } else { 1 };
        let end = points.last().map_or(String::new(), |point| format!("{:.digits$}{suffix}", point.1));
        Plot {
            title: title.into(),
            description: format!("{title} over {unit} of training; it ends at {end}."),
            x: Axis::new(&format!("{unit} of training"), Scale::Linear),
            y,
            curves: vec![Curve { name: format!("this model: {end}"), points, ink: Ink::Validation, dots: true }],
            levels,
            size: svg::WIDE,
        }
    }

    /// Compares the model with the limit and the baselines, sorted from the best. The limit and the baselines apply to the text
    /// of the last evaluation. Earlier evaluations may have read only a part of it, so the best evaluation of the run is not
    /// used.
    fn comparison(&self) -> Vec<Block> {
        let Some(last) = self.evaluations().rev().find(|record| record.nll.is_finite()) else { return Vec::new() };
        let limit = self.limit();
        let bits_per_nat = last.bits_per_byte.map(|bits| bits / last.nll);
        let mut models = vec![(format!("this model, at step {}", count(last.at.step)), last.nll, true)];
        models.extend(limit.map(|limit| ("exact limit".to_string(), limit, false)));
        models.extend(self.baselines.iter().map(|baseline| (baseline.name.clone(), baseline.nll, false)));
        models.sort_by(|a, b| a.1.total_cmp(&b.1));
        let perplexity = if self.masked { "masked perplexity" } else { "perplexity" };
        let mut heads = vec!["on the same held-out text", self.unit(), perplexity];
        heads.extend(bits_per_nat.map(|_| "bits per byte"));
        heads.extend(limit.map(|_| "above the limit"));
        let row = |(head, nll, own): (String, f64, bool)| {
            let mut cells = vec![format!("{nll:.4}"), figure(nll.exp())];
            cells.extend(bits_per_nat.map(|ratio| format!("{:.4}", nll * ratio)));
            cells.extend(limit.map(|limit| percent(nll / limit - 1.0)));
            Row { head, cells, own }
        };
        let rows = models.into_iter().map(row).collect();
        vec![Block::Table(heads.into_iter().map(String::from).collect(), rows)]
    }

    fn samples(&self) -> Vec<Block> {
        let all: Vec<&SampleRecord> = metrics::samples(&self.records).collect();
        if all.is_empty() {
            return Vec::new();
        }
        let shown = all.len().min(SAMPLES);
        // Evenly spaced, including the first and the last.
        let picked = (0..shown).map(|index| all[index * (all.len() - 1) / (shown - 1).max(1)].clone()).collect();
        let words = if shown < all.len() {
            format!("{shown} of the {} texts that the model generated during training, the prompt in colour.", all.len())
        } else {
            "The texts that the model generated during training, the prompt in colour.".to_string()
        };
        vec![Block::Text(words), Block::Samples(picked)]
    }

    fn training(&self) -> Vec<Block> {
        let plot = |title: &str, unit: &str, scale: Scale, of: fn(&metrics::StepRecord) -> f64, ink: Ink| Plot {
            title: title.into(),
            description: format!("{title} over steps."),
            x: Axis::new("steps", Scale::Linear),
            y: Axis::new(unit, scale),
            curves: vec![Curve {
                name: String::new(),
                points: metrics::steps(&self.records).map(|step| (step.step as f64, of(step))).collect(),
                ink,
                dots: false,
            }],
            levels: Vec::new(),
            size: svg::HALF,
        };
        let mut norm = plot("Gradient norm", "L2 norm, before clipping", Scale::Log, |step| step.grad_norm, Ink::Raw);
        let points = svg::smooth(&norm.curves[0].points);
        norm.curves.push(Curve { name: String::new(), points, ink: Ink::Train, dots: false });
        let rate = plot("Learning rate", "step size of the optimizer", Scale::Linear, |step| step.lr, Ink::Train);
        let plots: Vec<_> = [rate, norm].into_iter().filter(|plot| !plot.is_empty()).collect();
        let mut blocks = Vec::new();
        if !plots.is_empty() {
            blocks.push(Block::Plots(plots, "The learning rate of each step, and the norm of its gradient.".into()));
        }
        blocks.extend(self.processes());
        blocks
    }

    /// Returns a table of each process's waiting times, for a run of several processes.
    fn processes(&self) -> Option<Block> {
        let mut sums: Vec<ProcessTimes> = Vec::new();
        for record in &self.records {
            let Record::Processes { times, .. } = record else { continue };
            sums.resize(sums.len().max(times.len()), ProcessTimes::default());
            sums.iter_mut().zip(times).for_each(|(sum, &times)| *sum += times);
        }
        let row = |(process, times): (usize, ProcessTimes)| {
            let ProcessTimes { own, slowest, wire } = times;
            let cell = |part: f64| format!("{}, {}", percent(part / (own + slowest + wire)), duration(part));
            Row { head: format!("process {process}"), cells: [own, slowest, wire].map(cell).into(), own: false }
        };
        let heads = ["", "computation, evaluations included", "waiting for the slowest process", "waiting for gradients"];
        let rows: Vec<Row> = sums.into_iter().enumerate().map(row).collect();
        (!rows.is_empty()).then(|| Block::Table(heads.map(String::from).into(), rows))
    }

    fn warnings(&self) -> Vec<Block> {
        let warning = |record: &Record| match record {
            Record::Warning { step, text, .. } => Some(Block::Text(format!("Step {}: {text}", count(*step)))),
            _ => None,
        };
        self.records.iter().filter_map(warning).collect()
    }

    fn configuration(&self) -> Vec<Block> {
        let device = |record: &Record| match record {
            Record::Device { step, device, arithmetic, .. } => {
                Some((format!("device after step {}", count(*step)), format!("{device}: {arithmetic}")))
            }
            _ => None,
        };
        let pairs: Vec<_> = self.configuration.iter().cloned().chain(self.records.iter().filter_map(device)).collect();
        if pairs.is_empty() { Vec::new() } else { vec![Block::Pairs(pairs)] }
    }

    fn repeat(&self) -> Vec<Block> {
        let mut facts = vec![("seed".to_string(), self.seed.to_string())];
        facts.extend(self.versions.iter().cloned());
        let words = "The same command with the same seed gives the same parameters, bit for bit, on any number of threads.";
        let mut listing = self.command.clone();
        if !self.parameters_sha256.is_empty() {
            listing += &format!("\n\n# SHA-256 of the parameters it ends with:\n# {}", self.parameters_sha256);
        }
        vec![Block::Listing(listing), Block::Text(words.into()), Block::Pairs(facts)]
    }
}

/// Formats a fraction in percent.
fn percent(fraction: f64) -> String {
    format!("{:.1} %", 100.0 * fraction)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Moment, StepRecord};

    /// Returns a run that approaches its limit.
    fn example(limit: Option<f64>) -> PretrainReport {
        let mut records = Vec::new();
        for step in 1..=1500u64 {
            let t = step as f64;
            let (tokens, elapsed, tokens_per_second) = (step * 4096, t * 0.2, 20_480.0);
            let smooth = 0.97 + 6.5 * (-t / 60.0).exp() + 1.4 * (-t / 420.0).exp();
            let noise = 1.0 + 0.04 * (t * 12.9898).sin() * (t * 78.233).cos();
            let lr = 1e-3 * (t / 100.0).min(0.5 + 0.5 * (t / 1500.0 * std::f64::consts::PI).cos());
            let grad_norm = 0.4 + 3.0 * (-t / 80.0).exp() * noise + 0.1 * noise * noise;
            let loss = smooth * noise;
            records.push(Record::Step(StepRecord { step, tokens, loss, lr, grad_norm, tokens_per_second, elapsed }));
            if step % 100 == 0 {
                let at = Moment { step, tokens, elapsed };
                let record = EvaluationRecord::new(at, VALIDATION, smooth * 1.01).with_bytes(1000, 4200);
                records.push(Record::Evaluation(limit.map_or(record.clone(), |limit| record.with_limit(limit))));
                let text = " was in the garden.\nShe had a <lamp> & was \"glad\".\u{0}".to_string();
                records.push(Record::Sample(SampleRecord { at, prompt: "Anna".into(), text }));
            }
        }
        records.push(Record::Warning { step: 700, elapsed: 140.0, text: "one <odd> thing".into() });
        let pair = |name: &str, value: &str| (name.to_string(), value.to_string());
        PretrainReport {
            masked: false,
            standing: Standing::Finished,
            title: "A small world, learnt".into(),
            lead: "A GPT of four layers reads short stories drawn from a grammar whose every probability is known.".into(),
            records,
            baselines: vec![
                Baseline { name: "Kneser–Ney 5-gram".into(), nll: 1.31 },
                Baseline { name: "GPT, context 16".into(), nll: 1.18 },
            ],
            mark: limit.map(|_| 0.10),
            parameters: 1_066_240,
            parameters_sha256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".into(),
            configuration: vec![pair("layers", "4"), pair("width", "128"), pair("<tag>", "a & b"), pair("dropout", "0.1")],
            command: "cargo run --release -- pretrain --seed 7".into(),
            seed: 7,
            versions: vec![pair("gradus", "0.1.0"), pair("rustc", "1.95.0")],
        }
    }

    #[test]
    fn the_report_is_complete_and_loads_no_resources() {
        let html = example(Some(0.93)).document().render();
        for words in [
            "<h1>A small world, learnt</h1>",
            "<svg ",
            "<title>Loss over tokens seen</title>",
            "exact limit: 0.930",
            "Kneser–Ney 5-gram: 1.310",
            "<td class=\"number\">40.9 %</td>", // the 5-gram: 1.31 / 0.93 − 1
            "1,066,240",
            "6,144,000",
            "20,480 tokens/s",
            "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "cargo run --release -- pretrain --seed 7",
            "12 of the 15 texts",
            "<b>step 100</b>",
            "<b>step 1,500</b>",
            "<dt>rustc</dt><dd>1.95.0</dd>",
            "Step 700: one &lt;odd&gt; thing",
        ] {
            assert!(html.contains(words), "missing: {words}");
        }
        assert_eq!(html.matches("<blockquote>").count(), SAMPLES, "some of the texts, the first and the last among them");
        for words in ["<lamp>", "<tag>", "<odd>", "\u{0}", "NaN", "href=", "src=", "url(", "@import", "<script"] {
            assert!(!html.contains(words), "found: {words:?}");
        }
        assert!(html.contains("She had a &lt;lamp&gt; &amp; was &quot;glad&quot;.␀"));
        let addresses: Vec<_> = html.match_indices("http").map(|(at, _)| &html[at..(at + 26).min(html.len())]).collect();
        assert!(addresses.iter().all(|a| a.starts_with("http-equiv") || *a == "http://www.w3.org/2000/svg"), "{addresses:?}");
    }

    #[test]
    fn the_page_uses_one_name_for_held_out_text() {
        let html = example(Some(0.93)).document().render();
        let styles = |text: &str| text.replace("validation {", "").replace("--validation", "").replace(" validation\"", "");
        assert!(html.contains("Best held-out loss") && html.contains(">\nheld-out: "), "{html}");
        assert!(!styles(&html).contains("alidation"), "one name for one thing");
    }

    /// An evaluation of a part of the text may have a lower loss than an evaluation of the whole text.
    #[test]
    fn the_comparison_is_on_the_text_of_the_last_evaluation() {
        let mut report = example(Some(0.93));
        let at = |step| Moment { step, tokens: step * 4096, elapsed: step as f64 };
        let part = EvaluationRecord::new(at(1510), VALIDATION, 0.5).with_limit(0.4);
        let whole = EvaluationRecord::new(at(1520), VALIDATION, 1.86).with_limit(0.93);
        report.records.extend([part, whole].map(Record::Evaluation));
        let html = report.document().render();
        assert!(html.contains("this model, at step 1,520</th><td class=\"number\">1.8600</td>"), "{html}");
        assert!(html.contains("<td class=\"number\">100.0 %</td>"), "1.86 / 0.93 − 1");
    }

    #[test]
    fn every_element_is_closed() {
        let html = example(Some(0.93)).document().render();
        let mut open: Vec<&str> = Vec::new();
        for part in html.split('<').skip(1) {
            let (tag, _) = part.split_once('>').expect("each < has its >");
            let name = tag.trim_start_matches('/').split([' ', '\n', '/']).next().unwrap();
            if tag.starts_with('/') {
                assert_eq!(open.pop(), Some(name), "near {tag}");
            } else if !tag.ends_with('/') && !["!DOCTYPE", "meta", "br"].contains(&name) {
                open.push(name);
            }
        }
        assert!(open.is_empty(), "left open: {open:?}");
    }

    #[test]
    fn a_run_on_a_corpus_reports_no_exact_limit() {
        let html = example(None).document().render();
        assert!(html.contains("<title>Bits per byte</title>"));
        assert!(!html.contains("exact limit") && !html.contains("above the limit"));
    }

    #[test]
    fn waiting_times_of_several_processes_are_reported() {
        let mut report = example(None);
        assert!(!report.document().render().contains("process 0"));
        let times = |own| vec![ProcessTimes { own, slowest: 1.0, wire: 0.5 }, ProcessTimes { own: 7.5, slowest: 0.0, wire: 0.0 }];
        for (step, own) in [(100, 1.0), (200, 5.0)] {
            report.records.push(Record::Processes { step, elapsed: 1.0, times: times(own) });
        }
        let html = report.document().render();
        for words in ["process 1", "66.7 %, 6 s", "22.2 %, 2 s", "11.1 %, 1 s", "100.0 %, 15 s"] {
            assert!(html.contains(words), "missing: {words}");
        }
    }

    #[test]
    fn a_run_without_records_still_has_a_report() {
        let html = PretrainReport { title: "empty".into(), ..PretrainReport::default() }.document().render();
        assert!(html.contains("<h1>empty</h1>") && !html.contains("<svg "));
    }

    #[test]
    fn a_mark_is_reported_only_when_reached() {
        let mut report = example(Some(0.93));
        let first = metrics::first_within(&report.records, 0.10).expect("reached");
        assert!(report.document().render().contains(&format!("10.0 % reached after {}", duration(first.at.elapsed))));
        report.mark = Some(0.001);
        assert!(!report.document().render().contains("reached"));
    }

    #[test]
    fn files_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let report = example(Some(0.93));
        report.write(folder.path()).unwrap();
        let svg = std::fs::read_to_string(folder.path().join("loss.svg")).unwrap();
        assert!(svg.contains("<style>") && svg.contains("class=\"line limit\""));
        assert_eq!(std::fs::read_to_string(folder.path().join("report.html")).unwrap(), report.document().render());
    }

    /// The pages of a run in progress reload themselves and load no other resource. The pages of an ended run do not reload.
    #[test]
    fn pages_reload_themselves_while_the_run_lasts() {
        let folder = tempfile::tempdir().unwrap();
        let pages = |standing| {
            PretrainReport { standing, parameters_sha256: String::new(), ..example(Some(0.93)) }.write(folder.path()).unwrap();
            ["report.html", "loss.svg"].map(|name| std::fs::read_to_string(folder.path().join(name)).unwrap())
        };
        let (step, of) = (1259, 1600);
        let [html, svg] = pages(Standing::Lasts { step, of });
        assert!(html.contains("http-equiv=\"refresh\" content=\"10\"") && html.contains("<p>Step 1,259 of 1,600. "));
        assert!(svg.contains("location.reload()") && !html.contains("SHA-256"));
        assert!(["href=", "src=", "url(", "@import"].iter().all(|word| !html.contains(word) && !svg.contains(word)));
        let resume = "gradus pretrain --resume run".into();
        let [html, svg] = pages(Standing::Stopped { step, of, resume });
        assert!(html.contains("Stopped at step 1,259 of 1,600; <code>gradus pretrain --resume run</code> continues."));
        assert!(!html.contains("refresh") && !svg.contains("<script"));
        let [html, svg] = pages(Standing::Finished);
        assert!(!html.contains("refresh") && !svg.contains("<script") && !html.contains("tep 1,259 of"));
    }
}

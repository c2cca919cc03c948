//! What a training step costs, op by op, against what this machine can do.
//!
//! ```text
//! rate        3 · FLOPs forward / (time forward + backward): a VJP of products makes two for each of its forward pass
//! roof        min(rate of the fastest product, bandwidth · FLOPs / bytes)               (Williams, Waterman & Patterson 2009)
//! ```
//!
//! Bytes count every tensor once that an op reads or writes; one that hands on what it was given, as a reshape does, moves none.
//! A rate above the roof is a cache's doing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gradus_autograd::observer::{Applied, Observer, Pulled};
use gradus_autograd::{Shape, Site, Tensor};
use gradus_io::numbers::{count, figure, many};
use gradus_model::Gpt;
use gradus_report::svg::{Curve, Ink, Plot};
use gradus_report::{Axis, Block, Report, Row, Scale};
use gradus_tensor::buffer;
use gradus_train::trainer::{TrainError, Trainer};
use serde::Serialize;

use crate::machine::{bandwidth, gemm_gflops, median};
use crate::workload::{Workload, random_batch, recipe};

/// A step's costs.
#[derive(Clone, Debug, Serialize)]
pub struct Cost {
    /// What was trained.
    pub workload: &'static str,
    /// Threads.
    pub threads: usize,
    /// Tokens a step.
    pub tokens: usize,
    /// Steps measured.
    pub steps: usize,
    /// The median step, in milliseconds.
    pub step_ms: f64,
    /// 10⁹ FLOP/s of the fastest matrix product.
    pub gemm_gflops: f64,
    /// 10⁹ bytes a second that are read from memory.
    pub bandwidth_gb_per_second: f64,
    /// By op, the longest first.
    pub ops: Vec<Line>,
    /// By place in the model, the blocks together.
    pub places: Vec<Line>,
    /// What is not in an op: the tape, sums of gradients, clipping, the optimizer; in milliseconds.
    pub rest_ms: f64,
    /// The most that buffers held at once, within an op too.
    pub peak_bytes: usize,
    /// Milliseconds since the step began, and bytes that buffers held then, op by op.
    pub memory: Vec<(f64, usize)>,
    /// When the way back began, in milliseconds.
    pub turn_ms: f64,
}

/// All applications of an op, or in a place, in one step.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Line {
    /// Which.
    pub name: String,
    /// Applications.
    pub calls: usize,
    /// Operations going forward, as the ops state them.
    pub flops: u64,
    /// Bytes read and written, forward and backward.
    pub bytes: u64,
    /// Milliseconds going forward: the median of the steps.
    pub forward_ms: f64,
    /// Milliseconds going backward.
    pub backward_ms: f64,
}

impl Line {
    /// Both ways.
    pub fn ms(&self) -> f64 {
        self.forward_ms + self.backward_ms
    }

    /// 10⁹ FLOP/s, both ways counted as thrice the forward's.
    pub fn gflops(&self) -> f64 {
        3.0 * self.flops as f64 / self.ms().max(1e-9) / 1e6
    }

    /// 10⁹ bytes a second.
    pub fn gb_per_second(&self) -> f64 {
        self.bytes as f64 / self.ms().max(1e-9) / 1e6
    }

    /// FLOPs a byte.
    pub fn intensity(&self) -> f64 {
        3.0 * self.flops as f64 / self.bytes.max(1) as f64
    }
}

/// One step, seen op by op.
#[derive(Debug)]
struct Stopwatch {
    begun: Instant,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// By op and place.
    lines: BTreeMap<(&'static str, String), Measured>,
    memory: Vec<(Duration, usize)>,
    turn: Option<Duration>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    calls: usize,
    flops: u64,
    bytes: u64,
    forward: Duration,
    backward: Duration,
}

/// `h3.attn` is `h.attn`: the blocks are alike.
fn place(site: &Site) -> String {
    let mut parts = site.scope.splitn(2, '.');
    let first = parts.next().unwrap_or_default();
    let is_block = first.strip_prefix('h').is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    let first = if is_block { "h" } else { first };
    [Some(first).filter(|f| !f.is_empty()), parts.next()].into_iter().flatten().collect::<Vec<_>>().join(".")
}

impl Stopwatch {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes of what is read and of what is written from it. What shares its buffer with something read was only handed on; and of a
/// table that is gathered from, no more is read than is written.
fn moved(read: &[&Tensor<f32>], written: &[&Tensor<f32>], copies: bool) -> u64 {
    let made: Vec<_> = written.iter().filter(|w| !read.iter().any(|r| r.shares_buffer(w))).collect();
    let bytes = |t: &Tensor<f32>| (t.len() * size_of::<f32>()) as u64;
    let write: u64 = made.iter().map(|t| bytes(t)).sum();
    let reads: u64 = read.iter().map(|t| bytes(t)).sum();
    match made.is_empty() {
        true => 0,
        false if copies => reads.min(write) + write,
        false => reads + write,
    }
}

impl Observer<f32> for Stopwatch {
    fn applied(&self, it: &Applied<'_, f32>) {
        let shapes: Vec<&Shape> = it.ins.iter().map(|x| x.shape()).collect();
        let flops = it.op.flops(&shapes, it.out.shape());
        let written: Vec<_> = std::iter::once(it.out).chain(it.residuals).collect();
        let now = self.begun.elapsed();
        let mut seen = self.seen();
        let line = seen.lines.entry((it.op.name(), place(it.site))).or_default();
        line.calls += 1;
        line.flops += flops;
        line.bytes += moved(it.ins, &written, it.op.name() == "gather");
        line.forward += it.took;
        seen.memory.push((now, buffer::stats().live_bytes));
    }

    fn pulled(&self, it: &Pulled<'_, f32>) {
        let read: Vec<_> = std::iter::once(it.cotangent).chain(it.kept().map(|(_, x)| x)).collect();
        let written: Vec<_> = it.summands().map(|(_, _, g)| g).collect();
        let now = self.begun.elapsed();
        let mut seen = self.seen();
        seen.turn.get_or_insert(now.saturating_sub(it.took));
        let line = seen.lines.entry((it.op.name(), place(it.site))).or_default();
        line.bytes += moved(&read, &written, false);
        line.backward += it.took;
        seen.memory.push((now, buffer::stats().live_bytes));
    }
}

/// Measures `steps` training steps of a workload, each on one tape; `done` is told after each.
///
/// # Errors
/// The trainer's.
pub fn cost(workload: &Workload, steps: usize, mut done: impl FnMut(usize)) -> Result<Cost, TrainError> {
    let config = &workload.config;
    let mut trainer: Trainer = Trainer::new(recipe(1, 1, false), Gpt::init(config, 0));
    let (mut whole, mut all) = (Vec::new(), Vec::new());
    let (mut last, mut peak_bytes) = (Seen::default(), 0);
    // The first is a warm-up.
    for step in 0..=steps {
        let batch = random_batch(config, workload.sequences, step as u64);
        buffer::reset_peak();
        let watch = Arc::new(Stopwatch { begun: Instant::now(), seen: Mutex::default() });
        trainer.observed_update(&batch, watch.clone())?;
        let took = watch.begun.elapsed();
        peak_bytes = buffer::stats().peak_bytes;
        let seen = std::mem::take(&mut *watch.seen());
        if step > 0 {
            whole.push(took);
            all.push(seen.lines.clone());
            last = seen;
        }
        done(step);
    }
    let step_ms = ms(median(&mut whole));
    let each: Vec<((&str, String), Line)> = last.lines.iter().map(|(key, m)| (key.clone(), line(m, key, &all))).collect();
    let ops = grouped(&each, |(op, _)| (*op).to_owned());
    // Of medians: noise can make it less than nothing.
    let rest_ms = (step_ms - ops.iter().map(Line::ms).sum::<f64>()).max(0.0);
    Ok(Cost {
        workload: workload.name,
        threads: rayon::current_num_threads(),
        tokens: workload.tokens(),
        steps,
        step_ms,
        gemm_gflops: gemm_gflops(workload),
        bandwidth_gb_per_second: bandwidth() / 1e9,
        places: grouped(&each, |(_, place)| if place.is_empty() { "elsewhere".into() } else { place.clone() }),
        ops,
        rest_ms,
        peak_bytes,
        memory: last.memory.iter().map(|&(at, bytes)| (ms(at), bytes)).collect(),
        turn_ms: last.turn.map_or(0.0, ms),
    })
}

fn ms(time: Duration) -> f64 {
    1e3 * time.as_secs_f64()
}

/// The counts of the last step, and the medians of all steps' times.
fn line(last: &Measured, key: &(&'static str, String), all: &[BTreeMap<(&'static str, String), Measured>]) -> Line {
    let median = |of: fn(&Measured) -> Duration| {
        let mut times: Vec<Duration> = all.iter().filter_map(|step| step.get(key)).map(of).collect();
        ms(median(&mut times))
    };
    Line {
        name: String::new(),
        calls: last.calls,
        flops: last.flops,
        bytes: last.bytes,
        forward_ms: median(|m| m.forward),
        backward_ms: median(|m| m.backward),
    }
}

/// Sums of lines under one name, the longest first.
fn grouped(each: &[((&'static str, String), Line)], name: impl Fn(&(&'static str, String)) -> String) -> Vec<Line> {
    let mut sums: BTreeMap<String, Line> = BTreeMap::new();
    for (key, line) in each {
        let sum = sums.entry(name(key)).or_default();
        sum.calls += line.calls;
        sum.flops += line.flops;
        sum.bytes += line.bytes;
        sum.forward_ms += line.forward_ms;
        sum.backward_ms += line.backward_ms;
    }
    let mut lines: Vec<Line> = sums.into_iter().map(|(name, line)| Line { name, ..line }).collect();
    lines.sort_by(|a, b| b.ms().total_cmp(&a.ms()));
    lines
}

impl Cost {
    /// The most that an op of so many FLOPs a byte can reach, in 10⁹ FLOP/s.
    fn roof(&self, intensity: f64) -> f64 {
        self.gemm_gflops.min(intensity * self.bandwidth_gb_per_second)
    }

    /// What stands above [`Cost::rows`].
    pub const HEADS: [&'static str; 10] = [
        "",
        "calls",
        "MFLOP",
        "MB moved",
        "forward, ms",
        "backward, ms",
        "of the step",
        "GFLOP/s",
        "of the product's",
        "of the memory's",
    ];

    /// Ops or places, one row each.
    pub fn rows(&self, lines: &[Line]) -> Vec<[String; 10]> {
        let row = |line: &Line| {
            // What takes no time has no rate: a reshape moves nothing.
            let has_rate = line.ms() > 5e-4 * self.step_ms;
            let percent = |share: f64| if has_rate { format!("{:.0} %", 100.0 * share) } else { "–".into() };
            [
                line.name.clone(),
                count(line.calls as u64),
                figure(line.flops as f64 / 1e6),
                figure(line.bytes as f64 / 1e6),
                figure(line.forward_ms),
                figure(line.backward_ms),
                format!("{:.1} %", 100.0 * line.ms() / self.step_ms),
                if has_rate { figure(line.gflops()) } else { "–".into() },
                percent(line.gflops() / self.gemm_gflops),
                percent(line.gb_per_second() / self.bandwidth_gb_per_second),
            ]
        };
        lines.iter().map(row).collect()
    }

    /// The most that buffers held, in MB.
    pub fn peak_mb(&self) -> f64 {
        self.peak_bytes as f64 / 1e6
    }

    /// Everything as one HTML file.
    pub fn report(&self) -> Report {
        let mut report = Report {
            kicker: "Gradus · audit".into(),
            title: format!("What a training step of {} costs", self.workload),
            lead: format!(
                "{} tokens in {} ms on {}, on one tape: {} tokens a second. The fastest matrix product here makes {} GFLOP/s, \
                 memory gives {} GB/s.",
                count(self.tokens as u64),
                figure(self.step_ms),
                many(self.threads, "thread"),
                count((1e3 * self.tokens as f64 / self.step_ms) as u64),
                figure(self.gemm_gflops),
                figure(self.bandwidth_gb_per_second)
            ),
            foot: format!(
                "Medians of {} steps. FLOPs are the ops' own, going forward; the rate counts both ways as thrice that. Bytes count every \
                 tensor once that an op reads or writes; what stays in a cache moves faster than memory, and what is handed on as it is does not move. \
                 linear_cross_entropy makes its gradient going forward, where it has the probabilities at hand.",
                self.steps
            ),
            ..Report::default()
        };
        let heads = || Self::HEADS.map(str::to_owned).to_vec();
        let table = |lines: &[Line]| {
            let row = |[head, cells @ ..]: [String; 10]| Row { head, cells: cells.into(), own: false };
            Block::Table(heads(), self.rows(lines).into_iter().map(row).collect())
        };
        let rest = format!(
            "Around the ops (the tape, sums of gradients, clipping, Adam): {} ms, {:.1} % of the step.",
            figure(self.rest_ms),
            100.0 * self.rest_ms / self.step_ms
        );
        report.section("Op by op", vec![table(&self.ops), Block::Text(rest)]);
        report.section("Place by place", vec![table(&self.places)]);
        let caption = "Left: each op by its FLOPs a byte and its rate, under the roof of product and memory. Right: what buffers hold as \
                       the step goes on; the line is where the way back begins.";
        report.section("Pictures", vec![Block::Plots(vec![self.roofline(), self.memory_plot()], caption.into())]);
        report
    }

    /// Ops under the roof. One without arithmetic has no place in it.
    fn roofline(&self) -> Plot {
        let dots = self.ops.iter().filter(|l| l.flops > 0 && l.ms() > 0.005 * self.step_ms);
        let dots: Vec<Curve> = dots
            .map(|l| Curve { name: l.name.clone(), points: vec![(l.intensity(), l.gflops())], ink: Ink::Train, dots: true })
            .collect();
        let corner = self.gemm_gflops / self.bandwidth_gb_per_second;
        let left = dots.iter().map(|c| c.points[0].0).fold(corner, f64::min) / 2.0;
        let right = dots.iter().map(|c| c.points[0].0).fold(corner, f64::max) * 2.0;
        let roof = [left, corner, right].map(|x| (x, self.roof(x))).into();
        let roof = Curve { name: String::new(), points: roof, ink: Ink::Limit, dots: false };
        Plot {
            title: "Ops under the roof".into(),
            description: format!("The rates of {} ops over their FLOPs a byte, and the roof of product and memory.", dots.len()),
            x: Axis::new("FLOPs a byte", Scale::Log),
            y: Axis::new("GFLOP/s", Scale::Log),
            curves: std::iter::once(roof).chain(dots).collect(),
            levels: Vec::new(),
            size: (560, 420),
        }
    }

    fn memory_plot(&self) -> Plot {
        let points: Vec<(f64, f64)> = self.memory.iter().map(|&(at, bytes)| (at, bytes as f64 / 1e6)).collect();
        let peak = self.peak_mb();
        let turn = vec![(self.turn_ms, 0.0), (self.turn_ms, peak)];
        Plot {
            title: "Memory over the step".into(),
            description: format!("Bytes that buffers hold over the step: at most {} MB.", figure(peak)),
            x: Axis::new("ms", Scale::Linear),
            y: Axis::new("MB", Scale::Linear),
            curves: vec![
                Curve { name: String::new(), points: turn, ink: Ink::Muted, dots: false },
                Curve { name: String::new(), points, ink: Ink::Train, dots: false },
            ],
            levels: Vec::new(),
            size: (560, 420),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_counted_together() {
        let site = |scope: &str| Site { at: std::panic::Location::caller(), scope: scope.into() };
        let cases = [("h3.attn", "h.attn"), ("h12", "h"), ("embed", "embed"), ("head.h1", "head.h1"), ("", ""), ("h", "h")];
        cases.into_iter().for_each(|(scope, expected)| assert_eq!(place(&site(scope)), expected));
    }

    #[test]
    fn what_is_handed_on_moves_no_bytes() {
        let (x, y): (Tensor<f32>, Tensor<f32>) = (Tensor::full([2, 3], 1.0), Tensor::full([6], 2.0));
        let view = x.expand([4, 2, 3]);
        assert_eq!(moved(&[&x, &y], &[&view], false), 0);
        // Something was made from both, and the view came with it.
        assert_eq!(moved(&[&x, &y], &[&view, &Tensor::full([5], 0.0)], false), 4 * (6 + 6 + 5));
        assert_eq!(moved(&[&Tensor::full([1000, 3], 0.0)], &[&x], true), 4 * (6 + 6));
    }

    #[test]
    fn every_op_of_a_step_is_counted_with_the_flops_it_states() {
        let mut workload = Workload::named("tiny").unwrap();
        (workload.sequences, workload.config.context, workload.config.layers) = (2, 16, 2);
        let cost = cost(&workload, 2, |_| {}).unwrap();
        let of = |lines: &[Line], name: &str| lines.iter().find(|l| l.name == name).cloned().unwrap_or_else(|| panic!("{name}"));
        let linear = of(&cost.ops, "linear");
        let (n, d, c) = (32, workload.config.width as u64, 4 * workload.config.layers);
        assert_eq!(linear.calls, c);
        // Per block 3d + d + 4d columns of d products and one of 4d, with their biases: n·(2·12d² + 9d).
        assert_eq!(linear.flops, workload.config.layers as u64 * n * (24 * d * d + 9 * d));
        let both = |lines: &[Line]| {
            lines.iter().map(|l| (l.calls, l.flops, l.bytes)).fold((0, 0, 0), |a, b| (a.0 + b.0, a.1 + b.1, a.2 + b.2))
        };
        assert_eq!(both(&cost.ops), both(&cost.places));
        for name in ["h.attn", "h.mlp", "h.ln_1", "embed", "lm"] {
            assert!(of(&cost.places, name).calls > 0);
        }
        assert!(cost.memory.windows(2).all(|pair| pair[0].0 <= pair[1].0));
        assert!(cost.memory.iter().all(|&(_, bytes)| bytes <= cost.peak_bytes));
        assert!(cost.ops.windows(2).all(|pair| pair[0].ms() >= pair[1].ms()));
        let page = cost.report().render();
        assert!(page.contains("linear_cross_entropy") && !page.contains("NaN"));
    }
}

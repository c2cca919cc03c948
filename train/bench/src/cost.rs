//! The cost of a training step, op by op, against the machine's peak rates.
//!
//! ```text
//! rate        3 · FLOPs forward / (time forward + backward): the VJP of a product takes two products
//! roof        min(rate of the fastest product, bandwidth · FLOPs / bytes)               (Williams, Waterman & Patterson 2009)
//! ```
//!
//! Bytes count every tensor that an op reads or writes once. An op that passes its input on, such as a reshape, moves none. A rate
//! above the roof is due to a cache.
//!
//! A GPU computes asynchronously, so times on it are differences of timestamps around each shader. On a GPU without timestamps, the
//! CPU waits for each op.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gradus_autograd::observer::{Applied, Observer, Pulled};
use gradus_autograd::{Shape, Site, Tensor};
use gradus_io::numbers::{count, count_of, figure, median};
use gradus_model::{Batch, Model};
use gradus_report::svg::{Curve, Ink, Plot};
use gradus_report::{Axis, Block, Document, Row, Scale};
use gradus_tensor::Device;
use gradus_tensor::device::{Runs, TimedRuns};
use gradus_train::trainer::{TrainError, Trainer};
use serde::Serialize;

use crate::machine::{bandwidth, gemm_gflops, memory};
use crate::profile::{ShaderRow, longest_first};
use crate::workload::{Workload, recipe};

/// The costs of a training step.
#[derive(Clone, Debug, Serialize)]
pub struct Cost {
    /// The workload's name.
    pub workload: &'static str,
    /// The device.
    pub device: String,
    /// The precision of the factors of matrix products: f32, f16 or bf16.
    pub products_in: String,
    /// The clock of the ops' times.
    pub clock: Clock,
    /// The number of threads.
    pub threads: usize,
    /// The number of tokens per step.
    pub tokens: usize,
    /// The number of steps measured.
    pub steps: usize,
    /// The median time of a step, in milliseconds.
    pub step_ms: f64,
    /// The rate of the fastest matrix product, in 10⁹ FLOP/s.
    pub gemm_gflops: f64,
    /// The bandwidth of reading memory, in 10⁹ bytes per second.
    pub bandwidth_gb_per_second: f64,
    /// The costs by op, the longest first.
    pub ops: Vec<CostRow>,
    /// The costs by place in the model, the blocks together.
    pub places: Vec<CostRow>,
    /// The time outside ops, in milliseconds: the tape, sums of gradients, clipping, the optimizer.
    pub rest_ms: f64,
    /// The peak of bytes in buffers, including that within an op.
    pub peak_bytes: usize,
    /// The milliseconds since the beginning of the step and the bytes in buffers, after each op.
    pub memory: Vec<(f64, usize)>,
    /// The beginning of the backward pass, in milliseconds.
    pub turn_ms: f64,
    /// The costs by shader on a GPU, in and outside ops, the longest first.
    pub shaders: Vec<ShaderRow>,
}

/// The clock that measures an op's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// The clock of the CPU.
    Cpu,
    /// The clock of the GPU: timestamps around each shader.
    Timestamps,
    /// The clock of the CPU, which waits for the GPU before and after each op.
    Waits,
}

impl Clock {
    /// Returns the best clock of a device.
    fn of(device: &Device) -> Self {
        if device.is_cpu() {
            return Clock::Cpu;
        }
        let has = device.begin_profile();
        // Nothing was run; a fault is reported by the first step.
        let _ = device.end_profile();
        if has { Clock::Timestamps } else { Clock::Waits }
    }

    /// Returns a note on the clock for reports.
    pub fn note(self) -> &'static str {
        match self {
            Clock::Cpu => "",
            Clock::Timestamps => {
                "Times of ops are the GPU's own, by timestamps around each shader; the rest of the step includes the time that \
                 the CPU takes to record commands. "
            }
            Clock::Waits => {
                "This GPU has no timestamps, so the CPU waits for it before and after each op: each time includes the round \
                 trip, and training steps, which wait once, are faster. "
            }
        }
    }
}

/// The costs of all applications of an op, or of all ops in a place, in one step.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CostRow {
    /// The name of the op or the place.
    pub name: String,
    /// The number of applications.
    pub calls: usize,
    /// The operations of the forward pass, as stated by the ops.
    pub flops: u64,
    /// The bytes read and written, forward and backward.
    pub bytes: u64,
    /// The number of shaders that a GPU ran, forward and backward; `None` without timestamps.
    pub dispatches: Option<u64>,
    /// The bytes of the buffers bound to these shaders, which may read or write only a part of them.
    pub bound_bytes: Option<u64>,
    /// The median time of the forward pass, in milliseconds.
    pub forward_ms: f64,
    /// The median time of the backward pass, in milliseconds.
    pub backward_ms: f64,
}

impl CostRow {
    /// Adds the applications of another row.
    fn add(&mut self, other: &CostRow) {
        self.calls += other.calls;
        self.flops += other.flops;
        self.bytes += other.bytes;
        if let (Some(dispatches), Some(bytes)) = (other.dispatches, other.bound_bytes) {
            self.add_runs(Runs { dispatches, bytes });
        }
        self.forward_ms += other.forward_ms;
        self.backward_ms += other.backward_ms;
    }

    fn add_runs(&mut self, runs: Runs) {
        *self.dispatches.get_or_insert(0) += runs.dispatches;
        *self.bound_bytes.get_or_insert(0) += runs.bytes;
    }

    fn add_time(&mut self, is_vjp: bool, ms: f64) {
        *(if is_vjp { &mut self.backward_ms } else { &mut self.forward_ms }) += ms;
    }

    /// Returns the time of both passes, in milliseconds.
    pub fn ms(&self) -> f64 {
        self.forward_ms + self.backward_ms
    }

    /// Returns the rate in 10⁹ FLOP/s; forward and backward count as three times the forward FLOPs.
    pub fn gflops(&self) -> f64 {
        3.0 * self.flops as f64 / self.ms().max(1e-9) / 1e6
    }

    /// Returns the rate in 10⁹ bytes per second.
    pub fn gb_per_second(&self) -> f64 {
        self.bytes as f64 / self.ms().max(1e-9) / 1e6
    }

    /// Returns the FLOPs of both passes per byte.
    pub fn intensity(&self) -> f64 {
        3.0 * self.flops as f64 / self.bytes.max(1) as f64
    }
}

/// The observer of a step, which measures each op.
#[derive(Debug)]
struct Stopwatch {
    device: Device,
    clock: Clock,
    begun: Instant,
    seen: Mutex<Seen>,
}

/// The name of an op, and the place of its application.
type Key = (&'static str, String);

#[derive(Debug, Default)]
struct Seen {
    rows: BTreeMap<Key, CostRow>,
    /// The milliseconds since the beginning of the step and the bytes in buffers.
    memory: Vec<(f64, usize)>,
    turn_ms: Option<f64>,
    /// The op and place of the shaders with each label, from 1, and whether they belong to the VJP.
    labels: Vec<(Key, bool)>,
    /// The milliseconds of each shader.
    shaders: BTreeMap<String, f64>,
}

/// Returns the place of a scope. All blocks are one place: `h3.attn` gives `h.attn`.
fn place(site: &Site) -> String {
    let (first, rest) = site.scope.split_at(site.scope.find('.').unwrap_or(site.scope.len()));
    let is_block = first.strip_prefix('h').is_some_and(|number| number.parse::<usize>().is_ok());
    if is_block { format!("h{rest}") } else { site.scope.to_string() }
}

impl Stopwatch {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an application to the row of its op, and records the memory in use.
    fn note(&self, op: &'static str, site: &Site, is_vjp: bool, took: Duration, cost: &CostRow) {
        let now = ms(self.begun.elapsed());
        let (mut seen, key) = (self.seen(), (op, place(site)));
        let row = seen.rows.entry(key.clone()).or_default();
        row.add(cost);
        if self.clock == Clock::Timestamps {
            row.add_runs(Runs::default()); // the timed runs are added at the end
            seen.labels.push((key, is_vjp));
        } else {
            row.add_time(is_vjp, ms(took));
        }
        seen.memory.push((now, memory(&self.device).live_bytes));
    }
}

impl Seen {
    /// Adds the times measured by the GPU.
    fn add_times(&mut self, timed: Vec<TimedRuns>) {
        for TimedRuns { shader, label, runs, nanoseconds } in timed {
            let ms = nanoseconds / 1e6;
            *self.shaders.entry(shader).or_default() += ms;
            if let Some((key, is_vjp)) = label.checked_sub(1).map(|i| &self.labels[i]) {
                let row = self.rows.entry(key.clone()).or_default();
                row.add_time(*is_vjp, ms);
                row.add_runs(runs);
            }
        }
    }
}

/// Returns the bytes read and written. A written tensor that shares its buffer with a read one was only passed on. A gather reads
/// no more of its table than it writes.
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
    // A fault of the device is reported when the step reads its loss.
    fn begins(&self) {
        match self.clock {
            Clock::Cpu => {}
            Clock::Timestamps => self.device.label(self.seen().labels.len() + 1),
            Clock::Waits => drop(self.device.wait()),
        }
    }

    fn ends(&self) {
        match self.clock {
            Clock::Cpu => {}
            Clock::Timestamps => self.device.label(0),
            Clock::Waits => drop(self.device.wait()),
        }
    }

    fn applied(&self, it: &Applied<'_, f32>) {
        let shapes: Vec<&Shape> = it.ins.iter().map(|x| x.shape()).collect();
        let written: Vec<_> = std::iter::once(it.out).chain(it.residuals).collect();
        let (flops, bytes) = (it.op.flops(&shapes, it.out.shape()), moved(it.ins, &written, it.op.name() == "gather"));
        self.note(it.op.name(), it.site, false, it.took, &CostRow { calls: 1, flops, bytes, ..CostRow::default() });
    }

    fn pulled(&self, it: &Pulled<'_, f32>) {
        let read: Vec<_> = std::iter::once(it.cotangent).chain(it.kept().map(|(_, x)| x)).collect();
        let written: Vec<_> = it.summands().map(|(_, _, g)| g).collect();
        let bytes = moved(&read, &written, false);
        let turn_ms = ms(self.begun.elapsed().saturating_sub(it.took));
        self.seen().turn_ms.get_or_insert(turn_ms);
        self.note(it.op.name(), it.site, true, it.took, &CostRow { bytes, ..CostRow::default() });
    }
}

/// Measures `steps` training steps of a workload, each on one tape; `done` is called after each.
///
/// # Errors
/// Returns the trainer's errors.
pub fn cost(workload: &Workload, steps: usize, mut done: impl FnMut(usize)) -> Result<Cost, TrainError> {
    let device = &workload.device;
    let mut trainer: Trainer = Trainer::new(recipe(1, 1, false), Model::init(&workload.model(), 0));
    trainer.place(device).map_err(|error| TrainError::Device { step: 1, error })?;
    let clock = Clock::of(device);
    let (mut whole, mut all) = (Vec::new(), Vec::new());
    let (mut peak_bytes, mut before) = (0, BTreeMap::new());
    // The first step is a warm-up.
    for step in 0..=steps {
        let batch = workload.batch(workload.sequences, step as u64);
        device.reset_peak();
        if step == 1 {
            before = device.runs();
        }
        let (took, seen) = observed(&mut trainer, device, clock, &batch)?;
        if step > 0 {
            whole.push(took);
            all.push(seen);
        }
        peak_bytes = memory(device).peak_bytes;
        done(step);
    }
    let step_ms = median(&mut whole);
    let shaders = shaders(&before, &device.runs(), &all);
    let rows = medians(&all);
    let ops = by_op(&rows);
    let last = all.pop().unwrap_or_default();
    // A difference of medians, which noise can make negative.
    let rest_ms = (step_ms - ops.iter().map(CostRow::ms).sum::<f64>()).max(0.0);
    Ok(Cost {
        workload: workload.name,
        device: device.to_string(),
        products_in: device.matmul_precision().to_string(),
        clock,
        threads: rayon::current_num_threads(),
        tokens: workload.tokens(),
        steps,
        step_ms,
        gemm_gflops: gemm_gflops(workload),
        bandwidth_gb_per_second: bandwidth(&workload.device) / 1e9,
        places: grouped(&rows, |(_, place)| if place.is_empty() { "elsewhere".into() } else { place.clone() }),
        ops,
        rest_ms,
        peak_bytes,
        memory: last.memory,
        turn_ms: last.turn_ms.unwrap_or_default(),
        shaders,
    })
}

/// Runs one step and returns its time in milliseconds.
fn observed(trainer: &mut Trainer, device: &Device, clock: Clock, batch: &Batch) -> Result<(f64, Seen), TrainError> {
    if clock == Clock::Timestamps {
        device.begin_profile();
    }
    let watch = Arc::new(Stopwatch { clock, device: device.clone(), begun: Instant::now(), seen: Mutex::default() });
    trainer.observed_step(batch, watch.clone())?;
    let took = ms(watch.begun.elapsed());
    let timed = device.end_profile().map_err(|error| TrainError::Device { step: trainer.done() + 1, error })?;
    let mut seen = std::mem::take(&mut *watch.seen());
    seen.add_times(timed);
    Ok((took, seen))
}

/// The costs of a step, op by op and shader by shader.
type Profiled = (Vec<CostRow>, Vec<ShaderRow>);

/// Runs one step on one tape, timed by the GPU. Returns `None` without running the step if the GPU has no timestamps.
pub fn profiled_step(trainer: &mut Trainer, device: &Device, batch: &Batch) -> Result<Option<Profiled>, TrainError> {
    if Clock::of(device) != Clock::Timestamps {
        return Ok(None);
    }
    let before = device.runs();
    let (_, seen) = observed(trainer, device, Clock::Timestamps, batch)?;
    Ok(Some((by_op(&seen.rows), shaders(&before, &device.runs(), &[seen]))))
}

fn ms(time: Duration) -> f64 {
    1e3 * time.as_secs_f64()
}

/// Returns the counts of the last step with the median times of all steps.
fn medians(steps: &[Seen]) -> BTreeMap<Key, CostRow> {
    let last = steps.last().map_or(BTreeMap::new(), |last| last.rows.clone());
    let row = |(key, row): (Key, CostRow)| {
        let of = |time: fn(&CostRow) -> f64| {
            median(&mut steps.iter().filter_map(|step| step.rows.get(&key)).map(time).collect::<Vec<_>>())
        };
        let (forward_ms, backward_ms) = (of(|row| row.forward_ms), of(|row| row.backward_ms));
        (key, CostRow { forward_ms, backward_ms, ..row })
    };
    last.into_iter().map(row).collect()
}

/// Returns the costs by shader: the runs between two counts, per step, and the times of the steps.
fn shaders(before: &BTreeMap<String, Runs>, after: &BTreeMap<String, Runs>, steps: &[Seen]) -> Vec<ShaderRow> {
    let n = steps.len() as f64;
    let is_timed = steps.iter().any(|step| !step.shaders.is_empty());
    let row = |(name, runs): (&String, &Runs)| {
        let earlier = before.get(name).copied().unwrap_or_default();
        let each = |of: fn(&Runs) -> u64| (of(runs) - of(&earlier)) as f64 / n;
        let ms = || steps.iter().filter_map(|step| step.shaders.get(name)).sum::<f64>() / n;
        let (dispatches, bytes, ms) = (each(|r| r.dispatches), each(|r| r.bytes), is_timed.then(ms));
        ShaderRow { name: name.clone(), dispatches, bytes, ms }
    };
    longest_first(after.iter().map(row).filter(|row| row.dispatches > 0.0))
}

fn by_op(rows: &BTreeMap<Key, CostRow>) -> Vec<CostRow> {
    grouped(rows, |(op, _)| (*op).to_owned())
}

/// Returns the sums of the rows under each name, the longest first.
fn grouped(rows: &BTreeMap<Key, CostRow>, name: impl Fn(&Key) -> String) -> Vec<CostRow> {
    let mut sums: BTreeMap<String, CostRow> = BTreeMap::new();
    for (key, row) in rows {
        sums.entry(name(key)).or_default().add(row);
    }
    let mut rows: Vec<CostRow> = sums.into_iter().map(|(name, row)| CostRow { name, ..row }).collect();
    rows.sort_by(|a, b| b.ms().total_cmp(&a.ms()));
    rows
}

impl Cost {
    /// Returns the roof of an op with this many FLOPs per byte, in 10⁹ FLOP/s.
    fn roof(&self, intensity: f64) -> f64 {
        self.gemm_gflops.min(intensity * self.bandwidth_gb_per_second)
    }

    const HEADS: [&'static str; 10] = [
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

    /// Returns the headings of [`Cost::rows`], which include a GPU's runs if the GPU measured the times.
    pub fn heads(&self) -> Vec<String> {
        let on_gpu: &[&str] = if self.clock == Clock::Timestamps { &["dispatches", "MB bound"] } else { &[] };
        Self::HEADS.iter().chain(on_gpu).map(|&head| head.to_owned()).collect()
    }

    /// Returns a table row for each op or place.
    pub fn rows(&self, rows: &[CostRow]) -> Vec<Vec<String>> {
        let row = |row: &CostRow| {
            let on_gpu = row.dispatches.zip(row.bound_bytes).map(|(n, bytes)| [count(n), figure(bytes as f64 / 1e6)]);
            // An op that takes no time, such as a reshape, has no rate.
            let has_rate = row.ms() > 5e-4 * self.step_ms;
            let percent = |share: f64| if has_rate { format!("{:.0} %", 100.0 * share) } else { "–".into() };
            let cells = [
                row.name.clone(),
                count(row.calls as u64),
                figure(row.flops as f64 / 1e6),
                figure(row.bytes as f64 / 1e6),
                figure(row.forward_ms),
                figure(row.backward_ms),
                format!("{:.1} %", 100.0 * row.ms() / self.step_ms),
                if has_rate { figure(row.gflops()) } else { "–".into() },
                percent(row.gflops() / self.gemm_gflops),
                percent(row.gb_per_second() / self.bandwidth_gb_per_second),
            ];
            cells.into_iter().chain(on_gpu.into_iter().flatten()).collect()
        };
        rows.iter().map(row).collect()
    }

    /// The headings of [`Cost::shader_rows`].
    pub const SHADER_HEADS: [&'static str; 6] = ["", "dispatches", "MB bound", "ms", "of the step", "GB/s"];

    /// Returns a table row for each shader.
    pub fn shader_rows(&self) -> Vec<[String; 6]> {
        let row = |row: &ShaderRow| {
            let of_ms = |f: &dyn Fn(f64) -> String| row.ms.map_or("–".into(), f);
            [
                row.name.clone(),
                figure(row.dispatches),
                figure(row.bytes / 1e6),
                of_ms(&figure),
                of_ms(&|ms| format!("{:.1} %", 100.0 * ms / self.step_ms)),
                of_ms(&|ms| figure(row.bytes / ms.max(1e-9) / 1e6)),
            ]
        };
        self.shaders.iter().map(row).collect()
    }

    /// Returns the peak of bytes in buffers, in MB.
    pub fn peak_mb(&self) -> f64 {
        self.peak_bytes as f64 / 1e6
    }

    /// Returns the costs as one HTML file.
    pub fn report(&self) -> Document {
        let mut report = Document {
            kicker: "Gradus · audit".into(),
            title: format!("What a training step of {} costs", self.workload),
            lead: format!(
                "{} tokens in {} ms on {}{}, on one tape: {} tokens per second. The fastest matrix product here reaches {} \
                 GFLOP/s, memory {} GB/s.",
                count(self.tokens as u64),
                figure(self.step_ms),
                if self.clock == Clock::Cpu { String::new() } else { format!("{}, driven by ", self.device) },
                count_of(self.threads, "thread"),
                count((1e3 * self.tokens as f64 / self.step_ms) as u64),
                figure(self.gemm_gflops),
                figure(self.bandwidth_gb_per_second)
            ),
            foot: format!(
                "Medians of {} steps. {}FLOPs are those that the ops state for the forward pass; the rate counts forward and \
                 backward together as three times that. Bytes count every tensor that an op reads or writes once; cached data \
                 moves faster than memory, and views move no data. linear_cross_entropy computes its gradient in the forward \
                 pass, where it has the probabilities.",
                self.steps,
                self.clock.note()
            ),
            ..Document::default()
        };
        let table = |rows: &[CostRow]| {
            let row = |mut cells: Vec<String>| Row::new(cells.remove(0), cells);
            Block::table(self.heads(), self.rows(rows).into_iter().map(row))
        };
        let rest = format!(
            "Around the ops (the tape, sums of gradients, clipping, Adam): {} ms, {:.1} % of the step.",
            figure(self.rest_ms),
            100.0 * self.rest_ms / self.step_ms
        );
        report.section("Op by op", vec![table(&self.ops), Block::Text(rest)]);
        report.section("Place by place", vec![table(&self.places)]);
        if !self.shaders.is_empty() {
            let row = |[head, cells @ ..]: [String; 6]| Row::new(head, cells);
            let text = "Means over the steps, in ops and around them. MB bound are the sizes of the buffers bound to a shader, \
                        which may read or write only parts of them.";
            let table = Block::table(Self::SHADER_HEADS, self.shader_rows().into_iter().map(row));
            report.section("Shader by shader", vec![table, Block::Text(text.into())]);
        }
        let caption = "Left: each op by its FLOPs per byte and its rate, under the roof of product and memory. Right: what buffers hold as \
                       the step proceeds; the line marks the start of the backward pass.";
        report.section("Pictures", vec![Block::Plots(vec![self.roofline(), self.memory_plot()], caption.into())]);
        report
    }

    /// Returns the plot of ops under the roof, without ops that have no arithmetic.
    fn roofline(&self) -> Plot {
        let shows = |row: &&CostRow| row.flops > 0 && row.ms() > 0.005 * self.step_ms;
        let dot = |row: &CostRow| {
            let points = vec![(row.intensity(), row.gflops())];
            Curve { name: row.name.clone(), points, ink: Ink::Train, dots: true }
        };
        let dots: Vec<Curve> = self.ops.iter().filter(shows).map(dot).collect();
        let corner = self.gemm_gflops / self.bandwidth_gb_per_second;
        let left = dots.iter().map(|c| c.points[0].0).fold(corner, f64::min) / 2.0;
        let right = dots.iter().map(|c| c.points[0].0).fold(corner, f64::max) * 2.0;
        let roof = [left, corner, right].map(|x| (x, self.roof(x))).into();
        let roof = Curve { name: String::new(), points: roof, ink: Ink::Limit, dots: false };
        let description =
            format!("The rates of {} ops over their FLOPs per byte, and the roof of product and memory.", dots.len());
        let axes = [Axis::new("FLOPs per byte", Scale::Log), Axis::new("GFLOP/s", Scale::Log)];
        picture("Ops under the roof", description, axes, std::iter::once(roof).chain(dots))
    }

    fn memory_plot(&self) -> Plot {
        let curve = |points, ink| Curve { name: String::new(), points, ink, dots: false };
        let held = self.memory.iter().map(|&(at, bytes)| (at, bytes as f64 / 1e6)).collect();
        let turn = vec![(self.turn_ms, 0.0), (self.turn_ms, self.peak_mb())];
        let description = format!("Bytes that buffers hold over the step: at most {} MB.", figure(self.peak_mb()));
        let axes = [Axis::new("ms", Scale::Linear), Axis::new("MB", Scale::Linear)];
        picture("Memory over the step", description, axes, [curve(turn, Ink::Muted), curve(held, Ink::Train)])
    }
}

fn picture(title: &str, description: String, [x, y]: [Axis; 2], curves: impl IntoIterator<Item = Curve>) -> Plot {
    let (title, curves) = (title.into(), curves.into_iter().collect());
    Plot { title, description, x, y, curves, levels: Vec::new(), size: (560, 420) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_of_all_blocks_are_merged() {
        let site = |scope: &str| Site { at: std::panic::Location::caller(), scope: scope.into() };
        let cases = [("h3.attn", "h.attn"), ("h12", "h"), ("embed", "embed"), ("head.h1", "head.h1"), ("", ""), ("h", "h")];
        cases.into_iter().for_each(|(scope, expected)| assert_eq!(place(&site(scope)), expected));
    }

    #[test]
    fn passing_a_tensor_on_moves_no_bytes() {
        let (x, y): (Tensor<f32>, Tensor<f32>) = (Tensor::full([2, 3], 1.0), Tensor::full([6], 2.0));
        let view = x.expand([4, 2, 3]);
        assert_eq!(moved(&[&x, &y], &[&view], false), 0);
        // A tensor was computed from both inputs, and the view was returned with it.
        assert_eq!(moved(&[&x, &y], &[&view, &Tensor::full([5], 0.0)], false), 4 * (6 + 6 + 5));
        assert_eq!(moved(&[&Tensor::full([1000, 3], 0.0)], &[&x], true), 4 * (6 + 6));
    }

    #[test]
    fn every_op_of_a_step_is_counted_with_the_flops_it_states() {
        let mut workload = Workload::named("tiny").unwrap();
        (workload.sequences, workload.sizes.context, workload.config.layers) = (2, 16, 2);
        let cost = cost(&workload, 2, |_| {}).unwrap();
        let of =
            |lines: &[CostRow], name: &str| lines.iter().find(|l| l.name == name).cloned().unwrap_or_else(|| panic!("{name}"));
        let (linear, gelu) = (of(&cost.ops, "linear"), of(&cost.ops, "linear_gelu"));
        let (n, d, layers) = (32, workload.sizes.width as u64, workload.config.layers);
        assert_eq!((linear.calls, gelu.calls), (3 * layers, layers));
        // Per block: 3d + d columns of d products and d columns of 4d, with biases; 4d columns of d, with biases and 9 for each
        // GELU.
        assert_eq!(linear.flops, layers as u64 * n * (16 * d * d + 5 * d));
        assert_eq!(gelu.flops, layers as u64 * n * (8 * d * d + 40 * d));
        let both = |lines: &[CostRow]| {
            lines.iter().map(|l| (l.calls, l.flops, l.bytes)).fold((0, 0, 0), |a, b| (a.0 + b.0, a.1 + b.1, a.2 + b.2))
        };
        assert_eq!(both(&cost.ops), both(&cost.places));
        let mut calls: Vec<(&str, usize)> = cost.places.iter().map(|place| (place.name.as_str(), place.calls)).collect();
        calls.sort();
        let blocks = [("h.attn", 8), ("h.ln_1", 4), ("h.ln_2", 4), ("h.mlp", 6)];
        assert_eq!(calls, [&[("elsewhere", 1), ("embed", 5)], &blocks[..], &[("lm", 1)]].concat());
        assert!(cost.memory.windows(2).all(|pair| pair[0].0 <= pair[1].0));
        assert!(cost.memory.iter().all(|&(_, bytes)| bytes <= cost.peak_bytes));
        assert!(cost.ops.windows(2).all(|pair| pair[0].ms() >= pair[1].ms()));
        let page = cost.report().render();
        assert!(page.contains("linear_cross_entropy") && !page.contains("NaN"));
    }
}

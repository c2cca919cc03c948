//! The training step, and the state it depends on.
//!
//! ```text
//! batch → logical shards → a tape each → loss, gradients → summed in order → clipped → optimizer
//! ```
//!
//! The number of shards is part of the run, not of the machine: any number of threads and processes computes them, and their
//! gradients are added in one order. So the same seed gives the same bits on 1, 2 or 16 threads, in 1, 2 or 8 processes.
//!
//! A parameter that none of a batch's losses reaches is not updated, and its moments stay. The t of Adam's bias correction counts
//! the run's steps, as in OpenAI's code, whichever parameters they reached; PyTorch counts the steps of each parameter. So a
//! parameter first reached at a late step moves there by up to (1 − β₁)/√(1 − β₂) of the rate, 3.2 for Adam's usual β, and not 1.

mod alarms;
mod distributed;
mod dump;
pub mod precision;
mod scale;
mod state;
mod step_message;
mod zero1;

use std::sync::Arc;
use std::time::Instant;

use gradus_autograd::anomaly::{Anomaly, Guard, Watch};
use gradus_autograd::observer::Observer;
use gradus_collective::{AdditionTree, Collective, PeerError, Reduction, SingleProcess, Sum};
use gradus_io::numbers::median;
use gradus_model::{Batch, DropoutSeed, GradientMode, Model, Tree};
use gradus_report::metrics::ProcessTimes;
use gradus_tensor::device::MatmulPrecision;
use gradus_tensor::{Device, DeviceError, GlobalNorm, Norms, Real, Shape, Tensor, on_pool};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::optim::{Optimizer, Schedule, ScheduleKind, StepFactors, clip};

pub use alarms::Alarms;
use distributed::StepFlags;
pub use distributed::digest;
pub use dump::{ANOMALY, DumpError, Replay};
pub use state::{PREVIOUS_FILE, StateError, TRAINER_FILE};
use zero1::Moments;

/// The settings of a training step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recipe {
    /// The update rule.
    pub optimizer: Optimizer,
    /// The factor on the rate over the steps.
    pub schedule: Schedule,
    /// The number of steps T of the whole run.
    pub steps: u64,
    /// The largest global norm of a gradient; larger ones are scaled down to it. `None` disables clipping.
    pub clip: Option<f64>,
    /// The number of logical shards of a step.
    pub shards: usize,
    /// The number of shards whose activations are held at the same time; the others wait (gradient accumulation).
    pub concurrent_shards: usize,
    /// The way a gradient is computed: on one tape, with less memory, or only for the head.
    pub backward: GradientMode,
    /// The seed of dropout.
    pub seed: u64,
}

impl Recipe {
    /// Returns GPT-1's optimizer and schedule for `steps` steps in `shards` shards, all at once, clipped at 1; the seed is 0.
    pub fn new(steps: u64, shards: usize) -> Self {
        Recipe {
            optimizer: Optimizer::default(),
            schedule: Schedule::default(),
            steps,
            clip: Some(1.0),
            shards,
            concurrent_shards: shards,
            backward: GradientMode::Whole,
            seed: 0,
        }
    }

    /// Returns the factors of step t.
    pub fn factors(&self, t: u64) -> StepFactors {
        StepFactors { t, schedule: self.schedule.factor(t, self.steps) }
    }

    /// Returns a warning about settings that are allowed but hardly intended: a warm-up that never ends.
    pub fn doubt(&self) -> Option<String> {
        let endless = self.schedule.kind != ScheduleKind::Constant && self.schedule.warmup.share(self.steps) > 1.0;
        let (warmup, steps) = (self.schedule.warmup, self.steps);
        endless.then(|| {
            format!("a warm-up of {warmup} steps in a run of {steps}: the rate never reaches --lr; give a shorter --warmup")
        })
    }
}

/// Returns the default number of logical shards of a micro-batch with this many sequences: two, so that two threads synchronize
/// only once per step.
pub fn default_shards(sequences: usize) -> usize {
    sequences.clamp(1, 2)
}

/// A model being trained.
#[derive(Clone, Debug)]
pub struct Trainer<T: Real = f32> {
    /// The settings of training.
    pub recipe: Recipe,
    /// The model.
    pub params: Model<Tensor<T>>,
    /// First moments of the gradient; unused by SGD.
    m: Model<Tensor<T>>,
    /// Second moments.
    v: Model<Tensor<T>>,
    /// Whether weight decay applies to each parameter, in their order.
    decays: Vec<bool>,
    /// The number of steps made.
    done: u64,
    /// Whether every op's value and every summand is checked, not only the loss and its gradient.
    pub watches: bool,
    /// Warnings about training that looks wrong although every number is finite.
    pub alarms: Alarms<T>,
    /// The processes that train the model.
    pub collective: Arc<dyn Collective<T>>,
    /// Whether any process has received a request to end the run.
    stops: bool,
    /// Whether any process has received a request to save the run.
    saves: bool,
    /// Whether this process has received a request to save the run.
    asks: bool,
    /// The moments of this process's own parts if each process keeps only those; m and v are then empty.
    parts: Option<Vec<Moments<T>>>,
    /// The breakdown of the time of the last steps, by process.
    times: Vec<ProcessTimes>,
    /// Seconds of this process in the step before: its own work, including that since the step before that, and its waiting.
    time: [f64; 2],
    /// The time at which the last step ended.
    ended: Option<Instant>,
}

/// The gradient of each parameter that is trained.
pub type Gradient<T> = Model<Option<Tensor<T>>>;

/// The results of a step's shards besides their gradients, on the parameters' device.
struct Shards<T: Real> {
    /// Each shard's loss, without axes.
    losses: Vec<Tensor<T>>,
    /// Each shard's [mark](Guard::mark), NaN if a number in it was non-finite; empty unless the shards are checked.
    marks: Vec<Tensor<T>>,
    /// The factor by which losses and gradient exceed the batch's.
    scale: f64,
    /// The other data of the all-gather; `None` for a single process.
    told: Option<StepFlags>,
    /// Seconds of this process's own work.
    seconds: f64,
}

/// A step whose gradients are still being added.
type UnderWay<'c, T> = (Shards<T>, Box<dyn Sum<T> + 'c>);

/// The measurements of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepSummary {
    /// The loss before the step.
    pub loss: f64,
    /// The gradient's global norm before clipping.
    pub gradient_norm: f64,
    /// The learning rate, schedule included.
    pub rate: f64,
}

/// The reason why a step, counted from 1, was not made. The parameters are unchanged.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum TrainError {
    /// `anomaly` is found by recomputing the gradient on an observed tape; it is `None` if each shard's gradient is finite but
    /// their sum is not.
    #[error(
        "step {step}: the loss is {loss} and its gradient's norm {norm}: training diverged and stops before this step; the last \
         checkpoint, if any, is untouched; begin another run with a lower --lr, a longer --warmup or gradients clipped to a smaller norm (--clip){}{}", range(*.matmul_precision), first(.anomaly)
    )]
    NotFinite { step: u64, loss: f64, norm: f64, matmul_precision: MatmulPrecision, anomaly: Option<Box<Anomaly>> },
    /// The loss and its gradient may still be finite.
    #[error(
        "step {step}: --anomaly found a non-finite number, so training stops before this step; the last checkpoint, if any, is \
         untouched; begin another run with a lower --lr, a longer --warmup or gradients clipped to a smaller norm (--clip). {anomaly}"
    )]
    Anomaly { step: u64, anomaly: Box<Anomaly> },
    #[error("step {step}: {error}; the last checkpoint, if any, is untouched")]
    Device { step: u64, error: DeviceError },
    #[error("parameter {name} of the initial model holds a NaN or an infinity; start from another checkpoint")]
    Broken { name: String },
    #[error(
        "step {step}: no gradient reaches parameter {name}: no loss of the batch depends on it; use it in the model, or leave it \
         out"
    )]
    NoGradient { step: u64, name: String },
    #[error("step {step}: {error}")]
    Peer { step: u64, error: PeerError },
}

fn range(matmul_precision: MatmulPrecision) -> &'static str {
    match matmul_precision {
        MatmulPrecision::F32 | MatmulPrecision::BF16 => "",
        MatmulPrecision::F16 => ", or with --matmul-precision f32: a factor of a product in f16 is at most 65,504",
    }
}

fn first(anomaly: &Option<Box<Anomaly>>) -> String {
    match anomaly {
        Some(a) => format!(". The first non-finite number: {a}"),
        None => ". Within each shard of the batch every number is finite; only their sum is not".to_owned(),
    }
}

/// Splits the time of a step, after `between` seconds outside of steps: own work, and the rest, which waits for other processes.
fn split(between: f64, step: f64, shards: f64) -> [f64; 2] {
    [between + shards, step - shards]
}

/// Checks that a device has room to train `bytes` bytes of parameters: for them, their gradient and its moments.
///
/// # Errors
/// Returns the errors of [`Device::check_room`].
pub fn check_room(device: &Device, bytes: u64) -> Result<(), DeviceError> {
    device.check_room(&needs(bytes))
}

fn needs(bytes: u64) -> [(&'static str, u64); 3] {
    [("parameters", bytes), ("their gradient", bytes), ("its two moments", 2 * bytes)]
}

impl<T: Real> Shards<T> {
    /// Creates the results of one shard on one tape.
    fn one(loss: Tensor<T>, scale: f64) -> Self {
        Shards { losses: vec![loss], marks: vec![], scale, told: None, seconds: 0.0 }
    }

    /// Returns the losses and marks, to be read with the norm.
    fn numbers(&self) -> Vec<&Tensor<T>> {
        self.losses.iter().chain(&self.marks).collect()
    }

    /// Returns the loss and gradient of the unscaled batch.
    fn unscaled(&self, losses: &[f64], gradient: Gradient<T>) -> (f64, Gradient<T>) {
        let scale = self.scale;
        let own = |g: Tensor<T>| if scale == 1.0 { g } else { g * (1.0 / scale) };
        (losses.iter().sum::<f64>() / scale, gradient.map(|_, g| g.map(own)))
    }
}

impl Trainer {
    /// Returns the median time of `steps` steps on one batch, in seconds. Not generic, so that a crate that times a trainer
    /// instantiates none.
    pub fn seconds_per_step(&mut self, batch: &Batch, steps: usize) -> Result<f64, TrainError> {
        let time = |_| {
            let begin = Instant::now();
            self.step(batch).map(|_| begin.elapsed().as_secs_f64())
        };
        Ok(median(&mut (0..steps).map(time).collect::<Result<Vec<_>, _>>()?))
    }
}

impl<T: Real> Trainer<T> {
    /// Creates a trainer before its first step.
    pub fn new(recipe: Recipe, params: impl Into<Model<Tensor<T>>>) -> Self {
        let params = params.into();
        let zeros = || params.as_ref().map(|_, p| p.zeros_like(*p.shape()));
        let (m, v) = (zeros(), zeros());
        let mut decays = Vec::new();
        Model::declare(&params.config()).visit(|_, p| decays.push(p.role.decays()));
        Trainer {
            recipe,
            params,
            m,
            v,
            decays,
            done: 0,
            watches: false,
            alarms: Alarms::default(),
            collective: Arc::new(SingleProcess),
            stops: false,
            saves: false,
            asks: false,
            parts: None,
            times: Vec::new(),
            time: [0.0; 2],
            ended: None,
        }
    }

    /// Moves the model and its moments to a device.
    ///
    /// # Errors
    /// Returns the errors of [`Device::check_room`] if the device lacks memory for them and for a gradient, before anything is
    /// sent, and those of [`Tensor::to`].
    pub fn place(&mut self, device: &Device) -> Result<(), DeviceError> {
        check_room(device, self.params.bytes_to(device))?;
        (self.params, self.m, self.v) = (self.params.to(device)?, self.m.to(device)?, self.v.to(device)?);
        self.alarms = Alarms::default();
        Ok(())
    }

    /// Returns the trainer in another precision.
    pub fn cast<U: Real>(&self) -> Trainer<U> {
        let fresh = Trainer::new(self.recipe.clone(), self.params.cast());
        Trainer { m: self.m.cast(), v: self.v.cast(), done: self.done, watches: self.watches, ..fresh }
    }

    /// Returns the number of steps made.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// Returns the first and second moments of the gradient, m and v; unused by SGD.
    pub fn moments(&self) -> (&Model<Tensor<T>>, &Model<Tensor<T>>) {
        (&self.m, &self.v)
    }

    /// Returns the loss of a batch and its gradient, by shards; with a seed, dropout is active. A parameter that is not trained
    /// ([`GradientMode::Head`]) has no gradient.
    pub fn gradient(&self, batch: &Batch, dropout: Option<DropoutSeed>) -> Result<(f64, Gradient<T>), TrainError> {
        let (shards, sum) = self.shards(&*self.collective, batch, dropout, Reduction::AllReduce)?;
        let gradient = self.gradient_of(batch, sum.all_reduce().map_err(|error| self.peer(error))?);
        let read = GlobalNorm::of(&[], &shards.numbers()).read().map_err(|error| self.fault(error))?;
        let (losses, marks) = read.numbers.split_at(shards.losses.len());
        self.check(marks, batch, dropout)?;
        Ok(shards.unscaled(losses, gradient))
    }

    /// Computes this process's shards of a batch. Returns before the losses are read, while gradients are still being added.
    fn shards<'c>(
        &self,
        collective: &'c dyn Collective<T>,
        batch: &Batch,
        dropout: Option<DropoutSeed>,
        reduction: Reduction,
    ) -> Result<UnderWay<'c, T>, TrainError> {
        let (begin, (batch, scale)) = (Instant::now(), self.scaled(batch));
        let shards = batch.split(self.recipe.shards);
        let tree = AdditionTree::new(shards.len());
        let own = collective.shards(&tree).map_err(|error| self.peer(error))?;
        let sum = collective.sum(tree, self.shapes_of_gradients(), reduction);
        let shards: Vec<_> = shards.iter().enumerate().collect();
        let (mut losses, mut marks) = (Vec::new(), Vec::new());
        for group in shards[own].chunks(self.recipe.concurrent_shards.max(1)) {
            let work = |(shard, (first, batch)): &(usize, &(usize, Batch))| {
                let guard = self.watches.then(|| Arc::new(Guard::default()));
                let (dropout, observer) =
                    (dropout.map(|seed| seed.from_sequence(*first as u64)), guard.clone().map(|it| it as _));
                Ok((self.shard(batch, dropout, observer, |parameter, g| sum.add(*shard, parameter, g))?, guard))
            };
            // The longest shards come last and are started first, so that no thread waits for one of them.
            let done: Vec<_> = if group.len() == 1 { vec![work(&group[0])] } else { group.par_iter().rev().map(work).collect() };
            for result in done.into_iter().rev() {
                let (loss, guard) = result?;
                losses.push(loss);
                marks.extend(guard.and_then(|guard| guard.mark()));
            }
        }
        let (mut told, seconds) = (None, begin.elapsed().as_secs_f64());
        if collective.processes() > 1 {
            let all = self.of_all_processes(&losses, &marks).map_err(|error| self.peer(error))?;
            let numbers = |all: Vec<f64>| all.into_iter().map(|x| Tensor::scalar(T::lit(x))).collect();
            told = Some(StepFlags { stops: all.stops, saves: all.saves, times: all.times });
            (losses, marks) = (numbers(all.losses), numbers(all.marks));
        }
        Ok((Shards { losses, marks, scale, told, seconds }, sum))
    }

    /// Returns the shape of each parameter's gradient; `None` if it is not trained.
    fn shapes_of_gradients(&self) -> Vec<Option<Shape>> {
        let mut shapes = Vec::new();
        let Model { body, outputs, heads, .. } = &self.params;
        let of_body = (self.recipe.backward != GradientMode::Head).then_some(());
        body.as_ref().visit(|_, p| shapes.push(of_body.map(|()| *p.shape())));
        outputs.as_ref().visit(|_, p| shapes.push(of_body.map(|()| *p.shape())));
        heads.as_ref().visit(|_, p| shapes.push(Some(*p.shape())));
        shapes
    }

    /// Returns whether a loss that the batch declares depends on each parameter ([`Model::reached`]), in their order.
    fn reached(&self, batch: &Batch) -> Vec<bool> {
        let mut all = Vec::new();
        self.params.reached(batch).visit(|_, is| all.push(is));
        all
    }

    /// Returns the tree of the gradients, given one per parameter, without those that no loss of the batch reaches.
    fn gradient_of(&self, batch: &Batch, parts: Vec<Option<Tensor<T>>>) -> Gradient<T> {
        let mut parts = parts.into_iter();
        self.params.reached(batch).map(|_, is_reached| parts.next().flatten().filter(|_| is_reached))
    }

    /// Returns the loss of a shard. Each parameter's gradient is passed to `each`, with the parameter's index, once it is
    /// complete. It is 0 if none of the shard's losses reaches the parameter, since another shard's may.
    ///
    /// # Errors
    /// Returns an error if a declared loss does not reach a parameter that it should.
    fn shard(
        &self,
        batch: &Batch,
        dropout: Option<DropoutSeed>,
        observer: Option<Arc<dyn Observer<T>>>,
        mut each: impl FnMut(usize, Tensor<T>),
    ) -> Result<Tensor<T>, TrainError> {
        let (mut missing, reached) = (self.shapes_of_gradients(), self.reached(batch));
        let loss = self.params.gradient_each(observer, batch, dropout, self.recipe.backward, &mut |parameter, g| {
            assert!(reached[parameter], "a gradient reaches parameter {parameter}, which no requested loss depends on");
            missing[parameter] = None;
            each(parameter, g.dense());
        });
        let (mut first, mut missing) = (None, missing.into_iter().enumerate());
        self.params.as_ref().visit(|name, p| {
            if let Some((parameter, Some(shape))) = missing.next() {
                if reached[parameter] {
                    first.get_or_insert_with(|| name.to_owned());
                }
                each(parameter, p.zeros_like(shape));
            }
        });
        first.map_or(Ok(loss), |name| Err(TrainError::NoGradient { step: self.done + 1, name }))
    }

    /// Returns the loss of a shard and its gradient.
    fn only_shard(
        &self,
        batch: &Batch,
        dropout: Option<DropoutSeed>,
        observer: Option<Arc<dyn Observer<T>>>,
    ) -> Result<(Tensor<T>, Gradient<T>), TrainError> {
        let mut parts = vec![None; self.decays.len()];
        let loss = self.shard(batch, dropout, observer, |parameter, g| parts[parameter] = Some(g))?;
        Ok((loss, self.gradient_of(batch, parts)))
    }

    /// Makes one step: forward, backward, clip, optimizer. On an error nothing changes, unless a device failed.
    pub fn step(&mut self, batch: &Batch) -> Result<StepSummary, TrainError> {
        let collective = Arc::clone(&self.collective);
        on_pool(|| {
            let reduction = if self.parts.is_some() { Reduction::ReduceScatter } else { Reduction::AllReduce };
            let begin = Instant::now();
            let between = self.ended.take().map_or(0.0, |at| (begin - at).as_secs_f64());
            let (mut shards, sum) = self.shards(&*collective, batch, Some(self.dropout()), reduction)?;
            if let Some(told) = shards.told.take() {
                self.record_flags(told);
            }
            if reduction == Reduction::ReduceScatter {
                let summary = self.apply_in_parts(batch, &shards, sum)?;
                self.time = split(between, begin.elapsed().as_secs_f64(), shards.seconds);
                self.ended = Some(Instant::now());
                return Ok(summary);
            }
            let gradient = self.gradient_of(batch, sum.all_reduce().map_err(|error| self.peer(error))?);
            self.time = split(between, begin.elapsed().as_secs_f64(), shards.seconds);
            let summary = self.apply(batch, &shards, &gradient)?;
            self.ended = Some(Instant::now());
            Ok(summary)
        })
    }

    /// Makes one step with an observer, on one tape, for any number of shards in the recipe.
    pub fn observed_step(&mut self, batch: &Batch, observer: Arc<dyn Observer<T>>) -> Result<StepSummary, TrainError> {
        on_pool(|| {
            let (larger, scale) = self.scaled(batch);
            let (loss, gradient) = self.only_shard(&larger, Some(self.dropout()), Some(observer))?;
            self.apply(batch, &Shards::one(loss, scale), &gradient)
        })
    }

    /// Returns the dropout seed of the next step.
    fn dropout(&self) -> DropoutSeed {
        DropoutSeed::new(self.recipe.seed, self.done + 1)
    }

    /// Returns the first non-finite number in the computation of the next step's gradient, recomputed to the same bits.
    pub fn anomaly(&self, batch: &Batch) -> Option<Anomaly> {
        self.anomaly_with(batch, Some(self.dropout()))
    }

    fn anomaly_with(&self, batch: &Batch, dropout: Option<DropoutSeed>) -> Option<Anomaly> {
        self.scaled(batch).0.split(self.recipe.shards).iter().find_map(|(first, batch)| {
            let (watch, dropout) = (Arc::new(Watch::default()), dropout.map(|seed| seed.from_sequence(*first as u64)));
            self.params.observed_gradient(Some(watch.clone()), batch, dropout, self.recipe.backward);
            watch.anomaly()
        })
    }

    /// Returns an error that names the first non-finite number if a shard's mark is NaN.
    fn check(&self, marks: &[f64], batch: &Batch, dropout: Option<DropoutSeed>) -> Result<(), TrainError> {
        let found = marks.iter().any(|mark| mark.is_nan()).then(|| self.anomaly_with(batch, dropout)).flatten();
        found.map_or(Ok(()), |anomaly| Err(TrainError::Anomaly { step: self.done + 1, anomaly: Box::new(anomaly) }))
    }

    /// Applies the gradient of `batch`. All computation is on the parameters' device; the numbers of the summary are read once,
    /// at the end. If the loss, the norm or a mark is non-finite, the clipping factor is NaN, and nothing has changed.
    fn apply(&mut self, batch: &Batch, shards: &Shards<T>, gradient: &Gradient<T>) -> Result<StepSummary, TrainError> {
        let mut all = Vec::new();
        gradient.as_ref().visit(|_, g| all.extend(g));
        let measured = GlobalNorm::of(&all, &shards.numbers());
        let factor = clip::on_device(&measured, self.recipe.clip, shards.scale);
        let (at, optimizer) = (self.recipe.factors(self.done + 1), &self.recipe.optimizer);
        let moments = self.m.as_mut().zip(self.v.as_mut());
        let mut decays = self.decays.iter();
        self.params.as_mut().zip(moments).zip(gradient.as_ref()).visit(|name, ((p, (m, v)), g)| {
            let decays = *decays.next().unwrap_or_else(|| panic!("{name} is a parameter that the model did not have"));
            let Some(g) = g else { return };
            optimizer.update(at, &factor, decays, p, optimizer.name.has_moments().then_some((m, v)), g);
        });
        let read = measured.read().map_err(|error| self.fault(error))?;
        let summary = self.summary(batch, shards, &read)?;
        let mut squares = read.squares.iter();
        let mut by_parameter = Vec::new();
        gradient.as_ref().visit(|_, g| by_parameter.push(g.as_ref().and_then(|_| squares.next().copied())));
        self.made(summary, gradient, &by_parameter);
        Ok(summary)
    }

    /// Returns the summary of a step, or an error if a number in it is non-finite.
    fn summary(&self, batch: &Batch, shards: &Shards<T>, read: &Norms) -> Result<StepSummary, TrainError> {
        let (losses, marks) = read.numbers.split_at(shards.losses.len());
        let (loss, gradient_norm) = (losses.iter().sum::<f64>() / shards.scale, read.norm() / shards.scale);
        self.check(marks, batch, Some(self.dropout()))?;
        if !read.is_finite() {
            return Err(self.not_finite(batch, loss, gradient_norm));
        }
        Ok(StepSummary { loss, gradient_norm, rate: self.recipe.optimizer.lr * self.recipe.factors(self.done + 1).schedule })
    }

    /// Records a completed step; `squares` is as in [`Alarms::observe`].
    fn made(&mut self, summary: StepSummary, gradient: &Gradient<T>, squares: &[Option<f64>]) {
        self.alarms.observe(gradient, squares, summary.gradient_norm);
        self.alarms.observe_loss(summary.loss);
        self.done += 1;
    }

    /// Returns the error of a step whose loss or gradient norm is non-finite.
    fn not_finite(&self, batch: &Batch, loss: f64, norm: f64) -> TrainError {
        match non_finite(&self.params).filter(|_| self.done == 0) {
            Some(name) => TrainError::Broken { name },
            None => {
                // Only process 0 searches, since the search recomputes all shards.
                let anomaly = if self.collective.process() == 0 { self.anomaly(batch) } else { None };
                let (matmul_precision, anomaly) = (self.matmul_precision(), anomaly.map(Box::new));
                TrainError::NotFinite { step: self.done + 1, loss, norm, matmul_precision, anomaly }
            }
        }
    }

    fn peer(&self, error: PeerError) -> TrainError {
        TrainError::Peer { step: self.done + 1, error }
    }

    fn fault(&self, error: DeviceError) -> TrainError {
        TrainError::Device { step: self.done + 1, error }
    }
}

/// Returns the name of the first parameter that holds a non-finite number.
pub fn non_finite<T: Real>(model: &Model<Tensor<T>>) -> Option<String> {
    let mut found = None;
    model.as_ref().visit(|name, p| {
        if found.is_none() && !p.is_finite() {
            found = Some(name.to_owned());
        }
    });
    found
}

#[cfg(test)]
mod tests;

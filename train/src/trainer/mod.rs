//! One update of the parameters, and all that it depends on.
//!
//! ```text
//! batch → logical shards → a tape each → loss, gradients → summed in order → clipped → optimizer
//! ```
//!
//! The number of shards is part of the run, not of the machine: any number of threads works on them, and the sum of
//! their gradients has one order. So the same seed gives the same bits on 1, 2 or 16 threads.

mod alarms;
mod dump;
mod state;

use std::sync::Arc;

use gradus_autograd::anomaly::{Anomaly, Watch};
use gradus_autograd::observer::Observer;
use gradus_model::{Batch, DropoutSeed, GradientMode, Model, Tree};
use gradus_tensor::{Real, Tensor, on_pool};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::optim::{Optimizer, Schedule, ScheduleKind, Update, clip};

pub use alarms::Alarms;
pub use dump::{ANOMALY, DumpError};
pub use state::{StateError, TRAINER_FILE};

/// What an update needs to know besides its batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recipe {
    /// The update rule.
    pub optimizer: Optimizer,
    /// The factor on the rate over the updates.
    pub schedule: Schedule,
    /// Number of updates T of the whole run.
    pub updates: u64,
    /// Most the global norm of the gradient may be; longer ones are scaled down to it. `None`: as they are.
    pub clip: Option<f64>,
    /// Logical shards an update is cut into.
    pub shards: usize,
    /// Shards whose activations are held at once; the others wait (gradient accumulation).
    pub at_once: usize,
    /// How a gradient is made: on one tape, with less memory, or of the head alone.
    pub backward: GradientMode,
    /// Seed of dropout.
    pub seed: u64,
}

impl Recipe {
    /// What update t is made with, whose gradient has this norm.
    pub fn update(&self, t: u64, norm: f64) -> Update {
        let clip = self.clip.map_or(1.0, |max| clip::factor(norm, max));
        Update { t, schedule: self.schedule.factor(t, self.updates), clip }
    }

    /// What is allowed, and hardly meant: a warm-up that never ends.
    pub fn doubt(&self) -> Option<String> {
        let endless = self.schedule.kind != ScheduleKind::Constant && self.schedule.warmup.share(self.updates) > 1.0;
        let (warmup, updates) = (self.schedule.warmup, self.updates);
        endless.then(|| {
            format!("a warm-up of {warmup} updates, of a run of {updates}: the rate never reaches --lr; give a shorter --warmup")
        })
    }
}

/// Logical shards of a part of so many sequences, unless told otherwise: two, since a thread with a half of its own waits for
/// the other once a step.
pub fn default_shards(sequences: usize) -> usize {
    sequences.clamp(1, 2)
}

/// A model being trained.
#[derive(Clone, Debug)]
pub struct Trainer<T: Real = f32> {
    /// How it is trained.
    pub recipe: Recipe,
    /// The model.
    pub params: Model<Tensor<T>>,
    /// First moments of the gradient; unused by SGD.
    m: Model<Tensor<T>>,
    /// Second moments.
    v: Model<Tensor<T>>,
    /// Whether weight decay falls on each parameter, in their order.
    decays: Vec<bool>,
    /// Updates made.
    done: u64,
    /// Whether every op's value and every summand is looked at, not only the loss and its gradient.
    pub watches: bool,
    /// What looks wrong though it is finite.
    pub alarms: Alarms<T>,
}

/// A gradient of each parameter that is trained.
pub type Gradient<T> = Model<Option<Tensor<T>>>;

/// What an update saw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The loss before the update.
    pub loss: f64,
    /// The gradient's global norm before clipping.
    pub gradient_norm: f64,
    /// The rate of the update, schedule included.
    pub rate: f64,
}

/// Why an update was not made; the parameters are as they were.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TrainError {
    /// The loss or its gradient is NaN or infinite.
    #[error(
        "update {update}: the loss is {loss} and its gradient's norm {norm}: training diverged and stops before this update; \
         the checkpoint before it, if any, is as it was; \
         begin another run with a lower --lr, a longer --warmup or a smaller --clip{}", first(.anomaly)
    )]
    NotFinite {
        /// The update that was not made, from 1.
        update: u64,
        /// Its loss.
        loss: f64,
        /// Its gradient's norm.
        norm: f64,
        /// The first number that was not finite, found by making the gradient again on a tape that watches; `None` where
        /// each shard's gradient is finite, and their sum is not.
        anomaly: Option<Box<Anomaly>>,
    },
    /// A number on the way is NaN or infinite, though the loss and its gradient may be finite.
    #[error(
        "update {update}: a number that is not finite, and with --anomaly training stops before this update; the checkpoint before it, if \
         any, is as it was; begin another run with a lower --lr, a longer --warmup or a smaller --clip. {anomaly}"
    )]
    Anomaly {
        /// The update that was not made, from 1.
        update: u64,
        /// The first such number.
        anomaly: Box<Anomaly>,
    },
    /// The model was broken before the first update.
    #[error("parameter {name} of the model to begin with holds numbers that are not finite; begin from another checkpoint")]
    Broken {
        /// The first such parameter.
        name: String,
    },
    /// A parameter takes no part in the loss.
    #[error("update {update}: no gradient reaches parameter {name}: the model does not use it; nothing can be learnt there")]
    NoGradient {
        /// The update.
        update: u64,
        /// The parameter.
        name: String,
    },
}

fn first(anomaly: &Option<Box<Anomaly>>) -> String {
    match anomaly {
        Some(a) => format!(". The first number that is not finite: {a}"),
        None => ". Within each shard of the batch every number is finite: it is their sum that is not".to_owned(),
    }
}

impl<T: Real> Trainer<T> {
    /// A trainer at its first update.
    pub fn new(recipe: Recipe, params: impl Into<Model<Tensor<T>>>) -> Self {
        let params = params.into();
        let zeros = || params.as_ref().map(|_, p| p.zeros_like(*p.shape()));
        let (m, v) = (zeros(), zeros());
        let mut decays = Vec::new();
        Model::declare(&params.config()).visit(|_, p| decays.push(p.role.decays()));
        Trainer { recipe, params, m, v, decays, done: 0, watches: false, alarms: Alarms::default() }
    }

    /// The same in another precision.
    pub fn cast<U: Real>(&self) -> Trainer<U> {
        let (recipe, params, m, v) = (self.recipe.clone(), self.params.cast(), self.m.cast(), self.v.cast());
        let decays = self.decays.clone();
        Trainer { recipe, params, m, v, decays, done: self.done, watches: self.watches, alarms: Alarms::default() }
    }

    /// Number of updates made.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// First and second moments of the gradient, m and v; unused by SGD.
    pub fn moments(&self) -> (&Model<Tensor<T>>, &Model<Tensor<T>>) {
        (&self.m, &self.v)
    }

    /// The loss of a batch and its gradient, by shards; with a seed the dropouts are active. A parameter that is not trained
    /// ([`GradientMode::Head`]) has none.
    pub fn gradient(&self, batch: &Batch, dropout: Option<DropoutSeed>) -> Result<(f64, Gradient<T>), TrainError> {
        let shards = batch.split(self.recipe.shards);
        let mut loss = 0.0;
        let mut total: Option<Gradient<T>> = None;
        for group in shards.chunks(self.recipe.at_once.max(1)) {
            let work =
                |(first, batch): &(usize, Batch)| self.shard(batch, dropout.map(|seed| seed.from_sequence(*first as u64)), None);
            // The longest come last and are begun first, so that no thread waits for one of them.
            let done: Vec<_> = if group.len() == 1 { vec![work(&group[0])] } else { group.par_iter().rev().map(work).collect() };
            for result in done.into_iter().rev() {
                let (shard_loss, gradient) = result?;
                loss += shard_loss;
                total = Some(match total {
                    None => gradient,
                    Some(sum) => sum.zip(gradient).map(|_, (sum, g)| Some(add(sum?, &g?))),
                });
            }
        }
        Ok((loss, total.expect("a batch has at least one sequence")))
    }

    /// An `observer` takes the place of the trainer's own watch.
    fn shard(
        &self,
        batch: &Batch,
        dropout: Option<DropoutSeed>,
        observer: Option<Arc<dyn Observer<T>>>,
    ) -> Result<(f64, Gradient<T>), TrainError> {
        let watch = (self.watches && observer.is_none()).then(|| Arc::new(Watch::default()));
        let observer = observer.or_else(|| watch.clone().map(|watch| watch as _));
        let (loss, mut gradient) = self.params.observed_gradient(observer, batch, dropout, self.recipe.backward);
        if let Some(anomaly) = watch.and_then(|watch| watch.anomaly()) {
            return Err(TrainError::Anomaly { update: self.done + 1, anomaly: Box::new(anomaly) });
        }
        let mut missing = None;
        let mut check = |name: &str, g: &mut Option<Tensor<T>>| match g {
            Some(g) => *g = g.dense(),
            None => {
                missing.get_or_insert_with(|| name.to_owned());
            }
        };
        match self.recipe.backward {
            GradientMode::Whole | GradientMode::Recompute => gradient.as_mut().visit(check),
            GradientMode::Head => gradient.score.iter_mut().for_each(|head| head.as_mut().visit(&mut check)),
        }
        match missing {
            Some(name) => Err(TrainError::NoGradient { update: self.done + 1, name }),
            None => Ok((loss.to_f64(), gradient)),
        }
    }

    /// One update: forward, backward, clip, optimizer. On an error nothing has changed.
    pub fn update(&mut self, batch: &Batch) -> Result<Step, TrainError> {
        on_pool(|| {
            let (loss, gradient) = self.gradient(batch, Some(self.dropout()))?;
            self.step(batch, loss, gradient)
        })
    }

    /// The same with an observer, on one tape, however many shards the recipe has.
    pub fn observed_update(&mut self, batch: &Batch, observer: Arc<dyn Observer<T>>) -> Result<Step, TrainError> {
        on_pool(|| {
            let (loss, gradient) = self.shard(batch, Some(self.dropout()), Some(observer))?;
            self.step(batch, loss, gradient)
        })
    }

    /// The dropouts of the next update.
    fn dropout(&self) -> DropoutSeed {
        DropoutSeed::new(self.recipe.seed, self.done + 1)
    }

    /// The first number that is not finite in making the next update's gradient, to the same bits.
    pub fn anomaly(&self, batch: &Batch) -> Option<Anomaly> {
        let dropout = self.dropout();
        batch.split(self.recipe.shards).iter().find_map(|(first, batch)| {
            let (watch, dropout) = (Arc::new(Watch::default()), dropout.from_sequence(*first as u64));
            self.params.observed_gradient(Some(watch.clone()), batch, Some(dropout), self.recipe.backward);
            watch.anomaly()
        })
    }

    /// The first parameter with a number that is not finite.
    fn broken_parameter(&self) -> Option<String> {
        let mut broken = None;
        self.params.as_ref().visit(|name, p| {
            if broken.is_none() && !p.is_finite() {
                broken = Some(name.to_owned());
            }
        });
        broken
    }

    /// Makes the update of a gradient, that of `batch`.
    fn step(&mut self, batch: &Batch, loss: f64, gradient: Gradient<T>) -> Result<Step, TrainError> {
        let t = self.done + 1;
        let mut all = Vec::new();
        gradient.as_ref().visit(|_, g| all.extend(g));
        let gradient_norm = clip::global_norm(all);
        if !loss.is_finite() || !gradient_norm.is_finite() {
            if let Some(name) = self.broken_parameter().filter(|_| self.done == 0) {
                return Err(TrainError::Broken { name });
            }
            let anomaly = self.anomaly(batch).map(Box::new);
            return Err(TrainError::NotFinite { update: t, loss, norm: gradient_norm, anomaly });
        }
        self.alarms.look(&gradient, gradient_norm);
        self.alarms.look_at_loss(loss);
        let at = self.recipe.update(t, gradient_norm);
        let optimizer = &self.recipe.optimizer;
        let moments = self.m.as_mut().zip(self.v.as_mut());
        let mut decays = self.decays.iter();
        self.params.as_mut().zip(moments).zip(gradient).visit(|name, ((p, (m, v)), g)| {
            let decays = *decays.next().unwrap_or_else(|| panic!("{name} is a parameter that the model did not have"));
            let Some(g) = g else { return };
            optimizer.update(at, decays, p, optimizer.name.has_moments().then_some((m, v)), &g);
        });
        self.done = t;
        Ok(Step { loss, gradient_norm, rate: optimizer.lr * at.schedule })
    }
}

fn add<T: Real>(mut sum: Tensor<T>, g: &Tensor<T>) -> Tensor<T> {
    sum.add_assign(g);
    sum
}

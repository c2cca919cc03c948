//! Fine-tuning in memory: shuffled batches, one step each, and the best model by dev score.

use gradus_data::sets::Task;
use gradus_model::{Batch, Model, Sight, Tree};
use gradus_tensor::rng::Philox;
use gradus_tensor::{Device, Tensor};
use serde::{Deserialize, Serialize};

use super::manifest::Prepared;
use super::{Data, FinetuneError, FinetuneSettings, Scored, TaskModel, logits, score};
use crate::run::RunError;
use crate::tasks::{self, Encoded};
use crate::trainer::Trainer;

/// The number of steps after which, times 1, 2, 4, …, the first epoch is also scored (OpenAI's code).
const FIRST: u64 = 1000;

/// A measurement during training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// The number of steps made.
    #[serde(rename = "update")]
    pub step: u64,
    /// The number of epochs so far, as a fraction.
    pub epoch: f64,
    /// The mean loss L₃ of the steps since the previous point, with dropout.
    pub train_loss: f64,
    /// The scores on the dev split.
    pub dev: Scored,
}

/// A fine-tuning run in memory.
#[derive(Debug)]
pub struct Session<'d> {
    /// The task.
    pub task: &'static Task,
    settings: FinetuneSettings,
    train: Vec<&'d Encoded>,
    dev: &'d Data,
    /// The trainer, with the current model.
    pub trainer: Trainer,
    /// The measurements.
    pub curve: Vec<CurvePoint>,
    /// The model with the best dev score so far, in the CPU's memory.
    pub best: Option<Model<Tensor>>,
    /// The losses of the steps since the last point.
    pub(super) losses: Vec<f64>,
}

impl<'d> Session<'d> {
    /// Creates the session of a model with a fresh head, before its first step.
    pub fn new(
        task_model: &TaskModel,
        task: &'static Task,
        train: &'d Data,
        dev: &'d Data,
        settings: &FinetuneSettings,
    ) -> Result<Self, FinetuneError> {
        settings.check(&task_model.model.config())?;
        train.check_labels()?;
        dev.check_labels()?;
        let head = settings.head(tasks::head_above(task, task_model.model.predicts())?);
        let mut model = task_model.model.clone().with_head(head, settings.transfer, settings.seed);
        let mut config = model.config();
        if let Some(p) = settings.dropout {
            config.body = config.body.with_dropout(p);
            model = model.with_config(&config);
        }
        config.check()?;
        let (batch, steps) = plan(train.rows.len(), settings);
        let trainer = Trainer::new(settings.recipe(batch, steps), model);
        let train = train.rows.iter().map(|row| &row.encoded).collect();
        let (curve, best, losses) = (Vec::new(), None, Vec::new());
        Ok(Session { task, settings: settings.clone(), train, dev, trainer, curve, best, losses })
    }

    /// Creates the session of one seed of a run on disk.
    pub(super) fn of_seed(of: &'d Prepared, settings: &FinetuneSettings) -> Result<Self, FinetuneError> {
        Session::new(&of.task_model.with_seed(settings.seed), of.task, &of.train, &of.dev, settings)
    }

    /// Returns the number of steps T.
    pub fn steps(&self) -> u64 {
        self.trainer.recipe.steps
    }

    /// Restores a stopped session. The error describes values that do not fit the number of steps made.
    pub(super) fn go_on(&mut self, trainer: Trainer, curve: Vec<CurvePoint>, losses: Vec<f64>) -> Result<(), String> {
        let (done, all) = (trainer.done(), trainer.recipe.steps);
        let measured = curve.last().map_or(0, |p| p.step);
        let increasing = curve.windows(2).all(|pair| pair[0].step < pair[1].step);
        if done > all || !increasing || measured + losses.len() as u64 != done || done == all && measured != all {
            let losses = losses.len();
            return Err(format!("{done} of {all} steps made, {measured} of them up to the last score, {losses} losses since"));
        }
        (self.trainer, self.curve, self.losses) = (trainer, curve, losses);
        Ok(())
    }

    fn an_epoch(&self) -> u64 {
        self.steps() / self.settings.epochs
    }

    /// Returns the batch of step `t` (from 1): a function of the seed and t. Short examples come first, so that a shard has
    /// examples of about equal length and little padding.
    pub fn batch(&self, t: u64) -> Batch {
        let (size, _) = plan(self.train.len(), &self.settings);
        let (epoch, number) = ((t - 1) / self.an_epoch(), ((t - 1) % self.an_epoch()) as usize);
        let order = permutation(self.train.len(), self.settings.seed, epoch);
        let mut chosen: Vec<&Encoded> = order[number * size..][..size].iter().map(|&i| self.train[i]).collect();
        chosen.sort_by_key(|example| example.length());
        let lambda = self.settings.lambda(self.trainer.params.predicts());
        tasks::batch(&chosen, self.task.answers(), lambda, self.settings.objective)
    }

    /// Records a step made on `batch` with this loss; returns the tokens that it read, padding not counted.
    pub(super) fn made(&mut self, batch: &Batch, loss: f64) -> u64 {
        self.losses.push(loss);
        match &batch.input.sight {
            Sight::Full(Some(lengths)) => lengths.iter().map(|&length| length as u64).sum(),
            _ => {
                let slots = batch.classes().flat_map(|classes| classes.slots.iter());
                slots.map(|&slot| (slot as usize % batch.input.length() + 1) as u64).sum()
            }
        }
    }

    /// Returns whether the dev split is due to be scored.
    pub fn is_due(&self) -> bool {
        self.is_due_after(self.trainer.done())
    }

    /// Returns whether the dev split is to be scored after step `t`.
    pub(super) fn is_due_after(&self, t: u64) -> bool {
        is_due(t, self.an_epoch())
    }

    /// Scores the dev split and keeps the model if it is the best so far; returns whether it is.
    pub fn evaluate(&mut self) -> Result<bool, FinetuneError> {
        let z = logits(&self.trainer.params, &self.dev.rows, &mut |_| {});
        let dev = score(self.task, &self.dev.rows, &z)?;
        let better = self.best_point().is_none_or(|best| dev.score > best.dev.score);
        let step = self.trainer.done();
        let train_loss = self.losses.iter().sum::<f64>() / self.losses.len().max(1) as f64;
        self.losses.clear();
        self.curve.push(CurvePoint { step, epoch: step as f64 / self.an_epoch() as f64, train_loss, dev });
        if better {
            self.best = Some(self.trainer.params.to(&Device::CPU).map_err(RunError::from)?);
        }
        Ok(better)
    }

    /// Makes the remaining steps and evaluations, until `stops`; returns whether all were made.
    pub fn run(&mut self, stops: &dyn Fn() -> bool) -> Result<bool, FinetuneError> {
        while self.trainer.done() < self.steps() {
            if stops() {
                return Ok(false);
            }
            let batch = self.batch(self.trainer.done() + 1);
            let loss = self.trainer.step(&batch).map_err(RunError::from)?.loss;
            self.made(&batch, loss);
            if self.is_due() {
                self.evaluate()?;
            }
        }
        Ok(true)
    }

    /// Returns the best measurement so far, the first on a tie.
    pub fn best_point(&self) -> Option<&CurvePoint> {
        self.curve.iter().reduce(|best, p| if p.dev.score > best.dev.score { p } else { best })
    }
}

/// Returns whether the dev split is scored after step `t`: at the end of each epoch, and in the first after 1000·2ᵏ steps.
fn is_due(t: u64, epoch: u64) -> bool {
    let doubled = t.is_multiple_of(FIRST) && (t / FIRST).is_power_of_two();
    t > 0 && (t.is_multiple_of(epoch) || t < epoch && doubled)
}

/// Returns the number of examples per step, and the number of steps.
fn plan(rows: usize, settings: &FinetuneSettings) -> (usize, u64) {
    let batch = settings.batch.min(rows).max(1);
    (batch, (rows / batch) as u64 * settings.epochs)
}

/// Returns the order of the rows in an epoch, from the epoch's own stream of random numbers.
fn permutation(n: usize, seed: u64, epoch: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    Philox::with_stream(seed, 0x6f72_6465_7200_0000 + epoch).shuffle(&mut order);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_visits_every_row_once_in_its_own_order() {
        let order = |seed, epoch| permutation(97, seed, epoch);
        let mut sorted = order(1, 0);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..97).collect::<Vec<_>>());
        assert_eq!(order(1, 0), order(1, 0));
        // With another order, a resumed run would read rows that it has already seen.
        let first = [order(1, 0), order(1, 1), order(2, 0)].map(|order| order[..6].to_vec());
        assert_eq!(first, [[37, 0, 38, 34, 73, 31], [26, 75, 13, 7, 10, 62], [85, 1, 89, 35, 7, 88]]);
    }

    #[test]
    fn the_dev_split_is_scored_at_the_steps_of_openais_code() {
        let due: Vec<u64> = (0..=20_000).filter(|&t| is_due(t, 9_000)).collect();
        assert_eq!(due, [1000, 2000, 4000, 8000, 9000, 18_000]);
        assert_eq!((0..=300).filter(|&t| is_due(t, 100)).collect::<Vec<_>>(), [100, 200, 300]);
    }

    #[test]
    fn the_last_partial_batch_is_left_out() {
        let with = |batch, epochs| FinetuneSettings { batch, epochs, ..FinetuneSettings::default() };
        assert_eq!(plan(100, &with(32, 3)), (32, 9));
        assert_eq!(plan(31, &with(32, 3)), (31, 3), "fewer rows than a batch");
    }
}

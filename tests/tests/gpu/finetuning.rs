//! Fine-tuning, whose batches are as long as their longest row: losses and scores as on the CPU, and the cost of a step.

use std::fmt::Write;

use gradus_data::sets::{Split, Task};
use gradus_model::{Model, ModelConfig, Sizes};
use gradus_tensor::Device;
use gradus_text::Tokenizer;
use gradus_train::finetune::{Data, FinetuneSettings, Session, TaskModel};

use crate::counts;

const ROWS: usize = 32;

/// Returns pairs of sentences of many lengths, with the label "entailment" if both are glad.
fn rows(count: usize) -> String {
    let mut text = "index\tsentence1\tsentence2\tlabel\n".to_owned();
    for i in 0..count {
        let (mood, rest) = (["glad", "sad"][i % 2], "so ".repeat(i * 7 % 11));
        let label = ["entailment", "not_entailment"][i % 2];
        writeln!(text, "{i}\t{mood} {rest}\t{rest}{mood}\t{label}").expect("memory");
    }
    text
}

/// A task, and a model that can read it.
struct Prepared {
    task: &'static Task,
    task_model: TaskModel,
    train: Data,
    dev: Data,
}

impl Prepared {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a directory");
        let write = |name: &str, count| std::fs::write(folder.path().join(name), rows(count)).expect("written");
        write("train.tsv", ROWS);
        write("dev.tsv", 8);
        let config = ModelConfig::gpt(Sizes { vocab: 256, context: 72, width: 16 }, 1, 2);
        let config = config.with_transformer(|c| c.initializer_range = 0.1).with_dropout(0.1);
        let task_model = TaskModel::prepare(Model::init(&config, 1), Tokenizer::bytes(), 1).expect("a model");
        let task = Task::named("rte").expect("a task");
        let read = |split| task_model.read(task, folder.path(), split).expect("rows");
        let (train, dev) = (read(Split::Train), read(Split::Dev));
        Prepared { task, task_model, train, dev }
    }

    fn session(&self, device: &Device) -> Session<'_> {
        let settings = FinetuneSettings { lr: 1e-2, batch: 2, epochs: 3, shards: 1, ..FinetuneSettings::default() };
        let mut session = Session::new(&self.task_model, self.task, &self.train, &self.dev, &settings).expect("settings");
        session.trainer.place(device).expect("room for a small model");
        session
    }
}

/// Makes one step, and computes the score if it is due; returns the loss.
fn step(session: &mut Session<'_>) -> f64 {
    let batch = session.batch(session.trainer.done() + 1);
    let loss = session.trainer.step(&batch).expect("finite").loss;
    if session.is_due() {
        session.evaluate().expect("a score");
    }
    loss
}

#[test]
fn fine_tuning_losses_and_scores_match_the_cpu() {
    let Some(gpu) = crate::gpu() else { return };
    let prepared = Prepared::new();
    let [mut here, mut there] = [&Device::CPU, &gpu].map(|device| prepared.session(device));
    for t in 1..=here.steps() {
        let (expected, found) = (step(&mut here), step(&mut there));
        assert!((found - expected).abs() < 1e-3, "step {t}: loss {found}, {expected} on the CPU");
    }
    assert_eq!((here.curve.len(), there.curve.len()), (3, 3));
    for (here, there) in here.curve.iter().zip(&there.curve) {
        assert_eq!((&there.dev.metrics, there.dev.examples), (&here.dev.metrics, here.dev.examples));
        assert!((there.dev.loss - here.dev.loss).abs() < 1e-3, "{there:?}, {here:?} on the CPU");
    }
    assert_eq!(
        here.best_point().map(|best| (best.step, best.dev.score)),
        there.best_point().map(|best| (best.step, best.dev.score))
    );
    assert!(here.best_point().is_some_and(|best| best.dev.score > 0.8), "it learns: {:?}", here.curve);
}

#[test]
fn buffers_are_made_in_the_first_epoch_and_a_step_waits_once() {
    let Some(gpu) = crate::gpu_alone() else { return };
    let prepared = Prepared::new();
    let mut session = prepared.session(&gpu);
    let epoch = session.steps() / 3;
    let lengths: Vec<usize> = (1..=session.steps()).map(|t| session.batch(t).input.length()).collect();
    let (first, later) = lengths.split_at(epoch as usize);
    assert!(later.iter().filter(|length| !first.contains(length)).count() > 3, "lengths of which the first epoch had none");
    assert!(later.iter().min() < first.iter().min(), "even shorter ones");
    for _ in 0..epoch {
        step(&mut session);
    }
    let made = counts(&gpu).buffers_made;
    for t in epoch + 1..=session.steps() {
        let (batch, before) = (session.batch(t), counts(&gpu));
        session.trainer.step(&batch).expect("finite");
        let after = counts(&gpu);
        assert_eq!(after.waits - before.waits, 1, "step {t}");
        assert!(after.submissions - before.submissions <= 6, "step {t}: {before:?}, {after:?}");
        if session.is_due() {
            session.evaluate().expect("a score");
        }
        assert_eq!(counts(&gpu).buffers_made, made, "step {t}, of length {}", batch.input.length());
    }
}

//! Fine-tuning's objectives against an implementation in PyTorch on `transformers`' backbone: the sequences that a task's texts
//! become, logits, losses, every gradient with λ = 0 and 0.5, and ten updates.
//!
//! The fixtures come from `tests/golden/heads_fixtures.py`.

use std::path::Path;

use gradus_autograd::Tensor;
use gradus_data::sets::{Example, Input, Label, Task};
use gradus_model::{Batch, Form, GptConfig, GradientMode, HeadConfig, Labels, Model, ModelConfig, Objective, Tree, checkpoint};
use gradus_tests::{Arrays, golden_directories, worst};
use gradus_text::Tokenizer;
use gradus_train::optim::{Optimizer, Schedule, ScheduleKind, Warmup};
use gradus_train::tasks::{self, Encoded, Specials};
use gradus_train::trainer::{Recipe, Trainer};
use serde_json::Value;

const TOLERANCE: f64 = 1e-10;

struct Fixture {
    name: String,
    params: Model<Tensor<f64>>,
    segments: Value,
    expected: Arrays,
    steps: Option<Arrays>,
}

fn fixtures() -> Vec<Fixture> {
    let all: Vec<_> = golden_directories(|name| name.starts_with("heads-")).iter().map(|dir| Fixture::read(dir)).collect();
    assert!(all.len() >= 6, "fixtures of all transformations, found {}", all.len());
    all
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

impl Fixture {
    fn read(dir: &Path) -> Self {
        let (fields, segments) = (json(&dir.join("config.json")), json(&dir.join("segments.json")));
        let size = |name: &str| fields[name].as_u64().unwrap() as usize;
        let backbone = GptConfig {
            vocab: size("vocab_size"),
            context: size("n_positions"),
            width: size("n_embd"),
            layers: size("n_layer"),
            heads: size("n_head"),
            ..GptConfig::default()
        };
        let form = match segments["transformation"].as_str().unwrap() {
            "classify" | "entail" => Form::Classify,
            "similar" => Form::Similar,
            "choose" => Form::Choose,
            other => panic!("{other}"),
        };
        let weights = Arrays::read(&dir.join("model.safetensors"));
        let classes = weights.get("score.weight").shape()[0];
        let head = HeadConfig { bias: segments["bias"].as_bool().unwrap(), ..HeadConfig::new(form, classes) };
        let config = ModelConfig { backbone: backbone.with_dropout(0.0).into(), head: Some(HeadConfig { dropout: 0.0, ..head }) };
        let params = Model::declare(&config).map(|name, declared| {
            let found = weights.get(&checkpoint::hugging_face_name(name));
            assert_eq!(*found.shape(), declared.shape, "{name}");
            found
        });
        let steps = dir.join("steps.safetensors");
        Fixture {
            name: dir.file_name().unwrap().to_string_lossy().into_owned(),
            params,
            segments,
            expected: Arrays::read(&dir.join("expected.safetensors")),
            steps: steps.exists().then(|| Arrays::read(&steps)),
        }
    }

    /// A task whose transformation and labels are this fixture's.
    fn task(&self) -> &'static Task {
        let name = match self.name.as_str() {
            "heads-classify" => "sst-2",
            "heads-entail" => "mnli",
            "heads-similar" => "mrpc",
            "heads-sts" => "sts-b",
            "heads-choose-4" => "race",
            "heads-choose-2" => "story-cloze",
            other => panic!("{other}"),
        };
        Task::named(name).unwrap()
    }

    /// The fixture's texts through our own transformation: token i is the i-th letter of an alphabet.
    fn encoded(&self) -> Vec<Encoded> {
        let start = self.segments["start"].as_u64().unwrap() as usize;
        let alphabet: Vec<char> = ('A'..='z').filter(|c| c.is_alphabetic()).take(start).collect();
        let mut tokenizer = Tokenizer::characters([alphabet.iter().collect::<String>().as_str()]);
        let specials = Specials::append(&mut tokenizer).unwrap();
        let written = ["start", "delimiter", "extract"].map(|name| self.segments[name].as_u64().unwrap() as u32);
        assert_eq!([specials.start, specials.delimiter, specials.extract], written);
        let text = |value: &Value| ids(value).iter().map(|&id| alphabet[id as usize]).collect::<String>();
        let examples = self.segments["examples"].as_array().unwrap().iter().enumerate().map(|(i, e)| {
            let pair = |a: &str, b: &str| Input::Pair(text(&e[a]), text(&e[b]));
            let input = if e.get("text").is_some() {
                Input::One(text(&e["text"]))
            } else if e.get("premise").is_some() {
                pair("premise", "hypothesis")
            } else if e.get("first").is_some() {
                pair("first", "second")
            } else {
                let answers = e["answers"].as_array().unwrap().iter().map(text).collect();
                Input::Choices { document: text(&e["document"]), question: text(&e["question"]), answers }
            };
            let class = e.get("label").map(|l| Label::Class(l.as_u64().unwrap() as usize));
            let label = class.or_else(|| e["score"].as_f64().map(Label::Score));
            Example { id: i.to_string(), input, label, group: None }
        });
        let examples: Vec<Example> = examples.collect();
        // A context of its own: these texts are short, and none is to be cut.
        tasks::encode_all(self.task(), &examples, &tokenizer, specials, 64).unwrap()
    }

    fn batch(&self, lambda: f64, objective: Objective) -> Batch {
        let encoded = self.encoded();
        let classes = self.expected.get("targets").shape()[1];
        tasks::batch(&encoded.iter().collect::<Vec<_>>(), classes, lambda, objective)
    }

    fn check(&self, name: &str, found: &Tensor<f64>, expected: &Tensor<f64>, tolerance: f64) {
        // What shifts all answers alike has a gradient of 0 up to rounding.
        let zero = expected.to_vec().iter().all(|x| x.abs() < 1e-15);
        let error = if zero { found.to_vec().iter().fold(0.0f64, |m, x| m.max(x.abs())) } else { worst(found, expected) };
        assert!(error <= tolerance, "{}: {name}: {error:e} of its largest entry", self.name);
    }
}

#[test]
fn texts_become_the_same_sequences() {
    for fixture in fixtures() {
        let batch = fixture.batch(0.5, Objective::SequenceMean);
        let (expected, shape) = fixture.expected.ids("input_ids");
        assert_eq!((batch.inputs.to_vec(), vec![batch.sequences, batch.length()]), (expected, shape), "{}", fixture.name);
        let labels = batch.labels.unwrap();
        assert_eq!(labels.extract.to_vec(), fixture.expected.ids("extract").0, "{}", fixture.name);
        assert_eq!(labels.per_example as u32, fixture.expected.ids("sequences_per_example").0[0]);
        let targets = Tensor::new([labels.targets.len()], labels.targets.to_vec());
        let expected = fixture.expected.get("targets").reshape([targets.len()]);
        fixture.check("targets", &targets, &expected, 1e-15);
    }
}

#[test]
fn logits_losses_and_every_gradient_agree_to_1e_10() {
    let runs = [
        ("lambda0", 0.0, Objective::SequenceMean),
        ("sequence_mean", 0.5, Objective::SequenceMean),
        ("token_mean", 0.5, Objective::TokenMean),
    ];
    for fixture in fixtures() {
        let expected = &fixture.expected;
        for (run, lambda, objective) in runs {
            let batch = fixture.batch(lambda, objective);
            let logits = fixture.params.class_logits(&batch);
            fixture.check("logits", &logits, &expected.get("logits"), TOLERANCE);
            let rows = logits.to_vec();
            for (row, right) in rows.chunks(logits.shape()[1]).zip(expected.get("prediction").to_vec()) {
                let answered = match tasks::answer(fixture.task(), row) {
                    Label::Class(class) => class as f64,
                    Label::Score(score) => score,
                };
                assert!((answered - right).abs() <= TOLERANCE, "{}: {answered} for {right}", fixture.name);
            }
            for how in [GradientMode::Whole, GradientMode::Recompute] {
                let (loss, gradient) = fixture.params.gradient(&batch, None, how);
                fixture.check("loss", &Tensor::scalar(loss), &expected.get(&format!("{run}.loss")), TOLERANCE);
                let mut compared = 0;
                gradient.visit(|name, g| {
                    let name = checkpoint::hugging_face_name(name);
                    let g = g.unwrap_or_else(|| panic!("{}: no gradient of {name}", fixture.name));
                    fixture.check(&name, &g, &expected.get(&format!("{run}.gradient.{name}")), TOLERANCE);
                    compared += 1;
                });
                let all = expected.names().iter().filter(|n| n.starts_with(&format!("{run}.gradient."))).count();
                assert_eq!(compared, all, "{}: every parameter", fixture.name);
            }
        }
    }
}

/// Clipping each tensor, a sum for a mean, a decayed bias or another form of Adam would each show: see the fixtures' README.
#[test]
fn ten_updates_agree_to_1e_9() {
    let trained: Vec<_> = fixtures().into_iter().filter(|f| f.steps.is_some()).collect();
    assert!(trained.len() >= 2);
    for fixture in trained {
        let steps = fixture.steps.as_ref().unwrap();
        let recipe = |shards| Recipe {
            optimizer: Optimizer { lr: 0.00625, ..Optimizer::default() },
            schedule: Schedule { kind: ScheduleKind::WarmupLinear, warmup: Warmup::Share(0.002) },
            updates: 10,
            clip: Some(1.0),
            shards,
            at_once: shards,
            backward: GradientMode::Whole,
            seed: 0,
        };
        for shards in [1, 2, 3] {
            let mut trainer = Trainer::<f64>::new(recipe(shards), fixture.params.clone());
            let seen: Vec<_> = (0..10).map(|t| trainer.update(&padded(&fixture, steps, t)).unwrap()).collect();
            let series = |f: &dyn Fn(usize) -> f64| Tensor::new([10], (0..10).map(f).collect());
            fixture.check("loss", &series(&|t| seen[t].loss), &steps.get("openai.loss"), 1e-9);
            fixture.check("norm", &series(&|t| seen[t].gradient_norm), &steps.get("openai.gradient_norm"), 1e-9);
            fixture.check("schedule", &series(&|t| seen[t].rate / 0.00625), &steps.get("openai.schedule"), 1e-9);
            trainer.params.as_ref().visit(|name, p| {
                let name = checkpoint::hugging_face_name(name);
                fixture.check(&name, p, &steps.get(&format!("openai.parameter.{name}")), 1e-9);
            });
        }
    }
}

/// Update `t` of the fixture, padded to the whole context.
fn padded(fixture: &Fixture, steps: &Arrays, t: usize) -> Batch {
    let (all, shape) = steps.ids("input_ids");
    let (b, width) = (shape[1], shape[2]);
    let inputs = &all[t * b * width..][..b * width];
    let lengths = &steps.ids("lengths").0[t * b..][..b];
    let next = |i: usize| i % width + 1 < lengths[i / width] as usize;
    let mask: Vec<f64> = (0..inputs.len()).map(|i| f64::from(u8::from(next(i)))).collect();
    let weights: Vec<f64> = Objective::SequenceMean.weights(&mask, b).into_iter().map(|w| 0.5 * w).collect();
    let per_example = fixture.expected.ids("sequences_per_example").0[0] as usize;
    let targets = steps.get("targets");
    let n = b / per_example;
    let each = n * targets.shape()[2];
    let labels = Labels {
        per_example,
        extract: steps.ids("extract").0[t * b..][..b].into(),
        targets: targets.to_vec()[t * each..][..each].into(),
        weights: vec![1.0 / n as f64; n].into(),
    };
    Batch {
        sequences: b,
        inputs: inputs.into(),
        targets: (0..inputs.len()).map(|i| if next(i) { inputs[i + 1] } else { 0 }).collect(),
        weights: weights.into(),
        labels: Some(labels),
    }
}

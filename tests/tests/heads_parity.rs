//! Fine-tuning's objectives against an implementation in PyTorch on `transformers`' backbone: the sequences made from a task's
//! texts, logits, losses, every gradient with λ = 0 and 0.5, and ten steps.
//!
//! The fixtures come from `tests/golden/heads_fixtures.py`.

use std::path::Path;

use gradus_autograd::Tensor;
use gradus_data::sets::{Example, Input, Label, Task};
use gradus_model::{Batch, ClassLoss, GradientMode, HeadConfig, Model, ModelConfig, Objective, Sizes, Tree};
use gradus_tests::{Arrays, assert_ten_steps_agree, golden_directories, next_tokens};
use gradus_text::Tokenizer;
use gradus_train::optim::{Optimizer, Schedule, ScheduleKind, Warmup};
use gradus_train::tasks::{self, Encoded, Encoder, TaskTokens};
use gradus_train::trainer::{Recipe, Trainer};
use serde_json::Value;

const TOLERANCE: f64 = 1e-10;

struct Fixture {
    name: String,
    /// A task with the transformation and the labels of the fixture.
    task: &'static Task,
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
        let backbone = ModelConfig::gpt(
            Sizes { vocab: size("vocab_size"), context: size("n_positions"), width: size("n_embd") },
            size("n_layer"),
            size("n_head"),
        );
        let name = dir.file_name().unwrap().to_string_lossy().into_owned();
        let task = match name.as_str() {
            "heads-classify" => "sst-2",
            "heads-entail" => "mnli",
            "heads-similar" => "mrpc",
            "heads-sts" => "sts-b",
            "heads-choose-4" => "race",
            "heads-choose-2" => "story-cloze",
            other => panic!("{other}"),
        };
        let task = Task::named(task).unwrap();
        assert_eq!(segments["transformation"], task.transformation.to_string());
        let bias = segments["bias"].as_bool().unwrap();
        let head = HeadConfig { bias, dropout: 0.0, ..tasks::head(task).unwrap() };
        let config = ModelConfig { heads: vec![head], ..backbone.with_dropout(0.0) };
        let weights = Arrays::read(&dir.join("model.safetensors"));
        let declared = Model::declare(&config);
        let params = declared.map(|path, declared| {
            let name = if path.starts_with("score.") { path.to_owned() } else { format!("transformer.{path}") };
            let found = weights.get(&name);
            assert_eq!(*found.shape(), declared.shape, "{name}");
            found
        });
        let steps = dir.join("steps.safetensors");
        Fixture {
            name,
            task,
            params,
            segments,
            expected: Arrays::read(&dir.join("expected.safetensors")),
            steps: steps.exists().then(|| Arrays::read(&steps)),
        }
    }

    /// Encodes the fixture's texts with the library's transformation: token i is the i-th letter of an alphabet.
    fn encoded(&self) -> Vec<Encoded> {
        let start = self.segments["start"].as_u64().unwrap() as usize;
        let alphabet: Vec<char> = ('A'..='z').filter(|c| c.is_alphabetic()).take(start).collect();
        let mut tokenizer = Tokenizer::characters([alphabet.iter().collect::<String>().as_str()]);
        let specials = TaskTokens::append(&mut tokenizer).unwrap();
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
                Input::Choices { document: text(&e["document"]).into(), question: text(&e["question"]), answers }
            };
            let class = e.get("label").map(|l| Label::Class(l.as_u64().unwrap() as usize));
            let label = class.or_else(|| e["score"].as_f64().map(Label::Score));
            let example = Example { id: i.to_string(), input, label, group: None };
            // The context is longer than the fixture's: these texts are short, and none may be cut.
            Encoder::new(self.task, &tokenizer, specials, 64).unwrap().encode(&example).unwrap()
        });
        examples.collect()
    }

    fn batch(&self, lambda: f64, objective: Objective) -> Batch {
        let encoded = self.encoded();
        let classes = self.expected.get("targets").shape()[1];
        tasks::batch(&encoded.iter().collect::<Vec<_>>(), classes, lambda, objective)
    }
}

#[test]
fn texts_become_the_same_sequences() {
    for fixture in fixtures() {
        let batch = fixture.batch(0.5, Objective::SequenceMean);
        let (expected, shape) = fixture.expected.ids("input_ids");
        assert_eq!(
            (batch.input.tokens.to_vec(), vec![batch.input.sequences, batch.input.length()]),
            (expected, shape),
            "{}",
            fixture.name
        );
        let classes = batch.classes().next().unwrap();
        let slots = |(s, at): (usize, u32)| (s * batch.input.length()) as u32 + at;
        let expected: Vec<u32> = fixture.expected.ids("extract").0.into_iter().enumerate().map(slots).collect();
        assert_eq!(classes.slots.to_vec(), expected, "{}", fixture.name);
        assert_eq!(classes.group as u32, fixture.expected.ids("sequences_per_example").0[0]);
        let targets = Tensor::new(*fixture.expected.get("targets").shape(), classes.targets.to_vec());
        fixture.expected.assert_agrees("targets", &targets, 1e-15);
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
            expected.assert_agrees("logits", &logits, TOLERANCE);
            let rows = logits.to_vec();
            for (row, right) in rows.chunks(logits.shape()[1]).zip(expected.get("prediction").to_vec()) {
                let answered = tasks::answer(fixture.task, row).value();
                assert!((answered - right).abs() <= TOLERANCE, "{}: {answered} for {right}", fixture.name);
            }
            for how in [GradientMode::Whole, GradientMode::Recompute] {
                expected.assert_loss_and_gradient_agree(&format!("{run}."), &fixture.params, &batch, how, TOLERANCE);
            }
        }
    }
}

/// Clipping each tensor, a sum instead of a mean, a decayed bias or another form of Adam would be detected: see the fixtures'
/// README.
#[test]
fn ten_steps_agree_to_1e_9() {
    let trained: Vec<_> = fixtures().into_iter().filter(|f| f.steps.is_some()).collect();
    assert!(trained.len() >= 2);
    for fixture in trained {
        let steps = fixture.steps.as_ref().unwrap();
        for shards in [1, 2, 3] {
            let recipe = Recipe {
                optimizer: Optimizer { lr: 0.00625, ..Optimizer::default() },
                schedule: Schedule { kind: ScheduleKind::WarmupLinear, warmup: Warmup::Share(0.002) },
                ..Recipe::new(10, shards)
            };
            let trainer = Trainer::new(recipe, fixture.params.clone());
            assert_ten_steps_agree(trainer, |t| padded(&fixture, steps, t), steps, "openai");
        }
    }
}

/// Returns step `t` of the fixture, padded to the whole context.
fn padded(fixture: &Fixture, steps: &Arrays, t: usize) -> Batch {
    let (all, shape) = steps.ids("input_ids");
    let (b, width) = (shape[1], shape[2]);
    let lengths = &steps.ids("lengths").0[t * b..][..b];
    let batch = next_tokens(&all[t * b * width..][..b * width], lengths, Objective::SequenceMean);
    let group = fixture.expected.ids("sequences_per_example").0[0] as usize;
    let targets = steps.get("targets");
    let n = b / group;
    let each = n * targets.shape()[2];
    let extract = steps.ids("extract").0[t * b..][..b].to_vec();
    let classes = ClassLoss {
        head: 0,
        slots: extract.into_iter().enumerate().map(|(s, at)| (s * batch.input.length()) as u32 + at).collect(),
        group,
        targets: targets.to_vec()[t * each..][..each].into(),
        weights: vec![1.0 / n as f64; n].into(),
    };
    let labelled = Batch::of(batch.input.clone()).with_classes(classes);
    Batch { losses: [labelled.losses, batch.scaled(0.5).losses].concat(), ..labelled }
}

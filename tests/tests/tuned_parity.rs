//! BERT and RoBERTa under a task's head against `transformers`: the rows made from a task's texts, logits, loss and every
//! parameter's gradient in f64, and checkpoints in both directions.
//!
//! The fixtures come from `tests/golden/tuned_fixtures.py`.

use std::path::{Path, PathBuf};

use gradus_autograd::Tensor;
use gradus_data::sets::{Example, Input, Label, Task};
use gradus_model::{Batch, GradientMode, Model, Objective, Sight, Tree, checkpoint};
use gradus_tests::{Arrays, golden_directories};
use gradus_text::Tokenizer;
use gradus_train::tasks::{self, Encoded, Encoder, EncoderFormat};
use gradus_train::views::SpecialTokens;
use serde_json::Value;

const TOLERANCE: f64 = 1e-10;

struct Fixture {
    name: String,
    dir: PathBuf,
    task: &'static Task,
    params: Model<Tensor<f64>>,
    examples: Vec<Value>,
    expected: Arrays,
}

fn fixtures() -> Vec<Fixture> {
    let all: Vec<_> = golden_directories(|name| name.starts_with("tuned-")).iter().map(|dir| Fixture::read(dir)).collect();
    let names: Vec<&str> = all.iter().map(|f| &*f.name).collect();
    assert_eq!(names, ["tuned-bert", "tuned-bert-choice", "tuned-roberta", "tuned-roberta-choice"]);
    all
}

impl Fixture {
    fn read(dir: &Path) -> Self {
        let texts: Value = serde_json::from_slice(&std::fs::read(dir.join("texts.json")).unwrap()).unwrap();
        Fixture {
            name: dir.file_name().unwrap().to_string_lossy().into_owned(),
            task: Task::named(texts["task"].as_str().unwrap()).unwrap(),
            params: checkpoint::load(dir).unwrap().cast(),
            examples: texts["examples"].as_array().unwrap().clone(),
            expected: Arrays::read(&dir.join("expected.safetensors")),
            dir: dir.to_owned(),
        }
    }

    /// Encodes the fixture's texts with the library's transformation: token i is the i-th letter of an alphabet, followed by the
    /// special tokens.
    fn encoded(&self) -> Vec<Encoded> {
        let alphabet: Vec<char> = ('a'..='t').collect();
        let mut tokenizer = Tokenizer::characters([alphabet.iter().collect::<String>().as_str()]);
        for name in if self.name.contains("roberta") { SpecialTokens::ROBERTA } else { SpecialTokens::BERT } {
            tokenizer.add_special(name).unwrap();
        }
        let marked = EncoderFormat::of(&tokenizer, self.params.config().body.segments()).unwrap();
        assert_eq!(marked.special, SpecialTokens { open: 20, close: 21, mask: 22, words: 20 });
        let text = |value: &Value| -> String {
            value.as_array().unwrap().iter().map(|id| alphabet[id.as_u64().unwrap() as usize]).collect()
        };
        let examples = self.examples.iter().enumerate().map(|(i, e)| {
            let input = match e.get("first") {
                Some(first) => Input::Pair(text(first), text(&e["second"])),
                None => {
                    let answers = e["answers"].as_array().unwrap().iter().map(text).collect();
                    Input::Choices { document: text(&e["document"]).into(), question: text(&e["question"]), answers }
                }
            };
            let label = Some(Label::Class(e["label"].as_u64().unwrap() as usize));
            let example = Example { id: i.to_string(), input, label, group: None };
            let context = self.params.sizes().context;
            Encoder::new(self.task, &tokenizer, marked, context).unwrap().encode(&example).unwrap()
        });
        examples.collect()
    }

    fn batch(&self) -> Batch {
        let encoded = self.encoded();
        assert!(encoded.iter().all(|e| !e.truncated));
        tasks::batch(&encoded.iter().collect::<Vec<_>>(), self.task.answers(), 0.0, Objective::SequenceMean)
    }
}

#[test]
fn texts_become_the_same_rows() {
    for fixture in fixtures() {
        let (input, t) = (fixture.batch().input, fixture.batch().input.length());
        let [(ids, shape), (segments, _), (there, _)] =
            ["input_ids", "token_type_ids", "attention_mask"].map(|name| fixture.expected.ids(name));
        assert_eq!(vec![input.sequences, t], shape, "{}", fixture.name);
        let lengths: Vec<usize> = there.chunks(t).map(|row| row.iter().filter(|&&there| there == 1).count()).collect();
        assert_eq!(input.sight, Sight::Full(Some(lengths.into())), "{}", fixture.name);
        for slot in (0..ids.len()).filter(|&slot| there[slot] == 1) {
            assert_eq!(input.tokens[slot], ids[slot], "{}: slot {slot}", fixture.name);
        }
        match &input.segments {
            Some(found) => assert_eq!(found[..], segments[..], "{}", fixture.name),
            None => assert!(segments.iter().all(|&segment| segment == 0), "{}", fixture.name),
        }
    }
}

#[test]
fn logits_losses_and_every_gradient_agree_to_1e_10() {
    for fixture in fixtures() {
        let (batch, expected) = (fixture.batch(), &fixture.expected);
        expected.assert_agrees("logits", &fixture.params.class_logits(&batch), TOLERANCE);
        for how in [GradientMode::Whole, GradientMode::Recompute] {
            let (loss, gradient) = fixture.params.gradient(&batch, None, how);
            expected.assert_agrees("loss", &loss, TOLERANCE);
            let gradient = gradient.map(|name, g| g.unwrap_or_else(|| panic!("{}: no gradient of {name}", fixture.name)));
            expected.assert_all_named_agree("gradient.", checkpoint::theirs(&gradient), TOLERANCE);
        }
    }
}

/// The head is the one that the task requires on such a body, and its class is `transformers`'; saved tensors have its names.
#[test]
fn heads_and_their_saved_names_are_those_of_transformers() {
    for fixture in fixtures() {
        let config = fixture.params.config();
        let head = config.head().unwrap();
        let wanted = tasks::head_above(fixture.task, config.predicts()).unwrap();
        assert_eq!(
            (head.form, head.classes, head.bias, head.pooler),
            (wanted.form, wanted.classes, true, true),
            "{}",
            fixture.name
        );
        let model = checkpoint::load(&fixture.dir).unwrap();
        let copy = tempfile::tempdir().unwrap();
        checkpoint::save(copy.path(), &model).unwrap();
        assert!(!copy.path().join(checkpoint::HEAD_FILE).exists());
        assert_eq!(checkpoint::load(copy.path()).unwrap(), model, "{}", fixture.name);
        let names = |dir: &Path| Arrays::read(&dir.join("model.safetensors")).names();
        assert_eq!(names(copy.path()), names(&fixture.dir), "{}", fixture.name);
        let architectures = |dir: &Path| -> Value {
            let text = std::fs::read(dir.join("config.json")).unwrap();
            serde_json::from_slice::<Value>(&text).unwrap()["architectures"].clone()
        };
        assert_eq!(architectures(copy.path()), architectures(&fixture.dir), "{}", fixture.name);
    }
}

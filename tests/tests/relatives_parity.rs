//! GPT-1's relatives against `transformers`: logits, losses and every parameter's gradient in f64, and checkpoints in both
//! directions.
//!
//! The fixtures come from `tests/golden/relatives_fixtures.py`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gradus_autograd::{Tape, Tensor};
use gradus_model::{Batch, ClassLoss, GradientMode, Input, Model, Objective, Sight, Tree, checkpoint};
use gradus_tests::{Arrays, golden_directories, next_tokens, worst};

fn fixtures() -> Vec<(String, PathBuf)> {
    let named = |dir: PathBuf| (dir.file_name().unwrap().to_string_lossy().strip_prefix("relative-").unwrap().to_owned(), dir);
    let all: Vec<_> = golden_directories(|name| name.starts_with("relative-")).into_iter().map(named).collect();
    let names: Vec<&str> = all.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["bert", "bert-tanh", "ernie", "gpt2", "roberta"]);
    all
}

/// Returns the fixture's batch: in a causal model, each token predicts the next.
fn batch(name: &str, arrays: &Arrays) -> Batch {
    let (ids, shape) = arrays.ids("input_ids");
    let (b, t) = (shape[0], shape[1]);
    if name == "gpt2" {
        return next_tokens(&ids, &vec![t as u32; b], Objective::TokenMean);
    }
    let [segments, there, targets, next] = ["token_type_ids", "attention_mask", "targets", "next"].map(|name| arrays.ids(name).0);
    let lengths = there.chunks(t).map(|row| row.iter().filter(|&&there| there == 1).count()).collect();
    let slots: Vec<u32> = (0..(b * t) as u32).filter(|&slot| targets[slot as usize] != -100i64 as u32).collect();
    let n = slots.len();
    let classes = ClassLoss {
        head: 0,
        slots: (0..b).map(|s| (s * t) as u32).collect(),
        group: 1,
        targets: next.iter().flat_map(|&class| [1.0 - f64::from(class), f64::from(class)]).collect(),
        weights: vec![1.0 / b as f64; b].into(),
    };
    let one_segment = name == "roberta";
    let segments = (!one_segment).then(|| segments.into());
    let batch = Batch::of(Input { segments, sight: Sight::Full(Some(lengths)), ..Input::causal(b, ids) });
    let batch = if one_segment { batch } else { batch.with_classes(classes) };
    let targets: Vec<u32> = slots.iter().map(|&slot| targets[slot as usize]).collect();
    batch.with_tokens(Some(slots.into()), targets, vec![1.0 / n as f64; n])
}

#[test]
fn f64_agrees_to_1e_10() {
    for (name, dir) in fixtures() {
        let params: Model<Tensor<f64>> = checkpoint::load(&dir).unwrap().cast();
        let expected = Arrays::read(&dir.join("expected.safetensors"));
        let batch = batch(&name, &expected);
        let tape = Tape::off();
        let found = params.constants(&tape).logits(&batch.input).into_value();
        let [found, logits] = [found, expected.get("logits")].map(|all| before_padding(&batch.input, &all));
        let worst = worst(&found, &logits);
        assert!(worst <= 1e-10, "{name}: logits: {worst:e}");
        if batch.classes().next().is_some() {
            expected.assert_agrees("next_logits", &params.class_logits(&batch), 1e-10);
            let both = params.losses_and_class_logits(&batch);
            assert_eq!(both, (params.token_losses(&batch), params.class_logits(&batch)), "in one pass");
        }
        expected.assert_loss_and_gradient_agree("", &params, &batch, GradientMode::Whole, 1e-10);
    }
}

/// A prefix that is read at once, and any mask, both at explicit positions: `transformers` receives the mask in four dimensions.
#[test]
fn masks_and_positions_agree_to_1e_10() {
    for (name, kind) in [("bert", "prefix"), ("bert", "allowed"), ("gpt2", "prefix"), ("gpt2", "allowed")] {
        let dir = fixtures().into_iter().find(|(of, _)| of == name).unwrap().1;
        let params: Model<Tensor<f64>> = checkpoint::load(&dir).unwrap().cast();
        let expected = Arrays::read(&dir.join("masks.safetensors"));
        let ((ids, shape), positions) = (expected.ids("input_ids"), expected.ids("position_ids").0);
        let mask: Arc<[bool]> = expected.ids(&format!("{kind}.mask")).0.iter().map(|&seen| seen == 1).collect();
        let sight = if kind == "prefix" { Sight::Prefix([3, 0, 8, 5].into()) } else { Sight::Allowed(mask.clone()) };
        let mut batch = next_tokens(&ids, &vec![shape[1] as u32; shape[0]], Objective::TokenMean);
        batch.input = Input { positions: Some(positions.into()), sight, ..batch.input };
        let t = shape[1];
        let slots = (0..mask.len()).map(|at| (at / (t * t), at / t % t, at % t));
        assert!(slots.zip(&*mask).all(|((b, i, j), &seen)| batch.input.attends(b, i, j) == seen), "{name}: {kind}");

        let tape = Tape::new();
        let leaves = params.leaves(&tape);
        expected.assert_agrees(&format!("{kind}.logits"), leaves.logits(&batch.input).value(), 1e-10);
        let loss = leaves.loss(&batch, None);
        expected.assert_agrees(&format!("{kind}.loss"), loss.value(), 1e-10);
        let grads = tape.backward(&loss);
        let gradient =
            leaves.zip(params.as_ref()).map(|_, (leaf, p)| grads.of(&leaf).cloned().unwrap_or_else(|| p.zeros_like(*p.shape())));
        let prefix = format!("{kind}.gradient.");
        let reached: Vec<_> =
            expected.names().into_iter().filter_map(|name| Some(name.strip_prefix(&prefix)?.to_owned())).collect();
        let found = checkpoint::theirs(&gradient).into_iter().filter(|(name, _)| reached.contains(name));
        expected.assert_all_named_agree(&prefix, found.collect(), 1e-10);
    }
}

/// Returns the rows of all slots except padding, which no other slot reads.
fn before_padding(input: &Input, rows: &Tensor<f64>) -> Tensor<f64> {
    let (t, width) = (input.length(), rows.shape()[2]);
    let there = |&slot: &u32| match &input.sight {
        Sight::Full(Some(lengths)) => slot as usize % t < lengths[slot as usize / t],
        _ => true,
    };
    let slots: Vec<u32> = (0..input.tokens.len() as u32).filter(there).collect();
    let tape = Tape::off();
    let rows = tape.constant(rows.clone()).reshape([input.tokens.len(), width]);
    rows.gather(slots.clone(), [slots.len()]).into_value()
}

/// Returns names, shapes and values of a file's tensors.
fn tensors(path: &Path) -> BTreeMap<String, (Vec<usize>, Vec<f64>)> {
    let arrays = Arrays::read(path);
    let named = |name: String| {
        let array = arrays.get(&name);
        (name, (array.shape().to_vec(), array.to_vec()))
    };
    arrays.names().into_iter().map(named).collect()
}

/// Saving writes the tensors that were loaded, except the position row before RoBERTa's padding row, which no token reads.
#[test]
fn saving_reproduces_the_loaded_tensors() {
    for (name, dir) in fixtures() {
        let model = checkpoint::load(&dir).unwrap();
        let copy = tempfile::tempdir().unwrap();
        checkpoint::save(copy.path(), &model).unwrap();
        assert_eq!(checkpoint::load(copy.path()).unwrap(), model, "{name}");
        let (mut saved, mut loaded) = (tensors(&copy.path().join("model.safetensors")), tensors(&dir.join("model.safetensors")));
        if name == "roberta" {
            for file in [&mut saved, &mut loaded] {
                let (_, positions) = file.get_mut("roberta.embeddings.position_embeddings.weight").unwrap();
                positions[..12].fill(0.0);
            }
        }
        assert!(saved == loaded, "{name}");
    }
}

/// Older releases have LayerNorm's gamma and beta, the tied output and a buffer, no prefix, and the causal mask.
#[test]
fn published_names_are_read() {
    for (folder, older) in [("relative-bert", "gamma-beta.safetensors"), ("relative-gpt2", "bare.safetensors")] {
        let dir = gradus_tests::golden().join(folder);
        let open = |name: &str| {
            let name = if name == "model.safetensors" { older } else { name };
            checkpoint::Bytes::open(&dir.join(name))
        };
        assert_eq!(checkpoint::read(&dir, &open).unwrap(), checkpoint::load(&dir).unwrap(), "{older}");
    }
}

/// BERT as published is a class that fills masks and still has the parameters of the head for pairs. That head is left out.
#[test]
fn a_head_that_its_class_lacks_is_left_out() {
    let dir = gradus_tests::golden().join("relative-bert");
    let copy = tempfile::tempdir().unwrap();
    for name in ["config.json", "model.safetensors"] {
        std::fs::copy(dir.join(name), copy.path().join(name)).unwrap();
    }
    let config = copy.path().join("config.json");
    let text = std::fs::read_to_string(&config).unwrap();
    let class = |class: &str| {
        assert!(text.contains("BertForPreTraining"));
        std::fs::write(&config, text.replace("BertForPreTraining", class)).unwrap();
        checkpoint::load(copy.path())
    };
    assert_eq!(class("BertForMaskedLM").unwrap(), checkpoint::load(&dir).unwrap().without_heads());
    // Control: a name that belongs to no BERT is not left out.
    let weights = copy.path().join("model.safetensors");
    let bytes = std::fs::read(&weights).unwrap();
    let at = bytes.windows(20).position(|window| window == b"cls.seq_relationship").expect("the head");
    let other = [&bytes[..at], b"cls.seq_relationshop", &bytes[at + 20..]].concat();
    std::fs::write(&weights, other).unwrap();
    let error = class("BertForMaskedLM").unwrap_err().to_string();
    assert!(error.contains("cls.seq_relationshop"), "{error}");
}

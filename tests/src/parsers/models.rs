//! Parsers of weights: checkpoints and OpenAI's release.

use std::path::Path;

use gradus_model::checkpoint::{self, Bytes, openai};
use gradus_model::{Embedding, Form, HeadConfig, LstmConfig, Model, ModelConfig, Sizes, Tree};
use gradus_tensor::Tensor;

use super::{MIB, Parser, files};

/// The parser of `config.json` with `model.safetensors` or its shards, and `head.safetensors`. Declaring the 1,024 layers that a
/// configuration may have takes 8 MiB, before the weights are found not to fit.
pub static CHECKPOINT: Parser =
    Parser { name: "checkpoint", read: read_checkpoint, seeds: checkpoints, always: 16 * MIB, per_byte: 200 };

/// The parser of `params_shapes.json`, `params_0.npy` and so on, and a `config.json`.
pub static OPENAI_RELEASE: Parser =
    Parser { name: "openai_release", read: read_release, seeds: releases, always: MIB, per_byte: 200 };

fn read_checkpoint(input: &[u8]) {
    let files = files::split(input);
    let open = |name: &str| files::find(&files, name).map(|bytes| Bytes::from(bytes.to_vec()));
    if let Ok(model) = checkpoint::read(Path::new("model"), &open) {
        fits(&model, input.len());
        let written = checkpoint::files(&model).expect("on the CPU");
        let again = checkpoint::read(Path::new("again"), &|name| {
            let found = written.iter().find(|(found, _)| *found == name);
            found.map(|(_, bytes)| Bytes::from(bytes.clone())).ok_or_else(|| std::io::ErrorKind::NotFound.into())
        });
        assert_eq!(again.expect("what was written").config(), model.config());
    }
}

fn read_release(input: &[u8]) {
    let files = files::split(input);
    let open = |name: &str| files::find(&files, name).map(|bytes| Bytes::from(bytes.to_vec()));
    for untold in [openai::Untold::default(), openai::Untold { heads: Some(1), embedding: Some(Embedding::Joint) }] {
        if let Ok(model) = openai::read(Path::new("release"), &open, untold) {
            fits(&model, input.len());
        }
    }
}

/// Asserts that a model has at most one number per two bytes of input, as in f16. The allocator does not count tensors' memory.
fn fits(model: &Model<Tensor<f32>>, input: usize) {
    let mut numbers = 0;
    model.as_ref().visit(|_, p| numbers += p.len());
    assert!(numbers * 2 <= input, "{numbers} parameters from {input} bytes");
}

fn config() -> ModelConfig {
    ModelConfig::gpt(Sizes { vocab: 3, context: 2, width: 2 }, 1, 1)
}

fn checkpoints() -> Vec<Vec<u8>> {
    let gpt = |heads| ModelConfig { heads, ..config() };
    let lstm = LstmConfig { units: 2, ..LstmConfig::default() };
    let configs = [
        gpt(vec![]),
        gpt(vec![HeadConfig::new(Form::Classify, 2)]),
        gpt(vec![HeadConfig { bias: true, ..HeadConfig::new(Form::Similar, 2) }]),
        gpt(vec![HeadConfig::new(Form::Classify, 2), HeadConfig::new(Form::Choose, 2)]),
        config().with_transformer(|c| c.embedding = Embedding::Joint),
        ModelConfig { heads: vec![HeadConfig::new(Form::Choose, 2)], ..ModelConfig::new(config().sizes, lstm) },
    ];
    let whole = configs.iter().map(|config| checkpoint::files(&Model::init(config, 1)).expect("on the CPU"));
    let mut seeds: Vec<Vec<u8>> = whole.clone().map(|files| files::join(&files)).collect();
    // The same weights as one shard with its index.
    if let Some([(_, config), (_, weights), ..]) = whole.clone().next().as_deref() {
        let file = safetensors::SafeTensors::deserialize(weights).expect("what was written");
        let map: serde_json::Map<String, serde_json::Value> =
            file.names().into_iter().map(|name| (name.to_owned(), "model-1.safetensors".into())).collect();
        let index = serde_json::json!({ "weight_map": map }).to_string().into_bytes();
        let (config, weights) = (config.clone(), weights.clone());
        let files = [(checkpoint::CONFIG_FILE, config), (checkpoint::INDEX_FILE, index), ("model-1.safetensors", weights)];
        seeds.push(files::join(&files));
    }
    seeds
}

fn releases() -> Vec<Vec<u8>> {
    let model = Model::init(&config(), 1);
    let all: Vec<(String, Vec<u8>)> = openai::files(&model).expect("sayable").collect();
    let weights = all.iter().filter(|(name, _)| name != checkpoint::CONFIG_FILE).cloned().collect::<Vec<_>>();
    vec![files::join(&all), files::join(&weights)]
}

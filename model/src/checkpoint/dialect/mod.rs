//! How `transformers` names a model's parameters and sizes: a dialect per model type.
//!
//! | dialect | model types | reads and writes |
//! |-|-|-|
//! | [`openai_gpt`] | `openai-gpt`; ours: `gradus-gpt`, `gradus-lstm` | GPT-1, and whatever no other dialect can say |
//! | [`gpt2`] | `gpt2` | `GPT2LMHeadModel`, `GPT2ForSequenceClassification` |
//! | [`bert`] | `bert`, `ernie`, `roberta` | BERT's parts, with or without its heads |
//!
//! If a configuration does not determine the model's heads, the names of the file's tensors do.
//!
//! One of our parameters is one of theirs, or several side by side along its last axis (q, k and v), each perhaps transposed: ours are
//! stored (in, out), PyTorch's linear layers (out, in).

mod bert;
mod gpt2;
mod openai_gpt;

use std::collections::BTreeMap;

pub use bert::NEXT;
use gradus_tensor::{Real, Tensor};
use serde_json::{Map, Value};

use super::config_json;
use crate::config::Activation;
use crate::model::{Model, ModelConfig};
use crate::tree::Tree;

/// The fields of a `config.json`.
pub(super) type Fields = Map<String, Value>;

/// One of their tensors.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Theirs {
    /// Its name, with the body's prefix.
    pub name: String,
    /// Are its two axes the other way round?
    pub transposed: bool,
    /// Rows before ours that are never read.
    pub unused: usize,
}

impl Theirs {
    /// The same tensor under another name.
    pub fn same(name: String) -> Vec<Self> {
        vec![Theirs { name, transposed: false, unused: 0 }]
    }

    /// The shape that theirs has, where `parts` of them make ours.
    pub fn shape(&self, ours: &[usize], parts: usize) -> Vec<usize> {
        let mut shape = ours.to_vec();
        shape.last_mut().into_iter().for_each(|last| *last /= parts);
        shape.first_mut().into_iter().for_each(|first| *first += self.unused);
        if self.transposed {
            shape.reverse();
        }
        shape
    }

    /// Ours, or a part of it, from theirs.
    pub fn to_ours<T: Real>(&self, theirs: Tensor<T>) -> Tensor<T> {
        let turned = if self.transposed { theirs.permute(&[1, 0]).dense() } else { theirs };
        let rows = turned.shape().first().copied().unwrap_or(0);
        if self.unused > 0 { turned.slice(0, self.unused..rows).dense() } else { turned }
    }

    /// Theirs, from ours or a part of it; unused rows are 0.
    fn of_ours<T: Real>(&self, ours: Tensor<T>) -> Tensor<T> {
        let padded = if self.unused > 0 {
            let unused = ours.zeros_like(ours.shape().with(0, self.unused));
            Tensor::concat(&[&unused, &ours], 0)
        } else {
            ours
        };
        if self.transposed { padded.permute(&[1, 0]).dense() } else { padded }
    }
}

/// Names and shapes of a file's tensors, without wrapper and body prefixes; `None` before the file is opened.
#[derive(Debug, Default)]
pub(super) struct Held(pub Option<BTreeMap<String, Vec<usize>>>);

impl Held {
    /// Whether the file has a tensor; `None` before it is opened.
    pub fn has(&self, name: &str) -> Option<bool> {
        self.0.as_ref().map(|tensors| tensors.contains_key(name))
    }

    /// The number of rows of a tensor, if the file has it.
    pub fn rows(&self, name: &str) -> Option<usize> {
        self.0.as_ref()?.get(name)?.first().copied()
    }
}

/// The matrix of the first output, if it is untied.
const OUTPUT: &str = "lm_head.weight";

/// A way to name a model.
pub(super) trait Dialect: Sync {
    /// The model types that it reads.
    fn model_types(&self) -> &'static [&'static str];
    /// The model that a `config.json` of such a type describes, given the tensors of the weights' file.
    fn model(&self, fields: &Fields, held: &Held) -> Result<ModelConfig, String>;
    /// The fields of a model's `config.json`, without those of its head; `None` for a model that the dialect cannot express.
    fn fields(&self, config: &ModelConfig) -> Option<Fields>;
    /// Their class that classifies as the model's head does, where there is one.
    fn classifier(&self, config: &ModelConfig) -> Option<&'static str>;
    /// Is the model's head one of theirs, stored beside the body under their names?
    fn has_head(&self, config: &ModelConfig) -> bool;
    /// Their tensors that together are this parameter of ours, which is not the matrix of the first output.
    fn theirs(&self, config: &ModelConfig, path: &str) -> Vec<Theirs>;
    /// What the names of the body's tensors begin with; a file may leave it out.
    fn prefix(&self) -> &'static str;
    /// The name that a tensor has today, from that of an older release; both without the prefix.
    fn modern(&self, name: &str) -> String {
        name.to_owned()
    }
    /// Pairs of tied tensors (copy, original), named without the prefix. A file has one of the two or both. The first pair is that
    /// of the output matrix.
    fn copies(&self) -> &'static [(&'static str, &'static str)];
    /// The classes of `transformers` that it reads.
    fn classes(&self) -> &[&'static str];
    /// Returns whether the model's class in `transformers` has an output matrix, tied or not.
    fn has_output(&self, fields: &Fields, config: &ModelConfig) -> bool;
    /// The field of `config.json` from which one of ours is read.
    fn name(&self, fields: &Fields, ours: &str) -> String;
    /// Returns whether a tensor, named without the prefix, is ignored: a buffer, or a part that only an absent head reads.
    fn ignores(&self, name: &str) -> bool;
}

const ALL: [&dyn Dialect; 5] = [&gpt2::Gpt2, &bert::BERT, &bert::ERNIE, &bert::ROBERTA, &openai_gpt::OpenAiGpt];

/// The dialect of a model: the first that can say it.
pub(super) fn of(config: &ModelConfig) -> &'static dyn Dialect {
    ALL.into_iter().find(|dialect| dialect.fields(config).is_some()).expect("ours says everything")
}

/// The dialect of a `config.json`; ours for a type that none knows, since it tells what is wrong.
pub(super) fn named(model_type: &str) -> &'static dyn Dialect {
    let known = |dialect: &&dyn Dialect| dialect.model_types().contains(&model_type);
    ALL.into_iter().find(known).unwrap_or(&openai_gpt::OpenAiGpt)
}

/// Their tensors that together are a parameter of ours. The matrix of an untied output has the name of the copy of a tied one.
pub(super) fn theirs_of(dialect: &dyn Dialect, config: &ModelConfig, path: &str) -> Vec<Theirs> {
    if path == OUTPUT { Theirs::same(dialect.copies()[0].0.to_owned()) } else { dialect.theirs(config, path) }
}

/// All model types that are read.
pub(super) fn model_types() -> impl Iterator<Item = &'static str> {
    ALL.into_iter().flat_map(Dialect::model_types).copied()
}

/// The activation of a name in `transformers` (`ACT2FN`). `gelu_fast` has √(2/π) to ten digits.
fn activation(fields: &Fields, field: &str, default: &str) -> Result<Activation, String> {
    match &*config_json::field(fields, field, default.to_owned())? {
        "gelu" | "gelu_python" => Ok(Activation::GeluErf),
        "gelu_new" | "gelu_fast" | "gelu_pytorch_tanh" | "gelu_python_tanh" | "gelu_accurate" => Ok(Activation::Gelu),
        "relu" => Ok(Activation::Relu),
        other => Err(format!("{field}: expected gelu, gelu_new or relu, found {other:?}")),
    }
}

/// The tensors of a model as `transformers` names and shapes them: of parameters, or of gradients.
pub fn theirs<T: Real>(model: &Model<Tensor<T>>) -> Vec<(String, Tensor<T>)> {
    let config = model.config();
    let dialect = of(&config);
    let mut all = Vec::new();
    model.as_ref().visit(|path, p| {
        let theirs = theirs_of(dialect, &config, path);
        let (axis, width) = (p.shape().len() - 1, p.shape()[p.shape().len() - 1] / theirs.len());
        for (i, one) in theirs.iter().enumerate() {
            let part = if theirs.len() == 1 { p.clone() } else { p.slice(axis, i * width..(i + 1) * width).dense() };
            all.push((one.name.clone(), one.of_ours(part)));
        }
    });
    // `transformers` adds the copy of an untied output's bias.
    for (copy, original) in &dialect.copies()[1..] {
        let bias = all.iter().find(|(name, _)| name == original && config.outputs.iter().any(|output| !output.tied));
        let bias = bias.map(|(_, bias)| bias.clone());
        all.extend(bias.map(|bias| ((*copy).to_owned(), bias)));
    }
    all
}

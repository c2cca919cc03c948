//! How `transformers` names a model's parameters and sizes: a dialect per model type.
//!
//! | dialect | model types | reads and writes |
//! |-|-|-|
//! | [`openai_gpt`] | `openai-gpt`; ours: `gradus-gpt`, and `gradus-NAME` of another body | GPT-1, and whatever no other dialect can say |
//! | [`gpt2`] | `gpt2` | `GPT2LMHeadModel`, `GPT2ForSequenceClassification` |
//! | [`bert`] | `bert`, `ernie`, `roberta` | BERT's parts, with or without its heads |
//!
//! Each has [tables](table) of the names of fields and modules, which are read in both directions. If a configuration does not determine
//! the model's heads, the names of the file's tensors do.

mod bert;
mod gpt2;
mod openai_gpt;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use gradus_tensor::{Real, Tensor};
use table::Names;

pub(super) use table::Theirs;

use super::fields::Fields;
use super::ngram::NGRAM;
use crate::body::BodyConfig;
use crate::model::{Model, ModelConfig};
use crate::tree::Tree;

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

/// The beginning of the model types of bodies other than the Transformer.
const OWN: &str = "gradus-";
/// The matrix of the first output, if it is untied.
const OUTPUT: &str = "lm_head.weight";

/// A way to name a model.
pub(super) trait Dialect: Sync {
    /// The tables of names.
    fn names(&self) -> &Names;
    /// The model that a `config.json` of such a type describes, given the tensors of the weights' file.
    fn model(&self, fields: &Fields, held: &Held) -> Result<ModelConfig, String>;
    /// The fields of a model's `config.json`, without those of its head; `None` for a model that the dialect cannot express.
    fn fields(&self, config: &ModelConfig) -> Option<Fields>;
    /// Their class that classifies as the model's head does, where there is one.
    fn classifier(&self, config: &ModelConfig) -> Option<&'static str>;
    /// Returns whether the model's head is one of theirs, stored beside the body under their names.
    fn has_head(&self, config: &ModelConfig) -> bool;
    /// Their tensors that together are this parameter of ours, which is not the matrix of the first output.
    fn theirs(&self, config: &ModelConfig, path: &str) -> Vec<Theirs>;
    /// The name that a tensor has today, from that of an older release; both without the prefix.
    fn modern(&self, name: &str) -> String {
        name.to_owned()
    }
    /// Returns whether the model's class in `transformers` has an output matrix, tied or not.
    fn has_output(&self, fields: &Fields, config: &ModelConfig) -> bool;
    /// The field of `config.json` from which one of ours is read.
    fn name(&self, fields: &Fields, ours: &str) -> String {
        self.names().name(fields, ours).unwrap_or(ours).to_owned()
    }
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
    let known = |dialect: &&dyn Dialect| dialect.names().model_types.contains(&model_type);
    ALL.into_iter().find(known).unwrap_or(&openai_gpt::OpenAiGpt)
}

/// Their tensors that together are a parameter of ours. The matrix of an untied output has the name of the copy of a tied one.
pub(super) fn theirs_of(dialect: &dyn Dialect, config: &ModelConfig, path: &str) -> Vec<Theirs> {
    if path == OUTPUT { Theirs::same(dialect.names().copies[0].0.to_owned()) } else { dialect.theirs(config, path) }
}

/// All model types that are read.
pub fn model_types() -> Vec<String> {
    let theirs = ALL.into_iter().flat_map(|dialect| dialect.names().model_types).map(|name| (*name).to_owned());
    let own = BodyConfig::ALL.into_iter().filter(|(_, body)| body.transformer().is_none());
    theirs.chain(own.map(|(name, _)| format!("{OWN}{name}"))).chain([NGRAM.to_owned()]).collect()
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
    for (copy, original) in &dialect.names().copies[1..] {
        let bias = all.iter().find(|(name, _)| name == original && config.outputs.iter().any(|output| !output.tied));
        let bias = bias.map(|(_, bias)| bias.clone());
        all.extend(bias.map(|bias| ((*copy).to_owned(), bias)));
    }
    all
}

//! The names of a model's parameters and sizes in `transformers`: a dialect per model type.
//!
//! | dialect | model types | reads and writes |
//! |-|-|-|
//! | [`openai_gpt`] | `openai-gpt`, `gradus-gpt`, `gradus-NAME` of another body | GPT-1, and models without another dialect |
//! | [`gpt2`] | `gpt2` | `GPT2LMHeadModel`, `GPT2ForSequenceClassification` |
//! | [`bert`] | `bert`, `ernie`, `roberta` | BERT's parts, with or without its heads |
//!
//! Each dialect has [tables](table) of the names of fields and modules, which are read in both directions. If a configuration
//! does not determine the model's heads, the names of the file's tensors do.

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
    /// Returns whether the file has a tensor; `None` before it is opened.
    pub fn has(&self, name: &str) -> Option<bool> {
        self.0.as_ref().map(|tensors| tensors.contains_key(name))
    }

    /// Returns the number of rows of a tensor, if the file has it.
    pub fn rows(&self, name: &str) -> Option<usize> {
        self.0.as_ref()?.get(name)?.first().copied()
    }
}

/// The prefix of the model types of bodies other than the Transformer.
const OWN: &str = "gradus-";
/// The matrix of the first output, if it is untied.
const OUTPUT: &str = "lm_head.weight";

/// The names of a family of model types.
pub(super) trait Dialect: Sync {
    /// Returns the tables of names.
    fn names(&self) -> &Names;
    /// Returns the model that a `config.json` of such a type describes, given the tensors of the weights' file.
    fn model(&self, fields: &Fields, held: &Held) -> Result<ModelConfig, String>;
    /// Returns the fields of a model's `config.json`, without those of its head; `None` if the dialect cannot express the model.
    fn fields(&self, config: &ModelConfig) -> Option<Fields>;
    /// Returns the class of `transformers` that classifies as the model's head does, if there is one.
    fn classifier(&self, config: &ModelConfig) -> Option<&'static str>;
    /// Returns whether the model's head is one of `transformers`, stored beside the body under the names there.
    fn has_head(&self, config: &ModelConfig) -> bool;
    /// Returns the tensors of `transformers` that form this parameter, which is not the matrix of the first output.
    fn theirs(&self, config: &ModelConfig, path: &str) -> Vec<Theirs>;
    /// Returns the current name of a tensor, given that of an older release; both without the prefix.
    fn modern(&self, name: &str) -> String {
        name.to_owned()
    }
    /// Returns whether the model's class in `transformers` has an output matrix, tied or not.
    fn has_output(&self, fields: &Fields, config: &ModelConfig) -> bool;
    /// Returns the field of `config.json` from which an option of Gradus is read.
    fn name(&self, fields: &Fields, ours: &str) -> String {
        self.names().name(fields, ours).unwrap_or(ours).to_owned()
    }
    /// Returns whether a tensor, named without the prefix, is ignored: a buffer, or a part that only an absent head reads.
    fn ignores(&self, name: &str) -> bool;
}

const ALL: [&dyn Dialect; 5] = [&gpt2::Gpt2, &bert::BERT, &bert::ERNIE, &bert::ROBERTA, &openai_gpt::OpenAiGpt];

/// Returns the dialect of a model: the first that can express it.
pub(super) fn of(config: &ModelConfig) -> &'static dyn Dialect {
    ALL.into_iter().find(|dialect| dialect.fields(config).is_some()).expect("ours says everything")
}

/// Returns the dialect of a `config.json`; for an unknown type Gradus's own, which returns the error.
pub(super) fn named(model_type: &str) -> &'static dyn Dialect {
    let known = |dialect: &&dyn Dialect| dialect.names().model_types.contains(&model_type);
    ALL.into_iter().find(known).unwrap_or(&openai_gpt::OpenAiGpt)
}

/// Returns the tensors of `transformers` that form a parameter. An untied output's matrix has the name of the copy of a tied one.
pub(super) fn theirs_of(dialect: &dyn Dialect, config: &ModelConfig, path: &str) -> Vec<Theirs> {
    if path == OUTPUT { Theirs::same(dialect.names().copies[0].0.to_owned()) } else { dialect.theirs(config, path) }
}

/// Returns all model types that are read.
pub fn model_types() -> Vec<String> {
    let theirs = ALL.into_iter().flat_map(|dialect| dialect.names().model_types).map(|name| (*name).to_owned());
    let own = BodyConfig::ALL.into_iter().filter(|(_, body)| body.transformer().is_none());
    theirs.chain(own.map(|(name, _)| format!("{OWN}{name}"))).chain([NGRAM.to_owned()]).collect()
}

/// Returns the tensors of a model as `transformers` names and shapes them: of parameters, or of gradients.
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

//! Tables of names, each read in both directions: a file's fields into a configuration and back, our modules into theirs and back.

use gradus_tensor::{Real, Tensor};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::fields::{given, wrong};
use super::Fields;
use crate::config::{Activation, Sizes};
use crate::model::ModelConfig;
use crate::transformer::TransformerConfig;

/// The names of a dialect.
pub(crate) struct Names {
    /// The model types that are read.
    pub model_types: &'static [&'static str],
    /// The beginning of the names of the body's tensors; a file may leave it out.
    pub prefix: &'static str,
    /// The classes of `transformers` that are read.
    pub classes: &'static [&'static str],
    /// Pairs of tied tensors (copy, original), named without the prefix. A file has one of the two or both. The first pair is that
    /// of the output matrix.
    pub copies: &'static [(&'static str, &'static str)],
    /// The fields of a Transformer's `config.json`.
    pub fields: &'static [Field],
    /// The options that no field states.
    pub base: TransformerConfig,
    /// The modules of the body with other names than ours.
    pub modules: &'static [Module],
}

/// One of our sizes or options, and their field of it.
#[derive(Clone, Copy)]
pub(crate) struct Field {
    ours: &'static str,
    theirs: &'static str,
    /// A second name, which prevails (`attribute_map` in `transformers`).
    alias: &'static str,
    absent: Absent,
    /// Whether the value is the name of an activation in `ACT2FN`.
    is_act2fn: bool,
}

/// The meaning of an absent field.
#[derive(Clone, Copy)]
enum Absent {
    /// The option of [`Names::base`].
    Base,
    /// This JSON value.
    Json(&'static str),
    /// An error.
    Error,
}

/// A field whose default is that of [`Names::base`].
pub(super) const fn field(ours: &'static str, theirs: &'static str) -> Field {
    Field { ours, theirs, alias: "", absent: Absent::Base, is_act2fn: false }
}

impl Field {
    /// Refuses files without the field.
    pub const fn required(self) -> Self {
        Field { absent: Absent::Error, ..self }
    }

    /// Takes this JSON value for an absent field.
    pub const fn or(self, json: &'static str) -> Self {
        Field { absent: Absent::Json(json), ..self }
    }

    /// Reads a second name too.
    pub const fn alias(self, alias: &'static str) -> Self {
        Field { alias, ..self }
    }

    /// Translates names of activations.
    pub const fn act2fn(self) -> Self {
        Field { is_act2fn: true, ..self }
    }

    /// The name under which a file has it.
    fn name(&self, fields: &Fields) -> &'static str {
        if given(fields, self.alias).is_some() { self.alias } else { self.theirs }
    }
}

/// The fields that are sizes.
const SIZES: [&str; 3] = ["vocab", "context", "width"];

impl Names {
    /// The sizes and options that the fields of a `config.json` state.
    pub fn read(&self, fields: &Fields) -> Result<(Sizes, TransformerConfig), String> {
        let (mut sizes, mut options) = (Fields::new(), object(json!(self.base)));
        for field in self.fields {
            let (ours, name) = (field.ours, field.name(fields));
            let value = match (given(fields, name), field.absent) {
                (Some(value), _) => value.clone(),
                (None, Absent::Base) => continue,
                (None, Absent::Json(text)) => serde_json::from_str(text).expect("a JSON value"),
                (None, Absent::Error) => return Err(format!("{name} is missing")),
            };
            let value = if field.is_act2fn { json!(activation(name, &value)?) } else { value };
            // By itself first, so that an error has its name.
            if SIZES.contains(&ours) {
                usize::deserialize(&value).map_err(|e| wrong(name, &value, &e))?;
                sizes.insert(ours.into(), value);
            } else {
                TransformerConfig::deserialize(json!({ ours: value })).map_err(|e| wrong(name, &value, &e))?;
                options.insert(ours.into(), value);
            }
        }
        let sizes: Sizes = serde_json::from_value(sizes.into()).map_err(|e| e.to_string())?;
        let config: TransformerConfig = serde_json::from_value(options.into()).map_err(|e| e.to_string())?;
        Ok((sizes, config.inner.map_or(config, |inner| config.with_inner(inner, sizes.width))))
    }

    /// The fields of a model's `config.json` that the table has; an option at no value is null.
    pub fn write(&self, config: &ModelConfig, c: &TransformerConfig) -> Fields {
        let (sizes, options) = (object(json!(config.sizes)), object(json!(c)));
        let value = |field: &Field| match sizes.get(field.ours).or(options.get(field.ours)) {
            Some(_) if field.is_act2fn => json!(act2fn(c.activation)),
            value => value.cloned().unwrap_or_default(),
        };
        self.fields.iter().map(|field| (field.theirs.into(), value(field))).collect()
    }

    /// The field of a file from which one of ours is read.
    pub fn name(&self, fields: &Fields, ours: &str) -> Option<&'static str> {
        self.fields.iter().find(|field| field.ours == ours).map(|field| field.name(fields))
    }

    /// Their modules that together are one of ours in the body, with the prefix.
    pub fn modules(&self, ours: &str) -> (Vec<String>, bool) {
        let (layer, module) = match ours.strip_prefix("h.").and_then(|rest| rest.split_once('.')) {
            Some((layer, module)) => (layer, format!("h.{{l}}.{module}")),
            None => ("", ours.to_owned()),
        };
        match self.modules.iter().find(|row| row.ours == module) {
            None => (vec![format!("{}{ours}", self.prefix)], false),
            Some(row) => {
                let name = |theirs: &&str| format!("{}{}", self.prefix, theirs.replace("{l}", layer));
                (row.theirs.iter().map(name).collect(), row.transposed)
            }
        }
    }
}

/// An object's fields.
pub(super) fn object(value: Value) -> Fields {
    match value {
        Value::Object(fields) => fields,
        _ => unreachable!("an object"),
    }
}

/// The activation of a name in `transformers` (`ACT2FN`). `gelu_fast` has √(2/π) to ten digits.
fn activation(field: &str, value: &Value) -> Result<Activation, String> {
    match &*String::deserialize(value).map_err(|e| wrong(field, value, &e))? {
        "gelu" | "gelu_python" => Ok(Activation::GeluErf),
        "gelu_new" | "gelu_fast" | "gelu_pytorch_tanh" | "gelu_python_tanh" | "gelu_accurate" => Ok(Activation::Gelu),
        "relu" => Ok(Activation::Relu),
        other => Err(format!("{field}: expected gelu, gelu_new or relu, found {other:?}")),
    }
}

/// The name of an activation in `ACT2FN`.
fn act2fn(activation: Activation) -> &'static str {
    match activation {
        Activation::GeluErf => "gelu",
        Activation::Gelu => "gelu_new",
        Activation::Relu => "relu",
    }
}

/// One of our modules, and theirs that together are it: several side by side along the last axis, such as q, k and v. `{l}` stands
/// for the number of a block.
pub(crate) struct Module {
    pub ours: &'static str,
    pub theirs: &'static [&'static str],
    /// Whether the axes of its weight are swapped: ours are stored (in, out), PyTorch's linear layers (out, in).
    pub transposed: bool,
}

/// A module whose weight is stored as ours is.
pub(super) const fn module(ours: &'static str, theirs: &'static [&'static str]) -> Module {
    Module { ours, theirs, transposed: false }
}

/// A linear layer of PyTorch.
pub(super) const fn linear(ours: &'static str, theirs: &'static [&'static str]) -> Module {
    Module { ours, theirs, transposed: true }
}

/// One of their tensors.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Theirs {
    /// Its name, with the body's prefix.
    pub name: String,
    /// Are its two axes swapped?
    pub transposed: bool,
    /// Rows before ours that are never read.
    pub unused: usize,
}

impl Theirs {
    /// A tensor of ours under another name.
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
    pub fn of_ours<T: Real>(&self, ours: Tensor<T>) -> Tensor<T> {
        let padded = if self.unused > 0 {
            let unused = ours.zeros_like(ours.shape().with(0, self.unused));
            Tensor::concat(&[&unused, &ours], 0)
        } else {
            ours
        };
        if self.transposed { padded.permute(&[1, 0]).dense() } else { padded }
    }
}

//! Tables of names, each read in both directions: of fields and options, and of modules here and in `transformers`.

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
    /// The prefix of the names of the body's tensors; a file may omit it.
    pub prefix: &'static str,
    /// The classes of `transformers` that are read.
    pub classes: &'static [&'static str],
    /// Pairs of tied tensors (copy, original), named without the prefix. A file has one of the two or both. The first pair is
    /// that of the output matrix.
    pub copies: &'static [(&'static str, &'static str)],
    /// The fields of a Transformer's `config.json`.
    pub fields: &'static [Field],
    /// The options that no field states.
    pub base: TransformerConfig,
    /// The modules of the body whose names differ from Gradus's.
    pub modules: &'static [Module],
}

/// A size or an option of Gradus, and its field in `transformers`.
#[derive(Clone, Copy)]
pub(crate) struct Field {
    ours: &'static str,
    theirs: &'static str,
    /// A second name, which takes precedence (`attribute_map` in `transformers`).
    alias: &'static str,
    absent: Absent,
    /// Whether the value is the name of an activation in `ACT2FN`.
    is_act2fn: bool,
}

/// The meaning of an absent field.
#[derive(Clone, Copy)]
enum Absent {
    /// The value in [`Names::base`].
    Base,
    /// This JSON value.
    Json(&'static str),
    /// An error.
    Error,
}

/// Returns a field whose default is that of [`Names::base`].
pub(super) const fn field(ours: &'static str, theirs: &'static str) -> Field {
    Field { ours, theirs, alias: "", absent: Absent::Base, is_act2fn: false }
}

impl Field {
    /// Rejects files without the field.
    pub const fn required(self) -> Self {
        Field { absent: Absent::Error, ..self }
    }

    /// Uses this JSON value for an absent field.
    pub const fn or(self, json: &'static str) -> Self {
        Field { absent: Absent::Json(json), ..self }
    }

    /// Adds a second name.
    pub const fn alias(self, alias: &'static str) -> Self {
        Field { alias, ..self }
    }

    /// Translates names of activations.
    pub const fn act2fn(self) -> Self {
        Field { is_act2fn: true, ..self }
    }

    /// Returns the name under which a file has the field.
    fn name(&self, fields: &Fields) -> &'static str {
        if given(fields, self.alias).is_some() { self.alias } else { self.theirs }
    }
}

/// The fields that are sizes.
const SIZES: [&str; 3] = ["vocab", "context", "width"];

impl Names {
    /// Returns the sizes and options that the fields of a `config.json` state.
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
            // Each value is read alone first, so that an error has the name of its field.
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

    /// Returns the fields of a model's `config.json` that the table has; an option without a value is null.
    pub fn write(&self, config: &ModelConfig, c: &TransformerConfig) -> Fields {
        let (sizes, options) = (object(json!(config.sizes)), object(json!(c)));
        let value = |field: &Field| match sizes.get(field.ours).or(options.get(field.ours)) {
            Some(_) if field.is_act2fn => json!(act2fn(c.activation)),
            value => value.cloned().unwrap_or_default(),
        };
        self.fields.iter().map(|field| (field.theirs.into(), value(field))).collect()
    }

    /// Returns the field of a file from which an option of Gradus is read.
    pub fn name(&self, fields: &Fields, ours: &str) -> Option<&'static str> {
        self.fields.iter().find(|field| field.ours == ours).map(|field| field.name(fields))
    }

    /// Returns the modules of `transformers` that form a module of the body, with the prefix; and whether they are transposed.
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

/// Returns an object's fields.
pub(super) fn object(value: Value) -> Fields {
    match value {
        Value::Object(fields) => fields,
        _ => unreachable!("an object"),
    }
}

/// Returns the activation of a name in `transformers` (`ACT2FN`). `gelu_fast` has √(2/π) to ten digits.
fn activation(field: &str, value: &Value) -> Result<Activation, String> {
    match &*String::deserialize(value).map_err(|e| wrong(field, value, &e))? {
        "gelu" | "gelu_python" => Ok(Activation::GeluErf),
        "gelu_new" | "gelu_fast" | "gelu_pytorch_tanh" | "gelu_python_tanh" | "gelu_accurate" => Ok(Activation::Gelu),
        "relu" => Ok(Activation::Relu),
        other => Err(format!("{field}: expected gelu, gelu_new or relu, found {other:?}")),
    }
}

/// Returns the name of an activation in `ACT2FN`.
fn act2fn(activation: Activation) -> &'static str {
    match activation {
        Activation::GeluErf => "gelu",
        Activation::Gelu => "gelu_new",
        Activation::Relu => "relu",
    }
}

/// A module of Gradus, and the modules of `transformers` that form it: several side by side along the last axis, such as q, k and
/// v. `{l}` stands for the number of a block.
pub(crate) struct Module {
    pub ours: &'static str,
    pub theirs: &'static [&'static str],
    /// Whether the axes of the weight are swapped: Gradus stores (in, out), PyTorch's linear layers (out, in).
    pub transposed: bool,
}

/// Returns a module whose weight is stored as in Gradus.
pub(super) const fn module(ours: &'static str, theirs: &'static [&'static str]) -> Module {
    Module { ours, theirs, transposed: false }
}

/// Returns a linear layer of PyTorch.
pub(super) const fn linear(ours: &'static str, theirs: &'static [&'static str]) -> Module {
    Module { ours, theirs, transposed: true }
}

/// A tensor of `transformers`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Theirs {
    /// The name, with the body's prefix.
    pub name: String,
    /// Whether the two axes are swapped.
    pub transposed: bool,
    /// The number of rows before those of Gradus, which are never read.
    pub unused: usize,
}

impl Theirs {
    /// Returns a tensor that differs from Gradus's only in its name.
    pub fn same(name: String) -> Vec<Self> {
        vec![Theirs { name, transposed: false, unused: 0 }]
    }

    /// Returns the shape of this tensor, where `parts` such tensors form one of Gradus's, of shape `ours`.
    pub fn shape(&self, ours: &[usize], parts: usize) -> Vec<usize> {
        let mut shape = ours.to_vec();
        shape.last_mut().into_iter().for_each(|last| *last /= parts);
        shape.first_mut().into_iter().for_each(|first| *first += self.unused);
        if self.transposed {
            shape.reverse();
        }
        shape
    }

    /// Converts a tensor of `transformers` to Gradus's, or to a part of it.
    pub fn to_ours<T: Real>(&self, theirs: Tensor<T>) -> Tensor<T> {
        let turned = if self.transposed { theirs.permute(&[1, 0]).dense() } else { theirs };
        let rows = turned.shape().first().copied().unwrap_or(0);
        if self.unused > 0 { turned.slice(0, self.unused..rows).dense() } else { turned }
    }

    /// Converts a tensor of Gradus, or a part of it, to that of `transformers`; unused rows are 0.
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

//! `openai-gpt`, and Gradus's own model types: `gradus-gpt` for a Transformer that no other dialect can express, which
//! `transformers` rejects instead of misreading it, and `gradus-NAME` for another body, such as `gradus-lstm`.

use serde::Deserialize;
use serde_json::{Value, json};

use super::super::HEAD;
use super::super::fields::{
    BEFORE, HEADS, TIED, class, contradicted, field as value, given, heads_from_json, is_class, unread, wrong,
};
use super::table::{Names, field, object};
use super::{Dialect, Fields, Held, OWN, Theirs, model_types};
use crate::body::BodyConfig;
use crate::config::{Activation, Sizes};
use crate::head::{Form, HeadConfig};
use crate::model::ModelConfig;
use crate::output::{OutputConfig, Predicts};
use crate::transformer::{Embedding, TransformerConfig};

pub(super) struct OpenAiGpt;

const HUGGING_FACE: &str = "openai-gpt";
const OURS: &str = "gradus-gpt";
/// The classes in `transformers`: of the body, the language model and the classifier.
const CLASSES: [&str; 3] = ["OpenAIGPTModel", "OpenAIGPTLMHeadModel", "OpenAIGPTForSequenceClassification"];
/// The weight of the classifier.
pub(super) const WEIGHT: &str = "score.weight";
/// The fields of a body of Gradus's own type that are not options of the body.
const NOT_OPTIONS: [&str; 8] = ["model_type", "architectures", TIED, OUTPUTS, HEADS, "id2label", "label2id", "pad_token_id"];
/// The field with the kind of a body in [`BodyConfig`].
const FAMILY: &str = "family";
/// The field of outputs that `transformers` does not have.
const OUTPUTS: &str = "gradus_outputs";
/// The prefix of the names of fields that `transformers` does not have.
const GRADUS: &str = "gradus_";

/// Returns whether the classifier of `transformers` computes what this head does. It reads one sequence, at its last token that
/// is not padding, and has no bias.
pub(super) fn is_theirs(head: &HeadConfig) -> bool {
    head.form == Form::Classify && !head.bias && !head.pooler
}

/// The names of GPT-1. An option without a field in `transformers` has the field `gradus_` followed by its own name.
const NAMES: Names = Names {
    model_types: &[HUGGING_FACE, OURS],
    prefix: "transformer.",
    classes: &CLASSES,
    copies: &[("lm_head.weight", "tokens_embed.weight")],
    fields: &[
        field("vocab", "vocab_size").or("40478"),
        field("context", "n_positions").alias("max_position_embeddings").or("512"),
        field("width", "n_embd").alias("hidden_size").required(),
        field("layers", "n_layer").alias("num_hidden_layers").required(),
        field("heads", "n_head").alias("num_attention_heads").required(),
        field("activation", "afn"),
        field("embd_dropout", "embd_pdrop"),
        field("attn_dropout", "attn_pdrop"),
        field("resid_dropout", "resid_pdrop"),
        field("layer_norm_epsilon", "layer_norm_epsilon"),
        field("initializer_range", "initializer_range"),
    ],
    base: TransformerConfig::GPT1,
    modules: &[],
};

/// Returns the tensor of `transformers` for a parameter: of the body with the prefix, of a head without.
pub(super) fn body_or_head(names: &Names, path: &str) -> Vec<Theirs> {
    let (module, kind) = path.rsplit_once('.').expect("a module and its parameter");
    if path.starts_with(HEAD) {
        return Theirs::same(path.to_owned());
    }
    let (theirs, _) = names.modules(module);
    Theirs::same(format!("{}.{kind}", theirs[0]))
}

/// Returns whether a checkpoint is a classifier: by `architectures`, or, if that is absent or the body's, by the tensors.
pub(super) fn classifies(fields: &Fields, held: &Held, [body, lm, classifier]: [&str; 3]) -> Result<bool, String> {
    let is_given = is_class(fields, classifier);
    match (held.has(WEIGHT), class(fields).filter(|class| *class != body)) {
        _ if fields.contains_key(HEADS) => Ok(is_given),
        (Some(false), _) if is_given => Err(contradicted(classifier, WEIGHT, lm)),
        (Some(true), Some(other)) if !is_given && other == lm => Err(format!(
            "architectures: {lm} has no {WEIGHT}, which is among the weights: they are those of {classifier}; set architectures to \
             [\"{classifier}\"]"
        )),
        (Some(true), Some(other)) if !is_given => Err(unread(other, classifier)),
        (has, _) => Ok(is_given || has == Some(true)),
    }
}

/// Returns whether the class in `architectures` has an output matrix.
pub(super) fn has_output(fields: &Fields, [body, _, classifier]: [&str; 3]) -> bool {
    class(fields).is_some_and(|class| class != body && class != classifier)
}

impl Dialect for OpenAiGpt {
    fn names(&self) -> &Names {
        &NAMES
    }

    fn model(&self, fields: &Fields, held: &Held) -> Result<ModelConfig, String> {
        let model = match own_body(fields) {
            Some(body) => body_from_json(fields, body).map_err(|e| e.to_string())?,
            None => gpt_from_json(fields)?,
        };
        let theirs = |classes| HeadConfig::new(Form::Classify, classes);
        Ok(ModelConfig {
            outputs: value(fields, OUTPUTS, vec![OutputConfig::NEXT])?,
            heads: heads_from_json(fields, classifies(fields, held, CLASSES)?, held.rows(WEIGHT), theirs)?,
            ..model
        })
    }

    fn fields(&self, config: &ModelConfig) -> Option<Fields> {
        let mut fields = match &config.body {
            BodyConfig::Transformer(c) => gpt_to_json(config, c),
            body => {
                let mut fields = object(json!(body));
                fields.insert("model_type".into(), format!("{OWN}{}", body.name()).into());
                fields.remove(FAMILY);
                fields.extend(object(json!(config.sizes)));
                fields
            }
        };
        if !is_plain(config) {
            fields.insert(OUTPUTS.into(), json!(config.outputs));
        }
        Some(fields)
    }

    fn classifier(&self, config: &ModelConfig) -> Option<&'static str> {
        let theirs = self.has_head(config) && config.transformer().is_some_and(|c| !is_ours(config, c));
        theirs.then_some(CLASSES[2])
    }

    fn has_head(&self, config: &ModelConfig) -> bool {
        config.head().is_some_and(is_theirs)
    }

    fn theirs(&self, _: &ModelConfig, path: &str) -> Vec<Theirs> {
        body_or_head(&NAMES, path)
    }

    fn has_output(&self, fields: &Fields, _: &ModelConfig) -> bool {
        has_output(fields, CLASSES)
    }

    fn name(&self, fields: &Fields, ours: &str) -> String {
        match NAMES.name(fields, ours).filter(|_| own_body(fields).is_none()) {
            Some(theirs) => theirs.into(),
            None => Some(format!("{GRADUS}{ours}")).filter(|name| fields.contains_key(name)).unwrap_or_else(|| ours.into()),
        }
    }

    /// Ignores the buffers of the causal mask and of positions, as older versions saved them.
    fn ignores(&self, name: &str) -> bool {
        name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") || name == "position_ids"
    }
}

/// Returns whether a model has one output, which predicts the next token without a transform.
pub(super) fn is_plain(config: &ModelConfig) -> bool {
    matches!(config.outputs[..], [OutputConfig { predicts: Predicts::Next, transform: None, .. }])
}

/// Returns whether `transformers` has no class for a Transformer.
fn is_ours(config: &ModelConfig, c: &TransformerConfig) -> bool {
    !is_plain(config)
        || c.parts() != TransformerConfig::GPT1
        || c.inner.is_some()
        || c.embedding == Embedding::Joint
        || c.activation == Activation::GeluErf
}

/// Returns exactly the fields that `transformers` 5 writes, and `gradus_*` fields for what these cannot express.
fn gpt_to_json(config: &ModelConfig, c: &TransformerConfig) -> Fields {
    let mut fields = object(json!({
        "architectures": ["OpenAIGPTLMHeadModel"],
        "dtype": "float32",
        "model_type": if is_ours(config, c) { OURS } else { HUGGING_FACE },
        "summary_activation": null,
        "summary_first_dropout": 0.1,
        "summary_proj_to_labels": true,
        "summary_type": "cls_index",
        "summary_use_proj": true,
        "tie_word_embeddings": true,
    }));
    fields.extend(NAMES.write(config, c));
    let (gpt1, own) = (json!(TransformerConfig::GPT1), object(json!(c)));
    let own = own.into_iter().filter(|(ours, value)| NAMES.name(&Fields::new(), ours).is_none() && gpt1.get(ours) != Some(value));
    fields.extend(own.map(|(ours, value)| (format!("{GRADUS}{ours}"), value)));
    fields
}

/// Returns the default options of the body that a model type of Gradus names; `None` for a Transformer's.
fn own_body(fields: &Fields) -> Option<BodyConfig> {
    let name = fields.get("model_type")?.as_str()?.strip_prefix(OWN)?;
    let (_, body) = BodyConfig::ALL.into_iter().find(|(own, body)| *own == name && body.transformer().is_none())?;
    Some(body)
}

fn body_from_json(fields: &Fields, body: BodyConfig) -> serde_json::Result<ModelConfig> {
    let (mut sizes, mut options) = (Fields::new(), Fields::from_iter([(FAMILY.into(), json!(body)[FAMILY].clone())]));
    for (name, value) in fields.iter().filter(|(name, _)| !NOT_OPTIONS.contains(&name.as_str())) {
        let part = if ["vocab", "context", "width"].contains(&name.as_str()) { &mut sizes } else { &mut options };
        part.insert(name.clone(), value.clone());
    }
    let (sizes, body): (Sizes, BodyConfig) = (serde_json::from_value(sizes.into())?, serde_json::from_value(options.into())?);
    Ok(ModelConfig::new(sizes, body))
}

fn gpt_from_json(fields: &Fields) -> Result<ModelConfig, String> {
    match given(fields, "model_type") {
        Some(Value::String(name)) if name == HUGGING_FACE || name == OURS => {}
        Some(other) => return Err(format!("model_type: expected {}, found {other}", model_types().join(", "))),
        None => return Err(format!("model_type is missing: expected {}", model_types().join(", "))),
    }
    let (sizes, options) = NAMES.read(fields)?;
    let mut options = object(json!(options));
    let own = fields.iter().filter(|(name, _)| ![OUTPUTS, HEADS, BEFORE].contains(&name.as_str()));
    for (name, value) in own.filter(|(_, value)| !value.is_null()) {
        let Some(ours) = name.strip_prefix(GRADUS) else { continue };
        TransformerConfig::deserialize(json!({ ours: value })).map_err(|e| wrong(name, value, &e))?;
        options.insert(ours.into(), value.clone());
    }
    Ok(ModelConfig::new(sizes, TransformerConfig::deserialize(Value::Object(options)).map_err(|e| e.to_string())?))
}

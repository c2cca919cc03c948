//! `openai-gpt`, and our own model types: `gradus-gpt` for a Transformer that no other dialect can say, which `transformers` refuses
//! instead of misreading it, and `gradus-lstm`.

use serde_json::{Value, json};

use super::super::HEAD;
use super::super::config_json::{HEADS, TIED, class, contradicted, field, given, heads_from_json, is_class, required, unread};
use super::{Dialect, Fields, Held, Theirs, model_types};
use crate::body::BodyConfig;
use crate::config::{Activation, Sizes};
use crate::head::{Form, HeadConfig};
use crate::model::ModelConfig;
use crate::output::{OutputConfig, Predicts};
use crate::recurrent::LstmConfig;
use crate::transformer::{Embedding, Parts, Positions, TransformerConfig};

pub(super) struct OpenAiGpt;

const HUGGING_FACE: &str = "openai-gpt";
const OURS: &str = "gradus-gpt";
const LSTM: &str = "gradus-lstm";
const PREFIX: &str = "transformer.";
/// The classes in `transformers`: of the body, the language model and the classifier.
const CLASSES: [&str; 3] = ["OpenAIGPTModel", "OpenAIGPTLMHeadModel", "OpenAIGPTForSequenceClassification"];
/// The weight of the classifier.
pub(super) const WEIGHT: &str = "score.weight";
/// Fields of an LSTM's file that its configuration does not have.
const NOT_OPTIONS: [&str; 8] = ["model_type", "architectures", TIED, OUTPUTS, HEADS, "id2label", "label2id", "pad_token_id"];
/// The field of outputs that `transformers` does not have.
const OUTPUTS: &str = "gradus_outputs";

/// Does `transformers`' classifier compute what this head does? It reads one sequence, at its last token that is not padding,
/// and has no bias.
pub(super) fn is_theirs(head: &HeadConfig) -> bool {
    head.form == Form::Classify && !head.bias && !head.pooler
}

/// The name under which `config.json` has a size: its alias in `transformers` (`attribute_map`), which prevails, or its own.
pub(super) fn size_name(fields: &Fields, name: &'static str) -> &'static str {
    let alias = match name {
        "n_embd" => "hidden_size",
        "n_positions" => "max_position_embeddings",
        "n_head" => "num_attention_heads",
        "n_layer" => "num_hidden_layers",
        _ => return name,
    };
    if given(fields, alias).is_some() { alias } else { name }
}

/// The name in a GPT's `config.json` of one of our fields.
pub(super) fn gpts_name(fields: &Fields, ours: &'static str) -> &'static str {
    match ours {
        "vocab" => "vocab_size",
        "context" => size_name(fields, "n_positions"),
        "width" => size_name(fields, "n_embd"),
        "layers" => size_name(fields, "n_layer"),
        "heads" => size_name(fields, "n_head"),
        "inner" => "gradus_inner",
        "positions" => "gradus_positions",
        "embedding" => "gradus_embedding",
        "embd_dropout" => "embd_pdrop",
        "attn_dropout" => "attn_pdrop",
        "resid_dropout" => "resid_pdrop",
        other => other,
    }
}

/// Returns whether a checkpoint is a classifier: as `architectures` has it, or, if that is absent or the body's, as the tensors have.
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
    fn model_types(&self) -> &'static [&'static str] {
        &[HUGGING_FACE, OURS, LSTM]
    }

    fn model(&self, fields: &Fields, held: &Held) -> Result<ModelConfig, String> {
        let model = match fields.get("model_type").and_then(Value::as_str) {
            Some(LSTM) => lstm_from_json(fields).map_err(|e| e.to_string())?,
            _ => gpt_from_json(fields)?,
        };
        let theirs = |classes| HeadConfig::new(Form::Classify, classes);
        Ok(ModelConfig {
            outputs: field(fields, OUTPUTS, vec![OutputConfig::NEXT])?,
            heads: heads_from_json(fields, classifies(fields, held, CLASSES)?, held.rows(WEIGHT), theirs)?,
            ..model
        })
    }

    fn fields(&self, config: &ModelConfig) -> Option<Fields> {
        let fields = match &config.body {
            BodyConfig::Transformer(c) => gpt_to_json(config, c),
            BodyConfig::Lstm(c) => {
                let mut fields = json!(config.sizes);
                fields.as_object_mut()?.extend(json!(c).as_object()?.clone());
                fields["model_type"] = json!(LSTM);
                fields
            }
        };
        let mut fields = fields.as_object()?.clone();
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
        Theirs::same(if path.starts_with(HEAD) { path.to_owned() } else { format!("{PREFIX}{path}") })
    }

    fn prefix(&self) -> &'static str {
        PREFIX
    }

    fn copies(&self) -> &'static [(&'static str, &'static str)] {
        &[("lm_head.weight", "tokens_embed.weight")]
    }

    fn classes(&self) -> &[&'static str] {
        &CLASSES
    }

    fn has_output(&self, fields: &Fields, _: &ModelConfig) -> bool {
        has_output(fields, CLASSES)
    }

    fn name(&self, fields: &Fields, ours: &'static str) -> &'static str {
        let is_lstm = fields.get("model_type").and_then(Value::as_str) == Some(LSTM);
        if is_lstm { ours } else { gpts_name(fields, ours) }
    }

    /// Buffers of the causal mask and of positions, as older versions saved them.
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
        || c.parts != Parts::default()
        || c.inner.is_some()
        || c.embedding == Embedding::Joint
        || c.activation == Activation::GeluErf
}

/// Exactly the fields `transformers` 5 writes, and `gradus_*` ones for what it cannot say.
fn gpt_to_json(config: &ModelConfig, c: &TransformerConfig) -> Value {
    let mut fields = json!({
        "afn": c.activation,
        "architectures": ["OpenAIGPTLMHeadModel"],
        "attn_pdrop": c.attn_dropout,
        "dtype": "float32",
        "embd_pdrop": c.embd_dropout,
        "initializer_range": c.initializer_range,
        "layer_norm_epsilon": c.layer_norm_epsilon,
        "model_type": if is_ours(config, c) { OURS } else { HUGGING_FACE },
        "n_embd": config.sizes.width,
        "n_head": c.heads,
        "n_layer": c.layers,
        "n_positions": config.sizes.context,
        "resid_pdrop": c.resid_dropout,
        "summary_activation": null,
        "summary_first_dropout": 0.1,
        "summary_proj_to_labels": true,
        "summary_type": "cls_index",
        "summary_use_proj": true,
        "tie_word_embeddings": true,
        "vocab_size": config.sizes.vocab,
    });
    if c.positions == Positions::Sinusoidal {
        fields["gradus_positions"] = json!(c.positions);
    }
    if c.embedding == Embedding::Joint {
        fields["gradus_embedding"] = json!(c.embedding);
    }
    if c.inner.is_some() {
        fields["gradus_inner"] = json!(c.inner);
    }
    if c.parts != Parts::default() {
        fields["gradus_parts"] = json!(c.parts);
    }
    fields
}

fn lstm_from_json(fields: &Fields) -> serde_json::Result<ModelConfig> {
    let (mut sizes, mut options) = (Fields::new(), Fields::new());
    for (name, value) in fields.iter().filter(|(name, _)| !NOT_OPTIONS.contains(&name.as_str())) {
        let part = if ["vocab", "context", "width"].contains(&name.as_str()) { &mut sizes } else { &mut options };
        part.insert(name.clone(), value.clone());
    }
    let (sizes, options): (Sizes, LstmConfig) = (serde_json::from_value(sizes.into())?, serde_json::from_value(options.into())?);
    Ok(ModelConfig::new(sizes, options))
}

fn gpt_from_json(fields: &Fields) -> Result<ModelConfig, String> {
    match given(fields, "model_type") {
        Some(Value::String(name)) if name == HUGGING_FACE || name == OURS => {}
        Some(other) => return Err(format!("model_type: expected {}, found {other}", known())),
        None => return Err(format!("model_type is missing: expected {}", known())),
    }
    let (paper, default) = (ModelConfig::default().sizes, TransformerConfig::default());
    let size = |name| size_name(fields, name);
    let sizes = Sizes {
        vocab: field(fields, "vocab_size", paper.vocab)?,
        context: field(fields, size("n_positions"), paper.context)?,
        width: required(fields, size("n_embd"))?,
    };
    let body = TransformerConfig {
        layers: required(fields, size("n_layer"))?,
        heads: required(fields, size("n_head"))?,
        inner: field(fields, "gradus_inner", None)?,
        activation: field(fields, "afn", default.activation)?,
        positions: field(fields, "gradus_positions", default.positions)?,
        embedding: field(fields, "gradus_embedding", default.embedding)?,
        embd_dropout: field(fields, "embd_pdrop", default.embd_dropout)?,
        attn_dropout: field(fields, "attn_pdrop", default.attn_dropout)?,
        resid_dropout: field(fields, "resid_pdrop", default.resid_dropout)?,
        layer_norm_epsilon: field(fields, "layer_norm_epsilon", default.layer_norm_epsilon)?,
        initializer_range: field(fields, "initializer_range", default.initializer_range)?,
        parts: field(fields, "gradus_parts", default.parts)?,
    };
    Ok(ModelConfig::new(sizes, body))
}

/// All model types that are read, in words.
fn known() -> String {
    model_types().collect::<Vec<_>>().join(", ")
}

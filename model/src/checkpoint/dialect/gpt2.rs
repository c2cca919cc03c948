//! `gpt2`: our names but for the embeddings'.

use serde_json::{Value, json};

use super::super::HEAD;
use super::super::config_json::{field, given, heads_from_json, required};
use super::openai_gpt::{WEIGHT, classifies, gpts_name, has_output, is_plain, is_theirs, size_name};
use super::{Dialect, Fields, Held, Theirs, activation};
use crate::body::BodyConfig;
use crate::config::{Activation, Sizes};
use crate::head::{Form, HeadConfig};
use crate::model::ModelConfig;
use crate::transformer::{Embedding, NormPlace, Positions, TransformerConfig};

pub(super) struct Gpt2;

const PARTS: TransformerConfig =
    TransformerConfig { norm: NormPlace::Before, final_norm: true, scaled_init: true, ..TransformerConfig::GPT1 };
const PREFIX: &str = "transformer.";
/// The classes in `transformers`: of the body, the language model and the classifier.
const CLASSES: [&str; 3] = ["GPT2Model", "GPT2LMHeadModel", "GPT2ForSequenceClassification"];

impl Dialect for Gpt2 {
    fn model_types(&self) -> &'static [&'static str] {
        &["gpt2"]
    }

    fn model(&self, fields: &Fields, held: &Held) -> Result<ModelConfig, String> {
        let size = |name| size_name(fields, name);
        let width: usize = required(fields, size("n_embd"))?;
        let expects = |name: &str, expected: Value| match given(fields, name) {
            Some(found) if *found != expected => Err(format!("{name}: expected {expected}, found {found}")),
            _ => Ok(()),
        };
        expects("scale_attn_weights", json!(true))?;
        expects("scale_attn_by_inverse_layer_idx", json!(false))?;
        expects("add_cross_attention", json!(false))?;
        let (vocab, context) = (required(fields, "vocab_size")?, field(fields, size("n_positions"), 1024)?);
        let body = TransformerConfig {
            layers: required(fields, size("n_layer"))?,
            heads: required(fields, size("n_head"))?,
            activation: activation(fields, "activation_function", "gelu_new")?,
            embd_dropout: field(fields, "embd_pdrop", 0.1)?,
            attn_dropout: field(fields, "attn_pdrop", 0.1)?,
            resid_dropout: field(fields, "resid_pdrop", 0.1)?,
            layer_norm_epsilon: field(fields, "layer_norm_epsilon", 1e-5)?,
            initializer_range: field(fields, "initializer_range", 0.02)?,
            scaled_init: field(fields, "gradus_scaled_init", true)?,
            ..PARTS
        };
        let body = body.with_inner(field(fields, "n_inner", width.saturating_mul(4))?, width);
        let theirs = |classes| HeadConfig::new(Form::Classify, classes);
        Ok(ModelConfig {
            heads: heads_from_json(fields, classifies(fields, held, CLASSES)?, held.rows(WEIGHT), theirs)?,
            ..ModelConfig::new(Sizes { vocab, context, width }, body)
        })
    }

    fn fields(&self, config: &ModelConfig) -> Option<Fields> {
        let BodyConfig::Transformer(c) = &config.body else { return None };
        let here = c.positions == Positions::Learned && c.embedding == Embedding::Separate && is_plain(config);
        if !here || (TransformerConfig { scaled_init: true, ..c.parts() }) != PARTS {
            return None;
        }
        let fields = json!({
            "activation_function": match c.activation {
                Activation::Gelu => "gelu_new",
                Activation::GeluErf => "gelu",
                Activation::Relu => "relu",
            },
            "architectures": ["GPT2LMHeadModel"],
            "attn_pdrop": c.attn_dropout,
            "bos_token_id": null,
            "dtype": "float32",
            "embd_pdrop": c.embd_dropout,
            "eos_token_id": null,
            "initializer_range": c.initializer_range,
            "layer_norm_epsilon": c.layer_norm_epsilon,
            "model_type": "gpt2",
            "n_embd": config.sizes.width,
            "n_head": c.heads,
            "n_inner": c.inner,
            "n_layer": c.layers,
            "n_positions": config.sizes.context,
            "resid_pdrop": c.resid_dropout,
            "tie_word_embeddings": true,
            "vocab_size": config.sizes.vocab,
        });
        let Value::Object(mut fields) = fields else { unreachable!("an object") };
        if !c.scaled_init {
            fields.insert("gradus_scaled_init".into(), json!(false));
        }
        Some(fields)
    }

    fn classifier(&self, config: &ModelConfig) -> Option<&'static str> {
        self.has_head(config).then_some(CLASSES[2])
    }

    fn has_head(&self, config: &ModelConfig) -> bool {
        config.head().is_some_and(is_theirs)
    }

    fn theirs(&self, _: &ModelConfig, path: &str) -> Vec<Theirs> {
        Theirs::same(match path {
            path if path.starts_with(HEAD) => path.to_owned(),
            "tokens_embed.weight" => format!("{PREFIX}wte.weight"),
            "positions_embed.weight" => format!("{PREFIX}wpe.weight"),
            path => format!("{PREFIX}{path}"),
        })
    }

    fn prefix(&self) -> &'static str {
        PREFIX
    }

    fn copies(&self) -> &'static [(&'static str, &'static str)] {
        &[("lm_head.weight", "wte.weight")]
    }

    fn classes(&self) -> &[&'static str] {
        &CLASSES
    }

    fn has_output(&self, fields: &Fields, _: &ModelConfig) -> bool {
        has_output(fields, CLASSES)
    }

    fn name(&self, fields: &Fields, ours: &str) -> String {
        if ours == "inner" { "n_inner".into() } else { gpts_name(fields, ours) }
    }

    /// The causal mask was a buffer once.
    fn ignores(&self, name: &str) -> bool {
        name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias")
    }
}

//! `gpt2`: the names of Gradus, except for the embeddings.

use serde_json::json;

use super::super::fields::{field as value, given, heads_from_json};
use super::openai_gpt::{WEIGHT, body_or_head, classifies, has_output, is_plain, is_theirs};
use super::table::{Names, field, module, object};
use super::{Dialect, Fields, Held, Theirs};
use crate::body::BodyConfig;
use crate::head::{Form, HeadConfig};
use crate::model::ModelConfig;
use crate::transformer::{Embedding, NormPlace, Positions, TransformerConfig};

pub(super) struct Gpt2;

const PARTS: TransformerConfig =
    TransformerConfig { norm: NormPlace::Before, final_norm: true, scaled_init: true, ..TransformerConfig::GPT1 };
/// The classes in `transformers`: of the body, the language model and the classifier.
const CLASSES: [&str; 3] = ["GPT2Model", "GPT2LMHeadModel", "GPT2ForSequenceClassification"];
/// The field that states whether initial weights are scaled, which `transformers` lacks.
const SCALED_INIT: &str = "gradus_scaled_init";

const NAMES: Names = Names {
    model_types: &["gpt2"],
    prefix: "transformer.",
    classes: &CLASSES,
    copies: &[("lm_head.weight", "wte.weight")],
    fields: &[
        field("vocab", "vocab_size").required(),
        field("context", "n_positions").alias("max_position_embeddings").or("1024"),
        field("width", "n_embd").alias("hidden_size").required(),
        field("layers", "n_layer").alias("num_hidden_layers").required(),
        field("heads", "n_head").alias("num_attention_heads").required(),
        field("inner", "n_inner"),
        field("activation", "activation_function").act2fn(),
        field("embd_dropout", "embd_pdrop"),
        field("attn_dropout", "attn_pdrop"),
        field("resid_dropout", "resid_pdrop"),
        field("layer_norm_epsilon", "layer_norm_epsilon"),
        field("initializer_range", "initializer_range"),
    ],
    base: PARTS,
    modules: &[module("tokens_embed", &["wte"]), module("positions_embed", &["wpe"])],
};

impl Dialect for Gpt2 {
    fn names(&self) -> &Names {
        &NAMES
    }

    fn model(&self, fields: &Fields, held: &Held) -> Result<ModelConfig, String> {
        let expects = |name: &str, expected: bool| match given(fields, name) {
            Some(found) if *found != expected => Err(format!("{name}: expected {expected}, found {found}")),
            _ => Ok(()),
        };
        expects("scale_attn_weights", true)?;
        expects("scale_attn_by_inverse_layer_idx", false)?;
        expects("add_cross_attention", false)?;
        let (sizes, body) = NAMES.read(fields)?;
        let body = TransformerConfig { scaled_init: value(fields, SCALED_INIT, true)?, ..body };
        let theirs = |classes| HeadConfig::new(Form::Classify, classes);
        let heads = heads_from_json(fields, classifies(fields, held, CLASSES)?, held.rows(WEIGHT), theirs)?;
        Ok(ModelConfig { heads, ..ModelConfig::new(sizes, body) })
    }

    fn fields(&self, config: &ModelConfig) -> Option<Fields> {
        let BodyConfig::Transformer(c) = &config.body else { return None };
        let here = c.positions == Positions::Learned && c.embedding == Embedding::Separate && is_plain(config);
        if !here || (TransformerConfig { scaled_init: true, ..c.parts() }) != PARTS {
            return None;
        }
        let mut fields = object(json!({
            "architectures": ["GPT2LMHeadModel"],
            "bos_token_id": null,
            "dtype": "float32",
            "eos_token_id": null,
            "model_type": "gpt2",
            "tie_word_embeddings": true,
        }));
        fields.extend(NAMES.write(config, c));
        fields.extend((!c.scaled_init).then(|| (SCALED_INIT.into(), json!(false))));
        Some(fields)
    }

    fn classifier(&self, config: &ModelConfig) -> Option<&'static str> {
        self.has_head(config).then_some(CLASSES[2])
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

    /// Ignores the causal mask, which was once a buffer.
    fn ignores(&self, name: &str) -> bool {
        name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias")
    }
}

//! `bert`, `ernie` and `roberta`: one layout. RoBERTa has one segment, counts its positions from 2 (row 1 is padding's) and names its
//! heads otherwise.
//!
//! ```text
//! a classifier                     BertForSequenceClassification    bert.pooler.dense, classifier
//!                                  RobertaForSequenceClassification classifier.dense, classifier.out_proj
//! one logit per answer to choose   BertForMultipleChoice            bert.pooler.dense, classifier
//!                                  RobertaForMultipleChoice         roberta.pooler.dense, classifier
//! ```
//!
//! All compute W_y tanh(W_p h + b_p) + b_y of the first slot's h. In training RoBERTa's classifier also has a dropout on h, as fairseq's
//! has, which is left out here.

use serde_json::{Value, json};

use super::super::config_json::{field, given, heads_from_json, required};
use super::{Dialect, Fields, Theirs};
use crate::backbone::BackboneConfig;
use crate::config::{Activation, Asks, Embedding, GptConfig, NormPlace, Parts, Positions};
use crate::head::{Form, HeadConfig};
use crate::model::ModelConfig;

/// What distinguishes one of them.
pub(super) struct Encoder {
    model_types: &'static [&'static str],
    prefix: &'static str,
    /// The class that pre-trains it, that of its language model alone, that of its body alone, that of a classifier, and that of a choice.
    classes: [&'static str; 5],
    /// Rows of the positions' table before the first position.
    unused: usize,
    /// The layer before the output, its norm, what has the output's bias; the pooler and the classifier.
    heads: [&'static str; 5],
    /// Copies of tied tensors.
    copies: &'static [(&'static str, &'static str)],
    /// Does it tell segments apart?
    segments: bool,
}

/// The pooler of a body, without its prefix.
const POOLER: &str = "pooler.dense";
/// What says whether the second of two texts follows the first.
const FOLLOWS: &str = "cls.seq_relationship";
const BERTS_HEADS: [&str; 5] =
    ["cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions", POOLER, "classifier"];
const BERTS_COPIES: &[(&str, &str)] = &[
    ("cls.predictions.decoder.weight", "embeddings.word_embeddings.weight"),
    ("cls.predictions.decoder.bias", "cls.predictions.bias"),
];

pub(super) const BERT: Encoder = Encoder {
    model_types: &["bert"],
    prefix: "bert.",
    classes: ["BertForPreTraining", "BertForMaskedLM", "BertModel", "BertForSequenceClassification", "BertForMultipleChoice"],
    unused: 0,
    heads: BERTS_HEADS,
    copies: BERTS_COPIES,
    segments: true,
};

pub(super) const ERNIE: Encoder = Encoder {
    model_types: &["ernie"],
    prefix: "ernie.",
    classes: [
        "ErnieForPreTraining",
        "ErnieForMaskedLM",
        "ErnieModel",
        "ErnieForSequenceClassification",
        "ErnieForMultipleChoice",
    ],
    ..BERT
};

pub(super) const ROBERTA: Encoder = Encoder {
    model_types: &["roberta"],
    prefix: "roberta.",
    classes: [
        "RobertaForPreTraining",
        "RobertaForMaskedLM",
        "RobertaModel",
        "RobertaForSequenceClassification",
        "RobertaForMultipleChoice",
    ],
    unused: 2,
    heads: ["lm_head.dense", "lm_head.layer_norm", "lm_head", "classifier.dense", "classifier.out_proj"],
    copies: &[("lm_head.decoder.weight", "embeddings.word_embeddings.weight"), ("lm_head.decoder.bias", "lm_head.bias")],
    segments: false,
};

/// What the classes of next-sentence prediction are called (Devlin et al. 2018, §3.1), in the order of `transformers`.
pub const NEXT: [&str; 2] = ["IsNext", "NotNext"];

/// Our modules outside the blocks, and theirs.
const EMBEDDINGS: [(&str, &str); 4] = [
    ("tokens_embed", "embeddings.word_embeddings"),
    ("positions_embed", "embeddings.position_embeddings"),
    ("segments_embed", "embeddings.token_type_embeddings"),
    ("ln_embed", "embeddings.LayerNorm"),
];
/// Our modules of a block, and theirs.
const BLOCK: [(&str, &[&str]); 6] = [
    ("attn.c_attn", &["attention.self.query", "attention.self.key", "attention.self.value"]),
    ("attn.c_proj", &["attention.output.dense"]),
    ("ln_1", &["attention.output.LayerNorm"]),
    ("mlp.c_fc", &["intermediate.dense"]),
    ("mlp.c_proj", &["output.dense"]),
    ("ln_2", &["output.LayerNorm"]),
];

/// Is a head that of next-sentence prediction?
fn is_next(head: &HeadConfig) -> bool {
    head.labels == NEXT
}

/// Has a head one logit per answer?
fn chooses(head: &HeadConfig) -> bool {
    head.form == Form::Choose
}

impl Encoder {
    /// The name of one of our modules outside the blocks, `None` for one that it does not have.
    fn module(&self, module: &str, config: &ModelConfig) -> Option<String> {
        let [dense, norm, output, pooler, classifier] = self.heads;
        let next = config.head().is_some_and(is_next);
        let choice = config.head().is_some_and(chooses);
        let of_body = |name: &str| format!("{}{name}", self.prefix);
        if module.starts_with("score") && !self.has_head(config) {
            return None;
        }
        Some(match module {
            "transform.dense" => dense.into(),
            "transform.ln" => norm.into(),
            "transform" => output.into(),
            "score.pooler" if choice || pooler == POOLER => of_body(POOLER),
            "score.pooler" => pooler.into(),
            "score" if next => FOLLOWS.into(),
            "score" if choice => "classifier".into(),
            "score" => classifier.into(),
            other => of_body(EMBEDDINGS.iter().find(|(ours, _)| *ours == other)?.1),
        })
    }

    fn parts(&self, fields: &Fields) -> Result<Parts, String> {
        let [pretraining, masked, ..] = self.classes;
        let is = |class: &str| given(fields, "architectures").is_some_and(|all| all[0] == class);
        let segments = field(fields, "type_vocab_size", if self.segments { 2 } else { 1 })?;
        let transform = field(fields, "gradus_transform", is(pretraining) || is(masked))?;
        Ok(Parts { asks: Asks::Masked, segments, embedding_norm: true, transform, ..Parts::default() })
    }

    fn heads(&self, fields: &Fields) -> Result<Vec<HeadConfig>, String> {
        let [pretraining, _, _, classifier, choice] = self.classes;
        let dropout = field(fields, "hidden_dropout_prob", 0.1)?;
        let dropout = field(fields, "classifier_dropout", dropout)?;
        let of = |form, classes, dropout| HeadConfig { bias: true, pooler: true, dropout, ..HeadConfig::new(form, classes) };
        let told = heads_from_json(fields, classifier, |classes| of(Form::Classify, classes, dropout))?;
        let is = |class: &str| given(fields, "architectures").is_some_and(|all| all[0] == class);
        let next = (is(pretraining) && self.segments)
            .then(|| HeadConfig { labels: NEXT.map(str::to_owned).into(), ..of(Form::Classify, 2, 0.0) });
        let by_class = next.or_else(|| is(choice).then(|| of(Form::Choose, 1, dropout)));
        Ok(if told.is_empty() { by_class.into_iter().collect() } else { told })
    }
}

/// Their activation's name.
fn to_activation(name: &str) -> Result<Activation, String> {
    match name {
        "gelu" => Ok(Activation::GeluErf),
        "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" => Ok(Activation::Gelu),
        "relu" => Ok(Activation::Relu),
        _ => Err(format!("hidden_act: expected gelu, gelu_new or relu, found {name:?}")),
    }
}

fn of_activation(activation: Activation) -> &'static str {
    match activation {
        Activation::GeluErf => "gelu",
        Activation::Gelu => "gelu_new",
        Activation::Relu => "relu",
    }
}

impl Dialect for Encoder {
    fn model_types(&self) -> &'static [&'static str] {
        self.model_types
    }

    fn model(&self, fields: &Fields) -> Result<ModelConfig, String> {
        let width: usize = required(fields, "hidden_size")?;
        let expects = |name: &str, expected: Value, default: Value| {
            let found = given(fields, name).cloned().unwrap_or(default);
            if found == expected { Ok(()) } else { Err(format!("{name}: expected {expected}, found {found}")) }
        };
        expects("position_embedding_type", json!("absolute"), json!("absolute"))?;
        expects("use_task_id", json!(false), json!(false))?;
        expects("is_decoder", json!(false), json!(false))?;
        expects("tie_word_embeddings", json!(true), json!(true))?;
        let context: usize = required(fields, "max_position_embeddings")?;
        let dropout = field(fields, "hidden_dropout_prob", 0.1)?;
        let too_few = || format!("max_position_embeddings: expected more than {}, found {context}", self.unused);
        let body = GptConfig {
            vocab: required(fields, "vocab_size")?,
            context: context.checked_sub(self.unused).ok_or_else(too_few)?,
            width,
            layers: required(fields, "num_hidden_layers")?,
            heads: required(fields, "num_attention_heads")?,
            inner: None,
            activation: to_activation(&field(fields, "hidden_act", "gelu".to_owned())?)?,
            positions: Positions::Learned,
            embedding: Embedding::Separate,
            embd_dropout: dropout,
            attn_dropout: field(fields, "attention_probs_dropout_prob", 0.1)?,
            resid_dropout: dropout,
            layer_norm_epsilon: field(fields, "layer_norm_eps", 1e-12)?,
            initializer_range: field(fields, "initializer_range", 0.02)?,
            parts: self.parts(fields)?,
        };
        let body = body.with_inner(field(fields, "intermediate_size", 3072)?);
        Ok(ModelConfig { backbone: body.into(), heads: self.heads(fields)? })
    }

    fn fields(&self, config: &ModelConfig) -> Option<Fields> {
        let BackboneConfig::Gpt(c) = &config.backbone else { return None };
        let Parts { asks, segments, embedding_norm, norm, final_norm, transform, scaled_init } = c.parts;
        let shape = asks == Asks::Masked && embedding_norm && norm == NormPlace::After && !final_norm && !scaled_init;
        let plain = c.positions == Positions::Learned && c.embedding == Embedding::Separate && c.embd_dropout == c.resid_dropout;
        let segmented = if self.segments { segments >= 2 } else { segments == 1 };
        if !(shape && plain && segmented) {
            return None;
        }
        let [pretraining, masked, body, ..] = self.classes;
        let class = match config.head() {
            Some(head) if is_next(head) && self.segments && transform => pretraining,
            _ if transform => masked,
            _ => body,
        };
        let fields = json!({
            "architectures": [class],
            "attention_probs_dropout_prob": c.attn_dropout,
            "dtype": "float32",
            "hidden_act": of_activation(c.activation),
            "hidden_dropout_prob": c.resid_dropout,
            "hidden_size": c.width,
            "initializer_range": c.initializer_range,
            "intermediate_size": c.inner(),
            "layer_norm_eps": c.layer_norm_epsilon,
            "max_position_embeddings": c.context + self.unused,
            "model_type": self.model_types[0],
            "num_attention_heads": c.heads,
            "num_hidden_layers": c.layers,
            "pad_token_id": if self.segments { 0 } else { 1 },
            "tie_word_embeddings": true,
            "type_vocab_size": segments,
            "vocab_size": c.vocab,
        });
        let Value::Object(mut fields) = fields else { unreachable!("an object") };
        if let Some(head) = config.head().filter(|_| self.classifier(config).is_some()) {
            fields.insert("gradus_transform".into(), json!(transform)); // its class does not tell
            fields.insert("classifier_dropout".into(), json!(head.dropout));
        }
        Some(fields)
    }

    fn classifier(&self, config: &ModelConfig) -> Option<&'static str> {
        let [.., classifier, choice] = self.classes;
        let head = config.head().filter(|head| self.has_head(config) && !is_next(head))?;
        Some(if chooses(head) { choice } else { classifier })
    }

    fn has_head(&self, config: &ModelConfig) -> bool {
        config.head().is_some_and(|head| head.form != Form::Similar && head.bias && head.pooler)
    }

    fn theirs(&self, config: &ModelConfig, path: &str) -> Vec<Theirs> {
        let (module, kind) = path.rsplit_once('.').expect("a module and its parameter");
        let matrix = kind == "weight";
        if let Some((layer, module)) = module.strip_prefix("h.").and_then(|rest| rest.split_once('.')) {
            let (_, theirs) = BLOCK.iter().find(|(ours, _)| *ours == module).expect("a module of a block");
            let name = |theirs| format!("{}encoder.layer.{layer}.{theirs}.{kind}", self.prefix);
            let transposed = matrix && !module.starts_with("ln");
            return theirs.iter().map(|theirs| Theirs { name: name(theirs), transposed, unused: 0 }).collect();
        }
        let Some(theirs) = self.module(module, config) else { return Theirs::same(path.into()) };
        let transposed = matrix && ["transform.dense", "score.pooler"].contains(&module);
        let unused = if module == "positions_embed" { self.unused } else { 0 };
        vec![Theirs { name: format!("{theirs}.{kind}"), transposed, unused }]
    }

    fn prefix(&self) -> &'static str {
        self.prefix
    }

    /// TensorFlow's gamma and beta were kept at first.
    fn modern(&self, name: &str) -> String {
        match name.rsplit_once('.') {
            Some((module, "gamma")) => format!("{module}.weight"),
            Some((module, "beta")) => format!("{module}.bias"),
            _ => name.to_owned(),
        }
    }

    fn copies(&self) -> &'static [(&'static str, &'static str)] {
        self.copies
    }

    /// A body alone has a pooler, which only heads read; one that fills masks may have been published with the head for pairs.
    fn ignores(&self, name: &str) -> bool {
        let of = |module: &str| name.strip_prefix(module).is_some_and(|kind| [".weight", ".bias"].contains(&kind));
        ["embeddings.position_ids", "embeddings.token_type_ids"].contains(&name) || of(POOLER) || of(FOLLOWS)
    }
}

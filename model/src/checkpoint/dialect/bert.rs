//! `bert`, `ernie` and `roberta`, which share one layout. RoBERTa usually has one segment, numbers its positions from p + 1, where
//! p is the id of the padding token, and has other names for its heads.
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

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::config_json::{HEADS, class, contradicted, field, given, heads_from_json, required, unread};
use super::{Dialect, Fields, Held, Theirs, activation};
use crate::body::BodyConfig;
use crate::config::{Activation, Sizes};
use crate::head::{Form, HeadConfig};
use crate::model::ModelConfig;
use crate::output::{OutputConfig, Predicts, TransformConfig};
use crate::transformer::{Embedding, Positions, TransformerConfig};

/// The properties that distinguish the model types.
pub(super) struct Encoder {
    model_types: &'static [&'static str],
    prefix: &'static str,
    /// The class names in `transformers`: of pre-training, the masked language model, the body, the classifier and multiple choice.
    classes: [&'static str; 5],
    /// Whether padding tokens have no position but a row of their own: the row of the padding token's id. Earlier rows are never
    /// read.
    skips_padding: bool,
    /// The modules of the layer before the output, its norm, the output's bias, the pooler and the classifier.
    heads: [&'static str; 5],
    /// Copies of tied tensors.
    copies: &'static [(&'static str, &'static str)],
    /// Whether the model is pre-trained on pairs of segments.
    segments: bool,
}

/// The parts beside segments and padding.
const PARTS: TransformerConfig = TransformerConfig { embedding_norm: true, ..TransformerConfig::GPT1 };
/// Whether padding tokens have positions too, as in RoBERTa models that Gradus has trained.
const COUNTS_PADDING: &str = "gradus_counts_padding";
/// The pooler of a body, without its prefix.
const POOLER: &str = "pooler.dense";
/// The head of next-sentence prediction.
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
    skips_padding: false,
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
    skips_padding: true,
    heads: ["lm_head.dense", "lm_head.layer_norm", "lm_head", "classifier.dense", "classifier.out_proj"],
    copies: &[("lm_head.decoder.weight", "embeddings.word_embeddings.weight"), ("lm_head.decoder.bias", "lm_head.bias")],
    segments: false,
};

/// The class names of next-sentence prediction (Devlin et al. 2018, §3.1), in the order of `transformers`.
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

/// Returns whether a head is that of next-sentence prediction.
fn is_next(head: &HeadConfig) -> bool {
    head.labels == NEXT
}

/// Returns whether a head has one logit per answer.
fn chooses(head: &HeadConfig) -> bool {
    head.form == Form::Choose
}

impl Encoder {
    /// The name in `transformers` of one of our modules outside the blocks; `None` if it has none.
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

    /// The class of a checkpoint: the one in `architectures`, or, if that is absent or the body's, the one whose heads the file
    /// has. Any other class is an error above weights with heads.
    fn class<'f>(&self, fields: &'f Fields, held: &Held) -> Result<&'f str, String> {
        let [pretraining, masked, body, classifier, choice] = self.classes;
        let [dense, _, _, pooler, output] = self.heads.map(|module| format!("{module}.weight"));
        let has = |name: &str| held.has(name).unwrap_or(false);
        // A multiple-choice head has the body's pooler and is called `classifier` in every model type.
        let (chooser, follows, of_body) = ("classifier.weight", format!("{FOLLOWS}.weight"), format!("{POOLER}.weight"));
        let is_choice = |classes: Option<usize>| {
            let few = given(fields, "id2label").and_then(Value::as_object).map_or(0, Map::len) == 1;
            classes == Some(1) && !few && given(fields, "num_labels") != Some(&json!(1)) && has(&of_body)
        };
        let found = match () {
            () if has(&dense) && self.segments && has(&follows) => pretraining,
            () if has(&dense) => masked,
            () if is_choice(held.rows(chooser)) => choice,
            () if has(&output) && has(&pooler) => classifier,
            () => body,
        };
        let Some(own) = class(fields).filter(|own| *own != body) else { return Ok(found) };
        if fields.contains_key(HEADS) {
            return Ok(own);
        }
        let needed = match own {
            own if own == pretraining && self.segments => vec![&*dense, &*follows],
            own if own == pretraining || own == masked => vec![&*dense],
            own if own == classifier => vec![&*output],
            own if own == choice => vec![chooser],
            _ if found != body => return Err(unread(own, found)),
            _ => Vec::new(),
        };
        let missing = needed.into_iter().find(|name| held.has(name) == Some(false));
        missing.map_or(Ok(own), |missing| Err(contradicted(own, missing, found)))
    }

    fn parts(&self, fields: &Fields) -> Result<TransformerConfig, String> {
        let segments = field(fields, "type_vocab_size", 2)?;
        let counts = field(fields, COUNTS_PADDING, false)?;
        let padding = match fields.get("pad_token_id") {
            _ if !self.skips_padding || counts => None,
            None => Some(1),
            Some(id) => Some(u32::deserialize(id).map_err(|_| format!("pad_token_id: expected a token's id, found {id}"))?),
        };
        Ok(TransformerConfig { segments, padding, ..PARTS })
    }

    fn heads(&self, fields: &Fields, held: &Held, class: &str) -> Result<Vec<HeadConfig>, String> {
        let [pretraining, _, _, classifier, choice] = self.classes;
        let dropout = field(fields, "hidden_dropout_prob", 0.1)?;
        let dropout = field(fields, "classifier_dropout", dropout)?;
        let of = |form, classes, dropout| HeadConfig { bias: true, pooler: true, dropout, ..HeadConfig::new(form, classes) };
        let rows = held.rows(&format!("{}.weight", self.heads[4]));
        let told = heads_from_json(fields, class == classifier, rows, |classes| of(Form::Classify, classes, dropout))?;
        let next = (class == pretraining && self.segments)
            .then(|| HeadConfig { labels: NEXT.map(str::to_owned).into(), ..of(Form::Classify, 2, 0.0) });
        let by_class = next.or_else(|| (class == choice).then(|| of(Form::Choose, 1, dropout)));
        Ok(if told.is_empty() { by_class.into_iter().collect() } else { told })
    }

    /// Number of rows of the position table before those of our model.
    fn unused(&self, parts: &TransformerConfig) -> usize {
        match parts.padding {
            Some(padding) => padding as usize,
            None if self.skips_padding => 2,
            None => 0,
        }
    }

    /// Returns whether a model with these parts is saved as this model type: as RoBERTa with one segment or without a position for
    /// padding, else as BERT, unless its configuration names the type.
    fn is_type_of(&self, model_type: Option<&str>, parts: &TransformerConfig) -> bool {
        match model_type {
            Some(model_type) => self.model_types.contains(&model_type),
            None if self.skips_padding => parts.padding.is_some() || parts.segments == 1,
            None => self.model_types == BERT.model_types && parts.padding.is_none() && parts.segments >= 2,
        }
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

    fn model(&self, fields: &Fields, held: &Held) -> Result<ModelConfig, String> {
        let width: usize = required(fields, "hidden_size")?;
        let expects = |name: &str, expected: Value, default: Value| {
            let found = given(fields, name).cloned().unwrap_or(default);
            if found == expected { Ok(()) } else { Err(format!("{name}: expected {expected}, found {found}")) }
        };
        expects("position_embedding_type", json!("absolute"), json!("absolute"))?;
        expects("use_task_id", json!(false), json!(false))?;
        expects("is_decoder", json!(false), json!(false))?;
        let class = self.class(fields, held)?;
        let parts = self.parts(fields)?;
        let [pretraining, masked, ..] = self.classes;
        let has_transform = field(fields, "gradus_transform", class == pretraining || class == masked)?;
        let rows: usize = required(fields, "max_position_embeddings")?;
        let unused = self.unused(&parts) + usize::from(parts.padding.is_some());
        let context = rows.checked_sub(unused).filter(|&context| context > 0);
        let dropout = field(fields, "hidden_dropout_prob", 0.1)?;
        let too_few = || format!("max_position_embeddings: expected more than {unused}, found {rows}");
        let sizes = Sizes { vocab: required(fields, "vocab_size")?, context: context.ok_or_else(too_few)?, width };
        let body = TransformerConfig {
            layers: required(fields, "num_hidden_layers")?,
            heads: required(fields, "num_attention_heads")?,
            activation: activation(fields, "hidden_act", "gelu")?,
            embd_dropout: dropout,
            attn_dropout: field(fields, "attention_probs_dropout_prob", 0.1)?,
            resid_dropout: dropout,
            layer_norm_epsilon: field(fields, "layer_norm_eps", 1e-12)?,
            initializer_range: field(fields, "initializer_range", 0.02)?,
            ..parts
        };
        let body = body.with_inner(field(fields, "intermediate_size", 3072)?, width);
        let (activation, layer_norm_epsilon) = (body.activation, body.layer_norm_epsilon);
        let transform = has_transform.then_some(TransformConfig { activation, layer_norm_epsilon });
        Ok(ModelConfig {
            model_type: (!self.is_type_of(None, &body)).then(|| self.model_types[0].into()),
            outputs: vec![OutputConfig { predicts: Predicts::Masked, tied: true, transform }],
            heads: self.heads(fields, held, class)?,
            ..ModelConfig::new(sizes, body)
        })
    }

    fn fields(&self, config: &ModelConfig) -> Option<Fields> {
        let BodyConfig::Transformer(c) = &config.body else { return None };
        let TransformerConfig { segments, padding, .. } = *c;
        let [OutputConfig { predicts: Predicts::Masked, transform, .. }] = config.outputs[..] else { return None };
        let usual = TransformConfig { activation: c.activation, layer_norm_epsilon: c.layer_norm_epsilon };
        let shape = TransformerConfig { segments: 0, padding: None, ..c.parts() } == PARTS;
        let shape = shape && transform.is_none_or(|transform| transform == usual);
        let transform = transform.is_some();
        let plain = c.positions == Positions::Learned && c.embedding == Embedding::Separate && c.embd_dropout == c.resid_dropout;
        let says = segments >= 1 && (self.skips_padding || padding.is_none());
        let says = says && self.is_type_of(config.model_type.as_deref(), c);
        if !(shape && plain && says) {
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
            "hidden_size": config.sizes.width,
            "initializer_range": c.initializer_range,
            "intermediate_size": c.inner(config.sizes.width),
            "layer_norm_eps": c.layer_norm_epsilon,
            "max_position_embeddings": config.sizes.context + self.unused(c) + usize::from(padding.is_some()),
            "model_type": self.model_types[0],
            "num_attention_heads": c.heads,
            "num_hidden_layers": c.layers,
            "pad_token_id": padding.unwrap_or(u32::from(self.skips_padding)),
            "tie_word_embeddings": true,
            "type_vocab_size": segments,
            "vocab_size": config.sizes.vocab,
        });
        let Value::Object(mut fields) = fields else { unreachable!("an object") };
        if self.skips_padding && padding.is_none() {
            fields.insert(COUNTS_PADDING.into(), json!(true));
        }
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
        let positions = config.transformer().filter(|_| module == "positions_embed");
        let unused = positions.map_or(0, |c| self.unused(c));
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

    fn classes(&self) -> &[&'static str] {
        &self.classes
    }

    fn has_output(&self, _: &Fields, config: &ModelConfig) -> bool {
        config.outputs.iter().any(|output| output.transform.is_some())
    }

    fn name(&self, _: &Fields, ours: &str) -> String {
        let name = match ours {
            "vocab" => "vocab_size",
            "context" => "max_position_embeddings",
            "width" => "hidden_size",
            "layers" => "num_hidden_layers",
            "heads" => "num_attention_heads",
            "inner" => "intermediate_size",
            "embd_dropout" | "resid_dropout" => "hidden_dropout_prob",
            "attn_dropout" => "attention_probs_dropout_prob",
            "layer_norm_epsilon" => "layer_norm_eps",
            "segments" => "type_vocab_size",
            "padding" => "pad_token_id",
            other => other,
        };
        name.into()
    }

    /// A body alone has a pooler, which only heads read; one that fills masks may have been published with the head for pairs.
    fn ignores(&self, name: &str) -> bool {
        let of = |module: &str| name.strip_prefix(module).is_some_and(|kind| [".weight", ".bias"].contains(&kind));
        ["embeddings.position_ids", "embeddings.token_type_ids"].contains(&name) || of(POOLER) || of(FOLLOWS)
    }
}

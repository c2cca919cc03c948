//! `bert`, `ernie` and `roberta`, which share one layout. RoBERTa usually has one segment, numbers its positions from p + 1,
//! where p is the id of the padding token, and has other names for its heads.
//!
//! ```text
//! a classifier                     BertForSequenceClassification    bert.pooler.dense, classifier
//!                                  RobertaForSequenceClassification classifier.dense, classifier.out_proj
//! one logit per answer to choose   BertForMultipleChoice            bert.pooler.dense, classifier
//!                                  RobertaForMultipleChoice         roberta.pooler.dense, classifier
//! ```
//!
//! All compute W_y tanh(W_p h + b_p) + b_y of the first slot's h. In training, RoBERTa's classifier also applies dropout to h,
//! like fairseq's; this dropout is left out here.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::fields::{HEADS, class, contradicted, field as value, given, heads_from_json, unread};
use super::table::{Names, field, linear, module, object};
use super::{Dialect, Fields, Held, Theirs};
use crate::body::BodyConfig;
use crate::config::Sizes;
use crate::head::{Form, HeadConfig, NEXT};
use crate::model::ModelConfig;
use crate::output::{OutputConfig, Predicts, TransformConfig};
use crate::transformer::{Embedding, Positions, TransformerConfig};

/// The properties that distinguish the model types.
pub(super) struct Encoder {
    names: Names,
    /// Whether padding tokens have no position but a row of their own: the row of the padding token's id. Earlier rows are never
    /// read.
    skips_padding: bool,
    /// The modules of the layer before the output, its norm, the output's bias, the pooler and the classifier.
    heads: [&'static str; 5],
    /// Whether the model is pre-trained on pairs of segments.
    segments: bool,
}

/// The optional parts, except segments and padding.
const PARTS: TransformerConfig = TransformerConfig { embedding_norm: true, ..TransformerConfig::GPT1 };
/// Whether padding tokens have positions too, as in RoBERTa models that Gradus has trained.
const COUNTS_PADDING: &str = "gradus_counts_padding";
/// The pooler of a body, without its prefix.
const POOLER: &str = "pooler.dense";
/// The head of next-sentence prediction.
const FOLLOWS: &str = "cls.seq_relationship";

const NAMES: Names = Names {
    model_types: &["bert"],
    prefix: "bert.",
    classes: &["BertForPreTraining", "BertForMaskedLM", "BertModel", "BertForSequenceClassification", "BertForMultipleChoice"],
    copies: &[
        ("cls.predictions.decoder.weight", "embeddings.word_embeddings.weight"),
        ("cls.predictions.decoder.bias", "cls.predictions.bias"),
    ],
    fields: &[
        field("vocab", "vocab_size").required(),
        field("context", "max_position_embeddings").required(), // including the rows that are never read
        field("width", "hidden_size").required(),
        field("layers", "num_hidden_layers").required(),
        field("heads", "num_attention_heads").required(),
        field("inner", "intermediate_size").or("3072"),
        field("activation", "hidden_act").or("\"gelu\"").act2fn(),
        field("embd_dropout", "hidden_dropout_prob"),
        field("resid_dropout", "hidden_dropout_prob"),
        field("attn_dropout", "attention_probs_dropout_prob"),
        field("layer_norm_epsilon", "layer_norm_eps").or("1e-12"),
        field("initializer_range", "initializer_range"),
        field("segments", "type_vocab_size").or("2"),
    ],
    base: PARTS,
    modules: &[
        module("tokens_embed", &["embeddings.word_embeddings"]),
        module("positions_embed", &["embeddings.position_embeddings"]),
        module("segments_embed", &["embeddings.token_type_embeddings"]),
        module("ln_embed", &["embeddings.LayerNorm"]),
        linear(
            "h.{l}.attn.c_attn",
            &[
                "encoder.layer.{l}.attention.self.query",
                "encoder.layer.{l}.attention.self.key",
                "encoder.layer.{l}.attention.self.value",
            ],
        ),
        linear("h.{l}.attn.c_proj", &["encoder.layer.{l}.attention.output.dense"]),
        module("h.{l}.ln_1", &["encoder.layer.{l}.attention.output.LayerNorm"]),
        linear("h.{l}.mlp.c_fc", &["encoder.layer.{l}.intermediate.dense"]),
        linear("h.{l}.mlp.c_proj", &["encoder.layer.{l}.output.dense"]),
        module("h.{l}.ln_2", &["encoder.layer.{l}.output.LayerNorm"]),
    ],
};

pub(super) const BERT: Encoder = Encoder {
    names: NAMES,
    skips_padding: false,
    heads: ["cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions", POOLER, "classifier"],
    segments: true,
};

pub(super) const ERNIE: Encoder = Encoder {
    names: Names {
        model_types: &["ernie"],
        prefix: "ernie.",
        classes: &[
            "ErnieForPreTraining",
            "ErnieForMaskedLM",
            "ErnieModel",
            "ErnieForSequenceClassification",
            "ErnieForMultipleChoice",
        ],
        ..NAMES
    },
    ..BERT
};

pub(super) const ROBERTA: Encoder = Encoder {
    names: Names {
        model_types: &["roberta"],
        prefix: "roberta.",
        classes: &[
            "RobertaForPreTraining",
            "RobertaForMaskedLM",
            "RobertaModel",
            "RobertaForSequenceClassification",
            "RobertaForMultipleChoice",
        ],
        copies: &[("lm_head.decoder.weight", "embeddings.word_embeddings.weight"), ("lm_head.decoder.bias", "lm_head.bias")],
        ..NAMES
    },
    skips_padding: true,
    heads: ["lm_head.dense", "lm_head.layer_norm", "lm_head", "classifier.dense", "classifier.out_proj"],
    segments: false,
};

/// Returns whether a head has one logit per answer.
fn chooses(head: &HeadConfig) -> bool {
    head.form == Form::Choose
}

impl Encoder {
    /// Returns the class names in `transformers`: of pre-training, masked language model, body, classifier and multiple choice.
    fn classes(&self) -> [&'static str; 5] {
        self.names.classes.try_into().expect("five classes")
    }

    /// Returns the module in `transformers` for a module of an output or a head; `None` if there is none.
    fn of_head(&self, module: &str, config: &ModelConfig) -> Option<String> {
        let [dense, norm, output, pooler, classifier] = self.heads;
        let next = config.head().is_some_and(HeadConfig::predicts_next);
        let choice = config.head().is_some_and(chooses);
        if module.starts_with("score") && !self.has_head(config) {
            return None;
        }
        Some(match module {
            "transform.dense" => dense.into(),
            "transform.ln" => norm.into(),
            "transform" => output.into(),
            "score.pooler" if choice || pooler == POOLER => format!("{}{POOLER}", self.names.prefix),
            "score.pooler" => pooler.into(),
            "score" if next => FOLLOWS.into(),
            "score" if choice => "classifier".into(),
            "score" => classifier.into(),
            _ => return None,
        })
    }

    /// Returns the class of a checkpoint: the one in `architectures`, or, if that is absent or the body's, the one whose heads
    /// the file has. Any other class is an error if the weights have heads.
    fn class<'f>(&self, fields: &'f Fields, held: &Held) -> Result<&'f str, String> {
        let [pretraining, masked, body, classifier, choice] = self.classes();
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

    /// Returns the id of the padding token, if it has no position.
    fn padding(&self, fields: &Fields) -> Result<Option<u32>, String> {
        let counts = value(fields, COUNTS_PADDING, false)?;
        match fields.get("pad_token_id") {
            _ if !self.skips_padding || counts => Ok(None),
            None => Ok(Some(1)),
            Some(id) => u32::deserialize(id).map(Some).map_err(|_| format!("pad_token_id: expected a token's id, found {id}")),
        }
    }

    fn heads(&self, fields: &Fields, held: &Held, class: &str) -> Result<Vec<HeadConfig>, String> {
        let [pretraining, _, _, classifier, choice] = self.classes();
        let dropout = value(fields, "hidden_dropout_prob", 0.1)?;
        let dropout = value(fields, "classifier_dropout", dropout)?;
        let of = |form, classes, dropout| HeadConfig { bias: true, pooler: true, dropout, ..HeadConfig::new(form, classes) };
        let rows = held.rows(&format!("{}.weight", self.heads[4]));
        let told = heads_from_json(fields, class == classifier, rows, |classes| of(Form::Classify, classes, dropout))?;
        let next = (class == pretraining && self.segments)
            .then(|| HeadConfig { labels: NEXT.map(str::to_owned).into(), ..of(Form::Classify, 2, 0.0) });
        let by_class = next.or_else(|| (class == choice).then(|| of(Form::Choose, 1, dropout)));
        Ok(if told.is_empty() { by_class.into_iter().collect() } else { told })
    }

    /// Returns the number of rows of the position table before those of Gradus's table.
    fn unused(&self, parts: &TransformerConfig) -> usize {
        match parts.padding {
            Some(padding) => padding as usize,
            None if self.skips_padding => 2,
            None => 0,
        }
    }

    /// Returns whether a model with these parts is saved as this model type: the type that its configuration names; else RoBERTa
    /// with one segment or without a position for padding; else BERT.
    fn is_type_of(&self, model_type: Option<&str>, parts: &TransformerConfig) -> bool {
        match model_type {
            Some(model_type) => self.names.model_types.contains(&model_type),
            None if self.skips_padding => parts.padding.is_some() || parts.segments == 1,
            None => self.names.model_types == NAMES.model_types && parts.padding.is_none() && parts.segments >= 2,
        }
    }
}

impl Dialect for Encoder {
    fn names(&self) -> &Names {
        &self.names
    }

    fn model(&self, fields: &Fields, held: &Held) -> Result<ModelConfig, String> {
        let expects = |name: &str, expected: Value, default: Value| {
            let found = given(fields, name).cloned().unwrap_or(default);
            if found == expected { Ok(()) } else { Err(format!("{name}: expected {expected}, found {found}")) }
        };
        expects("position_embedding_type", json!("absolute"), json!("absolute"))?;
        expects("use_task_id", json!(false), json!(false))?;
        expects("is_decoder", json!(false), json!(false))?;
        let class = self.class(fields, held)?;
        let [pretraining, masked, ..] = self.classes();
        let has_transform = value(fields, "gradus_transform", class == pretraining || class == masked)?;
        let (sizes, body) = self.names.read(fields)?;
        let body = TransformerConfig { padding: self.padding(fields)?, ..body };
        let (rows, unused) = (sizes.context, self.unused(&body) + usize::from(body.padding.is_some()));
        let context = rows.checked_sub(unused).filter(|&context| context > 0);
        let too_few = || format!("max_position_embeddings: expected more than {unused}, found {rows}");
        let sizes = Sizes { context: context.ok_or_else(too_few)?, ..sizes };
        let (activation, layer_norm_epsilon) = (body.activation, body.layer_norm_epsilon);
        let transform = has_transform.then_some(TransformConfig { activation, layer_norm_epsilon });
        Ok(ModelConfig {
            model_type: (!self.is_type_of(None, &body)).then(|| self.names.model_types[0].into()),
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
        let [pretraining, masked, body, ..] = self.classes();
        let class = match config.head() {
            Some(head) if head.predicts_next() && self.segments && transform => pretraining,
            _ if transform => masked,
            _ => body,
        };
        let mut fields = self.names.write(config, c);
        fields.extend(object(json!({
            "architectures": [class],
            "dtype": "float32",
            "intermediate_size": c.inner(config.sizes.width),
            "max_position_embeddings": config.sizes.context + self.unused(c) + usize::from(padding.is_some()),
            "model_type": self.names.model_types[0],
            "pad_token_id": padding.unwrap_or(u32::from(self.skips_padding)),
            "tie_word_embeddings": true,
        })));
        if self.skips_padding && padding.is_none() {
            fields.insert(COUNTS_PADDING.into(), json!(true));
        }
        if let Some(head) = config.head().filter(|_| self.classifier(config).is_some()) {
            fields.insert("gradus_transform".into(), json!(transform)); // not determined by its class
            fields.insert("classifier_dropout".into(), json!(head.dropout));
        }
        Some(fields)
    }

    fn classifier(&self, config: &ModelConfig) -> Option<&'static str> {
        let [.., classifier, choice] = self.classes();
        let head = config.head().filter(|head| self.has_head(config) && !head.predicts_next())?;
        Some(if chooses(head) { choice } else { classifier })
    }

    fn has_head(&self, config: &ModelConfig) -> bool {
        config.head().is_some_and(|head| head.form != Form::Similar && head.bias && head.pooler)
    }

    fn theirs(&self, config: &ModelConfig, path: &str) -> Vec<Theirs> {
        let (module, kind) = path.rsplit_once('.').expect("a module and its parameter");
        let is_head = ["transform", "score"].iter().any(|head| module.starts_with(head));
        let (modules, transposed) = match self.of_head(module, config) {
            Some(theirs) => (vec![theirs], ["transform.dense", "score.pooler"].contains(&module)),
            None if is_head => return Theirs::same(path.into()),
            None => self.names.modules(module),
        };
        let transposed = transposed && kind == "weight";
        let positions = config.transformer().filter(|_| module == "positions_embed");
        let unused = positions.map_or(0, |c| self.unused(c));
        modules.into_iter().map(|theirs| Theirs { name: format!("{theirs}.{kind}"), transposed, unused }).collect()
    }

    /// Renames TensorFlow's gamma and beta, which the first releases kept.
    fn modern(&self, name: &str) -> String {
        match name.rsplit_once('.') {
            Some((module, "gamma")) => format!("{module}.weight"),
            Some((module, "beta")) => format!("{module}.bias"),
            _ => name.to_owned(),
        }
    }

    fn has_output(&self, _: &Fields, config: &ModelConfig) -> bool {
        config.outputs.iter().any(|output| output.transform.is_some())
    }

    fn name(&self, fields: &Fields, ours: &str) -> String {
        if ours == "padding" { "pad_token_id".into() } else { self.names.name(fields, ours).unwrap_or(ours).into() }
    }

    /// Ignores buffers of ids, the pooler of a body alone, which only heads read, and the pair head of a model that fills masks.
    fn ignores(&self, name: &str) -> bool {
        let of = |module: &str| name.strip_prefix(module).is_some_and(|kind| [".weight", ".bias"].contains(&kind));
        ["embeddings.position_ids", "embeddings.token_type_ids"].contains(&name) || of(POOLER) || of(FOLLOWS)
    }
}

//! `config.json` of `openai-gpt`.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::CheckpointError;
use crate::backbone::BackboneConfig;
use crate::config::{Activation, Embedding, GptConfig, Positions};
use crate::head::{Form, HeadConfig};
use crate::model::ModelConfig;

const HUGGING_FACE: &str = "openai-gpt";
const OURS: &str = "gradus-gpt";
const LSTM: &str = "gradus-lstm";

/// Fields of an LSTM's file that its configuration does not have.
const NOT_SIZES: [&str; 6] = ["model_type", "architectures", "gradus_head", "id2label", "label2id", "pad_token_id"];
/// The architecture of `transformers` that has a head of our first form.
const CLASSIFIER: &str = "OpenAIGPTForSequenceClassification";

pub(super) fn encode(config: &ModelConfig) -> Vec<u8> {
    serde_json::to_vec_pretty(&to_json(config)).expect("a map of plain values")
}

/// Does `transformers`' classifier compute what this head does? It reads one sequence, at its last token that is not padding,
/// and has no bias.
pub(super) fn is_theirs(head: &HeadConfig) -> bool {
    head.form == Form::Classify && !head.bias
}

fn to_json(config: &ModelConfig) -> Value {
    let mut fields = match &config.backbone {
        BackboneConfig::Gpt(c) => gpt_to_json(c),
        BackboneConfig::Lstm(c) => {
            let mut fields = serde_json::to_value(c).expect("plain values");
            fields["model_type"] = json!(LSTM);
            fields
        }
    };
    if let Some(head) = &config.head {
        fields["gradus_head"] = serde_json::to_value(head).expect("plain values");
        if is_theirs(head) && fields["model_type"] == HUGGING_FACE {
            let name = |i| head.labels.get(i).cloned().unwrap_or_else(|| unnamed(i));
            let names = || (0..head.classes).map(|i| (i, name(i)));
            fields["architectures"] = json!([CLASSIFIER]);
            fields["id2label"] = names().map(|(i, name)| (i.to_string(), json!(name))).collect::<Map<_, _>>().into();
            fields["label2id"] = names().map(|(i, name)| (name, json!(i))).collect::<Map<_, _>>().into();
            fields["pad_token_id"] = json!(0);
        }
    }
    fields
}

/// What `transformers` calls a class without a name.
fn unnamed(class: usize) -> String {
    format!("LABEL_{class}")
}

/// Exactly the fields `transformers` 5 writes, and `gradus_*` ones for what it cannot say.
fn gpt_to_json(c: &GptConfig) -> Value {
    let ours = c.embedding == Embedding::Joint || c.activation == Activation::GeluErf;
    let mut fields = json!({
        "afn": c.activation,
        "architectures": ["OpenAIGPTLMHeadModel"],
        "attn_pdrop": c.attn_dropout,
        "dtype": "float32",
        "embd_pdrop": c.embd_dropout,
        "initializer_range": c.initializer_range,
        "layer_norm_epsilon": c.layer_norm_epsilon,
        "model_type": if ours { OURS } else { HUGGING_FACE },
        "n_embd": c.width,
        "n_head": c.heads,
        "n_layer": c.layers,
        "n_positions": c.context,
        "resid_pdrop": c.resid_dropout,
        "summary_activation": null,
        "summary_first_dropout": 0.1,
        "summary_proj_to_labels": true,
        "summary_type": "cls_index",
        "summary_use_proj": true,
        "tie_word_embeddings": true,
        "vocab_size": c.vocab,
    });
    if c.positions == Positions::Sinusoidal {
        fields["gradus_positions"] = json!(c.positions);
    }
    if c.embedding == Embedding::Joint {
        fields["gradus_embedding"] = json!(c.embedding);
    }
    fields
}

pub(super) fn read(path: &Path, bytes: &[u8]) -> Result<ModelConfig, CheckpointError> {
    let problem = |problem: String| CheckpointError::ConfigFile { path: path.to_owned(), problem };
    let value: Value = serde_json::from_slice(bytes).map_err(|e| problem(format!("not JSON: {e}")))?;
    let fields = value.as_object().ok_or_else(|| problem("expected a JSON object".into()))?;
    let config = from_json(fields).map_err(problem)?;
    config.check().map_err(|source| CheckpointError::Config { path: path.to_owned(), source })?;
    Ok(config)
}

fn from_json(fields: &Map<String, Value>) -> Result<ModelConfig, String> {
    let backbone = match fields.get("model_type").and_then(Value::as_str) {
        Some(LSTM) => {
            let sizes = fields.iter().filter(|(name, _)| !NOT_SIZES.contains(&name.as_str()));
            let sizes: Map<String, Value> = sizes.map(|(name, value)| (name.clone(), value.clone())).collect();
            BackboneConfig::Lstm(serde_json::from_value(sizes.into()).map_err(|e| e.to_string())?)
        }
        _ => gpt_from_json(fields)?.into(),
    };
    Ok(ModelConfig { backbone, head: head_from_json(fields)? })
}

fn head_from_json(fields: &Map<String, Value>) -> Result<Option<HeadConfig>, String> {
    if let Some(head) = fields.get("gradus_head") {
        return serde_json::from_value(head.clone()).map(Some).map_err(|e| format!("gradus_head: {e}"));
    }
    let theirs = fields.get("architectures").and_then(Value::as_array).is_some_and(|a| a.contains(&CLASSIFIER.into()));
    let names = fields.get("id2label").and_then(Value::as_object);
    let classes = names.map_or(2, Map::len); // the default of `transformers`
    let name = |i: usize| names?.get(&i.to_string())?.as_str().map(str::to_owned);
    let labels: Vec<String> = (0..classes).map_while(name).collect();
    let named = labels.len() == classes && labels.iter().enumerate().any(|(i, label)| *label != unnamed(i));
    Ok(theirs.then(|| HeadConfig { labels: if named { labels } else { Vec::new() }, ..HeadConfig::new(Form::Classify, classes) }))
}

fn gpt_from_json(fields: &Map<String, Value>) -> Result<GptConfig, String> {
    match fields.get("model_type").and_then(Value::as_str) {
        Some(HUGGING_FACE | OURS) => {}
        Some(other) => return Err(format!("model_type: expected \"{HUGGING_FACE}\", found \"{other}\", which is not GPT-1")),
        None => return Err(format!("model_type is missing: expected \"{HUGGING_FACE}\"")),
    }
    if fields.get("tie_word_embeddings") == Some(&Value::Bool(false)) {
        return Err("tie_word_embeddings: GPT-1's output is tied to its embedding, found false".into());
    }
    let default = GptConfig::default();
    let contexts = if given(fields, "n_positions").is_some() { "n_positions" } else { "n_ctx" };
    Ok(GptConfig {
        vocab: field(fields, "vocab_size", default.vocab)?,
        context: field(fields, contexts, default.context)?,
        width: required(fields, "n_embd")?,
        layers: required(fields, "n_layer")?,
        heads: required(fields, "n_head")?,
        activation: field(fields, "afn", default.activation)?,
        positions: field(fields, "gradus_positions", default.positions)?,
        embedding: field(fields, "gradus_embedding", default.embedding)?,
        embd_dropout: field(fields, "embd_pdrop", default.embd_dropout)?,
        attn_dropout: field(fields, "attn_pdrop", default.attn_dropout)?,
        resid_dropout: field(fields, "resid_pdrop", default.resid_dropout)?,
        layer_norm_epsilon: field(fields, "layer_norm_epsilon", default.layer_norm_epsilon)?,
        initializer_range: field(fields, "initializer_range", default.initializer_range)?,
    })
}

/// A field that is present; null counts as absent.
fn given<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    fields.get(name).filter(|value| !value.is_null())
}

fn field<T: DeserializeOwned>(fields: &Map<String, Value>, name: &str, default: T) -> Result<T, String> {
    given(fields, name).map_or(Ok(default), |value| T::deserialize(value).map_err(|e| format!("{name}: {e}")))
}

fn required<T: DeserializeOwned>(fields: &Map<String, Value>, name: &str) -> Result<T, String> {
    let missing = || format!("{name} is missing");
    T::deserialize(given(fields, name).ok_or_else(missing)?).map_err(|e| format!("{name}: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lstm::LstmConfig;

    #[test]
    fn a_configuration_survives_the_file() {
        let all = [
            GptConfig::preset("tiny").unwrap().with_dropout(0.25),
            GptConfig { activation: Activation::Relu, positions: Positions::Sinusoidal, ..Default::default() },
            GptConfig { activation: Activation::GeluErf, embedding: Embedding::Joint, ..Default::default() },
        ];
        let heads = [
            None,
            Some(HeadConfig::new(Form::Classify, 3)),
            Some(named()),
            Some(HeadConfig { bias: true, dropout: 0.3, ..HeadConfig::new(Form::Similar, 6) }),
            Some(HeadConfig::new(Form::Choose, 9)),
        ];
        for config in all {
            for head in &heads {
                let lstm = LstmConfig { units: 33, ..LstmConfig::matching(&config) };
                for backbone in [BackboneConfig::from(config.clone()), lstm.into()] {
                    let config = ModelConfig { backbone, head: head.clone() };
                    assert_eq!(from_json(to_json(&config).as_object().unwrap()), Ok(config));
                }
            }
        }
    }

    fn named() -> HeadConfig {
        let labels = ["entailment", "neutral", "contradiction"].map(String::from).into();
        HeadConfig { labels, ..HeadConfig::new(Form::Classify, 3) }
    }

    #[test]
    fn a_classifier_of_transformers_has_its_head() {
        for head in [HeadConfig::new(Form::Classify, 3), named()] {
            let mut fields = to_json(&ModelConfig { backbone: GptConfig::default().into(), head: Some(head.clone()) });
            let names = ["0", "1", "2"].map(|id| fields["id2label"][id].as_str().unwrap().to_owned());
            let ids = names.map(|name| fields["label2id"][name].clone());
            assert_eq!((ids, fields["label2id"].as_object().unwrap().len()), ([0, 1, 2].map(Value::from), 3));
            fields.as_object_mut().unwrap().remove("gradus_head");
            assert_eq!(from_json(fields.as_object().unwrap()).unwrap().head, Some(head));
        }
    }

    /// `transformers` would compute something else, or could not read it.
    #[test]
    fn other_heads_are_not_called_theirs() {
        let called = |backbone: BackboneConfig, head| {
            let theirs = is_theirs(&head);
            let fields = to_json(&ModelConfig { backbone, head: Some(head) });
            (theirs, fields["architectures"] == json!([CLASSIFIER]), fields.get("id2label").is_some())
        };
        let classify = || HeadConfig::new(Form::Classify, 3);
        assert_eq!(called(GptConfig::default().into(), classify()), (true, true, true));
        for head in [HeadConfig { bias: true, ..classify() }, HeadConfig::new(Form::Similar, 3), HeadConfig::new(Form::Choose, 1)]
        {
            assert_eq!(called(GptConfig::default().into(), head), (false, false, false));
        }
        let joint = GptConfig { embedding: Embedding::Joint, ..GptConfig::default() };
        for backbone in [joint.into(), LstmConfig::default().into()] {
            assert_eq!(called(backbone, classify()), (true, false, false));
        }
    }

    #[test]
    fn what_transformers_cannot_say_has_another_model_type() {
        let ok = GptConfig::default;
        for (config, kind, ours) in [
            (ok().into(), "openai-gpt", &[][..]),
            (GptConfig { activation: Activation::Relu, ..ok() }.into(), "openai-gpt", &[]),
            (GptConfig { embedding: Embedding::Joint, ..ok() }.into(), "gradus-gpt", &["gradus_embedding"]),
            (GptConfig { positions: Positions::Sinusoidal, ..ok() }.into(), "openai-gpt", &["gradus_positions"]),
            (GptConfig { activation: Activation::GeluErf, ..ok() }.into(), "gradus-gpt", &[]),
            (LstmConfig::default().into(), "gradus-lstm", &[]),
        ] {
            let config: ModelConfig = config;
            let fields = to_json(&config);
            let found: Vec<&str> =
                fields.as_object().unwrap().keys().map(String::as_str).filter(|name| name.starts_with("gradus_")).collect();
            assert_eq!((&fields["model_type"], &found[..]), (&kind.into(), ours), "{config:?}");
        }
    }

    #[test]
    fn a_wrong_field_is_named() {
        let error = |change: Value| {
            let mut fields = to_json(&GptConfig::default().into());
            change.as_object().unwrap().iter().for_each(|(k, v)| fields[k] = v.clone());
            from_json(fields.as_object().unwrap()).unwrap_err()
        };
        assert!(error(json!({"n_embd": -3})).starts_with("n_embd: invalid value: integer `-3`, expected usize"));
        assert_eq!(error(json!({"n_layer": null})), "n_layer is missing");
        let gpt_2 = error(json!({"model_type": "gpt2"}));
        assert!(gpt_2.starts_with("model_type: expected \"openai-gpt\", found \"gpt2\""), "{gpt_2}");
        let none = error(json!({"model_type": null}));
        assert!(none.starts_with("model_type is missing: expected \"openai-gpt\""), "{none}");
        assert!(error(json!({"afn": "swish"})).starts_with("afn: unknown variant `swish`, expected one of `gelu`"));
        let untied = error(json!({"tie_word_embeddings": false}));
        assert!(untied.starts_with("tie_word_embeddings: ") && untied.ends_with("found false"), "{untied}");
        assert!(error(json!({"gradus_head": {"form": "guess"}})).starts_with("gradus_head: unknown variant `guess`"));
    }
}

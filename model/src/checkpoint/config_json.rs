//! `config.json`: the sizes in a [dialect](super::dialect), and the heads in a field of Gradus.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::CheckpointError;
use super::dialect::{self, Dialect, Held};
use super::fields::{Fields, HEADS, NOT_FINITE, TIED, field, given, unnamed};
use crate::config::ConfigError;
use crate::model::ModelConfig;

pub(super) fn encode(config: &ModelConfig) -> Vec<u8> {
    serde_json::to_vec_pretty(&Value::Object(to_json(config))).expect("a map of plain values")
}

fn to_json(config: &ModelConfig) -> Fields {
    let dialect = dialect::of(config);
    let mut fields = dialect.fields(config).expect("its dialect says it");
    if config.outputs.first().is_some_and(|output| !output.tied) {
        fields.insert(TIED.into(), json!(false));
    }
    if !config.heads.is_empty() {
        fields.insert(HEADS.into(), json!(config.heads));
    }
    if let (Some(head), Some(classifier)) = (config.head(), dialect.classifier(config)) {
        let name = |i| head.labels.get(i).cloned().unwrap_or_else(|| unnamed(i));
        let names = || (0..head.classes).map(|i| (i, name(i)));
        fields.insert("architectures".into(), json!([classifier]));
        fields.insert("id2label".into(), names().map(|(i, name)| (i.to_string(), json!(name))).collect::<Map<_, _>>().into());
        fields.insert("label2id".into(), names().map(|(i, name)| (name, json!(i))).collect::<Map<_, _>>().into());
        fields.entry("pad_token_id").or_insert(json!(0));
    }
    fields
}

fn problem(path: &Path, problem: String) -> CheckpointError {
    CheckpointError::ConfigFile { path: path.to_owned(), problem }
}

/// Returns the fields of a `config.json`, and the dialect of its model type.
pub(super) fn fields(path: &Path, bytes: &[u8]) -> Result<(Fields, &'static dyn Dialect), CheckpointError> {
    let value = serde_json::from_slice(bytes).or_else(|e| serde_json::from_slice(&plain(bytes)).map_err(|_| e));
    let value: Value = value.map_err(|e| problem(path, format!("not JSON: {e}")))?;
    let Value::Object(fields) = value else { return Err(problem(path, "expected a JSON object".into())) };
    let dialect = dialect::named(fields.get("model_type").and_then(Value::as_str).unwrap_or_default());
    Ok((fields, dialect))
}

/// Replaces Python's `NaN`, `Infinity` and `-Infinity`, which JSON lacks, by strings, so that a field that reads one reports it.
fn plain(bytes: &[u8]) -> Vec<u8> {
    let (mut plain, mut rest, mut quoted) = (Vec::with_capacity(bytes.len()), bytes, false);
    while let [first, more @ ..] = rest {
        let number = NOT_FINITE.map(str::as_bytes).into_iter().find(|number| !quoted && rest.starts_with(number));
        if let Some(number) = number {
            plain.extend([b"\"", number, b"\""].concat());
            rest = &rest[number.len()..];
        } else if let (b'\\', [escaped, after @ ..], true) = (first, more, quoted) {
            plain.extend([*first, *escaped]);
            rest = after;
        } else {
            quoted ^= *first == b'"';
            plain.push(*first);
            rest = more;
        }
    }
    plain
}

/// Returns the model that the fields describe, given the tensors of the weights' file.
pub(super) fn model(
    path: &Path,
    fields: &Fields,
    dialect: &'static dyn Dialect,
    held: &Held,
) -> Result<ModelConfig, CheckpointError> {
    let mut config = dialect.model(fields, held).map_err(|e| problem(path, e))?;
    let has_own = !is_tied(path, fields)? && held.has(dialect.names().copies[0].0).unwrap_or(dialect.has_output(fields, &config));
    config.outputs.first_mut().into_iter().for_each(|output| output.tied = !has_own);
    config.check().map_err(|ConfigError { field, found, expected, .. }| {
        let name = match field {
            "classes" => "num_labels",
            "classifier dropout" => "classifier_dropout",
            _ => &dialect.name(fields, field),
        };
        let found = given(fields, name).map_or(found, Value::to_string);
        problem(path, format!("{name}: expected {expected}, found {found}"))
    })?;
    Ok(config)
}

/// Returns the model that a `config.json` describes without its weights.
pub(super) fn read(path: &Path, bytes: &[u8]) -> Result<(ModelConfig, &'static dyn Dialect), CheckpointError> {
    let (fields, dialect) = fields(path, bytes)?;
    Ok((model(path, &fields, dialect, &Held::default())?, dialect))
}

/// Returns the value of the field [`TIED`].
pub(super) fn is_tied(path: &Path, fields: &Fields) -> Result<bool, CheckpointError> {
    field(fields, TIED, true).map_err(|e| problem(path, e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{tiny_bert, tiny_gpt2};
    use crate::config::Activation;
    use crate::head::{Form, HeadConfig};
    use crate::output::{OutputConfig, Predicts};
    use crate::recurrent::LstmConfig;
    use crate::transformer::{Embedding, Positions, TransformerConfig};

    const CLASSIFIER: &str = "OpenAIGPTForSequenceClassification";

    fn to_json(config: &ModelConfig) -> Value {
        Value::Object(super::to_json(config))
    }

    fn from_json(fields: &Fields) -> Result<ModelConfig, String> {
        dialect::named(fields.get("model_type").and_then(Value::as_str).unwrap_or_default()).model(fields, &Held::default())
    }

    #[test]
    fn a_configuration_survives_config_json() {
        let masked = OutputConfig { predicts: Predicts::Masked, ..OutputConfig::NEXT };
        let lstm = |config| ModelConfig::new(tiny_bert().sizes, config);
        let all = [
            ModelConfig::preset("tiny").unwrap().with_dropout(0.25),
            gpt(|c| (c.activation, c.positions) = (Activation::Relu, Positions::Sinusoidal)),
            gpt(|c| (c.activation, c.embedding) = (Activation::GeluErf, Embedding::Joint)),
            gpt(|c| c.inner = Some(77)),
            lstm(LstmConfig { units: 33, ..Default::default() }),
            tiny_bert().with_transformer(|c| c.inner = Some(50)),
            tiny_gpt2().with_transformer(|c| c.inner = Some(50)),
            tiny_bert(),
            tiny_bert().with_transformer(|c| c.segments = 1),
            ModelConfig { outputs: vec![masked], ..tiny_bert() },
            tiny_bert().with_transformer(|c| c.final_norm = true),
            tiny_gpt2(),
            tiny_gpt2().with_transformer(|c| c.scaled_init = false),
            ModelConfig { outputs: vec![OutputConfig::NEXT, masked], ..lstm(LstmConfig::default()) },
        ];
        let heads = [
            vec![],
            vec![HeadConfig::new(Form::Classify, 3)],
            vec![named()],
            vec![HeadConfig { bias: true, dropout: 0.3, ..HeadConfig::new(Form::Similar, 6) }],
            vec![HeadConfig::new(Form::Choose, 9)],
            vec![HeadConfig { bias: true, pooler: true, ..HeadConfig::new(Form::Classify, 3) }],
            vec![named(), HeadConfig::new(Form::Choose, 9)],
        ];
        for config in all {
            for heads in &heads {
                // The tensors decide whether an output is untied.
                for tied in [true, false] {
                    let config = ModelConfig { heads: heads.clone(), ..config.clone() };
                    let mut saved = config.clone();
                    saved.outputs[0].tied = tied;
                    let fields = to_json(&saved);
                    assert_eq!(fields.get(TIED) == Some(&json!(false)), !tied);
                    let mut found = from_json(fields.as_object().unwrap()).unwrap();
                    found.outputs[0].tied = true;
                    assert_eq!(found, config);
                }
            }
        }
    }

    fn gpt(change: impl FnOnce(&mut TransformerConfig)) -> ModelConfig {
        ModelConfig::default().with_transformer(change)
    }

    fn named() -> HeadConfig {
        let labels = ["entailment", "neutral", "contradiction"].map(String::from).into();
        HeadConfig { labels, ..HeadConfig::new(Form::Classify, 3) }
    }

    #[test]
    fn a_classifier_of_transformers_has_its_head() {
        for head in [HeadConfig::new(Form::Classify, 3), named()] {
            let mut fields = to_json(&ModelConfig { heads: vec![head.clone()], ..ModelConfig::default() });
            let names = ["0", "1", "2"].map(|id| fields["id2label"][id].as_str().unwrap().to_owned());
            let ids = names.map(|name| fields["label2id"][name].clone());
            assert_eq!((ids, fields["label2id"].as_object().unwrap().len()), ([0, 1, 2].map(Value::from), 3));
            fields.as_object_mut().unwrap().remove(HEADS);
            assert_eq!(from_json(fields.as_object().unwrap()).unwrap().heads, [head]);
        }
    }

    fn bert(architecture: &str, change: &[(&str, Value)]) -> Fields {
        let head = HeadConfig { bias: true, pooler: true, ..HeadConfig::new(Form::Classify, 3) };
        let mut fields = super::to_json(&ModelConfig { heads: vec![head], ..tiny_bert() });
        fields.remove(HEADS);
        fields.insert("architectures".into(), json!([architecture]));
        change.iter().for_each(|(name, value)| _ = fields.insert((*name).into(), value.clone()));
        fields
    }

    #[test]
    fn wrong_options_of_a_head_have_the_names_of_transformers() {
        for (change, expected) in [
            (("num_labels", json!(0)), "num_labels: expected a number from 2 to 65536, found 0"),
            (("classifier_dropout", json!(2.0)), "classifier_dropout: expected a probability from 0 to below 1, found 2.0"),
            (("classifier_dropout", json!("NaN")), "classifier_dropout: expected a finite number, found NaN"),
        ] {
            let fields = bert("BertForSequenceClassification", &[change]);
            let error = model(Path::new("c"), &fields, dialect::named("bert"), &Held::default()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn labels_are_read_if_there_is_one_for_each_class() {
        let labels = |names: Value| {
            let fields = bert("BertForSequenceClassification", &[("num_labels", json!(2)), ("id2label", names)]);
            from_json(&fields).unwrap().heads[0].labels.clone()
        };
        assert_eq!(labels(json!({ "0": "no", "1": "yes" })), ["no", "yes"]);
        assert_eq!(labels(json!({ "0": "no", "1": "yes", "2": "maybe" })), [""; 0]);
        assert_eq!(labels(json!({ "0": "no", "x": "yes" })), [""; 0]);
    }

    #[test]
    fn an_architecture_that_the_weights_contradict_is_rejected() {
        let tensors = [("classifier.weight", vec![3, 12]), ("pooler.dense.weight", vec![12, 12])];
        let held = Held(Some(tensors.map(|(name, shape)| (name.to_owned(), shape)).into()));
        let error = |class| dialect::named("bert").model(&bert(class, &[]), &held).unwrap_err();
        let (unread, contradicted) = (error("BertForTokenClassification"), error("BertForMaskedLM"));
        assert!(unread.contains("BertForTokenClassification is not a class that Gradus reads"), "{unread}");
        assert!(contradicted.contains("BertForMaskedLM needs cls.predictions.transform.dense.weight"), "{contradicted}");
    }

    /// `transformers` would compute something else from such a head, or could not read it.
    #[test]
    fn heads_that_transformers_lacks_are_not_saved_under_its_class() {
        let called = |config: ModelConfig, head| {
            let config = ModelConfig { heads: vec![head], ..config };
            let (theirs, fields) = (dialect::of(&config).has_head(&config), to_json(&config));
            (theirs, fields["architectures"] == json!([CLASSIFIER]), fields.get("id2label").is_some())
        };
        let classify = || HeadConfig::new(Form::Classify, 3);
        assert_eq!(called(ModelConfig::default(), classify()), (true, true, true));
        for head in [HeadConfig { bias: true, ..classify() }, HeadConfig::new(Form::Similar, 3), HeadConfig::new(Form::Choose, 1)]
        {
            assert_eq!(called(ModelConfig::default(), head), (false, false, false));
        }
        let lstm = ModelConfig::new(ModelConfig::default().sizes, LstmConfig::default());
        for config in [gpt(|c| c.embedding = Embedding::Joint), lstm] {
            assert_eq!(called(config, classify()), (true, false, false));
        }
    }

    #[test]
    fn a_configuration_that_transformers_lacks_gets_its_own_model_type() {
        for (config, kind, ours) in [
            (gpt(|_| ()), "openai-gpt", &[][..]),
            (gpt(|c| c.activation = Activation::Relu), "openai-gpt", &[]),
            (gpt(|c| c.embedding = Embedding::Joint), "gradus-gpt", &["gradus_embedding"]),
            (gpt(|c| c.positions = Positions::Sinusoidal), "openai-gpt", &["gradus_positions"]),
            (gpt(|c| c.activation = Activation::GeluErf), "gradus-gpt", &[]),
            (gpt(|c| c.inner = Some(3000)), "gradus-gpt", &["gradus_inner"]),
            (ModelConfig::new(ModelConfig::default().sizes, LstmConfig::default()), "gradus-lstm", &[]),
        ] {
            let fields = to_json(&config);
            let found: Vec<&str> =
                fields.as_object().unwrap().keys().map(String::as_str).filter(|name| name.starts_with("gradus_")).collect();
            assert_eq!((&fields["model_type"], &found[..]), (&kind.into(), ours), "{config:?}");
        }
    }

    /// Python's `json` module writes `NaN` and `Infinity`.
    #[test]
    fn nan_and_infinity_of_pythons_json_are_accepted() {
        let text = r#"{"a": NaN, "b": [Infinity, -Infinity], "c\"NaN": "Infinity \\", "d": -1}"#;
        let read: Value = serde_json::from_slice(&plain(text.as_bytes())).unwrap();
        assert_eq!(read, json!({"a": "NaN", "b": ["Infinity", "-Infinity"], "c\"NaN": "Infinity \\", "d": -1}));
        let of = |text: &str| fields(Path::new("config.json"), text.as_bytes());
        assert_eq!(of(r#"{"model_type": "gpt2", "max": Infinity}"#).unwrap().0["max"], "Infinity");
        assert!(of(r#"{"model_type": Inf}"#).err().unwrap().to_string().contains("not JSON: expected value at line 1"));
        assert!(of("{NaN").is_err() && of("NaN").is_err());
    }

    #[test]
    fn a_wrong_field_is_named() {
        let error = |change: Value| {
            let mut fields = to_json(&ModelConfig::default());
            change.as_object().unwrap().iter().for_each(|(k, v)| fields[k] = v.clone());
            from_json(fields.as_object().unwrap()).unwrap_err()
        };
        assert!(error(json!({"n_embd": -3})).starts_with("n_embd: invalid value: integer `-3`, expected usize"));
        assert_eq!(error(json!({"n_layer": null})), "n_layer is missing");
        let known = "expected gpt2, bert, ernie, roberta, openai-gpt, gradus-gpt, gradus-lstm, gradus-ngram";
        assert_eq!(error(json!({"model_type": "gptj"})), format!("model_type: {known}, found \"gptj\""));
        assert_eq!(error(json!({"model_type": null})), format!("model_type is missing: {known}"));
        assert!(error(json!({"afn": "swish"})).starts_with("afn: unknown variant `swish`, expected one of `gelu`"));
        assert!(error(json!({"gradus_head": {}})).contains("an unreleased version of Gradus; fine-tune the model again"));
        assert!(error(json!({"gradus_heads": [{"form": "guess"}]})).starts_with("gradus_heads: unknown variant `guess`"));
    }
}

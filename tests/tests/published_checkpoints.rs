//! Checkpoints saved by other programs: other names for the same tensors, configurations that are incomplete or contradict the
//! weights, and RoBERTa's padding. The fixtures are in `tests/golden`; `published_checkpoints.py` there makes those that only
//! this file uses.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use gradus_autograd::{Tape, Tensor};
use gradus_model::checkpoint::{self, Bytes, CheckpointError, StoredTensor};
use gradus_model::{Batch, Form, Head, Input, Model, Predicts, Tree};
use gradus_tests::{Arrays, golden, worst};
use serde_json::{Value, json};

/// The configuration and tensors of a checkpoint, which a test can modify.
#[derive(Clone)]
struct Files {
    config: Value,
    tensors: BTreeMap<String, Tensor<f32>>,
}

impl Files {
    fn of(fixture: &str) -> Self {
        let dir = golden().join(fixture);
        let arrays = Arrays::read(&dir.join("model.safetensors"));
        let tensors = arrays.names().into_iter().map(|name| (name.clone(), arrays.get(&name).cast::<f32>())).collect();
        Files { config: serde_json::from_slice(&std::fs::read(dir.join("config.json")).unwrap()).unwrap(), tensors }
    }

    fn set(mut self, field: &str, value: Value) -> Self {
        self.config[field] = value;
        self
    }

    fn without(mut self, field: &str) -> Self {
        self.config.as_object_mut().unwrap().remove(field).expect("the field");
        self
    }

    /// Renames each tensor, or removes it for `None`.
    fn renamed(mut self, name: impl Fn(&str) -> Option<String>) -> Self {
        self.tensors = self.tensors.into_iter().filter_map(|(old, tensor)| Some((name(&old)?, tensor))).collect();
        self
    }

    fn copied(mut self, from: &str, to: &str) -> Self {
        let tensor = self.tensors[from].clone();
        self.tensors.insert(to.into(), tensor);
        self
    }

    fn weights(&self) -> Vec<u8> {
        let views = self.tensors.iter().map(|(name, tensor)| (name, StoredTensor(tensor)));
        safetensors::serialize(views, Some(HashMap::from([("format".to_owned(), "pt".to_owned())]))).unwrap()
    }

    fn opened<R>(
        &self,
        config: &str,
        weights: &str,
        index: Option<Value>,
        read: impl Fn(&dyn Fn(&str) -> std::io::Result<Bytes>) -> R,
    ) -> R {
        read(&|name| match name {
            "config.json" => Ok(config.as_bytes().to_vec().into()),
            name if name == weights => Ok(self.weights().into()),
            "model.safetensors.index.json" if index.is_some() => Ok(index.as_ref().unwrap().to_string().into_bytes().into()),
            _ => Err(std::io::ErrorKind::NotFound.into()),
        })
    }

    fn read(&self) -> Result<Model<Tensor<f32>>, CheckpointError> {
        self.opened(&self.config.to_string(), "model.safetensors", None, |open| checkpoint::read(Path::new("model"), open))
    }

    fn notes(&self) -> Vec<String> {
        self.opened(&self.config.to_string(), "model.safetensors", None, |open| checkpoint::notes(Path::new("model"), open))
            .unwrap()
    }

    fn refused(&self) -> String {
        self.read().expect_err("it is refused").to_string()
    }
}

/// Returns the number of sequences of a fixture, their token ids and their logits, concatenated.
fn expected(fixture: &str) -> (usize, Vec<u32>, Tensor<f64>) {
    let text = std::fs::read(golden().join(fixture).join("expected.json")).unwrap();
    let fixture: Value = serde_json::from_slice(&text).unwrap();
    let ids: Vec<Vec<u32>> = serde_json::from_value(fixture["input_ids"].clone()).unwrap();
    let flat = |value: &Value| {
        let mut all = Vec::new();
        let mut rest = vec![value];
        while let Some(next) = rest.pop() {
            match next {
                Value::Array(values) => rest.extend(values.iter().rev()),
                number => all.push(number.as_f64().unwrap()),
            }
        }
        all
    };
    let logits = flat(&fixture["logits"]);
    let n = logits.len();
    (ids.len(), ids.concat(), Tensor::new([n], logits))
}

/// Returns the input of a model: each token reads the tokens before it, or all tokens.
fn input(model: &Model<Tensor<f32>>, sequences: usize, ids: &[u32]) -> Input {
    match model.predicts() {
        Predicts::Next => Input::causal(sequences, ids),
        Predicts::Masked => Input::full(sequences, ids),
    }
}

fn logits(model: &Model<Tensor<f32>>, sequences: usize, ids: &[u32]) -> Tensor<f64> {
    let tape = Tape::off();
    let logits = model.clone().cast::<_, f64>().constants(&tape).logits(&input(model, sequences, ids)).into_value();
    let n = logits.len();
    logits.reshape([n])
}

#[test]
fn padding_has_no_position_in_roberta() {
    let (sequences, ids, theirs) = expected("published-roberta");
    let files = Files::of("published-roberta");
    let model = files.read().unwrap();
    assert!(worst(&logits(&model, sequences, &ids), &theirs) <= 1e-10);
    let config = model.transformer().unwrap().config();
    assert_eq!((model.sizes().context, config.padding, config.segments), (10, Some(3), 2));
    assert_eq!(model.config().model_type, None);

    // Positions that start at another row give other logits.
    let shifted = files.clone().set("pad_token_id", json!(1)).set("max_position_embeddings", json!(14)).read().unwrap();
    assert!(worst(&logits(&shifted, sequences, &ids), &theirs) > 1e-3);

    // Saving keeps the fields of the configuration, and loading the saved model gives the same model.
    let copy = tempfile::tempdir().unwrap();
    checkpoint::save(copy.path(), &model).unwrap();
    let saved: Value = serde_json::from_slice(&std::fs::read(copy.path().join("config.json")).unwrap()).unwrap();
    for field in ["model_type", "pad_token_id", "max_position_embeddings", "type_vocab_size", "architectures"] {
        assert_eq!(saved[field], files.config[field], "{field}");
    }
    assert_eq!(checkpoint::load(copy.path()).unwrap(), model);

    // The row of padding has no gradient, as in PyTorch; the rows of the positions in use have one.
    let tape = Tape::new();
    let leaves = model.cast::<_, f64>().leaves(&tape);
    let n = ids.len();
    let input = Input::full(sequences, ids.clone());
    let batch = Batch { input, ..Batch::next(sequences, ids.clone(), ids, vec![1.0 / n as f64; n]) };
    let grads = tape.backward(&leaves.loss(&batch, None));
    let gradient = grads.of(&leaves.transformer().unwrap().positions_embed.as_ref().unwrap().weight.0).unwrap().to_vec();
    let moved: Vec<bool> = gradient.chunks(8).map(|row| row.iter().any(|&g| g != 0.0)).collect();
    assert_eq!(moved, [&[false][..], &[true; 10]].concat());
}

#[test]
fn padding_that_is_no_token_is_rejected() {
    let files = Files::of("published-roberta");
    for (pad, expected) in [
        (json!(-1), "pad_token_id: expected a token's id, found -1"),
        (json!(1e308), "pad_token_id: expected a token's id, found 1e+308"),
        (json!("x"), "pad_token_id: expected a token's id, found \"x\""),
        (json!(null), "pad_token_id: expected a token's id, found null"),
        (json!(13), "max_position_embeddings: expected more than 14, found 14"),
    ] {
        let error = files.clone().set("pad_token_id", pad).refused();
        assert!(error.contains(expected), "{error}");
    }
    let far = files.set("pad_token_id", json!(24)).set("max_position_embeddings", json!(40)).refused();
    assert!(far.contains("pad_token_id: expected a token of the 24, found 24"), "{far}");
}

/// `safetensors.torch.save_model` keeps one of the two names of a tied tensor, not always the embedding's.
#[test]
fn tied_tensors_have_either_name() {
    let gpt2 = "transformer.wte.weight";
    let bert = "bert.embeddings.word_embeddings.weight";
    let roberta = "roberta.embeddings.word_embeddings.weight";
    for (fixture, original, copy) in [
        ("relative-gpt2", gpt2, "lm_head.weight"),
        ("relative-bert", bert, "cls.predictions.decoder.weight"),
        ("relative-bert", "cls.predictions.bias", "cls.predictions.decoder.bias"),
        ("relative-roberta", roberta, "lm_head.decoder.weight"),
        ("relative-roberta", "lm_head.bias", "lm_head.decoder.bias"),
        ("l2-d12-h3", "transformer.tokens_embed.weight", "lm_head.weight"),
    ] {
        let files = Files::of(fixture);
        let model = files.read().unwrap();
        let only_copy = files.clone().renamed(|name| Some(if name == original { copy } else { name }.to_owned()));
        assert_eq!(only_copy.read().unwrap(), model, "{copy} alone");
        assert_eq!(files.clone().copied(original, copy).read().unwrap(), model, "both");

        // An index that lists both names, and a shard that holds one.
        for held in [&files, &only_copy] {
            let names = held.tensors.keys().map(String::as_str).chain([original, copy]);
            let index = json!({"weight_map": names.map(|name| (name, "model-1.safetensors")).collect::<BTreeMap<_, _>>()});
            let read = |open: &dyn Fn(&str) -> std::io::Result<Bytes>| checkpoint::read(Path::new("model"), open);
            assert_eq!(held.opened(&held.config.to_string(), "model-1.safetensors", Some(index), read).unwrap(), model, "{copy}");
        }
        let neither = files.renamed(|name| (name != original).then(|| name.to_owned())).refused();
        assert!(neither.contains("is missing"), "{neither}");
    }
}

#[test]
fn an_untied_output_is_read_where_it_equals_the_embedding() {
    for (fixture, original, copy) in [
        ("relative-gpt2", "transformer.wte.weight", "lm_head.weight"),
        ("relative-bert", "bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"),
        ("relative-roberta", "roberta.embeddings.word_embeddings.weight", "lm_head.decoder.weight"),
    ] {
        let files = Files::of(fixture);
        let untied = files.clone().set("tie_word_embeddings", json!(false));
        let equal = untied.clone().copied(original, copy);
        assert_eq!(equal.read().unwrap(), files.read().unwrap());
        assert!(equal.notes()[0].contains("tie_word_embeddings: false"), "{:?}", equal.notes());
        assert_eq!(files.notes(), [""; 0]);
        let mut other = equal;
        let twice = other.tensors[copy].map(|x| 2.0 * x);
        other.tensors.insert(copy.into(), twice.clone());
        let other = other.read().unwrap();
        assert_eq!(other.outputs.0[0].lm_head.as_ref().unwrap().weight.0, twice);
        assert_eq!(other.with_plain_outputs(), files.read().unwrap().with_plain_outputs(), "nothing else differs");
        assert!(untied.refused().contains(&format!("{copy} is missing, though")), "{}", untied.refused());
    }
}

#[test]
fn prefixes_of_wrappers_are_removed_with_a_note() {
    for fixture in ["relative-gpt2", "relative-bert", "relative-roberta", "l2-d12-h3"] {
        let files = Files::of(fixture);
        let model = files.read().unwrap();
        for wrapping in ["module.", "_orig_mod.", "model.", "_orig_mod.module.", "module._orig_mod."] {
            let wrapped = files.clone().renamed(|name| Some(format!("{wrapping}{name}")));
            assert_eq!(wrapped.read().unwrap(), model, "{wrapping}");
            assert!(
                wrapped.notes()[0].starts_with(&format!("every tensor's name begins with {wrapping},")),
                "{:?}",
                wrapped.notes()
            );
        }
    }
    // A prefix of only some names, then names of another model. The message quotes some of the names found.
    let files = Files::of("relative-gpt2");
    let some = files.clone().renamed(|name| Some(if name.contains("h.0") { format!("module.{name}") } else { name.into() }));
    assert!(some.refused().contains("is missing") && some.refused().contains("the file has instead module.transformer.h.0."));
    let other = files.renamed(|name| Some(name.replace("transformer.", "decoder."))).refused();
    assert!(other.contains("wte.weight is missing") && other.contains("the file has instead decoder.h.0."), "{other}");
    assert!(other.contains("more; config.json and this file"), "{other}");
}

/// Without a class with heads in `architectures`, the tensors determine the heads.
#[test]
fn the_heads_follow_from_the_tensors() {
    for fixture in [
        "relative-bert",
        "relative-ernie",
        "relative-roberta",
        "tuned-bert",
        "tuned-roberta",
        "tuned-bert-choice",
        "tuned-roberta-choice",
    ] {
        let files = Files::of(fixture);
        let model = files.read().unwrap();
        let class = files.config["architectures"][0].as_str().unwrap().to_owned();
        let body = format!("{}Model", &class[..class.find("For").unwrap()]);
        for silent in [
            files.clone().without("architectures"),
            files.clone().set("architectures", json!([])),
            files.clone().set("architectures", json!(null)),
            files.clone().set("architectures", json!([body])),
        ] {
            let found = silent.read().unwrap_or_else(|error| panic!("{fixture}, {}: {error}", silent.config["architectures"]));
            assert_eq!(found, model, "{fixture}, {}", silent.config["architectures"]);
        }
    }
    // `architectures` contradicts the tensors.
    let lm = Files::of("relative-roberta");
    let body = lm.clone().renamed(|name| (!name.starts_with("lm_head")).then(|| name.to_owned()));
    let error = body.refused();
    assert!(error.contains("architectures: RobertaForMaskedLM needs lm_head.dense.weight"), "{error}");
    assert!(error.contains("those of RobertaModel; set architectures to [\"RobertaModel\"]"), "{error}");
    let error = lm.set("architectures", json!(["RobertaForSequenceClassification"])).refused();
    assert!(error.contains("needs classifier.out_proj.weight") && error.contains("those of RobertaForMaskedLM"), "{error}");
    assert_eq!(body.set("architectures", json!(["RobertaModel"])).read().unwrap().config().outputs[0].transform, None);
}

fn files_of_names(names: Value) -> Files {
    Files::of("tuned-bert").set("id2label", names)
}

#[test]
fn the_number_of_classes_follows_from_config_or_tensors() {
    let files = Files::of("tuned-bert");
    let classes = files.tensors["classifier.weight"].shape()[0];
    let of = |files: Files| files.read().unwrap().heads.0.iter().map(|head: &Head<_>| head.config().classes).collect::<Vec<_>>();
    let silent = files.without("id2label").without("label2id");
    assert_eq!(of(silent.clone()), [classes]);
    assert_eq!(of(silent.clone().set("num_labels", json!(classes))), [classes]);
    let wrong = silent.set("num_labels", json!(classes + 1)).refused();
    assert!(wrong.contains("classifier.weight: config.json expects shape"), "{wrong}");
    // As in `transformers`, `num_labels` prevails, and names for another number of classes are ignored.
    let both = files_of_names(json!({"0": "a", "1": "b", "2": "c", "3": "d", "4": "e"})).set("num_labels", json!(classes));
    assert_eq!(of(both.clone()), [classes]);
    assert_eq!(both.read().unwrap().heads.0[0].config().labels, [""; 0]);
}

/// Returns the logits of a model's head, which reads the slot `at` of each sequence.
fn class_logits(model: &Model<Tensor<f32>>, sequences: usize, ids: &[u32], at: usize) -> Tensor<f64> {
    let t = ids.len() / sequences;
    let classes = gradus_model::ClassLoss {
        head: 0,
        slots: (0..sequences).map(|s| (s * t + at) as u32).collect(),
        group: 1,
        targets: vec![0.0; sequences * model.heads.0[0].config().classes].into(),
        weights: vec![0.5; sequences].into(),
    };
    let batch = Batch::of(input(model, sequences, ids)).with_classes(classes);
    let found = model.clone().cast::<_, f64>().class_logits(&batch);
    let n = found.len();
    found.reshape([n])
}

#[test]
fn a_regression_head_matches_transformers() {
    let (sequences, ids, theirs) = expected("published-score");
    for files in [Files::of("published-score"), Files::of("published-score").without("architectures")] {
        let model = files.read().unwrap();
        let head = model.heads.0[0].config();
        assert_eq!((head.form, head.classes), (Form::Classify, 1));
        assert!(worst(&class_logits(&model, sequences, &ids, 0), &theirs) <= 1e-10);
    }
}

/// A classifier and a body have no output matrix that could be untied.
#[test]
fn a_gpt_without_an_output_is_read_untied() {
    let (sequences, ids, theirs) = expected("published-gpt2-classes");
    let silent = Files::of("published-gpt2-classes");
    let tied = || silent.clone().set("tie_word_embeddings", json!(true));
    let class = json!(["GPT2ForSequenceClassification"]);
    for files in [silent.clone(), tied(), silent.clone().set("architectures", class.clone()), tied().set("architectures", class)]
    {
        let model = files.read().unwrap();
        assert!(worst(&class_logits(&model, sequences, &ids, ids.len() / sequences - 1), &theirs) <= 1e-10);
    }
    assert!(silent.notes()[0].ends_with("no output matrix, so the embedding is used where tokens are predicted"));

    for (fixture, body) in [("relative-gpt2", "GPT2Model"), ("l2-d12-h3", "OpenAIGPTModel")] {
        let files = Files::of(fixture);
        let model = files.read().unwrap();
        let untied = files.set("tie_word_embeddings", json!(false));
        assert!(untied.refused().contains("lm_head.weight is missing, though config.json has tie_word_embeddings: false"));
        for silent in [untied.clone().without("architectures"), untied.clone().set("architectures", json!([body]))] {
            assert_eq!(silent.read().unwrap(), model);
        }
    }
}

#[test]
fn a_class_that_contradicts_the_tensors_is_rejected() {
    let classifier = Files::of("published-gpt2-classes");
    let of = |files: &Files, class: &str| files.clone().set("architectures", json!([class])).refused();
    let set = "set architectures to [\"GPT2ForSequenceClassification\"]";
    let error = of(&classifier, "GPT2LMHeadModel");
    assert!(
        error.contains("architectures: GPT2LMHeadModel has no score.weight, which is among the weights") && error.contains(set)
    );
    let error = of(&classifier, "MyClassifier");
    assert!(error.contains("architectures: MyClassifier is not a class that Gradus reads") && error.contains(set), "{error}");
    let error = of(&Files::of("relative-gpt2"), "GPT2ForSequenceClassification");
    assert!(error.contains("needs score.weight, which is not among the weights: they are those of GPT2LMHeadModel"), "{error}");
    for (fixture, class) in [
        ("relative-bert", "BertForPreTraining"),
        ("relative-roberta", "RobertaForMaskedLM"),
        ("tuned-bert", "BertForSequenceClassification"),
        ("tuned-roberta-choice", "RobertaForMultipleChoice"),
    ] {
        let error = of(&Files::of(fixture), "MyModel");
        assert!(
            error.contains("config.json: architectures: MyModel is not a class that Gradus reads, and the weights"),
            "{error}"
        );
        assert!(error.contains(&format!("set architectures to [\"{class}\"]")), "{error}");
    }
    // Tensors of a head that no class here has.
    let body = Files::of("published-score").renamed(|name| Some(name.replace("classifier.", "qa_outputs.")));
    let error = of(&body, "BertForQuestionAnswering");
    assert!(
        error.contains("qa_outputs.bias is not a parameter of this model") && error.contains("architectures: BertForQuestionA")
    );
}

/// `transformers` adds the bias of the output's layer, not the other.
#[test]
fn an_untied_bias_is_that_of_the_output() {
    let (sequences, ids, theirs) = expected("published-untied");
    let files = Files::of("published-untied");
    for files in [files.clone(), files.clone().set("tie_word_embeddings", json!(true)), files.clone().without("architectures")] {
        assert!(worst(&logits(&files.read().unwrap(), sequences, &ids), &theirs) <= 1e-10);
    }
    let other = files.renamed(|name| (name != "lm_head.decoder.bias").then(|| name.to_owned()));
    assert!(worst(&logits(&other.read().unwrap(), sequences, &ids), &theirs) > 1e-3);
}

#[test]
fn a_tied_output_that_differs_is_rejected() {
    let mut files = Files::of("relative-gpt2").copied("transformer.wte.weight", "lm_head.weight");
    let twice = files.tensors["lm_head.weight"].map(|x| 2.0 * x);
    files.tensors.insert("lm_head.weight".into(), twice);
    assert!(
        files.refused().contains("to which config.json ties it; if the output has a matrix of its own, set tie_word_embeddings")
    );
}

#[test]
fn an_untied_output_has_a_matrix_of_its_own() {
    for fixture in ["published-own-output-gpt2", "published-own-output-bert"] {
        let (sequences, ids, theirs) = expected(fixture);
        let model = Files::of(fixture).read().unwrap();
        assert!(!model.config().outputs[0].tied);
        let error = worst(&logits(&model, sequences, &ids), &theirs);
        assert!(error <= 1e-10, "{fixture}: {error:e}");
        let copy = tempfile::tempdir().unwrap();
        checkpoint::save(copy.path(), &model).unwrap();
        assert_eq!(checkpoint::load(copy.path()).unwrap(), model);
        let saved: Value = serde_json::from_slice(&std::fs::read(copy.path().join("config.json")).unwrap()).unwrap();
        assert_eq!(saved["tie_word_embeddings"], json!(false));
    }
}

#[test]
fn gpt2_s_sizes_have_aliases() {
    let (sequences, ids, theirs) = expected("published-gpt2");
    let files = Files::of("published-gpt2"); // with n_ctx 5, which nothing reads
    let both = files.clone().set("n_head", json!(4)).set("n_positions", json!(7)); // the alias prevails
    for files in [&files, &both] {
        let model = files.read().unwrap();
        assert_eq!(model.sizes().context, 10);
        assert!(worst(&logits(&model, sequences, &ids), &theirs) <= 1e-10);
    }
    let error = files.without("max_position_embeddings").refused();
    assert!(error.contains("wpe.weight: config.json expects shape [1024, 8], found [10, 8]"), "{error}");
    let gpt1 = Files::of("l2-d12-h3");
    let renamed = [("n_embd", "hidden_size"), ("n_layer", "num_hidden_layers"), ("n_head", "num_attention_heads")];
    let alias = renamed.iter().fold(gpt1.clone(), |files, (own, alias)| {
        let value = files.config[*own].clone();
        files.without(own).set(alias, value)
    });
    assert_eq!(alias.read().unwrap(), gpt1.read().unwrap());
}

#[test]
fn activations_of_other_names() {
    for (fixture, field) in [("relative-gpt2", "activation_function"), ("relative-bert", "hidden_act")] {
        let of = |name: &str| Files::of(fixture).set(field, json!(name));
        let [erf, tanh] = ["gelu", "gelu_new"].map(|name| of(name).read().unwrap());
        assert_ne!(erf, tanh);
        assert_eq!(of("gelu_python").read().unwrap(), erf);
        for name in ["gelu_fast", "gelu_pytorch_tanh", "gelu_python_tanh", "gelu_accurate"] {
            assert_eq!(of(name).read().unwrap(), tanh);
        }
        for name in ["gelu_10", "quick_gelu", "silu", "swish", "relu6", "GELU"] {
            let error = of(name).refused();
            assert!(error.contains(&format!("{field}: expected gelu, gelu_new or relu, found {name:?}")), "{error}");
        }
    }
}

#[test]
fn a_wrong_size_has_its_name_in_the_file() {
    for (fixture, field, value, expected) in [
        ("relative-bert", "hidden_size", json!(0), "config.json: hidden_size: expected a number from 1 to 65536, found 0"),
        ("relative-bert", "num_attention_heads", json!(5), "hidden_size: expected a multiple of the 5 heads, found 12"),
        (
            "relative-roberta",
            "max_position_embeddings",
            json!(1 << 30),
            "max_position_embeddings: expected a number from 1 to 1048576, found 1073741824",
        ),
        ("relative-bert", "layer_norm_eps", json!(-1.0), "layer_norm_eps: expected a number above 0, at most 1, found -1.0"),
        ("relative-gpt2", "n_layer", json!(0), "n_layer: expected a number from 1 to 1024, found 0"),
        ("relative-gpt2", "num_hidden_layers", json!(0), "num_hidden_layers: expected a number from 1 to 1024, found 0"),
        ("l2-d12-h3", "attn_pdrop", json!(1), "attn_pdrop: expected a probability from 0 to below 1, found 1"),
        ("tuned-bert", "num_labels", json!(0), "num_labels: expected a number from 2 to 65536, found 0"),
        ("relative-gpt2", "model_type", json!(5), "model_type: expected gpt2, bert, "),
    ] {
        let error = Files::of(fixture).set(field, value).refused();
        assert!(error.contains(expected) && !error.contains("--"), "{error}");
    }
}

#[test]
fn nan_and_infinity_in_unused_fields_of_a_configuration_are_accepted() {
    let files = Files::of("relative-gpt2");
    let model = files.read().unwrap();
    let text = files.config.to_string();
    let read = |config: &str| files.opened(config, "model.safetensors", None, |open| checkpoint::read(Path::new("model"), open));
    let odd = text.replacen('{', r#"{"summary_first_dropout": NaN, "max_length": Infinity, "a": [-Infinity], "#, 1);
    assert_eq!(read(&odd).unwrap(), model);
    let used = text.replace("\"n_layer\":2", "\"n_layer\":NaN");
    assert_ne!(used, text);
    let error = read(&used).unwrap_err().to_string();
    assert!(error.contains("n_layer: expected a finite number, found NaN"), "{error}");
}

#[test]
fn ernie_keeps_its_names() {
    let files = Files::of("relative-ernie");
    let model = files.read().unwrap();
    assert_eq!(model.config().model_type.as_deref(), Some("ernie"));
    let names: Vec<String> = checkpoint::theirs(&model).into_iter().map(|(name, _)| name).collect();
    assert!(names.iter().all(|name| name.starts_with("ernie.") || name.starts_with("cls.")), "{names:?}");
    let copy = tempfile::tempdir().unwrap();
    checkpoint::save(copy.path(), &model).unwrap();
    let saved: Value = serde_json::from_slice(&std::fs::read(copy.path().join("config.json")).unwrap()).unwrap();
    assert_eq!((&saved["model_type"], &saved["architectures"][0]), (&json!("ernie"), &files.config["architectures"][0]));
}

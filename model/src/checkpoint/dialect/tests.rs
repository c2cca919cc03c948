//! Tests of the names, sizes and classes of each dialect, in both directions.

use std::path::Path;

use serde_json::{Value, json};

use super::super::fields::HEADS;
use super::super::tests::opened;
use super::super::{config_json, files, read};
use super::*;
use crate::check::{tiny_bert, tiny_gpt, tiny_gpt2, tiny_lstm};
use crate::config::Activation;
use crate::head::{Form, HeadConfig, NEXT};
use crate::transformer::{NormPlace, Positions};

fn head(form: Form, classes: usize) -> HeadConfig {
    HeadConfig { bias: true, pooler: true, ..HeadConfig::new(form, classes) }
}

fn next() -> HeadConfig {
    HeadConfig { dropout: 0.0, labels: NEXT.map(str::to_owned).into(), ..head(Form::Classify, 2) }
}

fn bert(heads: &[HeadConfig]) -> ModelConfig {
    ModelConfig { heads: heads.into(), ..tiny_bert() }
}

fn roberta(heads: &[HeadConfig]) -> ModelConfig {
    bert(heads).with_transformer(|c| (c.segments, c.padding) = (1, Some(1)))
}

/// Returns the model without the layer before the output.
fn body(mut config: ModelConfig) -> ModelConfig {
    config.outputs[0].transform = None;
    config
}

fn of_type(model_type: &str, config: ModelConfig) -> ModelConfig {
    ModelConfig { model_type: Some(model_type.into()), ..config }
}

fn fields(config: &ModelConfig) -> Fields {
    serde_json::from_slice(&config_json::encode(config)).unwrap()
}

/// Returns the model's tensors, without prefix, and its dialect.
fn held(config: &ModelConfig) -> (Held, &'static dyn Dialect) {
    let dialect = of(config);
    let plain = |name: &str| name.strip_prefix(dialect.names().prefix).unwrap_or(name).to_owned();
    let tensors = theirs(&Model::<Tensor<f32>>::init(config, 1));
    (Held(Some(tensors.iter().map(|(name, tensor)| (plain(name), tensor.shape().to_vec())).collect())), dialect)
}

/// A configuration, and its model type, class and the names of some of its tensors.
type Named = (ModelConfig, &'static str, &'static str, &'static [&'static str]);

fn all() -> Vec<Named> {
    let (classify, choose) = ([head(Form::Classify, 3)], [head(Form::Choose, 1)]);
    let pretraining: &[&str] = &[
        "bert.encoder.layer.1.attention.self.value.weight",
        "bert.pooler.dense.weight",
        "cls.predictions.transform.dense.weight",
        "cls.predictions.transform.LayerNorm.bias",
        "cls.predictions.bias",
        "cls.seq_relationship.bias",
    ];
    let single = || bert(&[]).with_transformer(|c| c.segments = 1);
    let masked: &[&str] =
        &["lm_head.dense.weight", "lm_head.layer_norm.weight", "lm_head.bias", "roberta.embeddings.LayerNorm.bias"];
    vec![
        (bert(&[next()]), "bert", "BertForPreTraining", pretraining),
        (bert(&[]), "bert", "BertForMaskedLM", &pretraining[2..5]),
        (body(bert(&[])), "bert", "BertModel", &pretraining[..1]),
        (body(bert(&classify)), "bert", "BertForSequenceClassification", &["bert.pooler.dense.bias", "classifier.weight"]),
        (body(bert(&choose)), "bert", "BertForMultipleChoice", &["bert.pooler.dense.weight", "classifier.bias"]),
        (of_type("bert", single()), "bert", "BertForMaskedLM", &pretraining[2..5]),
        (of_type("ernie", bert(&[])), "ernie", "ErnieForMaskedLM", &["ernie.embeddings.word_embeddings.weight"]),
        (of_type("ernie", bert(&[next()])), "ernie", "ErnieForPreTraining", &["ernie.pooler.dense.weight"]),
        (single(), "roberta", "RobertaForMaskedLM", masked),
        (roberta(&[]), "roberta", "RobertaForMaskedLM", masked),
        (body(roberta(&[])), "roberta", "RobertaModel", &masked[3..]),
        (
            body(roberta(&classify)),
            "roberta",
            "RobertaForSequenceClassification",
            &["classifier.dense.weight", "classifier.out_proj.bias"],
        ),
        (body(roberta(&choose)), "roberta", "RobertaForMultipleChoice", &["roberta.pooler.dense.weight", "classifier.weight"]),
    ]
}

#[test]
fn a_relative_of_bert_has_the_type_class_and_names_of_transformers() {
    for (config, model_type, class, names) in all() {
        let fields = fields(&config);
        assert_eq!((&fields["model_type"], &fields["architectures"]), (&json!(model_type), &json!([class])));
        let tensors = theirs(&Model::<Tensor<f32>>::init(&config, 1));
        for name in names {
            assert!(tensors.iter().any(|(found, _)| found == name), "{class}: {name}");
        }
    }
    let class = |config: &ModelConfig| fields(config)["architectures"][0].clone();
    assert_eq!(class(&body(bert(&[next()]))), "BertModel", "next-sentence prediction alone has no class");
    assert_eq!(class(&roberta(&[next()])), "RobertaForMaskedLM", "RoBERTa has no next-sentence prediction");
}

/// The result is the same without the field of heads, and without the class, which the tensors determine.
#[test]
fn a_relative_of_bert_is_read_as_it_was_written() {
    for (config, _, class, _) in all() {
        let (held, dialect) = held(&config);
        let mut fields = fields(&config);
        let read = |fields: &Fields| dialect.model(fields, &held).unwrap();
        assert_eq!(read(&fields), config, "{class}");
        fields.remove(HEADS);
        assert_eq!(read(&fields), config, "{class} without our heads");
        ["architectures", "id2label", "label2id"].iter().for_each(|name| _ = fields.remove(*name));
        assert_eq!(read(&fields), config, "{class} by its tensors");
    }
}

#[test]
fn a_model_that_bert_cannot_express_has_our_model_type() {
    let changed = |change: fn(&mut ModelConfig)| {
        let mut config = bert(&[]);
        change(&mut config);
        fields(&config)["model_type"].clone()
    };
    for change in [
        (|config| *config = config.clone().with_transformer(|c| c.embd_dropout = 0.2)) as fn(&mut ModelConfig),
        |config| *config = config.clone().with_transformer(|c| c.positions = Positions::Sinusoidal),
        |config| *config = config.clone().with_transformer(|c| c.segments = 0),
        |config| *config = config.clone().with_transformer(|c| c.final_norm = true),
        |config| config.outputs[0].transform.as_mut().unwrap().activation = Activation::Relu,
        |config| *config = of_type("bert", config.clone()).with_transformer(|c| c.padding = Some(1)),
    ] {
        assert_eq!(changed(change), "gradus-gpt");
    }
    assert_eq!(changed(|_| ()), "bert");
}

#[test]
fn classes_need_their_tensors() {
    let error = |class: &str, of: &ModelConfig| {
        let (held, dialect) = held(of);
        let mut fields = fields(of);
        fields.remove(HEADS);
        fields.insert("architectures".into(), json!([class]));
        dialect.model(&fields, &held).err().unwrap_or_default()
    };
    for (class, missing) in [
        ("BertForPreTraining", "cls.seq_relationship.weight"),
        ("BertForSequenceClassification", "classifier.weight"),
        ("BertForMultipleChoice", "classifier.weight"),
    ] {
        let found = error(class, &bert(&[]));
        assert!(found.contains(&format!("{class} needs {missing}")), "{found}");
    }
    assert_eq!(error("BertForTokenClassification", &body(bert(&[]))), "", "its body is all that the file has");
    assert_eq!(error("RobertaForPreTraining", &roberta(&[])), "", "the masked language model");
    assert_eq!(error("BertModel", &bert(&[])), "");
    let (Held(tensors), dialect) = held(&body(bert(&[])));
    let with_pooler = tensors.unwrap().into_iter().chain([("pooler.dense.weight".to_owned(), vec![12, 12])]).collect();
    let mut fields = fields(&body(bert(&[])));
    fields.remove("architectures");
    let read = dialect.model(&fields, &Held(Some(with_pooler))).unwrap();
    assert!(read.heads.is_empty(), "a pooler alone is no classifier");
}

/// A classifier of one class predicts a number if the file states so, and scores a choice otherwise.
#[test]
fn a_classifier_of_one_class_is_a_choice_or_a_number() {
    let (held, dialect) = held(&body(bert(&[head(Form::Choose, 1)])));
    let form = |change: &[(&str, Value)]| {
        let mut fields = fields(&body(bert(&[])));
        fields.remove("architectures");
        fields.insert("gradus_transform".into(), json!(false));
        change.iter().for_each(|(name, value)| _ = fields.insert((*name).into(), value.clone()));
        dialect.model(&fields, &held).unwrap().heads[0].form
    };
    assert_eq!(form(&[]), Form::Choose);
    assert_eq!(form(&[("id2label", json!({ "0": "a", "1": "b" }))]), Form::Choose);
    assert_eq!(form(&[("id2label", json!({ "0": "score" }))]), Form::Classify);
    assert_eq!(form(&[("num_labels", json!(1))]), Form::Classify);
}

#[test]
fn padding_and_positions_of_roberta() {
    let (held, dialect) = held(&roberta(&[]));
    let read = |change: &[(&str, Value)]| {
        let mut fields = fields(&roberta(&[]));
        change.iter().for_each(|(name, value)| match value {
            Value::Null => _ = fields.remove(*name),
            value => _ = fields.insert((*name).into(), value.clone()),
        });
        let found = dialect.model(&fields, &held)?;
        Ok::<_, String>((found.transformer().unwrap().padding, found.sizes.context))
    };
    assert_eq!(fields(&bert(&[]))["max_position_embeddings"], 9);
    assert_eq!(fields(&roberta(&[]))["max_position_embeddings"], 11, "nine, after the row of padding and one more");
    assert_eq!(read(&[]), Ok((Some(1), 9)));
    assert_eq!(read(&[("pad_token_id", Value::Null)]), Ok((Some(1), 9)));
    assert_eq!(read(&[("pad_token_id", json!(3))]), Ok((Some(3), 7)));
    assert_eq!(read(&[("gradus_counts_padding", json!(true))]), Ok((None, 9)));
    assert_eq!(read(&[("max_position_embeddings", json!(3))]), Ok((Some(1), 1)));
    assert_eq!(
        read(&[("max_position_embeddings", json!(2))]),
        Err("max_position_embeddings: expected more than 2, found 2".into())
    );
    for (name, value) in
        [("is_decoder", json!(true)), ("position_embedding_type", json!("relative_key")), ("use_task_id", json!(true))]
    {
        assert!(read(&[(name, value)]).unwrap_err().starts_with(&format!("{name}: expected ")));
    }
}

#[test]
fn a_head_is_theirs_with_pooler_and_bias() {
    let has = |head| {
        let config = body(bert(&[head]));
        let dialect = of(&config);
        (dialect.has_head(&config), dialect.classifier(&config).is_some())
    };
    assert_eq!(has(head(Form::Classify, 3)), (true, true));
    assert_eq!(has(next()), (true, false));
    for other in [
        head(Form::Similar, 3),
        HeadConfig { bias: false, ..head(Form::Classify, 3) },
        HeadConfig { pooler: false, ..head(Form::Classify, 3) },
    ] {
        assert_eq!(has(other), (false, false));
    }
    let tensors = theirs(&Model::<Tensor<f32>>::init(&body(bert(&[head(Form::Similar, 3)])), 1));
    assert!(tensors.iter().any(|(name, _)| name == "score.weight"), "another head keeps our name");
    let [with, without] = [bert(&[]), body(bert(&[]))].map(|config| of(&config).has_output(&Fields::new(), &config));
    assert!(with && !without);
}

/// Linear layers of PyTorch are stored (out, in); an output's matrix (classes, d) is stored as in Gradus.
#[test]
fn weights_of_linear_layers_are_transposed() {
    let model = Model::<Tensor<f32>>::init(&body(bert(&[head(Form::Classify, 3)])), 1);
    let tensors: BTreeMap<String, Tensor<f32>> = theirs(&model).into_iter().collect();
    let head = model.head().unwrap();
    let pooler = &head.pooler.as_ref().unwrap().weight.0;
    assert_eq!(tensors["bert.pooler.dense.weight"], pooler.permute(&[1, 0]).dense());
    assert_eq!(tensors["classifier.weight"], head.weight.0);
    let queries = &model.transformer().unwrap().h.0[0].attn.c_attn.weight.0;
    assert_eq!(
        tensors["bert.encoder.layer.0.attention.self.key.weight"],
        queries.slice(1, 12..24).dense().permute(&[1, 0]).dense()
    );
}

/// `transformers` adds the copy of an untied output's bias.
#[test]
fn an_untied_output_has_a_copy_of_its_bias() {
    for (mut config, copy, original) in [
        (bert(&[]), "cls.predictions.decoder.bias", "cls.predictions.bias"),
        (roberta(&[]), "lm_head.decoder.bias", "lm_head.bias"),
    ] {
        let is_copied = |config: &ModelConfig| {
            let tensors: BTreeMap<_, _> = theirs(&Model::<Tensor<f32>>::init(config, 1)).into_iter().collect();
            tensors.get(copy).map(|bias| *bias == tensors[original])
        };
        assert_eq!(is_copied(&config), None);
        config.outputs[0].tied = false;
        assert_eq!(is_copied(&config), Some(true));
    }
}

/// RoBERTa's table of positions begins with rows that are never read.
#[test]
fn weights_of_each_relative_are_read_as_they_were_written() {
    for (config, ..) in all() {
        let model = Model::<Tensor<f32>>::init(&config, 1);
        let files = files(&model).unwrap().into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect();
        assert_eq!(read(Path::new("m"), &opened(&files)).unwrap(), model, "{config:?}");
    }
    let tensors: BTreeMap<_, _> = theirs(&Model::<Tensor<f32>>::init(&roberta(&[]), 1)).into_iter().collect();
    let positions = &tensors["roberta.embeddings.position_embeddings.weight"];
    assert_eq!((positions.shape()[0], &positions.to_vec()[..12]), (11, &[0.0; 12][..]));
}

#[test]
fn absent_fields_have_the_defaults_of_transformers() {
    let read = |config: &ModelConfig, absent: &[&str]| {
        let mut fields = fields(config);
        absent.iter().for_each(|name| assert!(fields.remove(*name).is_some(), "{name}"));
        of(config).model(&fields, &Held::default()).unwrap()
    };
    let sizes = read(&tiny_gpt(), &["vocab_size", "n_positions"]).sizes;
    assert_eq!((sizes.vocab, sizes.context), (40_478, 512));
    assert_eq!(read(&tiny_gpt2(), &["n_positions"]).sizes.context, 1024);
    let found = read(&bert(&[]), &["intermediate_size", "hidden_act", "layer_norm_eps", "type_vocab_size"]);
    let c = found.transformer().unwrap();
    assert_eq!((c.inner, c.activation, c.layer_norm_epsilon, c.segments), (Some(3072), Activation::GeluErf, 1e-12, 2));
}

#[test]
fn activations_have_the_names_of_transformers() {
    let with = |activation| fields(&tiny_gpt2().with_transformer(|c| c.activation = activation))["activation_function"].clone();
    assert_eq!([Activation::Gelu, Activation::GeluErf, Activation::Relu].map(with), ["gelu_new", "gelu", "relu"]);
    let read = |name: &str| {
        let mut fields = fields(&tiny_gpt2());
        fields.insert("activation_function".into(), json!(name));
        named("gpt2").model(&fields, &Held::default()).map(|config| config.transformer().unwrap().activation)
    };
    for (name, activation) in
        [("gelu_pytorch_tanh", Activation::Gelu), ("gelu_python", Activation::GeluErf), ("relu", Activation::Relu)]
    {
        assert_eq!(read(name), Ok(activation));
    }
    assert_eq!(read("silu"), Err("activation_function: expected gelu, gelu_new or relu, found \"silu\"".into()));
}

#[test]
fn older_names_buffers_and_fields_are_known() {
    let bert = named("bert");
    assert_eq!([bert.modern("a.gamma"), bert.modern("a.beta"), bert.modern("a.b")], ["a.weight", "a.bias", "a.b"]);
    for (name, ignored) in [
        ("embeddings.position_ids", true),
        ("embeddings.token_type_ids", true),
        ("pooler.dense.weight", true),
        ("cls.seq_relationship.bias", true),
        ("pooler.dense.other", false),
        ("classifier.weight", false),
    ] {
        assert_eq!(bert.ignores(name), ignored, "{name}");
    }
    let name = |ours| bert.name(&Fields::new(), ours);
    assert_eq!([name("padding"), name("layers"), name("other")], ["pad_token_id", "num_hidden_layers", "other"]);
}

/// Returns GPT-1 and GPT-2, with their model types, and their classes: of the body, the language model and the classifier.
fn gpts() -> [(ModelConfig, &'static str, [&'static str; 3]); 2] {
    let gpt1 = ["OpenAIGPTModel", "OpenAIGPTLMHeadModel", "OpenAIGPTForSequenceClassification"];
    let gpt2 = ["GPT2Model", "GPT2LMHeadModel", "GPT2ForSequenceClassification"];
    [(tiny_gpt(), "openai-gpt", gpt1), (tiny_gpt2(), "gpt2", gpt2)]
}

fn with_head(config: &ModelConfig, head: HeadConfig) -> ModelConfig {
    ModelConfig { heads: vec![head], ..config.clone() }
}

#[test]
fn a_gpt_has_the_type_and_class_of_transformers() {
    for (config, model_type, [_, lm, classifier]) in gpts() {
        let classify = with_head(&config, HeadConfig::new(Form::Classify, 3));
        for (config, class) in [(&config, lm), (&classify, classifier), (&with_head(&config, head(Form::Classify, 3)), lm)] {
            let fields = fields(config);
            assert_eq!((&fields["model_type"], &fields["architectures"]), (&json!(model_type), &json!([class])));
        }
    }
    let unscaled = tiny_gpt2().with_transformer(|c| c.scaled_init = false);
    assert_eq!((&fields(&unscaled)["model_type"], &fields(&unscaled)["gradus_scaled_init"]), (&json!("gpt2"), &json!(false)));
    for change in [
        (|c| c.positions = Positions::Sinusoidal) as fn(&mut crate::transformer::TransformerConfig),
        |c| c.norm = NormPlace::After,
        |c| c.final_norm = false,
        |c| c.segments = 2,
    ] {
        assert_eq!(fields(&tiny_gpt2().with_transformer(change))["model_type"], "gradus-gpt");
    }
    let masked = ModelConfig { outputs: body(tiny_bert()).outputs, ..tiny_gpt2() };
    assert_eq!(fields(&masked)["model_type"], "gradus-gpt");
}

#[test]
fn a_gpt_is_read_as_it_was_written() {
    let unscaled = tiny_gpt2().with_transformer(|c| c.scaled_init = false);
    let classifiers = gpts().map(|(config, ..)| with_head(&config, HeadConfig::new(Form::Classify, 3)));
    for config in [tiny_gpt(), tiny_gpt2(), unscaled, tiny_lstm()].into_iter().chain(classifiers) {
        let (held, dialect) = held(&config);
        let mut fields = fields(&config);
        for name in ["", HEADS, "architectures", "id2label", "label2id"] {
            fields.remove(name);
            assert_eq!(dialect.model(&fields, &held).unwrap(), config, "{config:?} without {name}");
        }
    }
}

#[test]
fn a_classifier_is_one_by_its_class_and_its_weight() {
    for (config, _, [body, lm, classifier]) in gpts() {
        let classify = with_head(&config, HeadConfig::new(Form::Classify, 3));
        let (dialect, plain) = (of(&config), fields(&config));
        let read = |class: Option<&str>, held: &Held| {
            let mut fields = plain.clone();
            fields.insert("architectures".into(), json!(class.into_iter().collect::<Vec<_>>()));
            dialect.model(&fields, held).map(|config| config.heads.len())
        };
        let (with, without) = (held(&classify).0, held(&config).0);
        assert_eq!([body, classifier].map(|class| read(Some(class), &with)), [Ok(1), Ok(1)]);
        assert_eq!((read(None, &with), read(None, &without)), (Ok(1), Ok(0)));
        assert_eq!([body, lm, "Other"].map(|class| read(Some(class), &without)), [Ok(0), Ok(0), Ok(0)]);
        assert_eq!([lm, classifier].map(|class| read(Some(class), &Held::default())), [Ok(0), Ok(1)]);
        let error = |class, held| read(Some(class), held).unwrap_err();
        assert!(error(classifier, &without).contains("needs score.weight"), "{}", error(classifier, &without));
        assert!(error(lm, &with).contains("has no score.weight, which is among the weights"), "{}", error(lm, &with));
        assert!(error("Other", &with).contains("Other is not a class that Gradus reads"), "{}", error("Other", &with));
        let pooled = head(Form::Classify, 3);
        let read = dialect.model(&fields(&with_head(&config, pooled.clone())), &with).unwrap();
        assert_eq!(read.heads, [pooled], "our field of heads prevails");
        let has_output = |class| {
            let fields = Fields::from_iter([("architectures".into(), json!([class]))]);
            dialect.has_output(&fields, &config)
        };
        assert_eq!([body, lm, classifier, "Other"].map(has_output), [false, true, false, true]);
        assert!(!dialect.has_output(&Fields::new(), &config));
        for (name, ignored) in [("h.0.attn.bias", true), ("h.0.attn.masked_bias", true), ("h.0.mlp.bias", false)] {
            assert_eq!(dialect.ignores(name), ignored, "{name}");
        }
    }
    assert!(named("openai-gpt").ignores("position_ids") && !named("gpt2").ignores("position_ids"));
}

#[test]
fn options_that_gpt2_lacks_here_are_rejected() {
    for (name, fits) in [("scale_attn_weights", true), ("scale_attn_by_inverse_layer_idx", false), ("add_cross_attention", false)]
    {
        let read = |value: bool| {
            let mut fields = fields(&tiny_gpt2());
            fields.insert(name.into(), json!(value));
            named("gpt2").model(&fields, &Held::default()).map(drop)
        };
        assert_eq!((read(fits), read(!fits)), (Ok(()), Err(format!("{name}: expected {fits}, found {}", !fits))));
    }
}

#[test]
fn fields_of_our_own_types_have_our_names() {
    let name = |fields: &[(&str, Value)], ours| {
        let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        named("openai-gpt").name(&fields, ours)
    };
    assert_eq!([name(&[], "width"), name(&[("hidden_size", json!(3))], "width")], ["n_embd", "hidden_size"]);
    assert_eq!([name(&[], "inner"), name(&[("gradus_inner", json!(3))], "inner")], ["inner", "gradus_inner"]);
    assert_eq!(name(&[("model_type", json!("gradus-lstm"))], "width"), "width");
    let of_gpt2 = |ours| named("gpt2").name(&Fields::new(), ours);
    assert_eq!([of_gpt2("width"), of_gpt2("other")], ["n_embd", "other"]);
    let types = model_types();
    assert!(
        ["gpt2", "bert", "roberta", "openai-gpt", "gradus-lstm", "gradus-ngram"]
            .iter()
            .all(|name| types.contains(&(*name).into()))
    );
    assert!(!types.contains(&"gradus-transformer".into()));
}

//! Tests of releases in memory: exact round trips, and files that are invalid in every way.

use std::collections::BTreeMap;

use serde_json::json;

use super::super::tests::{opened, tiny};
use super::*;
use crate::check::tiny_gpt2;
use crate::head::{Form, HeadConfig};
use crate::recurrent::LstmConfig;

type Files = BTreeMap<String, Vec<u8>>;

fn release(model: &Model<Tensor<f32>>) -> Files {
    files(model).unwrap().collect()
}

fn read_files(files: &Files, untold: Untold) -> Result<Model<Tensor<f32>>, CheckpointError> {
    read(Path::new("r"), &opened(files), untold)
}

fn with(change: impl FnOnce(&mut TransformerConfig)) -> Model<Tensor<f32>> {
    Model::init(&tiny().config().with_transformer(change), 4)
}

#[track_caller]
fn refused(files: &Files, words: &[&str]) {
    let error = read_files(files, Untold::default()).unwrap_err().to_string();
    words.iter().for_each(|word| assert!(error.contains(word), "{word:?} in: {error}"));
}

#[test]
fn export_and_import_are_exact_inverses() {
    for model in [
        tiny(),
        with(|c| *c = TransformerConfig { layers: 3, heads: 1, activation: Activation::Relu, ..c.with_dropout(0.3) }),
        with(|c| c.embedding = Embedding::Joint),
    ] {
        let files = release(&model);
        let back = read_files(&files, Untold::default()).unwrap();
        assert_eq!(back, model);
        assert_eq!(release(&back), files, "and there again");
    }
}

/// The shapes of the published release, as its params_shapes.json has them
/// (github.com/openai/finetune-transformer-lm, commit a69b5c4, MIT licence).
#[test]
fn the_shapes_of_gpt_1_are_the_published_ones() {
    let block = ", [1, 768, 2304], [2304], [1, 768, 768], [768], [768], [768], \
        [1, 768, 3072], [3072], [1, 3072, 768], [768], [768], [768]";
    let published = format!("[[512, 768], [40478, 768]{}]", block.repeat(12));
    assert_eq!(published.len(), 1478, "bytes of the published file");
    let (sizes, gpt1) = (ModelConfig::default().sizes, TransformerConfig::default());
    let shapes = layout::shapes(sizes, &gpt1);
    assert_eq!(serde_json::from_str::<layout::Shapes>(&published).unwrap(), shapes);
    assert_eq!(shapes_json(sizes, &gpt1), published);
    assert_eq!(shapes.iter().map(|shape| shape.iter().product::<usize>()).sum::<usize>(), 116_534_784);
}

/// A release without `config.json`, whose elements are their own indices in the flat vector: each parameter is where it belongs.
#[test]
fn positions_come_first_and_specials_after_the_tokens() {
    let (vocab, context, d) = (7, 5, 4);
    let mut files = release(&tiny());
    files.remove(CONFIG_FILE);
    let total = tiny().config().parameters();
    // Other boundaries than those of `files`, and numbers of other sizes.
    for (n, range) in [0..3, 3..90, 90..90, 90..total].into_iter().enumerate() {
        let (descr, bytes): (_, Vec<u8>) = match n {
            1 => ("<f8", range.clone().flat_map(|x| (x as f64).to_le_bytes()).collect()),
            _ => ("<f4", range.clone().flat_map(|x| (x as f32).to_le_bytes()).collect()),
        };
        let header = String::from_utf8_lossy(&npy::header(range.len())[10..]).replace("<f4", descr);
        files.insert(piece(n), [b"\x93NUMPY\x01\x00\x76\x00", header.as_bytes(), &bytes].concat());
    }
    (4..PIECES).for_each(|n| drop(files.remove(&piece(n))));

    let untold = Untold { heads: Some(2), embedding: None };
    let model = read_files(&files, untold).unwrap();
    let first = |of: &Model<Tensor<f32>>| {
        let mut firsts = BTreeMap::new();
        of.as_ref().visit(|name, p| firsts.extend([(name.to_owned(), p.to_vec()[0] as usize)]));
        firsts
    };
    let firsts = first(&model);
    assert_eq!([firsts[POSITIONS], firsts[TOKENS]], [0, context * d]);
    let block = (context + vocab) * d;
    assert_eq!(firsts["h.0.attn.c_attn.weight"], block);
    assert_eq!(firsts["h.0.attn.c_attn.bias"], block + 3 * d * d);
    assert_eq!(firsts["h.0.mlp.c_fc.weight"], block + 3 * d * d + 3 * d + d * d + 3 * d);
    assert_eq!(firsts["h.0.ln_2.bias"], total - d);
    // train.py's `we`: tokens, then specials, then positions.
    let joint = read_files(&files, Untold { embedding: Some(Embedding::Joint), ..untold }).unwrap();
    let joint = joint.with_tokens(vocab..vocab + 3, 0.0, 1);
    let rows: Vec<f32> = joint.transformer().unwrap().tokens_embed.weight.0.slice(1, 0..1).to_vec();
    assert_eq!(rows[0..7], [20.0, 24.0, 28.0, 32.0, 36.0, 40.0, 44.0]);
    assert_eq!(rows[7..10], [0.0; 3]);
    assert_eq!(rows[10..15], [0.0, 4.0, 8.0, 12.0, 16.0]);
}

#[test]
fn the_listed_file_names_and_flags_match_a_release() {
    let names: std::collections::BTreeSet<String> = file_names().collect();
    assert!(names.iter().eq(release(&tiny()).keys()), "{names:?}");
    let paper =
        "--n_ctx 512 --n_embd 768 --n_head 12 --n_layer 12 --afn gelu --embd_pdrop 0.1 --attn_pdrop 0.1 --resid_pdrop 0.1";
    assert_eq!(flags(ModelConfig::default().sizes, &TransformerConfig::default()), paper);
}

/// The default is the paper's 12, if they divide the width.
#[test]
fn unspecified_heads_default_to_the_papers_12() {
    let mut config = tiny().config().with_transformer(|c| c.heads = 12);
    config.sizes.width = 24;
    let model = Model::init(&config, 4);
    let mut files = release(&model);
    files.remove(CONFIG_FILE);
    assert_eq!(read_files(&files, Untold::default()).unwrap(), model);
    let three = read_files(&files, Untold { heads: Some(3), embedding: None }).unwrap();
    assert_eq!(three.transformer().unwrap().config().heads, 3);
}

#[test]
fn models_outside_the_release_format_are_rejected_by_name() {
    let gpt = tiny().config();
    let head = ModelConfig { heads: vec![HeadConfig::new(Form::Classify, 2)], ..gpt.clone() };
    for (model, word) in [
        (Model::init(&ModelConfig::new(gpt.sizes, LstmConfig::default()), 1), "an LSTM"),
        (Model::init(&head, 1), "a task's head"),
        (with(|c| c.positions = Positions::Sinusoidal), "sinusoidal positions"),
        (with(|c| c.activation = Activation::GeluErf), "gelu_erf"),
        (Model::init(&tiny_gpt2(), 1), "parts that GPT-1 lacks"),
        (Model::init(&ModelConfig { outputs: vec![], ..gpt.clone() }, 1), "parts that GPT-1 lacks"),
        (with(|c| c.layer_norm_epsilon = 1e-2), "ε of 0.01, only 0.00001"),
    ] {
        let error = files(&model).map(|_| ()).unwrap_err().to_string();
        assert!(error.starts_with("OpenAI's release cannot hold ") && error.contains(word), "{error}");
    }
}

#[test]
fn inconsistent_release_files_are_named_in_the_error() {
    let whole = release(&tiny());
    let change = |name: &str, bytes: Option<Vec<u8>>| {
        let mut files = whole.clone();
        files.remove(name);
        files.extend(bytes.map(|bytes| (name.to_owned(), bytes)));
        files
    };
    let shapes = |shapes: serde_json::Value| change(SHAPES_FILE, Some(shapes.to_string().into()));
    refused(&change(SHAPES_FILE, None), &["r/params_shapes.json: there is no such file", "OpenAI's release is"]);
    refused(&change("params_3.npy", None), &["shapes of 292 numbers", "in the files before params_3.npy"]);
    refused(&change("params_3.npy", Some(npy::header(1))), &["r/params_3.npy: expected 1 numbers of 4 bytes"]);
    refused(&change(SHAPES_FILE, Some(b"{}".to_vec())), &["expected a list of shapes"]);
    refused(&shapes(json!([[5, 4]])), &["the shapes of positions, tokens and blocks, found 1"]);
    refused(&shapes(json!([[5, 4], [7]])), &["two tables", "found [5, 4] and [7]"]);
    refused(&shapes(json!([[5, 4], [7, 4], [3]])), &["12 arrays for each block after the two tables, found 1"]);
    let mut one_off = layout::shapes(tiny().sizes(), tiny().transformer().unwrap().config());
    one_off[3] = vec![13];
    refused(&shapes(json!(one_off)), &["array 3 (from 0), h.0.attn.c_attn.bias: expected [12], found [13]"]);
    one_off[3] = vec![12];
    one_off[1] = vec![8, 4];
    refused(&shapes(json!(one_off)), &["[8, 5, 4, 1] by these shapes, [7, 5, 4, 1] by the config.json beside them"]);
    one_off[0] = vec![usize::MAX, 4];
    refused(&shapes(json!(one_off)), &["context = 18446744073709551615: expected a number from 1 to"]);

    let mut bare = whole.clone();
    bare.remove(CONFIG_FILE);
    refused(&bare, &["the paper's 12 do not divide width 4: give --heads"]);
}

use std::fs;
use std::path::Path;

use gradus_model::{Embedding, checkpoint};
use safetensors::SafeTensors;

use super::*;

/// The f64 elements of a tensor of a fixture.
fn expected(file: &SafeTensors<'_>, name: &str) -> Vec<f64> {
    let view = file.tensor(name).expect("in the fixture");
    view.data().as_chunks().0.iter().map(|&b| f64::from_le_bytes(b)).collect()
}

#[test]
fn ids_agree_with_transformers() {
    let dir = tempfile::tempdir().unwrap();
    for model in ["l2-d12-h3", "l1-d8-h2-epsilon", "l3-d16-h4-relu", "l2-d24-h2-dropout"] {
        let bytes = fs::read(golden(model).join("expected.safetensors")).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let input = file.tensor("input_ids").unwrap();
        let t = input.shape()[1];
        let all: Vec<i64> = input.data().as_chunks().0.iter().map(|&b| i64::from_le_bytes(b)).collect();
        let token_nll = expected(&file, "f64.token_nll");
        for (row, ids) in all.chunks(t).enumerate() {
            let text: Vec<String> = ids.iter().map(i64::to_string).collect();
            let ids = write(dir.path(), "ids", text.join("\n "));
            let json = gradus("evaluate --model {} --ids {} --dtype f64 --json", &[&golden(model), &ids]).json();
            let (found, expected) = (numbers(&json["token_nll"]), &token_nll[row * (t - 1)..][..t - 1]);
            assert_eq!(found.len(), t - 1);
            let largest = expected.iter().fold(0.0f64, |m, x| m.max(x.abs()));
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() <= 1e-10 * largest), "{model}: {found:?} {expected:?}");
            let nll = found.iter().sum::<f64>() / (t - 1) as f64;
            assert!((json["nll"].as_f64().unwrap() - nll).abs() < 1e-12);
            assert!((json["perplexity"].as_f64().unwrap() - nll.exp()).abs() < 1e-9 * nll.exp());
            assert_eq!(json["tokens"], t - 1);
            let single = gradus("evaluate --model {} --ids {} --json", &[&golden(model), &ids]).json();
            assert!((single["nll"].as_f64().unwrap() - nll).abs() < 1e-4 * nll);
        }
    }
}

#[test]
fn gradient_norms_agree_with_transformers() {
    // The fixture's gradient is that of the mean over all its rows: as a folder of files, a row each, they are one corpus.
    let (model, dir) = ("l2-d24-h2-dropout", tempfile::tempdir().unwrap());
    let bytes = fs::read(golden(model).join("expected.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    for name in ["config.json", "model.safetensors"] {
        fs::copy(golden(model).join(name), dir.path().join(name)).unwrap();
    }
    // Characters from 'A' on stand for the ids, by code point.
    let letters: Vec<char> = (0..31).map(|i| char::from(b'A' + i)).collect();
    let all: String = letters.iter().collect();
    Tokenizer::characters([all.as_str()]).save(dir.path()).unwrap();
    let input = file.tensor("input_ids").unwrap();
    let ids: Vec<i64> = input.data().as_chunks().0.iter().map(|&b| i64::from_le_bytes(b)).collect();
    let corpus = dir.path().join("corpus");
    fs::create_dir(&corpus).unwrap();
    for (row, ids) in ids.chunks(input.shape()[1]).enumerate() {
        write(&corpus, &row.to_string(), ids.iter().map(|&id| letters[id as usize]).collect::<String>());
    }
    let json = gradus("evaluate --model {} --corpus {} --dtype f64 --gradients --json", &[dir.path(), &corpus]).json();
    let norms = json["gradient_norms"].as_object().unwrap();
    let names: Vec<_> = file.names().into_iter().filter_map(|n| n.strip_prefix("f64.gradient.")).collect();
    assert_eq!(norms.len(), names.len());
    for name in names {
        let norm = expected(&file, &format!("f64.gradient.{name}")).iter().map(|g| g * g).sum::<f64>().sqrt();
        let found = norms[name].as_f64().unwrap();
        assert!((found - norm).abs() <= 1e-10 * norm, "{name}: {found} for {norm}");
    }
    assert!((json["nll"].as_f64().unwrap() - expected(&file, "f64.loss")[0]).abs() < 1e-10);
}

/// A text of 40 tokens, each a character of two bytes: a tokenizer changes perplexity, and not what a byte costs.
#[test]
fn perplexity_is_per_token_and_bits_are_per_byte() {
    let (model, dir) = ("l2-d24-h2-dropout", tempfile::tempdir().unwrap());
    for name in ["config.json", "model.safetensors"] {
        fs::copy(golden(model).join(name), dir.path().join(name)).unwrap();
    }
    let letters: String = ('à'..='þ').collect();
    Tokenizer::characters([letters.as_str()]).save(dir.path()).unwrap();
    let text: String = letters.chars().cycle().step_by(7).take(40).collect();
    assert_eq!(text.len(), 80);
    let json = gradus("evaluate --model {} --corpus {} --json", &[dir.path(), &write(dir.path(), "text", text)]).json();
    let number = |name: &str| json[name].as_f64().unwrap();
    // The first token is given: 39 are predicted, which are 78 bytes.
    assert_eq!((&json["tokens"], &json["bytes"]), (&39.into(), &78.into()));
    assert!((number("perplexity") / number("nll").exp() - 1.0).abs() < 1e-9);
    assert!((number("bits_per_byte") - number("nll") / 2.0 / std::f64::consts::LN_2).abs() < 1e-9);
}

#[test]
fn a_corpus_by_its_convention() {
    let dir = tempfile::tempdir().unwrap();
    let text = "The quick brown fox jumps over the lazy dog.";
    let corpus = write(dir.path(), "corpus.txt", text);
    for joint in [false, true] {
        let model = dir.path().join(joint.to_string());
        byte_model(&model, |c| c.embedding = if joint { Embedding::Joint } else { Embedding::Separate });
        let json = gradus("evaluate --model {} --corpus {} --dtype f64 --json", &[&model, &corpus]).json();
        assert_eq!((&json["tokens"], &json["bytes"]), (&(text.len() - 1).into(), &(text.len() - 1).into()));
        let nll = json["nll"].as_f64().unwrap();
        assert!((json["bits_per_byte"].as_f64().unwrap() - nll / std::f64::consts::LN_2).abs() < 1e-12);
        // Windows of 7 predictions each are sequences of 8 ids, the last of one the first of the next.
        let mut sum = 0.0;
        let shorter = gradus("evaluate --model {} --corpus {} --dtype f64 --context 7 --json", &[&model, &corpus]).json();
        for first in (0..text.len() - 1).step_by(7) {
            let part = &text.as_bytes()[first..(first + 8).min(text.len())];
            let ids = write(dir.path(), "ids", part.iter().map(|b| format!("{b} ")).collect::<String>());
            let json = gradus("evaluate --model {} --ids {} --dtype f64 --json", &[&model, &ids]).json();
            sum += numbers(&json["token_nll"]).iter().sum::<f64>();
        }
        assert!((shorter["nll"].as_f64().unwrap() - sum / (text.len() - 1) as f64).abs() < 1e-11);
        let strided = gradus("evaluate --model {} --corpus {} --stride 3 --json", &[&model, &corpus]).json();
        assert_eq!((&strided["tokens"], &strided["stride"]), (&json["tokens"], &3.into()));
        assert_ne!(strided["nll"], json["nll"]);
        // A text shorter than the context is one short window.
        let short = write(dir.path(), "short", "fox");
        assert_eq!(gradus("evaluate --model {} --corpus {} --json", &[&model, &short]).json()["tokens"], 2);
    }
}

#[test]
fn threads_change_no_bits_and_best_is_found() {
    let dir = tempfile::tempdir().unwrap();
    byte_model(&dir.path().join("run/best"), |_| {});
    let corpus = write(dir.path(), "corpus.txt", "Some text, and some more of it. ".repeat(40));
    let run = |threads| {
        gradus(&format!("evaluate --model {{}} --corpus {{}} --threads {threads} --json"), &[&dir.path().join("run"), &corpus])
    };
    assert_eq!(run(1).json(), run(2).json());
    assert!(run(1).stderr.contains("best"), "{}", run(1).stderr);
    run(0).misused(&["--threads 0", "1 to 1024"]);
}

#[test]
fn bad_corpora() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    byte_model(&at("model"), |_| {});
    let bad: [(&str, &[u8], &[&str]); 5] = [
        ("empty", b"", &["empty", "holds no text"]),
        ("blank", b" \n\t", &["holds no text"]),
        ("binary", b"ab\0c", &["byte 2 is NUL", "iconv"]),
        ("latin1", b"caf\xe9 noir", &["byte 3 (0xe9)", "iconv"]),
        ("one", b"a", &["1 token", "at least two"]),
    ];
    for (name, content, words) in bad {
        let corpus = write(dir.path(), name, content);
        gradus("evaluate --model {} --corpus {} --json", &[&at("model"), &corpus]).fails_with(words);
    }
    gradus("evaluate --model {} --corpus {} --json", &[&at("model"), &at("none")]).fails_with(&["none", "Check the path"]);
    fs::create_dir(at("folder")).unwrap();
    gradus("evaluate --model {} --corpus {} --json", &[&at("model"), &at("folder")]).fails_with(&["holds no files"]);
}

#[test]
fn bad_ids_and_windows() {
    let dir = tempfile::tempdir().unwrap();
    let model = golden("l2-d12-h3"); // vocabulary 17, context 10
    let with = |content: &str| {
        let ids = write(dir.path(), "ids", content);
        gradus("evaluate --model {} --ids {} --json", &[&model, &ids])
    };
    with("1 2\n3 17").fails_with(&["line 2", "entry 3", "id 17", "0 to 16"]);
    with("1 -2").fails_with(&["entry 1", "\"-2\"", "whole number"]);
    with("1 two").fails_with(&["line 1", "\"two\""]);
    with("1 99999999999999999999").fails_with(&["entry 1"]);
    with("").fails_with(&["expected token ids", "tokenizer encode"]);
    with("5").fails_with(&["1 token", "at least two"]);
    with(&"1 ".repeat(11)).misused(&["11 tokens", "at most 10, the model's context"]);
    let corpus = write(dir.path(), "corpus", "some text");
    gradus("evaluate --model {} --corpus {}", &[&model, &corpus]).fails_with(&["no tokenizer", "--ids"]);
    let own = dir.path().join("own");
    byte_model(&own, |_| {});
    let flags = [
        ("--context 9", "1 to 8, the model's context"),
        ("--context 0", "1 to 8"),
        ("--stride 0", "1 to 8"),
        ("--stride 9", "1 to 8"),
        ("--context 4 --stride 5", "1 to 4"),
    ];
    for (flags, words) in flags {
        gradus(&format!("evaluate --model {{}} --corpus {{}} {flags}"), &[&own, &corpus]).misused(&[words]);
    }
}

#[test]
fn bad_models() {
    let dir = tempfile::tempdir().unwrap();
    let ids = write(dir.path(), "ids", "1 2 3");
    let evaluate = |model: &Path| gradus("evaluate --model {} --ids {} --json", &[model, &ids]);
    evaluate(&dir.path().join("none")).fails_with(&["none", "config.json and model.safetensors"]);
    evaluate(dir.path()).fails_with(&["config.json and model.safetensors"]);

    let model = dir.path().join("model");
    let config = byte_model(&model, |_| {}).backbone.config();
    let weights = model.join(checkpoint::WEIGHTS_FILE);
    let good = fs::read(&weights).unwrap();
    let header = u64::from_le_bytes(good[..8].try_into().unwrap()) as usize;
    let lying = String::from_utf8(good[8..8 + header].to_vec()).unwrap().replacen("[256,12]", "[256,99]", 1);
    let lying = [&(lying.len() as u64).to_le_bytes()[..], lying.as_bytes(), &good[8 + header..]].concat();
    let oversized = [&u64::MAX.to_le_bytes()[..], &good[8..]].concat();
    for bytes in [&good[..good.len() - 5], &good[..header / 2], &good[..3], &[], &lying, &oversized] {
        fs::write(&weights, bytes).unwrap();
        evaluate(&model).fails_with(&["model.safetensors", "damaged or incomplete"]);
    }
    fs::remove_file(&weights).unwrap();
    evaluate(&model).fails_with(&["cannot read", "model.safetensors"]);
    fs::write(&weights, &good).unwrap();
    assert_eq!(evaluate(&model).json()["tokens"], 2);

    let json = fs::read_to_string(model.join("config.json")).unwrap();
    for (from, to, words) in [
        ("\"n_embd\": 12", "\"n_embd\": 24", ["do not belong together", "shape"]),
        ("\"n_layer\": 2", "\"n_layer\": 3", ["do not belong together", "h.2."]),
        ("\"n_layer\": 2", "\"n_layer\": 1", ["do not belong together", "is not a parameter"]),
        ("\"n_head\": 3", "\"n_head\": 5", ["width = 12", "multiple of the 5 heads"]),
        ("\"n_layer\": 2", "\"n_layer\": 0", ["layers = 0", "--layers"]),
        ("{", "", ["config.json", "not JSON"]),
    ] {
        assert!(json.contains(from), "{from} in {json}");
        fs::write(model.join("config.json"), json.replacen(from, to, 1)).unwrap();
        evaluate(&model).fails_with(&words);
    }
    fs::write(model.join("config.json"), json).unwrap();

    // A tokenizer of another model.
    let mut larger = Tokenizer::bytes();
    larger.add_special("<start>").unwrap();
    larger.save(&model).unwrap();
    let corpus = write(dir.path(), "corpus", "some text");
    let run = gradus("evaluate --model {} --corpus {}", &[&model, &corpus]);
    run.fails_with(&["257 ids", &config.vocab().to_string(), "do not belong together"]);
    std::fs::remove_file(model.join("gradus_tokenizer.json")).unwrap();
    Tokenizer::characters(["some tex"]).save(&model).unwrap();
    let corpus = write(dir.path(), "other", "some words");
    gradus("evaluate --model {} --corpus {}", &[&model, &corpus]).fails_with(&["other: byte 5", "'w'", "characters"]);
}

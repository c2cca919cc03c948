use std::f64::consts::LN_2;

use gradus_model::Embedding;
use gradus_tests::Arrays;

use super::*;

/// Returns PyTorch's results for a model.
fn expected(model: &str) -> Arrays {
    Arrays::read(&golden(model).join("expected.safetensors"))
}

/// Copies a fixture, with a tokenizer of these characters.
fn with_characters(model: &str, letters: &str) -> Desk {
    let desk = Desk::new();
    for name in ["config.json", "model.safetensors"] {
        desk.write(format!("model/{name}"), fs::read(golden(model).join(name)).unwrap());
    }
    desk.tokenizer("model", &Tokenizer::characters([letters]));
    desk
}

#[test]
fn ids_agree_with_transformers() {
    let desk = Desk::new();
    for model in ["l2-d12-h3", "l1-d8-h2-epsilon", "l3-d16-h4-relu", "l2-d24-h2-dropout"] {
        let fixture = expected(model);
        let ((all, shape), token_nll) = (fixture.ids("input_ids"), fixture.get("f64.token_nll").to_vec());
        let t = shape[1];
        for (row, ids) in all.chunks(t).enumerate() {
            desk.write("ids", words(ids).replace(' ', "\n "));
            let json = desk.gradus(&format!("evaluate --model golden/{model} --ids ids --dtype f64 --json")).json();
            let (found, expected) = (numbers(&json["token_nll"]), &token_nll[row * (t - 1)..][..t - 1]);
            assert_eq!(found.len(), t - 1);
            let largest = expected.iter().fold(0.0f64, |m, x| m.max(x.abs()));
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() <= 1e-10 * largest), "{model}: {found:?} {expected:?}");
            let nll = found.iter().sum::<f64>() / (t - 1) as f64;
            assert_near(&json["nll"], nll, 1e-12);
            assert_near(&json["perplexity"], nll.exp(), 1e-9 * nll.exp());
            assert_eq!(json["tokens"], t - 1);
            let single = desk.gradus(&format!("evaluate --model golden/{model} --ids ids --json")).json();
            assert_near(&single["nll"], nll, 1e-4 * nll);
        }
    }
}

#[test]
fn gradient_norms_agree_with_transformers() {
    // The characters from 'A' on represent the ids, by code point.
    let letters: Vec<char> = (0..31).map(|i| char::from(b'A' + i)).collect();
    let desk = with_characters("l2-d24-h2-dropout", &letters.iter().collect::<String>());
    // The fixture's gradient is that of the mean loss over all its rows. In a folder with one file per row, they are one corpus.
    let fixture = expected("l2-d24-h2-dropout");
    let (ids, shape) = fixture.ids("input_ids");
    for (row, ids) in ids.chunks(shape[1]).enumerate() {
        desk.write(format!("corpus/{row}"), ids.iter().map(|&id| letters[id as usize]).collect::<String>());
    }
    let json = desk.gradus("evaluate --model model --corpus corpus --dtype f64 --gradients --json").json();
    let norms = json["gradient_norms"].as_object().unwrap();
    let names: Vec<String> = fixture.names().into_iter().filter(|n| n.starts_with("f64.gradient.")).collect();
    assert_eq!(norms.len(), names.len());
    for name in names {
        let gradient = fixture.get(&name);
        let norm = gradient.dot(&gradient).sqrt();
        assert_near(&norms[&name["f64.gradient.".len()..]], norm, 1e-10 * norm);
    }
    assert_near(&json["nll"], fixture.get("f64.loss").item(), 1e-10);
}

/// A text of 40 tokens, each a character of two bytes: a tokenizer changes the perplexity, but not the bits per byte.
#[test]
fn perplexity_is_per_token_and_bits_are_per_byte() {
    let letters: String = ('à'..='þ').collect();
    let desk = with_characters("l2-d24-h2-dropout", &letters);
    let text: String = letters.chars().cycle().step_by(7).take(40).collect();
    assert_eq!(text.len(), 80);
    desk.write("text", text);
    let json = desk.gradus("evaluate --model model --corpus text --json").json();
    // The first token is given, so 39 are predicted, which are 78 bytes.
    assert_eq!((&json["tokens"], &json["bytes"]), (&39.into(), &78.into()));
    let nll = number(&json["nll"]);
    assert_near(&json["perplexity"], nll.exp(), 1e-9 * nll.exp());
    assert_near(&json["bits_per_byte"], nll / 2.0 / LN_2, 1e-9);
}

#[test]
fn a_corpus_is_evaluated_in_windows_of_the_context() {
    let desk = Desk::new();
    let text = "The quick brown fox jumps over the lazy dog.";
    let predicted = text.len() - 1;
    desk.write("corpus.txt", text);
    desk.write("short.txt", "fox");
    for embedding in [Embedding::Joint, Embedding::Separate] {
        desk.byte_model("model", |c| *c = c.clone().with_transformer(|c| c.embedding = embedding));
        let evaluate = |flags: &str| desk.gradus(&format!("evaluate --model model --json {flags}")).json();
        let json = evaluate("--corpus corpus.txt --dtype f64");
        assert_eq!((&json["tokens"], &json["bytes"]), (&predicted.into(), &predicted.into()));
        assert_near(&json["bits_per_byte"], number(&json["nll"]) / LN_2, 1e-12);
        // Windows of 7 predictions each are sequences of 8 ids; the last id of one is the first of the next.
        let mut sum = 0.0;
        for first in (0..predicted).step_by(7) {
            let part = &text.as_bytes()[first..(first + 8).min(text.len())];
            desk.write_ids("ids", &part.iter().map(|&b| b.into()).collect::<Vec<_>>());
            sum += numbers(&evaluate("--ids ids --dtype f64")["token_nll"]).iter().sum::<f64>();
        }
        assert_near(&evaluate("--corpus corpus.txt --dtype f64 --context 7")["nll"], sum / predicted as f64, 1e-11);
        let strided = evaluate("--corpus corpus.txt --stride 3");
        assert_eq!((&strided["tokens"], &strided["stride"]), (&json["tokens"], &3.into()));
        assert_ne!(strided["nll"], json["nll"]);
        assert_eq!(evaluate("--corpus short.txt")["tokens"], 2, "a text shorter than the context is one short window");
    }
}

#[test]
fn threads_change_no_bits_and_best_is_found() {
    let desk = Desk::new();
    desk.byte_model("run/best", |_| {});
    desk.write("corpus.txt", "Some text, and some more of it. ".repeat(40));
    let run = |threads| desk.gradus(&format!("evaluate --model run --corpus corpus.txt --threads {threads} --json"));
    assert_eq!(run(1).json(), run(2).json());
    assert_holds(&run(1).stderr, &["best"]);
    run(0).misused(&["--threads 0", "1 to 1024"]);
}

#[test]
fn bad_corpora() {
    let desk = Desk::new();
    desk.byte_model("model", |_| {});
    let evaluate = |corpus: &str| desk.gradus(&format!("evaluate --model model --corpus {corpus} --json"));
    for (name, content, words) in [
        ("empty", &b""[..], &["empty", "holds no text"][..]),
        ("blank", b" \n\t", &["blank", "holds no text"]),
        ("binary", b"ab\0c", &["binary: byte 2 is NUL", "iconv"]),
        ("latin1", b"caf\xe9 noir", &["latin1: byte 3 (0xe9)", "iconv"]),
        ("one", b"a", &["1 token", "at least two"]),
    ] {
        desk.write(name, content);
        evaluate(name).fails_with(words);
    }
    evaluate("none").fails_with(&["none", "check the spelling of the path"]);
    fs::create_dir(desk.path("folder")).unwrap();
    evaluate("folder").fails_with(&["folder", "holds no files"]);
    // A file for another command is not a corpus.
    let fill = desk.gradus("fill --model model --file binary");
    fill.fails_with(&["binary: byte 2 is NUL", "iconv"]);
    assert!(!fill.stderr.contains("corpus"), "{}", fill.stderr);
}

/// `--quiet` suppresses progress and notes.
#[test]
fn a_quiet_command_prints_its_result_alone() {
    let desk = Desk::new();
    desk.byte_model("run/best", |_| {});
    desk.remove("run/best/checksums.json");
    desk.write("corpus.txt", "ab".repeat(20));
    desk.write("gaps.txt", "a[MASK]b");
    let by_bayes = "note: the model predicts the next token";
    for (line, words) in
        [("evaluate --model run --corpus corpus.txt", "40 tokens"), ("fill --model run --file gaps.txt", by_bayes)]
    {
        let run = desk.gradus(line);
        assert_holds(&run.stderr, &["model: run/best", "note: run/best has no checksums.json", words]);
        let quiet = desk.gradus(&format!("{line} --quiet"));
        assert_eq!((quiet.printed(), &*quiet.stderr), (run.printed(), ""));
    }
}

#[test]
fn bad_ids_and_windows() {
    let desk = Desk::new();
    let with = |content: &str| {
        desk.write("ids", content);
        desk.gradus("evaluate --model golden/l2-d12-h3 --ids ids --json") // vocabulary 17, context 10
    };
    with("1 2\n3 17").fails_with(&["line 2", "entry 3", "is \"17\"", "0 to 16"]);
    with("1 -2").fails_with(&["entry 1", "\"-2\"", "expected token ids from 0 to "]);
    with("1 two").fails_with(&["line 1", "\"two\""]);
    with("1 99999999999999999999").fails_with(&["entry 1", "99999999999999999999"]);
    with("").fails_with(&["ids: ", "expected token ids", "tokenizer encode"]);
    // Flags of another input are refused, not ignored.
    let model = "evaluate --model golden/l2-d12-h3";
    desk.gradus(&format!("{model} --corpus text --targets ids")).misused(&["--targets"]);
    desk.gradus(&format!("{model} --task rte --data . --targets ids --segments ids")).misused(&["--targets"]);
    desk.gradus(&format!("{model} --corpus text --opening <s>")).misused(&["--opening"]);
    desk.gradus(&format!("{model} --ids ids --opening <s>")).misused(&["--opening"]);
    with("5").fails_with(&["1 token", "at least two"]);
    with(&"1 ".repeat(11)).misused(&["11 tokens", "at most 10, the model's context"]);
    desk.write("corpus", "some text");
    desk.gradus("evaluate --model golden/l2-d12-h3 --corpus corpus").fails_with(&["no tokenizer", "--ids"]);
    desk.byte_model("own", |_| {});
    for (flags, words) in [
        ("--context 9", ["--context 9: expected", "1 to 8, the model's context"]),
        ("--context 0", ["--context 0: expected", "1 to 8, the model's context"]),
        ("--stride 0", ["--stride 0: expected", "1 to 8"]),
        ("--stride 9", ["--stride 9: expected", "1 to 8"]),
        ("--context 4 --stride 5", ["--stride 5: expected", "1 to 4"]),
    ] {
        desk.gradus(&format!("evaluate --model own --corpus corpus {flags}")).misused(&words);
    }
}

#[test]
fn bad_models() {
    let desk = Desk::new();
    desk.write_ids("ids", &[1, 2, 3]);
    let evaluate = |model: &str| desk.gradus(&format!("evaluate --model {model} --ids ids --json"));
    evaluate("none").fails_with(&["none", "config.json and model.safetensors"]);
    evaluate(".").fails_with(&["config.json and model.safetensors"]);

    desk.byte_model("model", |_| {});
    let good = desk.read("model/model.safetensors");
    let header = u64::from_le_bytes(good[..8].try_into().unwrap()) as usize;
    let lying = String::from_utf8(good[8..8 + header].to_vec()).unwrap().replacen("[256,12]", "[256,99]", 1);
    let lying = [&(lying.len() as u64).to_le_bytes()[..], lying.as_bytes(), &good[8 + header..]].concat();
    let oversized = [&u64::MAX.to_le_bytes()[..], &good[8..]].concat();
    for bytes in [&good[..good.len() - 5], &good[..header / 2], &good[..3], &[], &lying, &oversized] {
        desk.write("model/model.safetensors", bytes);
        evaluate("model").fails_with(&["model.safetensors", "damaged or incomplete"]);
    }
    desk.remove("model/model.safetensors");
    evaluate("model").fails_with(&["cannot read", "model.safetensors"]);
    desk.write("model/model.safetensors", &good);
    assert_eq!(evaluate("model").json()["tokens"], 2);

    let json = desk.text("model/config.json");
    for (from, to, words) in [
        ("\"n_embd\": 12", "\"n_embd\": 24", ["do not belong together", "shape"]),
        ("\"n_layer\": 2", "\"n_layer\": 3", ["do not belong together", "h.2."]),
        ("\"n_layer\": 2", "\"n_layer\": 1", ["do not belong together", "is not a parameter"]),
        ("\"n_head\": 3", "\"n_head\": 5", ["n_embd: expected a multiple of the 5 heads", "found 12"]),
        ("\"n_layer\": 2", "\"n_layer\": 0", ["n_layer: expected a number from 1", "found 0"]),
        ("{", "", ["config.json", "not JSON"]),
    ] {
        assert!(json.contains(from), "{from} in {json}");
        desk.write("model/config.json", json.replacen(from, to, 1));
        evaluate("model").fails_with(&words);
    }
    desk.write("model/config.json", json);

    // A tokenizer with one token more than the model has rows; then the tokenizer of another model.
    let mut larger = Tokenizer::bytes();
    larger.add_special("<start>").unwrap();
    desk.tokenizer("model", &larger);
    desk.write("corpus", "some words");
    let evaluate = || desk.gradus("evaluate --model model --corpus corpus --json");
    evaluate().json();
    desk.write("corpus", "some <start> words");
    evaluate().fails_with(&["token \"<start>\" has id 256", "256 rows", "embedding was not resized"]);
    desk.write("corpus", "some words");
    desk.remove("model/gradus_tokenizer.json");
    desk.tokenizer("model", &Tokenizer::characters(["some tex"]));
    evaluate().fails_with(&["corpus: byte 5", "'w'", "characters"]);
}

/// The losses of masked models and of a causal one in some slots, compared with the logits of `transformers`.
#[test]
fn losses_of_given_targets_agree_with_transformers() {
    let desk = Desk::new();
    for model in ["relative-bert", "relative-bert-tanh", "relative-ernie", "relative-roberta", "relative-gpt2"] {
        let fixture = expected(model);
        let ((all, shape), logits) = (fixture.ids("input_ids"), fixture.get("logits"));
        let (t, vocab) = (shape[1], logits.shape()[2]);
        let (ids, logits) = (&all[..t], &logits.to_vec()[..t * vocab]); // the first row has no padding
        let targets: Vec<Option<u32>> =
            (0..t).map(|slot| (slot % 3 != 1).then_some((5 * slot as u32 + 2) % vocab as u32)).collect();
        desk.write("ids", words(ids));
        let entry = |target: &Option<u32>| target.map_or("-".into(), |id| id.to_string());
        desk.write("targets", targets.iter().map(entry).collect::<Vec<_>>().join("\n"));
        let is_told_segments = model.contains("bert") && !model.contains("roberta") || model.contains("ernie");
        let segments = if is_told_segments {
            desk.write("segments", words(&fixture.ids("token_type_ids").0[..t]));
            "--segments segments"
        } else {
            ""
        };
        let arguments =
            format!("evaluate --model golden/{model} --ids ids --targets targets {segments} --dtype f64 --gradients --json");
        let json = desk.gradus(&arguments).json();
        let nll = |slot: usize, id: u32| {
            let row = &logits[slot * vocab..][..vocab];
            row.iter().map(|z| z.exp()).sum::<f64>().ln() - row[id as usize]
        };
        let expected: Vec<f64> = targets.iter().enumerate().filter_map(|(slot, id)| Some(nll(slot, (*id)?))).collect();
        let found = numbers(&json["token_nll"]);
        assert_eq!((found.len(), &json["tokens"]), (expected.len(), &Value::from(expected.len())));
        assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-10), "{model}: {found:?} {expected:?}");
        assert_near(&json["nll"], expected.iter().sum::<f64>() / expected.len() as f64, 1e-12);
        let norms = json["gradient_norms"].as_object().unwrap();
        let names: Vec<String> =
            fixture.names().into_iter().filter_map(|n| Some(n.strip_prefix("gradient.")?.to_owned())).collect();
        assert!(names.iter().all(|name| norms.contains_key(name)), "{model}: {names:?} {norms:?}");
    }
}

#[test]
fn invalid_ids_targets_and_segments_are_rejected() {
    let desk = Desk::new();
    let ask = |model: &str, [ids, targets, segments]: [&str; 3]| {
        desk.write("ids", ids);
        desk.write("targets", targets);
        desk.write("segments", segments);
        let segments = if segments.is_empty() { "" } else { "--segments segments" };
        desk.gradus(&format!("evaluate --model golden/{model} --ids ids --targets targets {segments} --json"))
    };
    ask("relative-bert", ["2 3 4", "- 5", ""]).misused(&["targets: 2 entries", "3, one for each token of --ids"]);
    ask("relative-bert", ["2 3", "- -", ""]).misused(&["at least one token to predict"]);
    ask("relative-bert", ["2 3", "- 23", ""]).fails_with(&["entry 1 (from 0) is \"23\"; expected token ids from 0 to 22"]);
    ask("relative-bert", ["2 3", "- x", ""]).fails_with(&["entry 1 (from 0) is \"x\""]);
    ask("relative-bert", ["2 3", "- 1", "0 2"]).fails_with(&["entry 1 (from 0) is \"2\"; expected segments from 0 to 1"]);
    ask("relative-bert", ["2 3", "- 1", "0"]).misused(&["segments: 1 entries", "one for each token"]);
    ask("relative-gpt2", ["2 3", "- 1", "0 0"]).misused(&["--segments", "has none"]);
    ask("relative-bert", ["2 3 4 5 6 7 8 9 2 3 4", "1", ""]).misused(&["11 tokens", "at most 10"]);
    assert!(number(&ask("relative-gpt2", ["2 3", "- 1", ""]).json()["nll"]).is_finite());
    desk.gradus("evaluate --model golden/relative-bert --ids ids").misused(&["fills masks", "--targets"]);
}

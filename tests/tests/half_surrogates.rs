//! Half of a surrogate pair, as `\ud800` in JSON: no Rust string can hold it. In the files of data sets and models it is an error
//! that names the file. (Tokenizers: `train/text/tests/hostile.rs`.)

use std::fs;

use gradus_data::sets::{Split, Task};
use gradus_model::checkpoint;
use gradus_tests::golden_models;

const HALVES: [&str; 4] = [r"\ud800", r"\udfff", r"x\ud800\u0041", r"\udc00\ud800"];

#[test]
fn unpaired_surrogates_in_data_sets_are_errors() {
    let snli = r#"{"gold_label": "neutral", "pairID": "7#1", "sentence1": "A HERE.", "sentence2": "He sits."}"#;
    let race =
        r#"{"article": "It HERE.", "questions": ["What?"], "options": [["Hail", "Snow", "Fog", "Rain"]], "answers": ["D"]}"#;
    for (task, file, text) in [("snli", "snli_1.0_dev.jsonl", snli), ("race", "dev/middle/1.txt", race)] {
        let folder = tempfile::tempdir().unwrap();
        ["dev/middle", "dev/high"].iter().for_each(|school| fs::create_dir_all(folder.path().join(school)).unwrap());
        let load = |with: &str| {
            fs::write(folder.path().join(file), text.replace("HERE", with)).unwrap();
            Task::named(task).unwrap().load(folder.path(), Split::Dev)
        };
        assert_eq!(load(r"rained \ud83d\ude00").unwrap().examples.len(), 1, "a whole pair is a character");
        for half in HALVES {
            let error = load(half).expect_err(half).to_string();
            assert!(error.contains(file.rsplit('/').next().unwrap()) && error.contains("line 1"), "{error}");
        }
    }
}

#[test]
fn unpaired_surrogates_in_a_model_configuration_are_errors() {
    let fixture = &golden_models()[0];
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(fixture).unwrap() {
        let from = entry.unwrap().path();
        fs::copy(&from, folder.path().join(from.file_name().unwrap())).unwrap();
    }
    checkpoint::load(folder.path()).unwrap();
    let file = folder.path().join("config.json");
    let whole = fs::read_to_string(&file).unwrap();
    let from = r#""openai-gpt""#;
    assert!(whole.contains(from), "{whole}");
    for half in HALVES {
        fs::write(&file, whole.replace(from, &format!("\"{half}\""))).unwrap();
        let error = checkpoint::load(folder.path()).expect_err(half).to_string();
        assert!(error.contains("config.json"), "{error}");
    }
}

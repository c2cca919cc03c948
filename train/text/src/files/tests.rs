mod published;
mod relatives;

use std::collections::HashMap;
use std::path::PathBuf;

use gradus_io::checksums::CHECKSUMS_FILE;

use super::*;

/// Returns the folder of files written by transformers 5 (tests/golden/tokenizer.py).
fn data() -> PathBuf {
    PathBuf::from("tests/data/tokenizer")
}

#[derive(Deserialize)]
struct Case {
    text: String,
    ids: Vec<u32>,
    decoded: String,
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, TextError> {
    parse_json(path, &fs::read_to_string(path).unwrap())
}

fn cases() -> Vec<Case> {
    read_json(&data().join("cases.json")).unwrap()
}

#[test]
fn ids_and_texts_are_those_of_transformers() {
    let tokenizer = Tokenizer::load(&data()).unwrap();
    assert_eq!(cases().len(), 35);
    for case in cases() {
        assert_eq!(tokenizer.encode(&case.text).unwrap(), case.ids, "{:?}", case.text);
        assert_eq!(tokenizer.decode(&case.ids).unwrap(), case.decoded, "{:?}", case.text);
    }
}

#[test]
fn writes_what_transformers_writes() {
    let folder = tempfile::tempdir().unwrap();
    let tokenizer = Tokenizer::load(&data()).unwrap();
    tokenizer.save(folder.path()).unwrap();
    let (ours, theirs): (Value, Value) =
        (read_json(&folder.path().join(TOKENIZER)).unwrap(), read_json(&data().join(TOKENIZER)).unwrap());
    assert_eq!(ours, theirs);
    assert_eq!(Tokenizer::load(folder.path()).unwrap().fingerprint(), tokenizer.fingerprint());
    let mut files: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    files.sort();
    assert_eq!(files, [CHECKSUMS_FILE, TOKENIZER, CONFIG], "no temporary file stays");
}

#[test]
fn pairs_of_files() {
    let reference = Tokenizer::load(&data()).unwrap();
    let Vocabulary::Bpe(bpe) = reference.vocabulary() else { panic!("a BPE") };
    let vocabulary: HashMap<&str, usize> = bpe.tokens().iter().enumerate().map(|(i, t)| (t.as_str(), i)).collect();
    let merges: String = bpe.merge_tokens().map(|(a, b)| format!("{a} {b}\n")).collect();
    for (vocabulary_name, merges_name) in &PAIRS[..2] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(vocabulary_name), serde_json::to_vec(&vocabulary).unwrap()).unwrap();
        assert!(Tokenizer::load(folder.path()).unwrap_err().to_string().contains(merges_name));
        fs::write(folder.path().join(merges_name), format!("#version: 0.2\n{merges}")).unwrap();
        let tokenizer = Tokenizer::load(folder.path()).unwrap();
        assert_eq!(Tokenizer::load(&folder.path().join(vocabulary_name)).unwrap().fingerprint(), tokenizer.fingerprint());
        for case in cases().iter().filter(|c| c.ids.iter().all(|&id| (id as usize) < bpe.tokens().len())) {
            assert_eq!(tokenizer.encode(&case.text).unwrap(), case.ids);
        }
        // Special tokens in the configuration, as in transformers 4.
        let config = json!({"added_tokens_decoder": {bpe.tokens().len().to_string(): {"content": "<start>", "special": true}}});
        fs::write(folder.path().join(CONFIG), config.to_string()).unwrap();
        let tokenizer = Tokenizer::load(folder.path()).unwrap();
        assert_eq!(tokenizer.token_id("<start>"), Some(bpe.tokens().len() as u32));
    }
}

#[test]
fn bytes_and_characters() {
    for mut tokenizer in [Tokenizer::bytes(), Tokenizer::characters(["so\né"])] {
        let folder = tempfile::tempdir().unwrap();
        tokenizer.add_special("<start>").unwrap();
        tokenizer.save(folder.path()).unwrap();
        let text = fs::read_to_string(folder.path().join(GRADUS)).unwrap();
        assert!(text.contains("no other program reads this file"));
        let loaded = Tokenizer::load(folder.path()).unwrap();
        assert_eq!(loaded.fingerprint(), tokenizer.fingerprint());
        assert_eq!(loaded.encode("so\n<start>é").unwrap(), tokenizer.encode("so\n<start>é").unwrap());
        let refused = Tokenizer::load(&data()).unwrap().save(folder.path()).unwrap_err().to_string();
        assert!(refused.contains("another kind"), "{refused}");
    }
}

#[test]
fn bad_folders() {
    let folder = tempfile::tempdir().unwrap();
    let message = |path: &Path| Tokenizer::load(path).unwrap_err().to_string();
    assert!(message(&folder.path().join("none")).contains("check the spelling"));
    assert!(message(folder.path()).contains("holds no tokenizer. It needs tokenizer.json"));
    fs::write(folder.path().join(TOKENIZER), "{}").unwrap();
    fs::write(folder.path().join(GRADUS), "{}").unwrap();
    assert!(message(folder.path()).contains("two tokenizers"));
    fs::remove_file(folder.path().join(GRADUS)).unwrap();
    fs::create_dir(folder.path().join(CONFIG)).unwrap();
    assert!(
        message(folder.path()).contains("tokenizer_config.json: expected a plain file, found a directory"),
        "not as if it were absent"
    );
    #[cfg(unix)]
    {
        fs::remove_dir(folder.path().join(CONFIG)).unwrap();
        fs::remove_file(folder.path().join(TOKENIZER)).unwrap();
        std::os::unix::fs::symlink("nowhere", folder.path().join(TOKENIZER)).unwrap();
        assert!(message(folder.path()).contains("tokenizer.json: it is a link to a file that does not exist. Put a copy"));
    }
}

/// Changes each field to a value that is invalid or would change ids. The error names file and place.
#[test]
fn bad_tokenizer_json() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(TOKENIZER);
    let good = fs::read_to_string(data().join(TOKENIZER)).unwrap();
    let message = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        let message = Tokenizer::load(folder.path()).unwrap_err().to_string();
        assert!(message.contains(TOKENIZER), "{message}");
        message
    };
    let half = &good[..good.len() / 2];
    assert!(message(half.as_bytes()).contains(&format!("line {}", half.lines().count())));
    assert!(message(b"").contains("line 1"));
    assert!(message(b"{\"a\": \0}").contains("byte 6: expected text, found NUL"));
    let (merge, start) = (r#"merge 4 ("a" + "zzz")"#, r#"added token "<start>""#);
    for (changed, value, place, found) in [
        ("/normalizer/type", json!("NFC"), "/normalizer/type", r#""NFC""#),
        ("/normalizer/lowercase", json!("no"), "/normalizer/lowercase", r#""no""#),
        ("/normalizer", json!({"type": "Prepend"}), "/normalizer/type", r#""Prepend""#),
        ("/normalizer", json!(null), "/normalizer/type", "null"),
        ("/pre_tokenizer", json!({"type": "Whitespace"}), "/pre_tokenizer/type", r#""Whitespace""#),
        ("/pre_tokenizer", json!({"type": "ByteLevel"}), "/decoder/type", r#""BPEDecoder""#),
        ("/decoder/suffix", json!("@@"), "/decoder/suffix", r#""@@""#),
        ("/model/type", json!("Unigram"), "/model/type", r#""Unigram""#),
        ("/model/dropout", json!(0.1), "/model/dropout", "0.1"),
        ("/model/unk_token", json!(null), "/model/unk_token", "null"),
        ("/model/vocab", json!([]), "/model/vocab", "[]"),
        ("/model/vocab/a", json!(-1), r#"/model/vocab, token "a""#, "-1"),
        ("/model/vocab/a", json!(7), r#"the vocabulary, token "a""#, r#"id 7, which "," has"#),
        ("/model/vocab/a", json!(4_000_000_000u32), r#"the vocabulary, token "a""#, "id 4000000000"),
        ("/model/merges/3", json!("a"), "/model/merges/3", r#""a""#),
        ("/model/merges/3", json!(["a", "zzz"]), merge, r#"no token "zzz""#),
        ("/model/merges", json!("a b"), "/model/merges", r#""a b""#),
        ("/post_processor/single/0", json!({"SpecialToken": {"id": "<start>", "type_id": 0}}), "/post_processor", r#"{"pair":"#),
        ("/added_tokens/1/id", json!(9), start, "id 9"),
        ("/added_tokens/1/content", json!(""), r#"added token """#, r#"special token """#),
        ("/added_tokens", json!([1]), "/added_tokens/0", "1"),
        ("/added_tokens", json!({}), "/added_tokens", "{}"),
        ("/added_tokens/1/id", json!(null), "/added_tokens/1/id", "null"),
        ("/added_tokens/1/lstrip", json!(1), "/added_tokens/1/lstrip", "1"),
    ] {
        let mut document: Value = serde_json::from_str(&good).unwrap();
        *document.pointer_mut(changed).unwrap() = value.clone();
        fs::write(&path, document.to_string()).unwrap();
        let error = Tokenizer::load(folder.path()).unwrap_err();
        let TextError::Format { path: named, place: located, found: what, .. } = &error else {
            panic!("{changed} = {value}: {error}")
        };
        assert_eq!((named, &**located), (&path, place), "{changed} = {value}");
        assert!(what.starts_with(found), "{changed} = {value}: {what}");
    }
}

#[test]
fn bad_pairs_and_gradus_files() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let message = || Tokenizer::load(folder.path()).unwrap_err().to_string();
    write("vocab.json", r#"{"<unk>": 0, "a": 1, "b</w>": 2, "ab</w>": 3}"#);
    for (merges, words) in [("#version: 0.2\na b</w> c\n", "line 2"), ("a  b</w>\n", "line 1"), ("a c\n", "no token \"c\"")] {
        write("merges.txt", merges);
        assert!(message().contains("merges.txt, ") && message().contains(words), "{}", message());
    }
    // A truncated or empty file would give other ids without an error.
    write("merges.txt", "#version: 0.2\n");
    assert!(message().contains("merges.txt, the merges: expected one for every token of more than a symbol"), "{}", message());
    assert!(message().contains(r#"found 0 merges, and none for 1 token, of which "ab</w>" is the first"#), "{}", message());
    write("merges.txt", "a b</w>\n");
    assert_eq!(Tokenizer::load(folder.path()).unwrap().encode("AB").unwrap(), [3]);
    for (vocabulary, words) in [
        (r#"{"a": 0}"#, "<unk>"),
        (r#"{"<unk>": 0, "a": 5000000}"#, "an id below 65552, found id 5000000"),
        (r#"{"<unk>": 0, "a": 0}"#, "id 0, which"),
        (r#"{"<unk>": "zero"}"#, r#"token "<unk>": expected an id, found "zero""#),
        (r#"{"<unk>": }"#, "line 1"),
    ] {
        write("vocab.json", vocabulary);
        assert!(message().contains(words), "{}", message());
    }
    for (text, words) in [
        (r#"{"format": "other", "version": 1, "note": "", "kind": "byte", "added_tokens": []}"#, "/format"),
        (r#"{"format": "gradus-tokenizer", "version": 2, "note": "", "kind": "byte", "added_tokens": []}"#, "version 2"),
        (r#"{"format": "gradus-tokenizer", "version": 1, "note": "", "kind": "char", "added_tokens": []}"#, "/kind"),
        (
            r#"{"format": "gradus-tokenizer", "version": 1, "note": "", "kind": "char", "characters": ["b", "a"], "added_tokens": []}"#,
            "/characters",
        ),
    ] {
        write(GRADUS, text);
        assert!(message().contains(words), "{}", message());
    }
}

/// OpenAI's pipeline with ftfy and spaCy made the cases (tests/golden/openai_text.py).
#[test]
fn ids_of_mode_spacy_are_those_of_openais_code() {
    #[derive(Deserialize)]
    struct Case {
        text: String,
        ids: Vec<u32>,
    }
    let tokenizer = Tokenizer::load(&data()).unwrap();
    let Vocabulary::Bpe(bpe) = tokenizer.vocabulary().clone() else { panic!("a BPE") };
    let tokenizer = Tokenizer::bpe(bpe.with_mode(Mode::Spacy));
    let cases: Vec<Case> = read_json(&PathBuf::from("tests/data/openai/cases.json")).unwrap();
    assert_eq!(cases.len(), 20);
    for case in cases {
        assert_eq!(tokenizer.encode_plain(&case.text).unwrap(), case.ids, "{:?}", case.text);
    }
}

#[test]
fn the_mode_is_saved_and_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let loaded = Tokenizer::load(&data()).unwrap();
    let normalized = loaded.clone().with_mode(Mode::Spacy).unwrap_err().to_string();
    assert!(
        normalized.contains("mode spacy: expected a BPE tokenizer of GPT-1's form, found one with added tokens"),
        "{normalized}"
    );
    let Vocabulary::Bpe(bpe) = loaded.vocabulary().clone() else { panic!("a BPE") };
    let mut tokenizer = Tokenizer::bpe(bpe.with_mode(Mode::Spacy));
    tokenizer.add_special("<start>").unwrap();
    tokenizer.save(folder.path()).unwrap();
    let mut files: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    files.sort();
    assert_eq!(files, [CHECKSUMS_FILE, "merges.txt", CONFIG, "vocab.json"]);
    let again = Tokenizer::load(folder.path()).unwrap();
    assert_eq!((again.mode(), again.fingerprint()), (Some(Mode::Spacy), tokenizer.fingerprint()));
    assert_ne!(again.clone().with_mode(Mode::Basic).unwrap().fingerprint(), tokenizer.fingerprint());
    let text = "<start>Don't\nstop";
    assert_eq!(again.encode(text).unwrap(), tokenizer.encode(text).unwrap());
    let other = again.with_mode(Mode::Basic).unwrap().save(folder.path()).unwrap_err().to_string();
    assert!(other.contains("the folder contains a tokenizer of another kind (vocab.json)"), "{other}");
    for none in [Tokenizer::bytes(), Tokenizer::characters(["abc"])] {
        assert_eq!((none.mode(), none.line_end()), (None, None));
        assert!(matches!(none.with_mode(Mode::Spacy), Err(TextError::Mode { mode: Mode::Spacy, .. })));
    }
}

/// A saved tokenizer also refuses an id without a row, even if the embedding has grown for tokens that were added later.
#[test]
fn ids_without_a_row_stay_rejected_after_saving() {
    let of = |folder: &str| Tokenizer::load(&Path::new("tests/data").join(folder)).unwrap();
    let basic = Tokenizer::load(&data()).unwrap();
    let Vocabulary::Bpe(bpe) = basic.vocabulary().clone() else { panic!("a BPE") };
    let spacy = Tokenizer::bpe(bpe.with_mode(Mode::Spacy));
    let [bytes, characters] = [Tokenizer::bytes(), Tokenizer::characters(["abc"])];
    for mut tokenizer in [basic, spacy, bytes, characters, of("wordpiece"), of("byte_level/gpt2")] {
        let rows = tokenizer.vocab_size();
        tokenizer.add_special("<x>").unwrap();
        let mut tokenizer = tokenizer.with_rows(rows);
        tokenizer.add_special("<y>").unwrap();
        let folder = tempfile::tempdir().unwrap();
        tokenizer.save(folder.path()).unwrap();
        let loaded = Tokenizer::load(folder.path()).unwrap();
        for tokenizer in [&tokenizer, &loaded, &loaded.clone().with_rows(rows + 2)] {
            let error = tokenizer.encode("a<x>").unwrap_err().to_string();
            let expected = format!("token \"<x>\" has id {rows}, but the model was trained with {rows} rows");
            assert!(error.starts_with(&expected), "{}: {error}", tokenizer.kind());
            assert!(tokenizer.encode("a<y>").unwrap().ends_with(&[rows as u32 + 1]), "{}", tokenizer.kind());
        }
        assert!(loaded.with_rows(rows + 1).encode("a<y>").is_err());
    }
}

/// Regression: loading the second file panicked.
#[test]
fn a_damaged_configuration_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("vocab.json"), r#"{"<unk>": 0}"#).unwrap();
    fs::write(folder.path().join("merges.txt"), "#version: 0.2\n").unwrap();
    for (config, words) in [
        (r#"{"mode": "words"}"#, "/mode: expected basic or spacy, found \"words\""),
        (r#"{"added_tokens_decoder": {"90": 5}}"#, "/added_tokens_decoder/90: expected an id with {content, …}, found 5"),
        (r#"{"added_tokens_decoder": {"x": {"content": "a"}}}"#, "/added_tokens_decoder/x: expected an id"),
        (r#"{"gradus_rowless": 5}"#, "/gradus_rowless: expected the start and the end of a range of ids, found 5"),
    ] {
        fs::write(folder.path().join(CONFIG), config).unwrap();
        let error = Tokenizer::load(folder.path()).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

/// NUL in a tokenizer's file is reported as damage, without the remedy for a corpus.
#[test]
fn a_file_with_nul_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("tokenizer.json"), b"{\"model\": \0}").unwrap();
    let error = Tokenizer::load(folder.path()).unwrap_err().to_string();
    assert!(
        error.ends_with(
            "tokenizer.json, byte 10: expected text, found NUL. The file is damaged or of another format: put back a copy of it"
        ),
        "{error}"
    );
}

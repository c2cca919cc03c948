//! WordPiece and byte-level BPE. The fixtures are written by transformers 5 (tests/golden/relatives_tokenizers.py).

use super::*;
use crate::Cut;

pub(super) type Files = Vec<(String, String)>;

fn text_of(name: &str) -> String {
    fs::read_to_string(Path::new("tests/data").join(name)).unwrap()
}

fn document(folder: &str) -> Value {
    serde_json::from_str(&text_of(&format!("{folder}/{TOKENIZER}"))).unwrap()
}

pub(super) fn read(files: &Files) -> Result<Tokenizer, TextError> {
    Tokenizer::read(Path::new("model"), &|name| {
        let found = files.iter().find(|(own, _)| *own == name);
        found.map(|(_, text)| text.clone().into_bytes()).ok_or_else(|| io::ErrorKind::NotFound.into())
    })
}

/// Loads a tokenizer with these places of a file changed.
fn changed(folder: &str, changes: &[(&str, Value)]) -> Result<Tokenizer, TextError> {
    let mut document = document(folder);
    for (place, value) in changes {
        *document.pointer_mut(place).unwrap() = value.clone();
    }
    read(&vec![(TOKENIZER.into(), document.to_string())])
}

fn cases(folder: &str) -> Vec<Value> {
    serde_json::from_str(&text_of(&format!("{folder}/cases.json"))).unwrap()
}

/// Returns the number of cases with matching ids and texts, or the first case that differs.
fn same(tokenizer: &Tokenizer, folder: &str, variant: &str) -> Result<usize, String> {
    let mut cases = cases(folder).into_iter();
    cases.try_fold(0, |n, case| {
        let ids: Vec<u32> = serde_json::from_value(case[variant]["ids"].clone()).unwrap();
        let found = tokenizer.encode(case["text"].as_str().unwrap()).unwrap();
        let decoded = tokenizer.decode(&found).unwrap();
        match found == ids && (decoded == case[variant]["decoded"].as_str().unwrap()) {
            true => Ok(n + 1),
            false => Err(format!("{variant}, {}: {found:?} {decoded:?}, expected {}", case["text"], case[variant])),
        }
    })
}

/// Checks that each tokenizer gives its own ids and not those of another variant.
fn tell_apart(folder: &str, variants: &[(&str, Tokenizer)]) {
    for (name, tokenizer) in variants {
        assert_eq!(same(tokenizer, folder, name), Ok(cases(folder).len()));
        for (other, _) in variants.iter().filter(|(other, _)| other != name) {
            assert!(same(tokenizer, folder, other).is_err(), "{name} is not {other}");
        }
    }
}

#[test]
fn ids_and_texts_of_wordpiece_are_those_of_tokenizers() {
    let with = |lowercase: bool, more: &[(&str, Value)]| {
        let five: Vec<Value> = document("wordpiece")["added_tokens"].as_array().unwrap()[..5].to_vec();
        let first = [("/added_tokens", five.into()), ("/normalizer/lowercase", lowercase.into())];
        changed("wordpiece", &[&first[..], more].concat()).unwrap()
    };
    tell_apart(
        "wordpiece",
        &[
            ("written", Tokenizer::load(Path::new("tests/data/wordpiece")).unwrap()),
            ("uncased", with(true, &[])),
            ("cased", with(false, &[])),
            ("accents", with(true, &[("/normalizer/strip_accents", json!(false))])),
            ("ideographs", with(false, &[("/normalizer/handle_chinese_chars", json!(false))])),
            (
                "raw",
                with(
                    false,
                    &[
                        ("/normalizer/handle_chinese_chars", json!(false)),
                        ("/normalizer/strip_accents", json!(true)),
                        ("/normalizer/clean_text", json!(false)),
                    ],
                ),
            ),
        ],
    );
}

#[test]
fn lines_of_tokens() {
    let lines = text_of("wordpiece/vocab.txt");
    for (variant, config) in [
        ("uncased", None),
        ("uncased", Some(r#"{"tokenizer_class": "BertTokenizer", "do_lower_case": true, "strip_accents": null}"#)),
        ("cased", Some(r#"{"do_lower_case": false}"#)),
        ("accents", Some(r#"{"strip_accents": false}"#)),
        ("ideographs", Some(r#"{"do_lower_case": false, "tokenize_chinese_chars": false}"#)),
    ] {
        let mut files = vec![(LINES.to_owned(), lines.replace('\n', "\r\n"))];
        files.extend(config.map(|config| (CONFIG.to_owned(), config.to_owned())));
        assert_eq!(same(&read(&files).unwrap(), "wordpiece", variant), Ok(cases("wordpiece").len()), "{config:?}");
    }
    let listed = r#"{"added_tokens_decoder": {"240": {"content": "<start>", "special": true}, "5": {"content": "[MASK]", "lstrip": true}}}"#;
    let tokenizer = read(&vec![(LINES.into(), lines), (CONFIG.into(), listed.into())]).unwrap();
    assert_eq!(tokenizer.encode("<start> [MASK][CLS]").unwrap(), [240, 5, 3]);
}

#[test]
fn ids_and_texts_of_byte_level_bpe_are_those_of_tokenizers() {
    let prefix = |folder: &str, prefix: bool| changed(folder, &[("/pre_tokenizer/add_prefix_space", prefix.into())]).unwrap();
    tell_apart(
        "byte_level",
        &[
            ("gpt2", Tokenizer::load(Path::new("tests/data/byte_level/gpt2")).unwrap()),
            ("gpt2-prefix", prefix("byte_level/gpt2", true)),
            ("roberta", Tokenizer::load(Path::new("tests/data/byte_level/roberta")).unwrap()),
            ("roberta-no-prefix", prefix("byte_level/roberta", false)),
        ],
    );
    let mut merges = document("byte_level/gpt2")["model"]["merges"].clone();
    merges.as_array_mut().unwrap().swap(0, 30);
    let other = changed("byte_level/gpt2", &[("/model/merges", merges)]).unwrap();
    assert!(same(&other, "byte_level", "gpt2").is_err(), "ranks count");
    let mask = document("byte_level/roberta")["added_tokens"].as_array().unwrap().len() - 1;
    let other = changed("byte_level/roberta", &[(&format!("/added_tokens/{mask}/lstrip"), json!(false))]).unwrap();
    assert!(same(&other, "byte_level", "roberta").is_err(), "white space before <mask> counts");
}

#[test]
fn byte_level_bpe_is_lossless() {
    let tokenizer = Tokenizer::load(Path::new("tests/data/byte_level/gpt2")).unwrap();
    let every: String = ('\0'..=char::MAX).collect();
    for text in cases("byte_level").iter().map(|case| case["text"].as_str().unwrap()).chain([&*every]) {
        assert_eq!(tokenizer.decode(&tokenizer.encode(text).unwrap()).unwrap(), text);
        assert_eq!(tokenizer.decode(&tokenizer.encode_plain(text).unwrap()).unwrap(), text);
    }
    for id in 0..tokenizer.vocab_size() as u32 {
        assert_eq!(tokenizer.token_id(&tokenizer.token(id).unwrap()), Some(id));
    }
}

/// Two files, under either pair of names, with and without the files that `transformers` 4 writes beside them.
#[test]
fn pairs_of_byte_level_bpe() {
    for (folder, variant, config) in [
        ("byte_level/gpt2", "gpt2", None),
        ("byte_level/gpt2", "gpt2-prefix", Some(r#"{"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": true}"#)),
        ("byte_level/roberta", "roberta-no-prefix", None),
        ("byte_level/roberta", "roberta", Some(r#"{"add_prefix_space": true}"#)),
    ] {
        let document = document(folder);
        let merges = document["model"]["merges"].as_array().unwrap().iter().map(|merge| {
            let [a, b] = [0, 1].map(|i| merge[i].as_str().unwrap());
            format!("{a} {b}\n")
        });
        let merges = format!("#version: 0.2\n{}", merges.collect::<String>());
        for (vocabulary_name, merges_name) in [PAIRS[0], PAIRS[2]] {
            let mut files =
                vec![(vocabulary_name.into(), document["model"]["vocab"].to_string()), (merges_name.into(), merges.clone())];
            files.extend(config.map(|config| (CONFIG.to_owned(), config.to_owned())));
            assert_eq!(same(&read(&files).unwrap(), "byte_level", variant), Ok(cases("byte_level").len()));
            files[1].1 = merges.lines().take(100).map(|line| format!("{line}\n")).collect();
            let cut = read(&files).unwrap_err().to_string();
            assert!(cut.contains(merges_name) && cut.contains("found 99 merges, and none for 21 tokens"), "{cut}");
        }
    }
}

#[test]
fn saved_files_equal_those_of_transformers() {
    for folder in ["wordpiece", "byte_level/gpt2", "byte_level/roberta"] {
        let tokenizer = Tokenizer::load(&Path::new("tests/data").join(folder)).unwrap();
        let written = tempfile::tempdir().unwrap();
        tokenizer.save(written.path()).unwrap();
        assert_eq!(read_json::<Value>(&written.path().join(TOKENIZER)).unwrap(), document(folder), "{folder}");
        let theirs: Value = serde_json::from_str(&text_of(&format!("{folder}/{CONFIG}"))).unwrap();
        for (name, value) in read_json::<Value>(&written.path().join(CONFIG)).unwrap().as_object().unwrap() {
            assert_eq!((name, value), (name, &theirs[name]), "{folder}");
        }
        assert_eq!(Tokenizer::load(written.path()).unwrap().fingerprint(), tokenizer.fingerprint());
        let other = Tokenizer::bytes().save(written.path()).unwrap_err().to_string();
        assert!(other.contains("another kind"), "{other}");
    }
}

#[test]
fn properties_of_each_kind_of_tokenizer() {
    let of = |folder: &str| Tokenizer::load(&Path::new("tests/data").join(folder)).unwrap();
    let (pieces, bytes) = (of("wordpiece"), of("byte_level/gpt2"));
    assert_eq!([pieces.kind(), bytes.kind()], ["wordpiece", "byte-bpe"]);
    assert_eq!([pieces.cut(), bytes.cut()], [Cut::Words, Cut::Blanks]);
    assert_eq!([pieces.blanks_lead(), bytes.blanks_lead()], [false, true]);
    for mut tokenizer in [pieces, bytes] {
        assert!((tokenizer.mode(), tokenizer.line_end()) == (None, None));
        let error = tokenizer.clone().with_mode(Mode::Spacy).unwrap_err().to_string();
        assert!(error.starts_with("mode spacy: expected a BPE tokenizer of GPT-1's form, found a"), "{error}");
        let (size, before) = (tokenizer.vocab_size() as u32, tokenizer.fingerprint());
        assert_eq!(tokenizer.add_special("<extract>").unwrap(), size);
        assert!(tokenizer.encode("the<extract>").unwrap().ends_with(&[size]));
        assert!(!tokenizer.encode_plain("the<extract>").unwrap().contains(&size));
        assert_ne!(tokenizer.fingerprint(), before);
        assert!(tokenizer.decode(&[size + 1]).is_err());
    }
}

/// Changes each field to a value that is invalid or would change ids. The error names file and place.
#[test]
fn bad_files() {
    let word = "wordpiece";
    let bytes = "byte_level/gpt2";
    for (folder, changed_place, value, place, found) in [
        (word, "/normalizer/type", json!("Replace"), "/normalizer/type", r#""Replace""#),
        (word, "/normalizer/lowercase", json!(null), "/normalizer/lowercase", "null"),
        (word, "/normalizer/strip_accents", json!(1), "/normalizer/strip_accents", "1"),
        (word, "/pre_tokenizer/type", json!("Whitespace"), "/pre_tokenizer/type", r#""Whitespace""#),
        (word, "/decoder/prefix", json!("@"), "/decoder/prefix", r#""@""#),
        (word, "/decoder/cleanup", json!("no"), "/decoder/cleanup", r#""no""#),
        (word, "/model/unk_token", json!(null), "/model/unk_token", "null"),
        (word, "/model/unk_token", json!("none"), r#"token "none""#, "240 tokens without it"),
        (word, "/model/max_input_chars_per_word", json!(1u64 << 40), "/model/max_input_chars_per_word", "1099511627776"),
        (word, "/model/max_input_chars_per_word", json!(0), "/model/max_input_chars_per_word", "0"),
        (word, "/model/continuing_subword_prefix", json!(""), "/model/continuing_subword_prefix", r#""""#),
        (word, "/model/vocab", json!({"[UNK]": 0, "a": 4_000_000_000u32}), r#"the vocabulary, token "a""#, "id 4000000000"),
        (word, "/model/vocab", json!([]), "/model/vocab", "[]"),
        (bytes, "/normalizer", json!({"type": "Strip"}), "/normalizer/type", r#""Strip""#),
        (bytes, "/model/byte_fallback", json!(true), "/model/byte_fallback", "true"),
        (bytes, "/model/fuse_unk", json!("yes"), "/model/fuse_unk", r#""yes""#),
        (bytes, "/pre_tokenizer/use_regex", json!(false), "/pre_tokenizer/use_regex", "false"),
        (bytes, "/pre_tokenizer/add_prefix_space", json!(2), "/pre_tokenizer/add_prefix_space", "2"),
        (bytes, "/pre_tokenizer/type", json!("Metaspace"), "/pre_tokenizer/type", r#""Metaspace""#),
        (bytes, "/model/end_of_word_suffix", json!("</w>"), "/model/end_of_word_suffix", r#""</w>""#),
        (bytes, "/model/merges/3", json!(["a"]), "/model/merges/3", r#"["a"]"#),
        (bytes, "/model/merges/3", json!(["a", "zzz"]), r#"merge 4 ("a" + "zzz")"#, r#"no token "zzz""#),
        (bytes, "/model/merges", json!([]), "the merges", "0 merges, and none for 120 tokens"),
    ] {
        let error = changed(folder, &[(changed_place, value.clone())]).expect_err(changed_place);
        let TextError::Format { place: located, found: what, .. } = &error else { panic!("{changed_place}: {error}") };
        assert_eq!(&**located, place, "{changed_place} = {value}");
        assert!(what.starts_with(found), "{changed_place} = {value}: {what}");
    }
    let error = |files: &Files| read(files).unwrap_err().to_string();
    assert!(error(&vec![(LINES.into(), "a\n".into())]).contains(r#"token "[UNK]": expected a token for unknown symbols"#));
    let config = (CONFIG.into(), r#"{"do_lower_case": "yes"}"#.to_owned());
    assert!(
        error(&vec![(LINES.into(), "[UNK]\n".into()), config]).contains("/do_lower_case: expected true or false, found \"yes\"")
    );
}

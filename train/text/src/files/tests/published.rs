//! Directories of tokenizers as published models have them, with the ids of `transformers` (tests/golden/published_tokenizers.py).

use std::collections::BTreeMap;

use super::relatives::{Files, read};
use super::*;

#[derive(Deserialize)]
struct Case {
    files: BTreeMap<String, Value>,
    text: String,
    ids: Vec<u32>,
}

#[derive(Deserialize)]
struct Fixture {
    shared: BTreeMap<String, Value>,
    cases: BTreeMap<String, Case>,
}

fn fixture() -> Fixture {
    read_json(Path::new("tests/data/published/cases.json")).unwrap()
}

impl Fixture {
    fn files(&self, name: &str) -> Files {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let content = |value: &Value| match value.as_str().and_then(|name| name.strip_prefix('@')) {
            Some(shared) => text(&self.shared[shared]),
            None => text(value),
        };
        self.cases[name].files.iter().map(|(name, value)| (name.clone(), content(value))).collect()
    }
}

#[test]
fn ids_are_those_of_transformers() {
    let fixture = fixture();
    assert_eq!(fixture.cases.len(), 122);
    for (name, case) in &fixture.cases {
        let tokenizer = read(&fixture.files(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(tokenizer.encode(&case.text).unwrap(), case.ids, "{name}: {:?}", case.text);
    }
}

/// A tokenizer that is saved and loaded again has the same ids and the same roles.
#[test]
fn they_survive_being_saved() {
    let fixture = fixture();
    for (name, case) in &fixture.cases {
        let tokenizer = read(&fixture.files(name)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        tokenizer.save(folder.path()).unwrap();
        let again = Tokenizer::load(folder.path()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(again.encode(&case.text).unwrap(), case.ids, "{name}");
        assert_eq!(again.fingerprint(), tokenizer.fingerprint(), "{name}");
        assert_eq!(again.roles().pairs, tokenizer.roles().pairs, "{name}");
        for (role, token) in &tokenizer.roles().names {
            assert_eq!(again.roles().get(role), Some(token.as_str()), "{name}, {role}");
        }
    }
}

/// Cases that differ in one rule have different ids, so that each rule is tested.
#[test]
fn each_rule_is_seen() {
    let fixture = fixture();
    let ids = |name: &str| &fixture.cases[name].ids;
    for [one, other] in [
        ["added_tokens.json", "added_tokens.json in another order"],
        ["added_tokens_decoder before older files", "added and special"],
        ["extra before additional", "additional_special_tokens"],
        ["add_prefix_space by its class", "no add_prefix_space by its class"],
        ["add_prefix_space without a class", "no add_prefix_space by its class"],
        ["a cased file by an uncased class", "a cased file without a class"],
        ["unk_token", "fuse_unk"],
        ["bytes without a token", "unk_token"],
        ["Japanese wordpiece False", "Japanese character False"],
        ["Japanese wordpiece False", "Japanese wordpiece True"],
        ["BlenderbotTokenizer", "BlenderbotTokenizer False"],
        ["single_word True, bytes", "rstrip True, bytes"],
        ["lstrip True, bytes", "lstrip True and rstrip True, bytes"],
        ["white space behind tokens", "white space before a token"],
        ["blank lines", "tokens twice"],
    ] {
        assert_ne!(ids(one), ids(other), "{one}, {other}");
    }
}

#[test]
fn what_is_refused_says_why() {
    let fixture = fixture();
    let told = |base: &str, name: &str, content: Value| {
        let mut files = fixture.files(base);
        files.retain(|(own, _)| own != name);
        files.push((name.into(), content.to_string()));
        read(&files).expect_err(base).to_string()
    };
    let (pair, lines, document) = ("gpt2", "a blank last line", "tokenizer.json by its class");
    for class in
        ["Qwen2Tokenizer", "CLIPTokenizerFast", "CTRLTokenizer", "FlaubertTokenizer", "BertweetTokenizer", "LlamaTokenizer"]
    {
        for base in [pair, document] {
            let error = told(base, CONFIG, json!({ "tokenizer_class": class }));
            assert!(error.contains("/tokenizer_class: expected a tokenizer of GPT-1") && error.contains(class), "{error}");
        }
    }
    for class in ["RoFormerTokenizer", "FunnelTokenizer", "TapasTokenizer", "GPT2Tokenizer", "OurOwnTokenizer"] {
        let error = told(lines, CONFIG, json!({ "tokenizer_class": class }));
        assert!(error.contains("/tokenizer_class: ") && error.contains(class), "{error}");
    }
    for (words, pieces) in
        [("mecab", "wordpiece"), ("sudachi", "character"), ("jumanpp", "wordpiece"), ("basic", "sentencepiece")]
    {
        let options =
            json!({"tokenizer_class": "BertJapaneseTokenizer", "word_tokenizer_type": words, "subword_tokenizer_type": pieces});
        let error = told(lines, CONFIG, options);
        assert!(error.contains(&format!("BertJapaneseTokenizer with {words} words and {pieces} pieces")), "{error}");
    }
    let other = json!({ "tokenizer_class": "BertTokenizer" });
    assert!(told(document, CONFIG, other).contains("/model/type: expected \"WordPiece\", found \"BPE\". BertTokenizer in"));
    // `transformers` would give this token another id than the file does.
    let gap = told("added_tokens.json", "added_tokens.json", json!({"<|startoftext|>": 265, "<|pad|>": 300}));
    assert!(gap.contains("added_tokens.json, added token \"<|pad|>\": expected id 266, found id 300"), "{gap}");
    for (name, wrong, place) in [
        (CONFIG, json!({"additional_special_tokens": "<x>"}), "/additional_special_tokens: expected a list of tokens"),
        (CONFIG, json!({"mask_token": 5}), "/mask_token: expected a token, found 5"),
        (CONFIG, json!({"tokenizer_class": 1}), "/tokenizer_class: expected the name of a class, found 1"),
        ("added_tokens.json", json!({"<x>": "y"}), "token \"<x>\": expected an id, found \"y\""),
        ("special_tokens_map.json", json!({"pad_token": {"lstrip": true}}), "/pad_token: expected a token, found missing field"),
    ] {
        let error = told(pair, name, wrong);
        assert!(error.contains(name) && error.contains(place), "{error}");
    }
}

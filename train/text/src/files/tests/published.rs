//! Directories of tokenizers like those of published models, with the ids of `transformers`
//! (tests/golden/published_tokenizers.py).

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
    assert_eq!(fixture.cases.len(), 193);
    for (name, case) in &fixture.cases {
        let tokenizer = read(&fixture.files(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(tokenizer.encode(&case.text).unwrap(), case.ids, "{name}: {:?}", case.text);
    }
}

/// A tokenizer that is saved and loaded again has the same ids and the same roles.
#[test]
fn published_tokenizers_survive_saving() {
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
fn each_rule_changes_the_ids() {
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
        ["a cased file of a model 'bert'", "a cased file of a model ''"],
        ["bytes of a model", "bytes of a model by PreTrainedTokenizerFast"],
        ["a model without a class of its own", "a cased file by an uncased class"],
        ["roles in the file's order", "roles in the other order"],
        ["mask_token null", "mask_token <x> beside vocab.txt"],
        ["gpt2", "no special token"],
        ["a role of its own with flags in the map", "a role of its own without a type"],
        ["extra [] before the map's", "extra {} before the map's"],
        ["other options by GPT2Tokenizer", "gpt2"],
        ["split_special_tokens", "gpt2"],
        ["white space behind a token, wordpiece", "raw text, wordpiece"],
    ] {
        assert_ne!(ids(one), ids(other), "{one}, {other}");
    }
}

const PAIR: &str = "gpt2";
const LINES: &str = "a blank last line";
const DOCUMENT: &str = "tokenizer.json by its class";
const MODEL: &str = "a cased file of a model 'bert'";

/// Returns the error of a case with another file.
fn error_of(base: &str, name: &str, content: Value) -> String {
    let mut files = fixture().files(base);
    files.retain(|(own, _)| own != name);
    files.push((name.into(), content.to_string()));
    read(&files).expect_err(base).to_string()
}

#[test]
fn an_unsupported_class_is_an_error_with_its_name() {
    for class in
        ["Qwen2Tokenizer", "CLIPTokenizerFast", "CTRLTokenizer", "FlaubertTokenizer", "BertweetTokenizer", "GemmaTokenizer"]
    {
        for base in [PAIR, DOCUMENT] {
            let error = error_of(base, CONFIG, json!({ "tokenizer_class": class }));
            assert!(error.contains("/tokenizer_class: expected a tokenizer of GPT-1") && error.contains(class), "{error}");
        }
    }
    for class in ["RoFormerTokenizer", "FunnelTokenizer", "TapasTokenizer", "GPT2Tokenizer", "OurOwnTokenizer"] {
        let error = error_of(LINES, CONFIG, json!({ "tokenizer_class": class }));
        assert!(error.contains("/tokenizer_class: ") && error.contains(class), "{error}");
    }
    let error = error_of(MODEL, "config.json", json!({ "model_type": "xlm-roberta" }));
    assert!(error.contains("config.json, /model_type: expected a tokenizer of GPT-1") && error.contains("XLMRoberta"), "{error}");
    let error = error_of(LINES, CONFIG, json!({ "tokenizer_class": "GPT2Tokenizer" }));
    assert!(error.contains("expected a class that reads vocab.txt, such as BertTokenizer, found GPT2Tokenizer. The"), "{error}");
    let error = error_of(DOCUMENT, CONFIG, json!({ "tokenizer_class": "BertTokenizer" }));
    assert!(error.contains("/model/type: expected \"WordPiece\", found \"BPE\". The class BertTokenizer needs it"), "{error}");
    let error = error_of("ignore_merges", CONFIG, json!({ "tokenizer_class": "GPT2Tokenizer" }));
    assert!(error.contains("/model/ignore_merges: expected false, found true. The class GPT2Tokenizer ignores"), "{error}");
}

#[test]
fn an_unsupported_option_of_the_japanese_tokenizer_is_named() {
    let error_of = |options: Value| {
        let mut config = json!({ "tokenizer_class": "BertJapaneseTokenizer" });
        config.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        error_of(LINES, CONFIG, config)
    };
    for (words, pieces) in
        [("mecab", "wordpiece"), ("sudachi", "character"), ("jumanpp", "wordpiece"), ("basic", "sentencepiece")]
    {
        let error = error_of(json!({"word_tokenizer_type": words, "subword_tokenizer_type": pieces}));
        assert!(error.contains(&format!("BertJapaneseTokenizer with {words} words and {pieces} pieces")), "{error}");
    }
    for (name, value, usual) in [
        ("do_word_tokenize", json!(false), "true"),
        ("never_split", json!(["ABC"]), "[]"),
        ("split_special_tokens", json!(true), "false"),
    ] {
        let error = error_of(json!({ (name): value }));
        assert!(error.contains(&format!("/{name}: expected {usual}, found {value}. BertJapaneseTokenizer with")), "{error}");
    }
    let error = error_of(json!({"added_tokens_decoder": {"40": {"content": "<x>", "single_word": true}}}));
    assert!(error.contains("added token \"<x>\": expected no single_word, found true"), "{error}");
}

#[test]
fn a_damaged_file_is_named() {
    let decoder = |value: Value| json!({ "added_tokens_decoder": value });
    let (map, added) = ("special_tokens_map.json", "added_tokens.json");
    for (base, name, wrong, place) in [
        (PAIR, CONFIG, json!({"additional_special_tokens": "<x>"}), "_special_tokens: expected a list of tokens"),
        (PAIR, CONFIG, json!({"mask_token": 5}), "/mask_token: expected a token: a string, or an object whose"),
        (PAIR, CONFIG, json!({"pad_token": {"content": "<x>"}}), "/pad_token: expected a token: a string, or an object"),
        (PAIR, CONFIG, decoder(json!(null)), "/added_tokens_decoder: expected an object of ids and tokens, found null"),
        (PAIR, CONFIG, decoder(json!([1])), "/added_tokens_decoder: expected an object of ids and tokens, found [1]"),
        (PAIR, CONFIG, decoder(json!({"265": {"lstrip": true}})), "_decoder/265: expected a token, with its content"),
        (PAIR, CONFIG, decoder(json!({"265": {"lstrip": 1}})), "/265/lstrip: expected true or false, found 1"),
        (PAIR, CONFIG, json!({"tokenizer_class": 1}), "/tokenizer_class: expected the name of a class, found 1"),
        (LINES, CONFIG, json!({"tokenizer_class": "BertTokenizer", "unk_token": null}), "expected a token for unknown words"),
        (PAIR, added, json!({"<x>": "y"}), "token \"<x>\": expected an id, found \"y\""),
        // `transformers` would give this token an id other than the file's.
        (PAIR, added, json!({"<x>": 265, "<|pad|>": 300}), "added token \"<|pad|>\": expected id 266, found id 300"),
        (PAIR, map, json!({"pad_token": {"lstrip": true}}), "/pad_token: expected a token, with its content, found {\"lstrip\""),
        (MODEL, "config.json", json!("bert"), "line 1, column 6: expected the model's configuration, found not JSON"),
    ] {
        let error = error_of(base, name, wrong);
        assert!(error.contains(name) && error.contains(place), "{error}");
    }
    let fast = "a cased file by PreTrainedTokenizerFast";
    for (base, place, value, message) in [
        (fast, "/model/type", json!("Unigram"), "/model/type: expected \"BPE\" or \"WordPiece\", found \"Unigram\""),
        (fast, "/normalizer/lowercase", json!(null), "/normalizer/lowercase: expected true or false, found null"),
        (DOCUMENT, "/added_tokens/2/id", json!(300), "added token \"<|pad|>\": expected id 266, found id 300. Read in this"),
    ] {
        let mut document = fixture().cases[base].files[TOKENIZER].clone();
        *document.pointer_mut(place).unwrap() = value;
        let error = error_of(base, TOKENIZER, document);
        assert!(error.contains(message), "{error}");
    }
}

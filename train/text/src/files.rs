//! Tokenizers on disk.
//!
//! A BPE of mode `basic` is kept as `transformers` 5 keeps it: `tokenizer.json` with the vocabulary, the merges, and the specials
//! under `added_tokens` (in the vocabulary alone they would be split), and `tokenizer_config.json` with the class's name. One of
//! another mode is kept as version 4 keeps it: `vocab.json`, `merges.txt`, and `tokenizer_config.json` with the specials and the mode.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use gradus_io::checksums;
use gradus_io::disk;
use gradus_io::files::{FileError, json_text};
use gradus_io::numbers::many;
use serde::de::DeserializeOwned;
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::added::{AddedToken, AddedTokens};
use crate::bpe::{Bpe, END_OF_WORD, UNKNOWN};
use crate::corpus::utf8;
use crate::error::TextError;
use crate::mode::Mode;
use crate::plain::Characters;
use crate::tokenizer::{Tokenizer, Vocabulary};

const TOKENIZER: &str = "tokenizer.json";
const CONFIG: &str = "tokenizer_config.json";
const GRADUS: &str = "gradus_tokenizer.json";
/// The mode's name in [`CONFIG`].
const MODE: &str = "mode";
/// The class that reads such tokenizers.
const CLASS: &str = "OpenAIGPTTokenizer";
const GRADUS_FORMAT: &str = "gradus-tokenizer";
/// Vocabulary and merges as a pair of files: Hugging Face's names, then those of the original release.
const PAIRS: [(&str, &str); 2] = [("vocab.json", "merges.txt"), RELEASE];
/// Vocabulary and merges in OpenAI's release.
pub(crate) const RELEASE: (&str, &str) = ("encoder_bpe_40000.json", "vocab_40000.bpe");

impl Tokenizer {
    /// Writes the tokenizer into a folder, created if needed, with its [checksums]. A file is replaced whole or not at all.
    ///
    /// # Errors
    /// [`TextError::File`]; [`TextError::Missing`] if the folder holds a tokenizer of the other form, which would leave two.
    pub fn save(&self, folder: &Path) -> Result<(), TextError> {
        disk::make_folders(folder).map_err(|e| FileError::new("make the directory", folder, e))?;
        let files = self.files();
        let is_other = |name: &&str| files.iter().all(|(own, _)| own != name) && folder.join(name).exists();
        if let Some(other) = [TOKENIZER, GRADUS, PAIRS[0].0].into_iter().find(is_other) {
            let found = format!("the folder holds a tokenizer of another form ({other})");
            return Err(TextError::missing(folder, found, "Choose another folder, or remove that file first"));
        }
        Ok(checksums::write(folder, &files)?)
    }

    /// Its files by name; the main one is the last.
    pub fn files(&self) -> Vec<(&'static str, Vec<u8>)> {
        let Vocabulary::Bpe(bpe) = &self.vocabulary else { return vec![(GRADUS, json_text(&Gradus::of(self)))] };
        if bpe.mode() == Mode::Basic {
            let roles = json!({ "tokenizer_class": CLASS, "unk_token": UNKNOWN, "backend": "tokenizers" });
            return vec![(CONFIG, json_text(&roles)), (TOKENIZER, json_text(&Saved::of(bpe, &self.added)))];
        }
        let [vocabulary, merges] = [PAIRS[0].0, PAIRS[0].1];
        vec![self.roles(bpe.mode()), (merges, merges_text(bpe)), (vocabulary, json_text(&ById(bpe.tokens())))]
    }

    /// The file of what a vocabulary and merges do not tell, as `transformers` 4 keeps it: added tokens, and our mode.
    pub(crate) fn roles(&self, mode: Mode) -> (&'static str, Vec<u8>) {
        let added = self.added.as_slice().iter().map(|token| (token.id.to_string(), json!(SavedToken::of(token))));
        let added: Value = added.collect();
        let roles = json!({ "tokenizer_class": CLASS, "unk_token": UNKNOWN, "added_tokens_decoder": added, (MODE): mode.name() });
        (CONFIG, json_text(&roles))
    }

    /// Reads a tokenizer: a folder, or its main file (`tokenizer.json`, `gradus_tokenizer.json`,
    /// `vocab.json`, `encoder_bpe_40000.json`).
    ///
    /// # Errors
    /// [`TextError::Missing`], [`TextError::File`], or [`TextError::Format`] with the file, the place in it and the remedy.
    pub fn load(path: &Path) -> Result<Self, TextError> {
        let metadata = fs::metadata(path).map_err(|e| FileError::new("read", path, e))?;
        let (folder, name) = match metadata.is_dir() {
            true => (path, None),
            false => (path.parent().unwrap_or(Path::new("")), path.file_name().map(|name| name.to_string_lossy())),
        };
        let open = |name: &str| {
            let path = folder.join(name);
            // What has a sum must be there.
            checksums::check(disk::parent(&path), &[name])?;
            if !path.is_file() {
                return Ok(None);
            }
            Ok(Some(disk::read(&path).map_err(|e| FileError::new("read", &path, e))?))
        };
        let source = Source { folder, open: &open };
        match name {
            Some(name) => source.tokenizer(&name),
            None => {
                checksums::check(folder, &[TOKENIZER, GRADUS, CONFIG, PAIRS[0].0, PAIRS[0].1])?;
                source.tokenizer(main_file(folder, &|name| folder.join(name).is_file())?)
            }
        }
    }

    /// Reads a tokenizer from files that `open` finds by their names, such as `tokenizer.json`. `folder` is where they are, for
    /// messages. A file that is not there is [`NotFound`](io::ErrorKind::NotFound).
    ///
    /// # Errors
    /// Those of [`Tokenizer::load`].
    pub fn read(folder: &Path, open: &dyn Fn(&str) -> io::Result<Vec<u8>>) -> Result<Self, TextError> {
        let open = |name: &str| match open(name) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            found => Ok(Some(found.map_err(|e| FileError::new("read", &folder.join(name), e))?)),
        };
        let main = main_file(folder, &|name| !matches!(open(name), Ok(None)))?;
        Source { folder, open: &open }.tokenizer(main)
    }
}

type Open<'a> = dyn Fn(&str) -> Result<Option<Vec<u8>>, TextError> + 'a;

/// Where a tokenizer's files come from.
#[derive(Clone, Copy)]
struct Source<'a> {
    folder: &'a Path,
    /// The bytes of a file; `None`: there is none of this name.
    open: &'a Open<'a>,
}

impl Source<'_> {
    /// The tokenizer of which this is a file.
    fn tokenizer(self, name: &str) -> Result<Tokenizer, TextError> {
        match PAIRS.iter().find(|(vocabulary, merges)| name == *vocabulary || name == *merges) {
            Some((vocabulary, merges)) => load_pair(self, vocabulary, merges),
            None if name == GRADUS => load_gradus(self),
            None => load_hugging_face(self, name),
        }
    }

    fn path(self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn find(self, name: &str) -> Result<Option<String>, TextError> {
        let bytes = (self.open)(name)?;
        bytes.map(|bytes| Ok(utf8(&self.path(name), 0, &bytes)?.to_owned())).transpose()
    }

    fn read(self, name: &str) -> Result<String, TextError> {
        let none = || FileError::new("read", &self.path(name), io::ErrorKind::NotFound.into());
        self.find(name)?.ok_or_else(|| none().into())
    }

    fn find_json<T: DeserializeOwned>(self, name: &str) -> Result<Option<T>, TextError> {
        self.find(name)?.map(|text| parse_json(&self.path(name), &text)).transpose()
    }

    fn read_json<T: DeserializeOwned>(self, name: &str) -> Result<T, TextError> {
        parse_json(&self.path(name), &self.read(name)?)
    }
}

/// A line per merge, after a line that names the version.
pub(crate) fn merges_text(bpe: &Bpe) -> Vec<u8> {
    let lines = bpe.merge_tokens().map(|(a, b)| format!("{a} {b}\n"));
    std::iter::once("#version: 0.2\n".to_owned()).chain(lines).collect::<String>().into_bytes()
}

/// The main file of a folder.
fn main_file(folder: &Path, has: &dyn Fn(&str) -> bool) -> Result<&'static str, TextError> {
    match (has(TOKENIZER), has(GRADUS)) {
        (true, true) => {
            let found = format!("the folder holds two tokenizers, {TOKENIZER} and {GRADUS}");
            Err(TextError::missing(folder, found, "Remove one, or name the file instead of the folder"))
        }
        (true, false) => Ok(TOKENIZER),
        (false, true) => Ok(GRADUS),
        (false, false) => {
            let pair = PAIRS.iter().find(|(vocabulary, merges)| has(vocabulary) || has(merges));
            let [(a, b), (c, d)] = PAIRS;
            let remedy = format!("It needs {TOKENIZER}, {GRADUS}, {a} + {b}, or {c} + {d}");
            pair.map(|pair| pair.0).ok_or_else(|| TextError::missing(folder, "the folder holds no tokenizer", remedy))
        }
    }
}

/// `tokenizer.json`, field for field and in the order in which `transformers` writes it.
#[derive(Serialize)]
struct Saved<'a> {
    version: &'static str,
    truncation: Value,
    padding: Value,
    added_tokens: Vec<SavedToken>,
    normalizer: Value,
    pre_tokenizer: Value,
    post_processor: Value,
    decoder: Value,
    model: SavedModel<'a>,
}

#[derive(Serialize)]
struct SavedModel<'a> {
    r#type: &'static str,
    dropout: Value,
    unk_token: &'static str,
    continuing_subword_prefix: &'static str,
    end_of_word_suffix: &'static str,
    fuse_unk: bool,
    byte_fallback: bool,
    ignore_merges: bool,
    #[serde(serialize_with = "by_id")]
    vocab: &'a [String],
    merges: Vec<(&'a str, &'a str)>,
}

#[derive(Default, Serialize, Deserialize)]
struct SavedToken {
    id: u32,
    content: String,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
    #[serde(default)]
    normalized: bool,
    #[serde(default)]
    special: bool,
}

impl SavedToken {
    fn of(token: &AddedToken) -> Self {
        SavedToken {
            id: token.id,
            content: token.content.clone(),
            normalized: token.normalized,
            special: token.special,
            ..SavedToken::default()
        }
    }
}

/// Tokens as an object of tokens and ids.
#[derive(Serialize)]
struct ById<'a>(#[serde(serialize_with = "by_id")] &'a [String]);

fn by_id<S: Serializer>(tokens: &[String], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(tokens.len()))?;
    for (id, token) in tokens.iter().enumerate() {
        map.serialize_entry(token, &id)?;
    }
    map.end()
}

impl<'a> Saved<'a> {
    fn of(bpe: &'a Bpe, added: &AddedTokens) -> Self {
        let sequence = |id: &str, type_id: u32| json!({"Sequence": {"id": id, "type_id": type_id}});
        Saved {
            version: "1.0",
            truncation: Value::Null,
            padding: Value::Null,
            added_tokens: added.as_slice().iter().map(SavedToken::of).collect(),
            normalizer: json!({
                "type": "BertNormalizer",
                "clean_text": true,
                "handle_chinese_chars": true,
                "strip_accents": null,
                "lowercase": true,
            }),
            pre_tokenizer: json!({"type": "BertPreTokenizer"}),
            post_processor: json!({
                "type": "TemplateProcessing",
                "single": [sequence("A", 0)],
                "pair": [sequence("A", 0), sequence("B", 1)],
                "special_tokens": {},
            }),
            decoder: json!({"type": "BPEDecoder", "suffix": END_OF_WORD}),
            model: SavedModel {
                r#type: "BPE",
                dropout: Value::Null,
                unk_token: UNKNOWN,
                continuing_subword_prefix: "",
                end_of_word_suffix: END_OF_WORD,
                fuse_unk: false,
                byte_fallback: false,
                ignore_merges: false,
                vocab: bpe.tokens(),
                merges: bpe.merge_tokens().collect(),
            },
        }
    }
}

/// The fields of `tokenizer.json` that make a tokenizer GPT-1's, with the values that do. `null` stands for "absent", too.
fn required() -> [(&'static str, Vec<Value>); 16] {
    [
        ("/normalizer/type", vec![json!("BertNormalizer")]),
        ("/normalizer/clean_text", vec![json!(true)]),
        ("/normalizer/handle_chinese_chars", vec![json!(true)]),
        ("/normalizer/strip_accents", vec![Value::Null, json!(true)]), // null: as `lowercase`
        ("/normalizer/lowercase", vec![json!(true)]),
        ("/pre_tokenizer/type", vec![json!("BertPreTokenizer")]),
        ("/decoder/type", vec![json!("BPEDecoder")]),
        ("/decoder/suffix", vec![json!(END_OF_WORD)]),
        ("/model/type", vec![json!("BPE"), Value::Null]),
        ("/model/unk_token", vec![json!(UNKNOWN)]),
        ("/model/end_of_word_suffix", vec![json!(END_OF_WORD)]),
        ("/model/continuing_subword_prefix", vec![Value::Null, json!("")]),
        ("/model/dropout", vec![Value::Null, json!(0.0), json!(0)]),
        ("/model/fuse_unk", vec![json!(false), Value::Null]),
        ("/model/byte_fallback", vec![json!(false), Value::Null]),
        ("/model/ignore_merges", vec![json!(false), Value::Null]),
    ]
}

const NOT_OURS: &str = "Gradus reads tokenizers of GPT-1's form (transformers' OpenAIGPTTokenizer) and its own";
const DAMAGED: &str = "The file is damaged or was edited: copy it again, or save the tokenizer again";

fn load_hugging_face(source: Source<'_>, name: &str) -> Result<Tokenizer, TextError> {
    let path = &source.path(name);
    let document: Value = source.read_json(name)?;
    let at = |place: &str| document.pointer(place).unwrap_or(&Value::Null);
    for (place, allowed) in required() {
        let found = at(place);
        if !allowed.contains(found) {
            return Err(format_error(path, place, &allowed[0].to_string(), short(found), NOT_OURS));
        }
    }
    // A template that adds tokens of its own would change the ids.
    let adds = |template: &Value| template.as_array().is_none_or(|items| items.iter().any(|i| i.get("Sequence").is_none()));
    let processor = at("/post_processor");
    if !processor.is_null() && (processor["type"] != "TemplateProcessing" || adds(&processor["single"])) {
        let expected = "null, or a template that adds no tokens";
        return Err(format_error(path, "/post_processor", expected, short(processor), NOT_OURS));
    }
    let listed = at("/model/vocab");
    let bad = || format_error(path, "/model/vocab", "an object of tokens and ids", short(listed), DAMAGED);
    let mut ids = Vec::new();
    for (token, id) in listed.as_object().ok_or_else(bad)? {
        let bad = || format_error(path, &format!("/model/vocab, token {token:?}"), "an id", short(id), DAMAGED);
        ids.push((token.clone(), id.as_u64().and_then(|id| u32::try_from(id).ok()).ok_or_else(bad)?));
    }
    let mut merges = Vec::new();
    let listed = at("/model/merges");
    let bad = |place: &str, found| format_error(path, place, "merges: [\"a\", \"b\"] or \"a b\"", found, DAMAGED);
    for (i, merge) in listed.as_array().ok_or_else(|| bad("/model/merges", short(listed)))?.iter().enumerate() {
        let symbols = match merge {
            Value::String(line) => two(line.split(' ')),
            Value::Array(parts) => two(parts.iter().map(|p| p.as_str().unwrap_or_default())),
            _ => None,
        };
        merges.push(symbols.ok_or_else(|| bad(&format!("/model/merges/{i}"), short(merge)))?);
    }
    let added: Option<Vec<SavedToken>> = serde_json::from_value(at("/added_tokens").clone())
        .map_err(|error| format_error(path, "/added_tokens", "a list of {id, content, …}", error.to_string(), DAMAGED))?;
    source.find_json::<Value>(CONFIG)?; // nothing in it changes ids, but a damaged file should be known
    assemble([path, path], ids, &merges, added.unwrap_or_default())
}

fn load_pair(source: Source<'_>, vocabulary: &str, merges: &str) -> Result<Tokenizer, TextError> {
    let of_two = |name: &str, other: &str| {
        let found = format!("there is no such file beside {}", source.path(other).display());
        let missing = || TextError::missing(&source.path(name), found, "The two belong together: copy it there too");
        source.find(name)?.ok_or_else(missing)
    };
    let (tokens, text) = (of_two(vocabulary, merges)?, of_two(merges, vocabulary)?);
    let [vocabulary, merges, config] = [vocabulary, merges, CONFIG].map(|name| source.path(name));
    let mut ids: HashMap<String, u32> = parse_json(&vocabulary, &tokens)?;
    let mut pairs = Vec::new();
    for (line, symbols) in (1..).zip(text.lines()).filter(|(_, line)| !line.starts_with("#version")) {
        let (place, expected) = (format!("line {line}"), "two symbols with one space between");
        let bad = || format_error(&merges, &place, expected, format!("{symbols:?}"), DAMAGED);
        pairs.push(two(symbols.split(' ')).ok_or_else(bad)?);
    }
    // `transformers` 4 keeps specials in the configuration.
    let (mut added, mut mode) = (Vec::<SavedToken>::new(), Mode::default());
    if let Some(document) = source.find_json::<Value>(CONFIG)? {
        for (id, token) in document["added_tokens_decoder"].as_object().into_iter().flatten() {
            let place = format!("/added_tokens_decoder/{id}");
            let bad = |found| format_error(&config, &place, "an id with {content, …}", found, DAMAGED);
            let number = id.parse::<u32>().map_err(|_| bad(id.clone()))?;
            let Value::Object(mut token) = token.clone() else { return Err(bad(short(token))) };
            token.insert("id".into(), number.into());
            added.push(serde_json::from_value(token.into()).map_err(|error| bad(error.to_string()))?);
        }
        if let Some(name) = document.get(MODE) {
            let found = || format_error(&config, "/mode", "basic or spacy", short(name), DAMAGED);
            mode = name.as_str().and_then(|name| name.parse().ok()).ok_or_else(found)?;
        }
    }
    if vocabulary.ends_with(RELEASE.0) {
        // There added tokens are the last of the vocabulary, since the release has no other place for them.
        let own = added.iter().filter(|token| token.content != UNKNOWN);
        let own: HashMap<u32, &String> = own.filter_map(|token| Some((*ids.get(&token.content)?, &token.content))).collect();
        while let Some(last) = (ids.len() as u32).checked_sub(1).and_then(|last| own.get(&last)) {
            if ids.remove(*last).is_none() {
                break;
            }
        }
    }
    assemble([&vocabulary, &merges], ids.into_iter().collect(), &pairs, added)?.with_mode(mode)
}

/// The two symbols of a merge, if these are two.
fn two<'a>(symbols: impl Iterator<Item = &'a str>) -> Option<(String, String)> {
    match symbols.collect::<Vec<_>>()[..] {
        [a, b] if !a.is_empty() && !b.is_empty() => Some((a.to_owned(), b.to_owned())),
        _ => None,
    }
}

/// A tokenizer from the contents of its files, of the vocabulary and of the merges, whose ids must be 0 to n − 1, each once.
fn assemble(
    [path, of_merges]: [&Path; 2],
    ids: Vec<(String, u32)>,
    merges: &[(String, String)],
    mut added: Vec<SavedToken>,
) -> Result<Tokenizer, TextError> {
    let damaged = |place: &str, expected: &str, found| format_error(path, place, expected, found, DAMAGED);
    let mut tokens = vec![None; ids.len()];
    for (token, id) in ids {
        let range = format!("ids 0 to {}, each once", tokens.len() - 1);
        let place = format!("the vocabulary, token {token:?}");
        match tokens.get_mut(id as usize) {
            Some(slot @ None) => *slot = Some(token),
            Some(Some(other)) => return Err(damaged(&place, &range, format!("id {id}, which {other:?} has, too"))),
            None => return Err(damaged(&place, &range, format!("id {id}"))),
        }
    }
    let tokens: Vec<String> = tokens.into_iter().flatten().collect();
    let bpe = Bpe::new(tokens, merges).map_err(|error| match error {
        TextError::Vocabulary { place, expected, found } => {
            let path = if place.starts_with("merge ") { of_merges } else { path };
            format_error(path, &place, &expected, found, DAMAGED)
        }
        other => other,
    })?;
    let lost: Vec<&str> = bpe.unreachable().filter(|token| !added.iter().any(|added| added.content == *token)).collect();
    if let [first, ..] = lost[..] {
        let (merges, tokens) = (many(merges.len(), "merge"), many(lost.len(), "token"));
        let found = format!("{merges}, and none for {tokens}, of which {first:?} is the first");
        return Err(format_error(of_merges, "the merges", "one for every token of more than a symbol", found, DAMAGED));
    }
    let mut tokenizer = Tokenizer::bpe(bpe);
    added.retain(|t| t.content != UNKNOWN || Some(t.id) != tokenizer.token_id(UNKNOWN));
    insert_added(path, &mut tokenizer, added)?;
    Ok(tokenizer)
}

/// Adds the tokens that a file lists. Each has the id that it has in the vocabulary, or the next after the last.
fn insert_added(path: &Path, tokenizer: &mut Tokenizer, mut added: Vec<SavedToken>) -> Result<(), TextError> {
    added.sort_by_key(|t| t.id);
    for token in added {
        let place = format!("added token {:?}", token.content);
        if token.single_word || token.lstrip || token.rstrip {
            let found = "one of them true".to_owned();
            let remedy = "Gradus matches added tokens exactly: set the three to false and save the tokenizer again";
            return Err(format_error(path, &place, "single_word, lstrip and rstrip false", found, remedy));
        }
        let id = tokenizer.token_id(&token.content).unwrap_or(tokenizer.vocab_size() as u32);
        if token.id != id {
            return Err(format_error(path, &place, &format!("id {id}"), format!("id {}", token.id), DAMAGED));
        }
        let SavedToken { id, content, special, normalized, .. } = token;
        tokenizer
            .insert(AddedToken { content, id, special, normalized })
            .map_err(|error| format_error(path, &place, "a token that can be matched", error.to_string(), DAMAGED))?;
    }
    Ok(())
}

/// `gradus_tokenizer.json`.
#[derive(Serialize, Deserialize)]
struct Gradus {
    format: String,
    version: u32,
    note: String,
    kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    characters: Option<Vec<char>>,
    added_tokens: Vec<SavedToken>,
}

impl Gradus {
    fn of(tokenizer: &Tokenizer) -> Self {
        let characters = match &tokenizer.vocabulary {
            Vocabulary::Char(characters) => Some(characters.as_slice().to_vec()),
            _ => None,
        };
        Gradus {
            format: GRADUS_FORMAT.into(),
            version: 1,
            note: "Made by Gradus for teaching; no other program reads this file.".into(),
            kind: tokenizer.kind().into(),
            characters,
            added_tokens: tokenizer.added.as_slice().iter().map(SavedToken::of).collect(),
        }
    }
}

fn load_gradus(source: Source<'_>) -> Result<Tokenizer, TextError> {
    let path = &source.path(GRADUS);
    let saved: Gradus = source.read_json(GRADUS)?;
    if (saved.format.as_str(), saved.version) != (GRADUS_FORMAT, 1) {
        let found = format!("{:?}, version {}", saved.format, saved.version);
        let remedy = "Use the version of Gradus that wrote it";
        return Err(format_error(path, "/format", &format!("{GRADUS_FORMAT:?}, version 1"), found, remedy));
    }
    let vocabulary = match (saved.kind.as_str(), saved.characters) {
        ("byte", None) => Vocabulary::Byte,
        ("char", Some(listed)) => {
            let text: String = listed.iter().collect();
            let characters = Characters::of([text.as_str()]);
            if characters.as_slice() != listed {
                let found = "another order, or one of them twice".to_owned();
                return Err(format_error(path, "/characters", "characters by code point, each once", found, DAMAGED));
            }
            Vocabulary::Char(characters)
        }
        (kind, characters) => {
            let found = format!("{kind:?} {} characters", if characters.is_some() { "with" } else { "without" });
            return Err(format_error(path, "/kind", "\"byte\", or \"char\" with characters", found, DAMAGED));
        }
    };
    let mut tokenizer = Tokenizer { vocabulary, added: AddedTokens::default() };
    insert_added(path, &mut tokenizer, saved.added_tokens)?;
    Ok(tokenizer)
}

fn format_error(path: &Path, place: &str, expected: &str, found: String, remedy: &str) -> TextError {
    TextError::Format { path: path.to_owned(), place: place.into(), expected: expected.into(), found, remedy: remedy.into() }
}

/// A value as JSON, cut to a length that a message can hold.
fn short(value: &Value) -> String {
    let mut text = value.to_string();
    if let Some((end, _)) = text.char_indices().nth(60) {
        text.truncate(end);
        text.push('…');
    }
    text
}

fn parse_json<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, TextError> {
    serde_json::from_str(text).map_err(|error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        format_error(path, &place, "JSON of a tokenizer", error.to_string(), DAMAGED)
    })
}

#[cfg(test)]
mod tests;

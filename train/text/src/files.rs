//! Tokenizers on disk.
//!
//! A BPE of mode `basic`, WordPiece and byte-level BPE are written as by `transformers` 5: `tokenizer.json` with the vocabulary,
//! the merges, and the special tokens under `added_tokens` (without this list they would be split), and
//! `tokenizer_config.json` with the class's name. A BPE of another mode is written as by version 4: `vocab.json`, `merges.txt`,
//! and `tokenizer_config.json` with the special tokens and the mode. A tokenizer of the class BertJapaneseTokenizer is written as
//! by that class, in `vocab.txt`.
//!
//! Files are read as in `transformers` 5, with the same ids. The class in `tokenizer_config.json` determines the pipeline
//! (`class.rs`). The other configuration files add tokens (`settings.rs`, `specials.rs`).

mod byte_bpe;
mod class;
mod document;
mod gpt;
mod gradus;
mod ordered;
mod pairs;
mod pipeline;
mod settings;
mod specials;
mod word_piece;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use gradus_io::checksums;
use gradus_io::disk;
use gradus_io::files::{FileError, json_text};
use gradus_io::numbers::count_of;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::document::ById;
use self::gradus::Gradus;
use self::pairs::MODE;
use crate::added::AddedToken;
use crate::bpe::Bpe;
use crate::corpus::utf8;
use crate::error::TextError;
use crate::mode::Mode;
use crate::tokenizer::Tokenizer;
use crate::vocabulary::Vocabulary;

const TOKENIZER: &str = "tokenizer.json";
const CONFIG: &str = "tokenizer_config.json";
const GRADUS: &str = "gradus_tokenizer.json";
/// The field of the ids without a row in the model's embedding: `{"start": …, "end": …}`.
const ROWLESS: &str = "gradus_rowless";
/// The class that reads the tokenizers of mode `basic`.
const CLASS: &str = "OpenAIGPTTokenizer";
/// Vocabulary and merges as a pair of files: Hugging Face's names, those of GPT-1's release and of GPT-2's.
const PAIRS: [(&str, &str); 3] = [("vocab.json", "merges.txt"), RELEASE, ("encoder.json", "vocab.bpe")];
/// A WordPiece vocabulary, a line per token.
const LINES: &str = "vocab.txt";
/// Vocabulary and merges in OpenAI's release.
pub(crate) const RELEASE: (&str, &str) = ("encoder_bpe_40000.json", "vocab_40000.bpe");

impl Tokenizer {
    /// Writes the tokenizer into a folder, created if needed, with its [checksums]. A file is replaced whole or not at all.
    ///
    /// # Errors
    /// Returns [`TextError::File`]; [`TextError::Missing`] if the folder contains a tokenizer of the other form.
    pub fn save(&self, folder: &Path) -> Result<(), TextError> {
        disk::make_folders(folder).map_err(|e| FileError::new("make the directory", folder, e))?;
        let files = self.files();
        let is_other = |name: &&str| files.iter().all(|(own, _)| own != name) && folder.join(name).exists();
        if let Some(other) = [TOKENIZER, GRADUS, PAIRS[0].0, LINES].into_iter().find(is_other) {
            let found = format!("the folder contains a tokenizer of another kind ({other})");
            return Err(TextError::missing(folder, found, "Choose another folder, or remove that file first"));
        }
        Ok(checksums::write(folder, &files)?)
    }

    /// Returns the tokenizer's files by name; the main one is the last.
    pub fn files(&self) -> Vec<(&'static str, Vec<u8>)> {
        let two = |roles, main| vec![self.config(roles), (TOKENIZER, main)];
        let bpe = match &self.vocabulary {
            Vocabulary::Byte | Vocabulary::Char(_) => return vec![(GRADUS, json_text(&Gradus::of(self)))],
            Vocabulary::WordPiece(pieces) if pieces.normalizer().is_japanese().is_some() => {
                let (roles, lines) = word_piece::lines(self, pieces);
                return vec![self.config(roles), (LINES, lines.into_bytes())];
            }
            Vocabulary::WordPiece(pieces) => {
                return two(word_piece::roles(self, pieces), json_text(&word_piece::saved(self, pieces)));
            }
            Vocabulary::ByteBpe(bpe) => return two(byte_bpe::roles(self, bpe), json_text(&byte_bpe::saved(self, bpe))),
            Vocabulary::Bpe(bpe) => bpe,
        };
        if bpe.mode() == Mode::Basic {
            return two(gpt::roles(self, bpe), json_text(&gpt::saved(self, bpe)));
        }
        let [vocabulary, merges] = [PAIRS[0].0, PAIRS[0].1];
        vec![self.config_of_pair(bpe), (merges, merges_text(bpe)), (vocabulary, json_text(&ById::of(self, bpe.tokens())))]
    }

    /// Returns `tokenizer_config.json` for a vocabulary and merges, as in `transformers` 4: the added tokens and Gradus's mode.
    pub(crate) fn config_of_pair(&self, bpe: &Bpe) -> (&'static str, Vec<u8>) {
        let added = self.added.as_slice().iter().map(|token| (token.id.to_string(), json!(SavedToken::of(token))));
        let added: Value = added.collect();
        let roles = json!({ "tokenizer_class": CLASS, "unk_token": bpe.tokens()[bpe.unknown() as usize], "added_tokens_decoder": added, (MODE): bpe.mode().name() });
        self.config(roles)
    }

    /// Returns `tokenizer_config.json` with these fields, the ids without a row, and whether special tokens stay text.
    fn config(&self, mut roles: Value) -> (&'static str, Vec<u8>) {
        if !self.rowless.is_empty() {
            roles[ROWLESS] = json!(self.rowless);
        }
        if self.added.split {
            roles["split_special_tokens"] = true.into();
        }
        (CONFIG, json_text(&roles))
    }

    /// Reads a tokenizer from a folder, or from its main file (`tokenizer.json`, `gradus_tokenizer.json`, `vocab.json`,
    /// `encoder_bpe_40000.json`, `encoder.json`, `vocab.txt`).
    ///
    /// # Errors
    /// Returns [`TextError::Missing`], [`TextError::File`], or [`TextError::Format`] with the file, the place in it and the
    /// remedy.
    pub fn load(path: &Path) -> Result<Self, TextError> {
        let metadata = fs::metadata(path).map_err(|e| FileError::new("read", path, e))?;
        let (folder, name) = match metadata.is_dir() {
            true => (path, None),
            false => (path.parent().unwrap_or(Path::new("")), path.file_name().map(|name| name.to_string_lossy())),
        };
        let open = |name: &str| {
            let path = folder.join(name);
            // A file with a checksum must exist.
            checksums::check(disk::parent(&path), &[name])?;
            if !is_there(&path) {
                return Ok(None);
            }
            if !path.exists() {
                let found = "it is a link to a file that does not exist";
                return Err(TextError::missing(&path, found, "Put a copy of the file there, or remove the link"));
            }
            Ok(Some(disk::read(&path).map_err(|e| FileError::new("read", &path, e))?))
        };
        let source = Source { folder, open: &open };
        match name {
            Some(name) => source.tokenizer(&name),
            None => {
                checksums::check(folder, &[TOKENIZER, GRADUS, CONFIG, PAIRS[0].0, PAIRS[0].1, LINES])?;
                source.tokenizer(main_file(folder, &|name| is_there(&folder.join(name)))?)
            }
        }
    }

    /// Reads a tokenizer from files that `open` finds by their names, such as `tokenizer.json`. `folder` is their path in
    /// messages. For a missing file, `open` returns [`NotFound`](io::ErrorKind::NotFound).
    ///
    /// # Errors
    /// Returns the errors of [`Tokenizer::load`].
    pub fn read(folder: &Path, open: &dyn Fn(&str) -> io::Result<Vec<u8>>) -> Result<Self, TextError> {
        let open = |name: &str| match open(name) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            found => Ok(Some(found.map_err(|e| FileError::new("read", &folder.join(name), e))?)),
        };
        let main = main_file(folder, &|name| !matches!(open(name), Ok(None)))?;
        Source { folder, open: &open }.tokenizer(main)
    }
}

/// Returns whether a path exists, as a file or anything else.
fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

type Open<'a> = dyn Fn(&str) -> Result<Option<Vec<u8>>, TextError> + 'a;

/// The source of a tokenizer's files.
#[derive(Clone, Copy)]
struct Source<'a> {
    folder: &'a Path,
    /// The bytes of a file; `None` if there is no file of this name.
    open: &'a Open<'a>,
}

impl Source<'_> {
    /// Returns the tokenizer that a file belongs to.
    fn tokenizer(self, name: &str) -> Result<Tokenizer, TextError> {
        match PAIRS.iter().find(|(vocabulary, merges)| name == *vocabulary || name == *merges) {
            Some((vocabulary, merges)) => pairs::load(self, vocabulary, merges),
            None if name == GRADUS => gradus::load(self),
            None if name.ends_with(".txt") => word_piece::load_lines(self, name, Vec::new()),
            None => pipeline::load(self, name),
        }
    }

    fn path(self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn find(self, name: &str) -> Result<Option<String>, TextError> {
        let bytes = (self.open)(name)?;
        let text = |bytes: Vec<u8>| match utf8(&self.path(name), 0, &bytes) {
            // The remedy for a corpus does not apply to a tokenizer's file.
            Err(TextError::Binary { path, offset }) => Err(TextError::Format {
                path,
                place: format!("byte {offset}").into(),
                expected: "text".into(),
                found: "NUL".into(),
                remedy: "The file is damaged or of another format: put back a copy of it".into(),
            }),
            found => Ok(found?.to_owned()),
        };
        bytes.map(text).transpose()
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

/// Returns the merges as lines, after a line that names the version.
pub(crate) fn merges_text(bpe: &Bpe) -> Vec<u8> {
    let lines = bpe.merge_tokens().map(|(a, b)| format!("{a} {b}\n"));
    std::iter::once("#version: 0.2\n".to_owned()).chain(lines).collect::<String>().into_bytes()
}

/// Returns the main file of a folder.
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
            let pairs = PAIRS.map(|(vocabulary, merges)| format!("{vocabulary} + {merges}")).join(", ");
            let remedy = format!("It needs {TOKENIZER}, {GRADUS}, {pairs}, or {LINES}");
            let name = pair.map(|pair| pair.0).or_else(|| has(LINES).then_some(LINES));
            name.ok_or_else(|| TextError::missing(folder, "the folder holds no tokenizer", remedy))
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct SavedToken {
    id: Option<u32>,
    content: String,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
    /// Whether the token is matched in normalised text; if absent, only if it is not special.
    #[serde(default)]
    normalized: Option<bool>,
    #[serde(default)]
    special: bool,
}

impl SavedToken {
    fn of(token: &AddedToken) -> Self {
        SavedToken {
            id: Some(token.id),
            content: token.content.clone(),
            normalized: Some(token.normalized),
            special: token.special,
            lstrip: token.edges.left,
            rstrip: token.edges.right,
            single_word: token.edges.word,
        }
    }
}

/// Adds the special tokens by role to the contents of `tokenizer_config.json`. `transformers` reads a role that does not end with
/// `_token` as an extra one.
fn set_roles<'a>(config: &mut Value, names: impl IntoIterator<Item = (&'a str, &'a str)>) {
    for (role, name) in names {
        match role.ends_with("_token") {
            true => config[role] = name.into(),
            false => config["extra_special_tokens"][role] = name.into(),
        }
    }
}

const DAMAGED: &str = "The file is damaged or was edited: copy it again, or save the tokenizer again";

/// Returns the two symbols of a merge, or `None` if the number of symbols is not two.
fn two<'a>(symbols: impl Iterator<Item = &'a str>) -> Option<(String, String)> {
    match symbols.collect::<Vec<_>>()[..] {
        [a, b] if !a.is_empty() && !b.is_empty() => Some((a.to_owned(), b.to_owned())),
        _ => None,
    }
}

/// Adds the names that are in the vocabulary and not yet listed.
fn add_specials(added: &mut Vec<SavedToken>, names: &[&str], id: impl Fn(&str) -> Option<u32>) {
    for name in names {
        if let Some(id) = id(name).filter(|_| added.iter().all(|token| token.content != *name)) {
            added.push(SavedToken::of(&AddedToken::published(name, id)));
        }
    }
}

/// Returns the exclusive upper bound of the ids in a vocabulary of `tokens` tokens, so that a small file needs no large table.
fn end_of_ids(tokens: usize) -> usize {
    (1 << 16) + 8 * tokens
}

/// Returns the tokens of a vocabulary by id, or an error if two tokens have the same id. An unused id has an empty token.
fn in_order(path: &Path, ids: Vec<(String, u32)>) -> Result<Vec<String>, TextError> {
    let end = end_of_ids(ids.len());
    let size = ids.iter().map(|(_, id)| *id as usize + 1).filter(|&size| size <= end).max().unwrap_or(0);
    let damaged = |place: &str, expected: &str, found| format_error(path, place, expected, found, DAMAGED);
    let mut tokens = vec![None; size];
    for (token, id) in ids {
        let place = format!("the vocabulary, token {token:?}");
        match tokens.get_mut(id as usize) {
            Some(slot @ None) => *slot = Some(token),
            Some(Some(other)) => {
                return Err(damaged(&place, "an id of its own", format!("id {id}, which {other:?} has, too")));
            }
            None => return Err(damaged(&place, &format!("an id below {end}"), format!("id {id}"))),
        }
    }
    Ok(tokens.into_iter().map(Option::unwrap_or_default).collect())
}

/// Converts an error of a vocabulary to an error of the file that it comes from: the vocabulary's or the merges'.
fn of_files([path, of_merges]: [&Path; 2], error: TextError) -> TextError {
    match error {
        TextError::Vocabulary { place, expected, found } => {
            let path = if place.starts_with("merge ") { of_merges } else { path };
            format_error(path, &place, &expected, found, DAMAGED)
        }
        other => other,
    }
}

/// Returns whether a token needs no merge: `<mask>`, `[SEP]`, or one with which fairseq padded RoBERTa's vocabulary to a multiple
/// of 8.
fn is_control(token: &str) -> bool {
    let within = |open: char, close: char| token.starts_with(open) && token.ends_with(close);
    within('<', '>') || within('[', ']') || token.starts_with("madeupword")
}

/// The place of an error about all merges.
const MERGES: &str = "the merges";

/// Returns an error if there are `lost` tokens, which no merge makes.
fn complete<'a>(of_merges: &Path, merges: usize, lost: impl Iterator<Item = &'a str>) -> Result<(), TextError> {
    let lost: Vec<&str> = lost.filter(|token| !is_control(token)).collect();
    let [first, ..] = lost[..] else { return Ok(()) };
    let (merges, tokens) = (count_of(merges, "merge"), count_of(lost.len(), "token"));
    let found = format!("{merges}, and none for {tokens}, of which {first:?} is the first");
    Err(format_error(of_merges, MERGES, "one for every token of more than a symbol", found, DAMAGED))
}

fn format_error(path: &Path, place: &str, expected: &str, found: String, remedy: &str) -> TextError {
    TextError::Format { path: path.to_owned(), place: place.into(), expected: expected.into(), found, remedy: remedy.into() }
}

/// Returns a value as JSON, cut to a length that fits a message.
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
        let found = if error.is_data() { error.to_string() } else { format!("not JSON: {error}") };
        format_error(path, &place, "JSON of a tokenizer", found, DAMAGED)
    })
}

#[cfg(test)]
mod tests;

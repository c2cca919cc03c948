//! Byte-level BPE in `tokenizer.json`, as `transformers`' GPT2Tokenizer and RobertaTokenizer write it.

use serde_json::{Value, json};

use super::class::{self, Class};
use super::document::{Around, ById, Document, Lists, Rule, Saved, SavedBpe, post_processor, rules_of_bpe};
use super::settings::Settings;
use super::{add_specials, complete, in_order, of_files, set_roles};
use crate::added::{AddedToken, AddedTokens};
use crate::byte_level::{ByteBpe, Way};
use crate::error::TextError;
use crate::roles::{Pairs, Roles};
use crate::tokenizer::Tokenizer;
use crate::vocabulary::Vocabulary;

fn is_robertas(added: &AddedTokens) -> bool {
    AddedToken::ROBERTA.iter().all(|name| added.id(name).is_some())
}

/// Returns the opening and closing special tokens, and the template of a pair.
fn frame(tokenizer: &Tokenizer) -> (Option<[(&str, u32); 2]>, Pairs) {
    let robertas = tokenizer.roles == Roles::default() && is_robertas(&tokenizer.added);
    let marks = tokenizer.frame(if robertas { ["<s>", "</s>"] } else { ["", ""] });
    (marks.filter(|_| robertas || tokenizer.roles.pairs.is_some()), tokenizer.pairs(Pairs::ROBERTA))
}

pub(super) fn saved<'a>(tokenizer: &'a Tokenizer, bpe: &'a ByteBpe) -> Saved<SavedBpe<'a>> {
    let (marks, pairs) = frame(tokenizer);
    let way = bpe.way();
    let around = Around {
        normalizer: way.normalizer.to_json(),
        pre_tokenizer: json!({"type": "ByteLevel", "add_prefix_space": way.prefix, "trim_offsets": true, "use_regex": true}),
        post_processor: post_processor(tokenizer, marks, pairs),
        decoder: json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true}),
    };
    let bare = SavedBpe::new(ById::of(tokenizer, bpe.tokens()), bpe.merge_tokens());
    let model = SavedBpe { unk_token: way.unknown.as_deref(), fuse_unk: way.fuse, ignore_merges: way.whole, ..bare };
    Saved::of(tokenizer, around, model)
}

/// Returns the contents of `tokenizer_config.json`. The class reads byte-level tokenizers, or uses `tokenizer.json`
/// unchanged.
pub(super) fn roles(tokenizer: &Tokenizer, bpe: &ByteBpe) -> Value {
    let [gpt2] = AddedToken::GPT2;
    let has = |class: &Class| {
        let is_there = |(role, name): &(&str, &str)| match tokenizer.roles.get(role) {
            Some(own) => tokenizer.added.id(own).is_some(),
            None => tokenizer.roles == Roles::default() && tokenizer.added.is_special(name),
        };
        class.specials.iter().all(is_there)
    };
    let is_usual = *bpe.way() == Way { prefix: bpe.prefix(), ..Way::default() };
    let (marks, pairs) = frame(tokenizer);
    let class = match () {
        () if is_usual && has(&class::ROBERTA) && marks.is_some() && pairs == Pairs::ROBERTA => Some(&class::ROBERTA),
        () if is_usual && has(&class::GPT2) && marks.is_none() && tokenizer.added.id(gpt2).is_some() => Some(&class::GPT2),
        () => None,
    };
    let name = class.map_or("PreTrainedTokenizerFast", |class| class.names[0]);
    let mut roles = json!({ "tokenizer_class": name, "backend": "tokenizers", "add_prefix_space": bpe.prefix() });
    for (role, name) in class.into_iter().flat_map(|class| class.specials).filter(|_| tokenizer.roles == Roles::default()) {
        roles[*role] = json!(name);
    }
    set_roles(&mut roles, tokenizer.roles.iter());
    roles
}

/// Returns the fields that make a tokenizer byte-level, with their allowed values.
fn rules() -> [Rule; 3] {
    [
        ("/decoder/type", vec![json!("ByteLevel"), Value::Null]),
        ("/model/type", vec![json!("BPE"), Value::Null]),
        ("/model/end_of_word_suffix", vec![Value::Null, json!("")]),
    ]
}

/// Reads the tokenizer as `tokenizer.json` defines it. Special tokens that the post-processor adds are ignored: Gradus adds the
/// ones that a model needs.
pub(super) fn read(settings: &Settings<'_>, document: &Document<'_>) -> Result<Tokenizer, TextError> {
    document.obeys(rules().into_iter().chain(rules_of_bpe()))?;
    let cutter = document.pre_tokenizer("ByteLevel")?;
    if document.switch(&format!("{cutter}/use_regex"))? == Some(false) {
        return Err(document.other(&format!("{cutter}/use_regex"), "true"));
    }
    let place = format!("{cutter}/add_prefix_space");
    let unknown = "/model/unk_token";
    let way = Way {
        normalizer: document.normalizer()?,
        prefix: document.switch(&place)?.ok_or_else(|| document.other(&place, "true or false"))?,
        unknown: match document.at(unknown) {
            Value::Null => None,
            Value::String(token) if token.is_empty() => None,
            Value::String(token) => Some(token.clone()),
            _ => return Err(document.other(unknown, "a token or null")),
        },
        fuse: document.switch("/model/fuse_unk")?.unwrap_or(false),
        whole: document.switch("/model/ignore_merges")?.unwrap_or(false),
    };
    assemble(settings, None, way, document.lists()?)
}

/// Returns the byte-level BPE that a class builds.
pub(super) fn of_class(
    settings: &Settings<'_>,
    class: &'static Class,
    prefix: bool,
    lists: Lists<'_>,
) -> Result<Tokenizer, TextError> {
    let way = Way { prefix: settings.switch("add_prefix_space")?.unwrap_or(prefix), ..Way::default() };
    assemble(settings, Some(class), way, lists)
}

/// Returns the byte-level BPE of two files without a class. The special tokens of published vocabularies are recognised by name.
pub(super) fn without_class(settings: &Settings<'_>, mut lists: Lists<'_>) -> Result<Tokenizer, TextError> {
    let way = Way { prefix: settings.switch("add_prefix_space")?.unwrap_or(false), ..Way::default() };
    let id = |name: &str| lists.vocabulary.iter().find(|(token, _)| token == name).map(|(_, id)| *id);
    add_specials(&mut lists.added, AddedToken::of_bytes(id), id);
    assemble(settings, None, way, lists)
}

fn assemble(settings: &Settings<'_>, class: Option<&'static Class>, way: Way, lists: Lists<'_>) -> Result<Tokenizer, TextError> {
    let Lists { paths: [path, of_merges], vocabulary, merges, added, pairs } = lists;
    let listed = vocabulary.len();
    let bpe = ByteBpe::of(in_order(path, vocabulary)?, &merges, way).map_err(|error| of_files([path, of_merges], error))?;
    let tokenizer = settings.tokenizer(Vocabulary::ByteBpe(bpe), class, (listed, added), pairs)?;
    let Vocabulary::ByteBpe(bpe) = &tokenizer.vocabulary else { unreachable!("as it was made") };
    complete(of_merges, merges.len(), bpe.unreachable().filter(|token| tokenizer.added.id(token).is_none()))?;
    Ok(tokenizer)
}

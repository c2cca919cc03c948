//! Byte-level BPE in `tokenizer.json`, as `transformers`' GPT2Tokenizer and RobertaTokenizer write it.

use std::path::Path;

use serde_json::{Value, json};

use super::document::{Around, Document, Rule, Saved, SavedBpe, rules_of_bpe, template};
use super::{SavedToken, add_specials, complete, in_order, insert_added, of_files};
use crate::added::{AddedToken, AddedTokens};
use crate::byte_level::ByteBpe;
use crate::error::TextError;
use crate::tokenizer::Tokenizer;
use crate::vocabulary::Vocabulary;

/// The names under which RoBERTa's specials go; GPT-2's one is all of its own.
const ROLES: [(&str, &str); 7] =
    [("bos", "<s>"), ("cls", "<s>"), ("eos", "</s>"), ("sep", "</s>"), ("pad", "<pad>"), ("unk", "<unk>"), ("mask", "<mask>")];

fn is_robertas(added: &AddedTokens) -> bool {
    AddedToken::ROBERTA.iter().all(|name| added.id(name).is_some())
}

pub(super) fn saved<'a>(bpe: &'a ByteBpe, added: &AddedTokens) -> Saved<SavedBpe<'a>> {
    let around = Around {
        normalizer: Value::Null,
        pre_tokenizer: json!({"type": "ByteLevel", "add_prefix_space": bpe.prefix(), "trim_offsets": true, "use_regex": true}),
        post_processor: match is_robertas(added) {
            true => json!({
                "type": "RobertaProcessing",
                "sep": ["</s>", added.id("</s>")],
                "cls": ["<s>", added.id("<s>")],
                "trim_offsets": true,
                "add_prefix_space": bpe.prefix(),
            }),
            false => template(None),
        },
        decoder: json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true}),
    };
    Saved::of(around, SavedBpe::new(bpe.tokens(), bpe.merge_tokens()), added)
}

/// `tokenizer_config.json`: the class that reads such tokenizers, or one that makes nothing of its own.
pub(super) fn roles(bpe: &ByteBpe, added: &AddedTokens) -> Value {
    let [gpt2] = AddedToken::GPT2;
    let (class, names): (_, Vec<(&str, &str)>) = match () {
        () if is_robertas(added) => ("RobertaTokenizer", ROLES.to_vec()),
        () if added.id(gpt2).is_some() => ("GPT2Tokenizer", ["bos", "eos", "unk"].map(|role| (role, gpt2)).to_vec()),
        () => ("PreTrainedTokenizerFast", Vec::new()),
    };
    let mut roles = json!({ "tokenizer_class": class, "backend": "tokenizers", "add_prefix_space": bpe.prefix() });
    for (role, name) in names {
        roles[format!("{role}_token")] = json!(name);
    }
    roles
}

/// The fields that make a tokenizer byte-level, with the values that do.
fn rules() -> [Rule; 6] {
    [
        ("/normalizer", vec![Value::Null]),
        ("/pre_tokenizer/type", vec![json!("ByteLevel")]),
        ("/pre_tokenizer/use_regex", vec![json!(true), Value::Null]),
        ("/decoder/type", vec![json!("ByteLevel")]),
        ("/model/type", vec![json!("BPE"), Value::Null]),
        ("/model/end_of_word_suffix", vec![Value::Null, json!("")]),
    ]
}

/// What the post-processor puts at a text's ends is not the text's: Gradus puts its own marks there where a model needs them.
pub(super) fn read(document: &Document<'_>) -> Result<Tokenizer, TextError> {
    document.obeys(rules().into_iter().chain(rules_of_bpe()))?;
    let place = "/pre_tokenizer/add_prefix_space";
    let prefix = document.switch(place)?.ok_or_else(|| document.other(place, "true or false"))?;
    let path = document.path;
    assemble([path, path], document.vocabulary()?, &document.merges()?, document.added()?, Specials::Listed, prefix)
}

/// Which tokens are specials.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Specials {
    /// Those that a file lists.
    Listed,
    /// Also those with the names of published vocabularies: two files may come without a third that lists them.
    ByName,
}

/// A tokenizer from the contents of its files, of the vocabulary and of the merges.
pub(super) fn assemble(
    [path, of_merges]: [&Path; 2],
    ids: Vec<(String, u32)>,
    merges: &[(String, String)],
    mut added: Vec<SavedToken>,
    specials: Specials,
    prefix: bool,
) -> Result<Tokenizer, TextError> {
    let bpe = ByteBpe::new(in_order(path, ids)?, merges).map_err(|error| of_files([path, of_merges], error))?;
    let bpe = bpe.with_prefix(prefix);
    let lost = bpe.unreachable().filter(|token| !is_control(token) && !added.iter().any(|added| added.content == *token));
    complete(of_merges, merges.len(), lost)?;
    if specials == Specials::ByName {
        add_specials(&mut added, AddedToken::of_bytes(|name| bpe.id(name)), |name| bpe.id(name));
    }
    let mut tokenizer = Tokenizer { vocabulary: Vocabulary::ByteBpe(bpe), added: AddedTokens::default() };
    insert_added(path, &mut tokenizer, added)?;
    Ok(tokenizer)
}

/// May a token be without a merge that makes it: `<mask>`, `[SEP]`, or one with which fairseq made RoBERTa's vocabulary a multiple of 8?
fn is_control(token: &str) -> bool {
    let within = |open: char, close: char| token.starts_with(open) && token.ends_with(close);
    within('<', '>') || within('[', ']') || token.starts_with("madeupword")
}

//! GPT-1's BPE in `tokenizer.json`, as `transformers`' OpenAIGPTTokenizer writes it, and HerBERT's, which keeps case and accents.

use serde_json::{Value, json};

use super::class::Class;
use super::document::{Around, ById, Document, Lists, Rule, Saved, SavedBpe, post_processor, rules_of_bpe};
use super::settings::Settings;
use super::{CLASS, complete, in_order, of_files, set_roles};
use crate::basic::Cleaning;
use crate::bpe::{Bpe, END_OF_WORD, UNKNOWN};
use crate::error::TextError;
use crate::normalizer::Normalizer;
use crate::roles::Pairs;
use crate::tokenizer::Tokenizer;
use crate::vocabulary::Vocabulary;

fn unknown(bpe: &Bpe) -> &str {
    &bpe.tokens()[bpe.unknown() as usize]
}

pub(super) fn saved<'a>(tokenizer: &'a Tokenizer, bpe: &'a Bpe) -> Saved<SavedBpe<'a>> {
    let marks = tokenizer.frame(["", ""]).filter(|_| tokenizer.roles.pairs.is_some());
    let around = Around {
        normalizer: Normalizer::from(bpe.cleaning()).to_json(),
        pre_tokenizer: json!({"type": "BertPreTokenizer"}),
        post_processor: post_processor(tokenizer, marks, tokenizer.pairs(Pairs::BERT)),
        decoder: json!({"type": "BPEDecoder", "suffix": END_OF_WORD}),
    };
    let bare = SavedBpe::new(ById::of(tokenizer, bpe.tokens()), bpe.merge_tokens());
    let model = SavedBpe { unk_token: Some(unknown(bpe)), end_of_word_suffix: END_OF_WORD, ..bare };
    Saved::of(tokenizer, around, model)
}

/// Returns the contents of `tokenizer_config.json`.
pub(super) fn roles(tokenizer: &Tokenizer, bpe: &Bpe) -> Value {
    let has_own_unknown = tokenizer.roles.get("unk_token").is_some_and(|name| name != unknown(bpe));
    let is_gpts = bpe.cleaning() == Cleaning::ALL && tokenizer.roles.pairs.is_none() && !has_own_unknown;
    let class = if is_gpts { CLASS } else { "PreTrainedTokenizerFast" };
    let mut roles = json!({ "tokenizer_class": class, "unk_token": unknown(bpe), "backend": "tokenizers" });
    set_roles(&mut roles, tokenizer.roles.iter());
    roles
}

/// Returns the fields that make a tokenizer GPT-1's, with their allowed values.
fn rules() -> [Rule; 6] {
    [
        ("/decoder/type", vec![json!("BPEDecoder"), Value::Null]),
        ("/decoder/suffix", vec![json!(END_OF_WORD), Value::Null]),
        ("/model/type", vec![json!("BPE"), Value::Null]),
        ("/model/fuse_unk", vec![json!(false), Value::Null]),
        ("/model/ignore_merges", vec![json!(false), Value::Null]),
        ("/model/end_of_word_suffix", vec![json!(END_OF_WORD)]),
    ]
}

pub(super) fn read(settings: &Settings<'_>, document: &Document<'_>) -> Result<Tokenizer, TextError> {
    document.pre_tokenizer("BertPreTokenizer")?;
    document.obeys(rules().into_iter().chain(rules_of_bpe()))?;
    // A template of pairs is recognised; any other post-processor that adds tokens would change the ids.
    let adds = |template: &Value| template.as_array().is_none_or(|items| items.iter().any(|i| i.get("Sequence").is_none()));
    let processor = document.at("/post_processor");
    if !processor.is_null() && document.pairs().is_none() && adds(&processor["single"]) {
        return Err(document.other("/post_processor", "null, a template that adds no tokens, or one that frames pairs"));
    }
    let normalizer = document.normalizer()?;
    let cleaning = normalizer.bert().ok_or_else(|| document.other("/normalizer/type", "\"BertNormalizer\""))?;
    let place = "/model/unk_token";
    let unknown = document.at(place).as_str().ok_or_else(|| document.other(place, &json!(UNKNOWN).to_string()))?;
    assemble(settings, None, (cleaning, unknown), document.lists()?)
}

/// Returns the BPE that a class builds, GPT-1's or HerBERT's.
pub(super) fn of_class(
    settings: &Settings<'_>,
    class: &'static Class,
    folds: bool,
    lists: Lists<'_>,
) -> Result<Tokenizer, TextError> {
    let cleaning = Cleaning { accents: folds, lowercase: folds, ..Cleaning::ALL };
    let unknown = settings.unknown(class)?;
    assemble(settings, Some(class), (cleaning, &unknown), lists)
}

fn assemble(
    settings: &Settings<'_>,
    class: Option<&'static Class>,
    (cleaning, unknown): (Cleaning, &str),
    lists: Lists<'_>,
) -> Result<Tokenizer, TextError> {
    let Lists { paths: [path, of_merges], vocabulary, merges, added, pairs } = lists;
    let listed = vocabulary.len();
    let bpe = Bpe::of(in_order(path, vocabulary)?, &merges, unknown).map_err(|error| of_files([path, of_merges], error))?;
    let tokenizer = settings.tokenizer(Vocabulary::Bpe(bpe.with_cleaning(cleaning)), class, (listed, added), pairs)?;
    let Vocabulary::Bpe(bpe) = &tokenizer.vocabulary else { unreachable!("as it was made") };
    complete(of_merges, merges.len(), bpe.unreachable().filter(|token| tokenizer.added.id(token).is_none()))?;
    Ok(tokenizer)
}

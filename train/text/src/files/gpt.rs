//! GPT-1's BPE in `tokenizer.json`, as `transformers`' OpenAIGPTTokenizer writes it.

use std::path::Path;

use serde_json::{Value, json};

use super::document::{Around, Document, Rule, Saved, SavedBpe, rules_of_bpe, template};
use super::{SavedToken, complete, in_order, insert_added, of_files};
use crate::added::AddedTokens;
use crate::bpe::{Bpe, END_OF_WORD, UNKNOWN};
use crate::error::TextError;
use crate::tokenizer::Tokenizer;

pub(super) fn saved<'a>(bpe: &'a Bpe, added: &AddedTokens) -> Saved<SavedBpe<'a>> {
    let around = Around {
        normalizer: json!({
            "type": "BertNormalizer",
            "clean_text": true,
            "handle_chinese_chars": true,
            "strip_accents": null,
            "lowercase": true,
        }),
        pre_tokenizer: json!({"type": "BertPreTokenizer"}),
        post_processor: template(None),
        decoder: json!({"type": "BPEDecoder", "suffix": END_OF_WORD}),
    };
    let bare = SavedBpe::new(bpe.tokens(), bpe.merge_tokens());
    let model = SavedBpe { unk_token: Some(UNKNOWN), end_of_word_suffix: END_OF_WORD, ..bare };
    Saved::of(around, model, added)
}

/// The fields that make a tokenizer GPT-1's, with the values that do.
fn rules() -> [Rule; 11] {
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
    ]
}

pub(super) fn read(document: &Document<'_>) -> Result<Tokenizer, TextError> {
    document.obeys(rules().into_iter().chain(rules_of_bpe()))?;
    // A template that adds tokens of its own would change the ids.
    let adds = |template: &Value| template.as_array().is_none_or(|items| items.iter().any(|i| i.get("Sequence").is_none()));
    let processor = document.at("/post_processor");
    if !processor.is_null() && (processor["type"] != "TemplateProcessing" || adds(&processor["single"])) {
        return Err(document.other("/post_processor", "null, or a template that adds no tokens"));
    }
    let path = document.path;
    assemble([path, path], document.vocabulary()?, &document.merges()?, document.added()?)
}

/// A tokenizer from the contents of its files, of the vocabulary and of the merges.
pub(super) fn assemble(
    [path, of_merges]: [&Path; 2],
    ids: Vec<(String, u32)>,
    merges: &[(String, String)],
    mut added: Vec<SavedToken>,
) -> Result<Tokenizer, TextError> {
    let bpe = Bpe::new(in_order(path, ids)?, merges).map_err(|error| of_files([path, of_merges], error))?;
    let lost = bpe.unreachable().filter(|token| !added.iter().any(|added| added.content == *token));
    complete(of_merges, merges.len(), lost)?;
    let mut tokenizer = Tokenizer::bpe(bpe);
    added.retain(|t| t.content != UNKNOWN || Some(t.id) != tokenizer.token_id(UNKNOWN));
    insert_added(path, &mut tokenizer, added)?;
    Ok(tokenizer)
}

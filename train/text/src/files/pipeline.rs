//! The pipeline of a tokenizer's files: the one of its class, or, without a class, the one of `tokenizer.json`.

use super::class::{Class, Form};
use super::document::{Document, Lists};
use super::settings::Settings;
use super::{LINES, MERGES, Source, byte_bpe, format_error, gpt, parse_json, short, word_piece};
use crate::error::TextError;
use crate::tokenizer::Tokenizer;

/// Reads the file with the pipeline of the class in the configuration, or, without a class, with its own.
pub(super) fn load(source: Source<'_>, name: &str) -> Result<Tokenizer, TextError> {
    let path = &source.path(name);
    let settings = Settings::read(source)?;
    let class = settings.class()?;
    let document = Document { path, value: parse_json(path, &source.read(name)?)? };
    if class.is_some_and(|class| class.form == Form::Japanese) {
        return word_piece::load_lines(source, LINES, document.added()?);
    }
    let is_word_piece = document.is_word_piece();
    let of_class = |class: &Class| {
        let expected = if class.form == Form::WordPiece { "\"WordPiece\"" } else { "\"BPE\"" };
        let found = short(document.at("/model/type"));
        let remedy = format!("The class {} needs it: the files do not belong together", class.names[0]);
        format_error(path, "/model/type", expected, found, &remedy)
    };
    match class {
        Some(class) if is_word_piece != (class.form == Form::WordPiece) => Err(of_class(class)),
        Some(class) if class.form == Form::WordPiece => {
            word_piece::of_class(&settings, class, path, document.vocabulary()?, document.added()?)
        }
        Some(class) => bpe_of_class(&settings, class, document.lists()?).map_err(|error| match &error {
            TextError::Format { place, .. } if &**place == MERGES && document.at("/model/ignore_merges") == true => {
                let remedy = format!(
                    "The class {} ignores the option, so that tokens without a merge are never made: \
                     take PreTrainedTokenizerFast, or put back a copy of the file",
                    class.names[0]
                );
                format_error(path, "/model/ignore_merges", "false", "true".into(), &remedy)
            }
            _ => error,
        }),
        None if is_word_piece => word_piece::read(&settings, &document),
        None if !matches!(document.at("/model/type").as_str(), None | Some("BPE")) => {
            Err(document.other("/model/type", "\"BPE\" or \"WordPiece\""))
        }
        None if document.pre_tokenizer("ByteLevel").is_ok() || document.at("/decoder/type") == "ByteLevel" => {
            byte_bpe::read(&settings, &document)
        }
        None => gpt::read(&settings, &document),
    }
}

/// Returns the BPE that a class builds.
pub(super) fn bpe_of_class(settings: &Settings<'_>, class: &'static Class, lists: Lists<'_>) -> Result<Tokenizer, TextError> {
    match class.form {
        Form::Bytes { prefix } => byte_bpe::of_class(settings, class, prefix, lists),
        Form::Gpt { folds } => gpt::of_class(settings, class, folds, lists),
        Form::WordPiece | Form::Japanese => Err(settings.refused(class.names[0])),
    }
}

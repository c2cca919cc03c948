//! Text: from characters to token ids and back.
//!
//! A [`Tokenizer`] is a [`Vocabulary`] (BPE, bytes or characters) and its added tokens, such as `<start>`, which are found in
//! the raw text first and kept whole.
//!
//! | vocabulary | words | ids | round trip |
//! |-|-|-|-|
//! | [`Bpe`], mode `basic` | [`basic`]: lower case, no accents, punctuation apart | merges by rank, `</w>` ends a word | loses case, accents and spacing |
//! | [`Bpe`], mode `spacy` | [`openai`]: [`ftfy`], [`spacy`]'s tokens in lower case, line ends | the same | loses case and spacing |
//! | bytes | none | one per byte, 256 | lossless |
//! | [`Characters`] | none | one per character of the corpus | lossless; other characters are an error |
//!
//! BPE is GPT-1's own (the paper's §4.1). Its words are those of Hugging Face's `OpenAIGPTTokenizer` (`basic`) or of OpenAI's code
//! (`spacy`), and its ids theirs:
//!
//! - `decode(encode(text))` gives the words joined by single spaces: in `basic` `"It's  Zoë!"` → `"it ' s zoe !"`.
//!   Encoding that again gives the same ids, unless some character was unknown (`<unk>` stays `<unk>`, but no space follows it).
//! - A character that the vocabulary does not hold is `<unk>`.
//!
//! # Files
//! [`Tokenizer::save`] writes a BPE of mode `basic` as `tokenizer.json` + `tokenizer_config.json`, as `transformers` 5 does. Mode
//! `spacy`, which has no such form, is `vocab.json` + `merges.txt` + `tokenizer_config.json`: the slow tokenizer of `transformers` 4
//! reads them so where spaCy and ftfy are installed; version 5 takes them for `basic`. Bytes and characters are kept in
//! `gradus_tokenizer.json`, which only Gradus reads. [`Tokenizer::load`] reads all these, and the original `encoder_bpe_40000.json` +
//! `vocab_40000.bpe`, which [`Tokenizer::save_release`] writes; without a word about the mode, it is `basic`.
//!
//! ```
//! use gradus_text::{BpeTrainer, Tokenizer};
//!
//! let trainer = BpeTrainer { specials: vec!["<start>".into()], ..BpeTrainer::new(40) };
//! let mut words = trainer.word_counts();
//! words.add("the cat sat on the mat and the rat sat on the hat");
//! let tokenizer = trainer.train(&words, |_done, _total| {})?;
//! let ids = tokenizer.encode("<start>The cat")?;
//! assert_eq!(tokenizer.decode(&ids)?, "<start>the cat");
//! # Ok::<(), gradus_text::TextError>(())
//! ```

mod added;
pub mod basic;
mod bpe;
mod corpus;
mod error;
mod files;
mod foreign;
pub mod ftfy;
mod ids;
mod merging;
mod mode;
pub mod openai;
mod plain;
mod release;
pub mod spacy;
mod tokenizer;
mod train;

pub use bpe::{Bpe, END_OF_WORD, UNKNOWN};
pub use corpus::{corpus_files, each_document, read_text, strip_gutenberg, utf8};
pub use error::TextError;
pub use foreign::foreign;
pub use ids::{IdsError, parse_ids, parse_targets};
pub use mode::Mode;
pub use plain::Characters;
pub use tokenizer::{Tokenizer, Vocabulary};
pub use train::{BpeTrainer, LONGEST_WORD, WordCounts};

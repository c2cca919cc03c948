//! Text: from characters to token ids and back.
//!
//! A [`Tokenizer`] is a [`Vocabulary`] and its added tokens, such as `<start>`, which are matched first, in the raw text, and
//! kept whole.
//!
//! | vocabulary | words | ids | round trip |
//! |-|-|-|-|
//! | [`Bpe`], mode `basic` | [`basic`]: lower case, no accents, punctuation apart | merges by rank, `</w>` ends a word | loses case, accents and spacing |
//! | [`Bpe`], mode `spacy` | [`openai`]: [`ftfy`], [`spacy`]'s tokens in lower case, line ends | as above | loses case and spacing |
//! | [`WordPiece`] (BERT) | [`basic`], after its [`Normalizer`] | the longest token first, `##` marks a token within a word | loses spacing, and what is normalised |
//! | [`ByteBpe`] (GPT-2, RoBERTa) | GPT-2's pattern: a blank begins the word after it | bytes, merged by rank, `Ġ` is a blank | lossless |
//! | bytes | none | one per byte, 256 | lossless |
//! | [`Characters`] | none | one per character of the corpus | lossless; other characters are an error |
//!
//! BPE is GPT-1's own (the paper's §4.1). Its words and ids are those of Hugging Face's `OpenAIGPTTokenizer` (`basic`) or of
//! OpenAI's code (`spacy`):
//!
//! - `decode(encode(text))` returns the words joined by single spaces: in `basic` `"It's  Zoë!"` → `"it ' s zoe !"`. Encoding the
//!   result gives the same ids, unless some character was unknown (`<unk>` stays `<unk>`, but no space follows it).
//! - A character outside the vocabulary is `<unk>`.
//!
//! # Files
//! [`Tokenizer::save`] writes a BPE of mode `basic`, WordPiece and byte-level BPE as `tokenizer.json` + `tokenizer_config.json`,
//! as `transformers` 5 does. Mode `spacy`, which has no such form, is `vocab.json` + `merges.txt` + `tokenizer_config.json`: the
//! slow tokenizer of `transformers` 4 reads these files correctly if spaCy and ftfy are installed; version 5 reads them as
//! `basic`. Bytes and characters are kept in `gradus_tokenizer.json`, which only Gradus reads.
//!
//! [`Tokenizer::load`] reads all these, and the files of published models: `encoder_bpe_40000.json` + `vocab_40000.bpe` (GPT-1),
//! which [`Tokenizer::save_release`] writes; `vocab.txt` (BERT); `vocab.json` + `merges.txt` or `encoder.json` + `vocab.bpe`
//! (GPT-2, RoBERTa). The class in `tokenizer_config.json`, or else that of `config.json` or of its model type, determines the
//! pipeline; an unsupported class is an error. Tokens are added from `tokenizer_config.json`, `special_tokens_map.json` and
//! `added_tokens.json`. The default mode is `basic`.
//!
//! The ids of a text do not include special tokens that a post-processor adds, such as `[CLS]` and `[SEP]`: Gradus adds the ones
//! that a model needs.
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
mod byte_level;
mod cache;
mod corpus;
mod cut;
mod error;
mod files;
mod foreign;
pub mod ftfy;
mod ids;
mod matcher;
mod merging;
mod mode;
mod normalizer;
pub mod openai;
mod plain;
mod release;
mod roles;
pub mod spacy;
mod tokenizer;
mod train;
mod unicode;
mod vocabulary;
mod wordpiece;

pub use basic::Cleaning;
pub use bpe::{Bpe, END_OF_WORD, UNKNOWN};
pub use byte_level::ByteBpe;
pub use corpus::{corpus_files, each_document, read_text, strip_gutenberg, utf8};
pub use cut::Cut;
pub use error::TextError;
pub use foreign::foreign;
pub use ids::{Entries, IdsError, parse_ids, parse_segments, parse_targets};
pub use mode::Mode;
pub use normalizer::Normalizer;
pub use plain::Characters;
pub use roles::{Pairs, Roles};
pub use tokenizer::Tokenizer;
pub use train::{BpeTrainer, LONGEST_WORD, WordCounts};
pub use vocabulary::Vocabulary;
pub use wordpiece::{GOES_ON, Pieces, UNKNOWN_WORD, WordPiece};

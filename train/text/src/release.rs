//! A vocabulary in the format of OpenAI's release of GPT-1, byte for byte as Python writes it: `encoder_bpe_40000.json`, tokens
//! and ids on one line in ASCII, with `<unk>` at the end; and `vocab_40000.bpe`, the merges.

use std::io::{self, Write};
use std::path::Path;

use gradus_io::disk;
use gradus_io::files::{FileError, write_atomically};

use crate::basic::Cleaning;
use crate::bpe::{Bpe, UNKNOWN};
use crate::error::TextError;
use crate::files::{RELEASE, merges_text};
use crate::tokenizer::Tokenizer;
use crate::vocabulary::Vocabulary;

impl Tokenizer {
    /// Returns the tokenizer's BPE if OpenAI's release can represent it, for the tokenizer of a model in `folder`.
    ///
    /// # Errors
    /// Returns an error for a tokenizer without merges.
    pub fn released(&self, folder: &Path) -> Result<&Bpe, TextError> {
        let Vocabulary::Bpe(bpe) = &self.vocabulary else {
            let found =
                format!("OpenAI's release holds merges and their tokens, which a {} tokenizer does not have", self.kind());
            return Err(TextError::missing(folder, found, "Take a model that reads text by a BPE"));
        };
        if bpe.cleaning() != Cleaning::ALL || bpe.tokens()[bpe.unknown() as usize] != UNKNOWN {
            let found = "OpenAI's release holds a BPE of lower case without accents, whose unknown symbols are <unk>; this one is another";
            return Err(TextError::missing(folder, found, "Keep it as it is, in Hugging Face's format"));
        }
        Ok(bpe)
    }

    /// Writes a BPE in the format of OpenAI's release into a folder, created if needed. Added tokens come last in the vocabulary,
    /// as in `train.py`; `tokenizer_config.json` lists them and gives the mode.
    ///
    /// # Errors
    /// Returns [`TextError::File`]; [`TextError::Missing`] for a tokenizer without merges.
    pub fn save_release(&self, folder: &Path) -> Result<(), TextError> {
        let bpe = self.released(folder)?;
        disk::make_folders(folder).map_err(|e| FileError::new("make the directory", folder, e))?;
        let own = bpe.tokens().iter().map(String::as_str);
        let added = self.added.as_slice().iter().filter(|t| t.id as usize >= own.len()).map(|t| t.content.as_str());
        let mut entries: Vec<(&str, usize)> = own.clone().chain(added).zip(0..).collect();
        let unknown = entries.remove(bpe.unknown() as usize);
        entries.push(unknown);
        write_atomically(&folder.join(RELEASE.0), |file| write_object(file, &entries))?;
        for (name, bytes) in [(RELEASE.1, merges_text(bpe)), self.config_of_pair(bpe)] {
            write_atomically(&folder.join(name), |file| file.write_all(&bytes))?;
        }
        Ok(())
    }
}

/// Writes an object of tokens and ids as Python's `json.dump` does.
fn write_object(file: &mut dyn Write, entries: &[(&str, usize)]) -> io::Result<()> {
    let mut sign = "{";
    for (token, id) in entries {
        write!(file, "{sign}")?;
        for c in serde_json::to_string(token)?.chars() {
            if c.is_ascii() {
                write!(file, "{c}")?;
            } else {
                let mut units = [0; 2];
                c.encode_utf16(&mut units).iter().try_for_each(|unit| write!(file, "\\u{unit:04x}"))?;
            }
        }
        write!(file, ": {id}")?;
        sign = ", ";
    }
    write!(file, "}}")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::bpe::Bpe;
    use crate::mode::Mode;

    fn bpe() -> Tokenizer {
        let tokens = [UNKNOWN, "a", "é", "\u{1f600}", "a</w>", "é</w>", "\"</w>", "aé</w>", "\n</w>"].map(str::to_owned);
        Tokenizer::bpe(Bpe::new(tokens.to_vec(), &[("a".into(), "é</w>".into())]).unwrap())
    }

    #[test]
    fn the_vocabulary_is_written_as_python_writes_it() {
        let folder = tempfile::tempdir().unwrap();
        bpe().save_release(folder.path()).unwrap();
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        let python = r#"{"a": 1, "\u00e9": 2, "\ud83d\ude00": 3, "a</w>": 4, "\u00e9</w>": 5, "\"</w>": 6, "a\u00e9</w>": 7, "\n</w>": 8, "<unk>": 0}"#;
        assert_eq!((read(RELEASE.0), read(RELEASE.1)), (python.to_owned(), "#version: 0.2\na é</w>\n".to_owned()));
    }

    #[test]
    fn a_saved_release_loads_with_its_specials_and_mode() {
        for (mode, specials) in
            [(Mode::Spacy, &["_start_", "_delimiter_", "_classify_"][..]), (Mode::Basic, &["<s>"]), (Mode::Spacy, &[])]
        {
            let folder = tempfile::tempdir().unwrap();
            let mut tokenizer = bpe().with_mode(mode).unwrap();
            specials.iter().for_each(|special| assert!(tokenizer.add_special(special).is_ok()));
            tokenizer.save_release(folder.path()).unwrap();
            let back = Tokenizer::load(folder.path()).unwrap();
            assert_eq!(back.fingerprint(), tokenizer.fingerprint());
            assert_eq!(back.encode("_start_ aé a").unwrap(), tokenizer.encode("_start_ aé a").unwrap());
        }
    }

    #[test]
    fn only_a_bpe_can_be_saved_as_a_release() {
        let folder = tempfile::tempdir().unwrap();
        let error = Tokenizer::bytes().save_release(&folder.path().join("r")).unwrap_err().to_string();
        assert!(error.contains("which a byte tokenizer does not have"), "{error}");
        assert!(!folder.path().join("r").exists());
    }
}

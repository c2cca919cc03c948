//! The directory of a model: its parameters and its tokenizer.

use std::path::{Path, PathBuf};

use gradus_io::checksums::{self, Checksums};
use gradus_io::disk;
use gradus_io::files::{FileError, resolve_directory};
use gradus_model::checkpoint::{self, Bytes, CheckpointError};
use gradus_model::{KneserNey, Model, Predicts, Tree};
use gradus_tensor::{Device, DeviceError, Tensor};
use gradus_text::{TextError, Tokenizer};

use crate::answers::{self, Answers, AnswersError, Counts};

/// The name of the directory of a run's best checkpoint, inside the run's directory.
pub const BEST: &str = "best";

/// The files of a tokenizer; a directory with a tokenizer holds one of them.
const TOKENIZER_FILES: [&str; 6] =
    ["tokenizer.json", "gradus_tokenizer.json", "vocab.json", "encoder_bpe_40000.json", "encoder.json", "vocab.txt"];

/// The reason why a model directory could not be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
#[non_exhaustive]
pub enum ModelDirError {
    #[error(
        "{path}: expected a directory with config.json and model.safetensors, found {found}; \
         give --model the --out of a `gradus pretrain` or `gradus finetune`, or a checkpoint of one of the types {}",
        checkpoint::model_types().join(", ")
    )]
    NoModel { path: PathBuf, found: &'static str },
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Text(#[from] TextError),
    #[error(
        "{path}: the tokenizer has {tokenizer} ids, but the model has {model}, so they do not belong together; copy the model's own tokenizer there"
    )]
    Vocabulary { path: PathBuf, tokenizer: usize, model: usize },
    #[error(
        "{path}: expected a model that predicts the next token, found one that fills masks (BERT, RoBERTa or ERNIE), which \
         `gradus fill` uses: give --model a GPT, an LSTM or counts of n-grams"
    )]
    Masked { path: PathBuf },
    #[error(
        "{path}: expected a network, found counts of n-grams, which have no parameters to train or to inspect: give --model a network; \
         counts can be used by evaluate --corpus or --ids, generate, fill, and predict or evaluate --zero-shot"
    )]
    Counts { path: PathBuf },
}

/// Returns the model if it predicts the next token, and an error otherwise.
fn predicting(dir: &Path, model: Model<Tensor<f32>>) -> Result<Model<Tensor<f32>>, ModelDirError> {
    match model.predicts() == Predicts::Masked {
        true => Err(ModelDirError::Masked { path: dir.to_owned() }),
        false => Ok(model),
    }
}

/// Describes a path that is not a model directory, as part of a message.
fn what_else(path: &Path) -> &'static str {
    let Ok(metadata) = path.metadata() else { return "nothing readable" };
    let is_seed =
        |entry: std::io::Result<std::fs::DirEntry>| entry.is_ok_and(|e| e.file_name().as_encoded_bytes().starts_with(b"seed-"));
    if !metadata.is_dir() {
        "a file"
    } else if path.read_dir().is_err_and(|e| e.kind() == std::io::ErrorKind::PermissionDenied) {
        "a directory that cannot be read: check its permissions"
    } else if path.read_dir().is_ok_and(|mut entries| entries.any(is_seed)) {
        "a run of several seeds, each with its own model in `seed-…`: name one of them"
    } else if path.join(checkpoint::openai::SHAPES_FILE).exists() {
        "OpenAI's release, which `gradus import --openai` converts to one"
    } else if path.join("run.json").exists() {
        "a run that has no model yet; `--resume` continues it"
    } else {
        "a directory with neither, nor a `best` that has them"
    }
}

/// A directory that holds `config.json` and `model.safetensors`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelDir {
    asked: PathBuf,
    path: PathBuf,
}

impl ModelDir {
    /// Opens the directory, or its `best` where only that holds a model.
    pub fn open(asked: &Path) -> Result<Self, ModelDirError> {
        let holds = |dir: &Path| [checkpoint::CONFIG_FILE, checkpoint::WEIGHTS_FILE].iter().any(|name| dir.join(name).exists());
        // After a crash between two renames, the last good checkpoint has another name.
        let now = |dir: &Path| resolve_directory(dir).unwrap_or_else(|_| dir.to_owned());
        let (itself, best) = (now(asked), now(&asked.join(BEST)));
        let path = match (holds(&itself), holds(&best)) {
            (true, _) => itself,
            (false, true) => best,
            (false, false) => {
                return Err(ModelDirError::NoModel { path: asked.to_owned(), found: what_else(asked) });
            }
        };
        Ok(ModelDir { asked: asked.to_owned(), path })
    }

    /// Returns the directory of the model: the one given, its `best`, or the one that a crash left.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the network or the counts.
    ///
    /// # Errors
    /// Returns an error if the model is damaged.
    pub fn predictor(&self) -> Result<Predictor, ModelDirError> {
        Predictor::read(&self.path)
    }

    /// Reads the network, of any kind.
    ///
    /// # Errors
    /// Returns an error for counts, or if the model is damaged.
    pub fn read(&self) -> Result<Model<Tensor<f32>>, ModelDirError> {
        read(&self.path)
    }

    /// Reads a model that predicts the next token.
    ///
    /// # Errors
    /// Returns an error for counts or a model that fills masks, or if the model is damaged.
    pub fn load(&self) -> Result<Model<Tensor<f32>>, ModelDirError> {
        load(&self.path)
    }

    /// Returns notes on deviations of the model's files from those that `transformers` saves. Files that cannot be read give no
    /// notes; [`Self::read`] reports them.
    pub fn notes(&self) -> Vec<String> {
        let open = |name: &str| disk::map(&self.path.join(name), Bytes::open);
        checkpoint::notes(&self.path, &open).unwrap_or_default()
    }

    /// Returns whether the model's files have checksums, or had checksums that are lost. Models of other programs have none.
    pub fn has_checksums(&self) -> bool {
        !matches!(Checksums::of(&self.path), Ok(None))
    }

    /// Reads the tokenizer beside a model of `vocab` rows, or in the directory given; `None` if there is none. If tokens were
    /// added without resizing the embedding, the tokenizer has ids without a row in the model, and rejects texts with such an id.
    pub fn tokenizer(&self, vocab: usize) -> Result<Option<Tokenizer>, ModelDirError> {
        let Some(dir) = [&self.path, &self.asked].into_iter().find(|dir| tokenizer_file(dir).is_some()) else { return Ok(None) };
        let tokenizer = Tokenizer::load(dir)?;
        Ok(Some(tokenizer.with_rows(vocab)))
    }

    /// Reads the tokenizer as [`Self::tokenizer`] does, and returns an error if there is none.
    pub fn required_tokenizer(&self, vocab: usize) -> Result<Tokenizer, ModelDirError> {
        let found = self.tokenizer(vocab)?;
        if found.is_none() {
            checksums::check(&self.path, &TOKENIZER_FILES)?; // it may have had one
        }
        found.ok_or_else(|| {
            let missing = TextError::Missing {
                path: self.path.clone(),
                found: "there is no tokenizer beside the model".into(),
                remedy: "Copy its tokenizer.json there, or give token ids where the command has --ids".into(),
            };
            missing.into()
        })
    }
}

/// Reads a model that predicts the next token, as [`ModelDir::load`] does.
///
/// # Errors
/// Returns an error if the directory has no model, counts, a model that fills masks, or a damaged model.
pub fn load(dir: &Path) -> Result<Model<Tensor<f32>>, ModelDirError> {
    predicting(dir, read(dir)?)
}

/// Reads the network in a directory, of any kind, and compares its files with their checksums if they have any.
///
/// # Errors
/// Returns an error if the directory has no model, counts, or a damaged model.
pub fn read(dir: &Path) -> Result<Model<Tensor<f32>>, ModelDirError> {
    match Predictor::read(dir)? {
        Predictor::Network(model) => Ok(*model),
        Predictor::Counts(_) => Err(ModelDirError::Counts { path: dir.to_owned() }),
    }
}

/// A model that predicts tokens.
pub enum Predictor {
    /// A network.
    Network(Box<Model<Tensor<f32>>>),
    /// Counts of n-grams.
    Counts(KneserNey),
}

impl Predictor {
    /// Reads the model in a directory, and compares its files with their checksums if they have any.
    ///
    /// # Errors
    /// Returns an error if the directory has no model, or a damaged one.
    pub fn read(dir: &Path) -> Result<Self, ModelDirError> {
        let is_of_model = |name: &str| name == checkpoint::CONFIG_FILE || name.starts_with("model") || name.starts_with("head");
        checksums::check_where(dir, is_of_model)?;
        let open = |name: &str| disk::map(&dir.join(name), Bytes::open);
        Ok(match checkpoint::read_ngram(dir, &open)? {
            Some(counts) => Predictor::Counts(counts),
            None => Predictor::Network(checkpoint::read(dir, &open)?.into()),
        })
    }

    /// Returns the number of ids.
    pub fn vocab(&self) -> usize {
        match self {
            Predictor::Network(model) => model.sizes().vocab,
            Predictor::Counts(counts) => counts.vocab(),
        }
    }

    /// Returns the maximum number of tokens that the model reads at once; `None` for counts, which have no limit.
    pub fn context(&self) -> Option<usize> {
        self.network().map(|model| model.sizes().context)
    }

    /// Returns the network; `None` for counts.
    pub fn network(&self) -> Option<&Model<Tensor<f32>>> {
        match self {
            Predictor::Network(model) => Some(model),
            Predictor::Counts(_) => None,
        }
    }

    /// Moves a network to a device. Counts stay in the CPU's memory.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn to(self, device: &Device) -> Result<Self, DeviceError> {
        match self {
            Predictor::Network(model) => Ok(Predictor::Network(model.to(device)?.into())),
            counts => Ok(counts),
        }
    }

    /// Returns the model's answers, with `length` tokens in a whole text ([`answers::of`]).
    ///
    /// # Errors
    /// Returns the errors of [`answers::of`].
    pub fn answers(&self, tokenizer: Option<&Tokenizer>, length: usize) -> Result<Box<dyn Answers + '_>, AnswersError> {
        match self {
            Predictor::Network(model) => answers::of(model, tokenizer, length),
            Predictor::Counts(counts) => Ok(Box::new(Counts(counts))),
        }
    }
}

/// Returns the first file of a tokenizer in a directory; `None` if there is none.
pub fn tokenizer_file(dir: &Path) -> Option<PathBuf> {
    TOKENIZER_FILES.iter().map(|file| dir.join(file)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use gradus_model::check::{tiny_bert, tiny_gpt2};

    use super::*;

    #[test]
    fn a_masked_model_is_not_loaded_for_next_token_prediction() {
        let dir = tempfile::tempdir().unwrap();
        checkpoint::save(dir.path(), &Model::init(&tiny_gpt2(), 1)).unwrap();
        assert_eq!(load(dir.path()).unwrap().config(), tiny_gpt2());
        checkpoint::save(dir.path(), &Model::init(&tiny_bert(), 1)).unwrap();
        let error = load(dir.path()).unwrap_err().to_string();
        assert!(error.contains("expected a model that predicts the next token, found one that fills masks"), "{error}");
    }
}

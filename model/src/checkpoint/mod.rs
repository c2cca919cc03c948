//! Checkpoints in Hugging Face's format: a directory of `config.json` and `model.safetensors`, or shards
//! (`model-00001-of-00003.safetensors`) and `model.safetensors.index.json`. `dialect` lists the model
//! types; GPT-1 is `openai-gpt`. A head is stored in `model.safetensors` too if a class of `transformers` computes the same,
//! otherwise beside it, in `head.safetensors`. [`openai`] reads and writes OpenAI's own release.
//!
//! `transformers` opens the files of [`save`], and [`load`] those of `transformers`, without export: names with or without the
//! body's prefix (`transformer.`, `bert.`), f32, f64, f16 or bf16. A model that no class can express (the joint embedding, GPT-1
//! with GELU by the error function) has the model_type `gradus-gpt`, which `transformers` rejects, not misreads.
//!
//! [`load`] maps large files and copies their numbers into tensors, so that it takes hardly more memory than the model. During
//! the read, the files must not be truncated: on Unix this would end the process by SIGBUS. Later changes have no effect, and
//! replacing a file by renaming another one over it is safe at any time. [`read`] takes bytes from any source.

mod config_json;
mod dialect;
mod fields;
mod foreign;
mod index;
mod ngram;
pub mod openai;
mod source;
mod stored;
#[cfg(test)]
mod tests;
mod values;
mod weights;

use std::path::{Path, PathBuf};

use gradus_tensor::{Device, DeviceError, Tensor};

use crate::config::ConfigError;
use crate::model::Model;
use crate::tree::Tree;
use dialect::Held;
use source::Source;
use stored::Files;

pub use dialect::{model_types, theirs};
pub use ngram::{NGRAM, ngram_files, read_ngram};
pub use source::Bytes;
pub use weights::StoredTensor;

/// The file of sizes and options.
pub const CONFIG_FILE: &str = "config.json";
/// The file of parameters.
pub const WEIGHTS_FILE: &str = "model.safetensors";
/// The file that maps each parameter to its shard.
pub const INDEX_FILE: &str = "model.safetensors.index.json";
/// The file of a head for which `transformers` has no class.
pub const HEAD_FILE: &str = "head.safetensors";

/// The reason why a checkpoint could not be read or written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum CheckpointError {
    /// An error of the file system.
    #[error("cannot {action} {path}: {source}; {}", hint(.source))]
    Io { path: PathBuf, action: &'static str, source: std::io::Error },
    /// `config.json` is not JSON, or lacks or misstates a field.
    #[error("{path}: {problem}; restore the file that was saved with the model, or correct it")]
    ConfigFile { path: PathBuf, problem: String },
    /// `config.json` states sizes that no model can have.
    #[error("{path}: {source}")]
    Config { path: PathBuf, source: ConfigError },
    /// `model.safetensors` is damaged.
    #[error("{path}: {problem}; the file is damaged or incomplete: copy or save it again")]
    Damaged { path: PathBuf, problem: String },
    /// The weights do not fit the configuration: parameters are missing, left over or of another shape.
    #[error("{path}: {problem}; config.json and this file do not belong together, or this is another kind of model")]
    Disagree { path: PathBuf, problem: String },
    /// A shard that the index names is not there.
    #[error("cannot read {path}: there is no such file, but the index names it; copy all shards of the model there")]
    NoShard { path: PathBuf },
    /// Weights of another format, with the way to convert them.
    #[error("{path}: expected model.safetensors, found {what}; {remedy}")]
    Foreign { path: PathBuf, what: &'static str, remedy: String },
    /// A file does not have the format of OpenAI's release.
    #[error(
        "{path}: {problem}; OpenAI's release is params_shapes.json and params_0.npy, params_1.npy, …, \
         each a flat array as numpy.save writes it"
    )]
    NotRelease { path: PathBuf, problem: String },
    /// A model that OpenAI's code cannot compute with any flags.
    #[error("OpenAI's release cannot hold {what}; keep this model as it is, in Hugging Face's format")]
    NotSayable { what: String },
    /// The parameters could not be read from their device.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

fn hint(e: &std::io::Error) -> &'static str {
    match e.kind() {
        std::io::ErrorKind::NotFound => "a model directory holds config.json and model.safetensors",
        std::io::ErrorKind::StorageFull => "free some space and try again",
        std::io::ErrorKind::FileTooLarge => "raise the bound on a file's size (`ulimit -f`), or write to another disk",
        std::io::ErrorKind::PermissionDenied => "check the permissions of the file and its directory",
        std::io::ErrorKind::OutOfMemory => "close other programs, or use a machine with more memory",
        _ => "check the path and its disk",
    }
}

pub(crate) fn io(path: &Path, action: &'static str) -> impl FnOnce(std::io::Error) -> CheckpointError {
    let path = path.to_owned();
    move |source| CheckpointError::Io { path, action, source }
}

/// Reads the model in a directory.
///
/// # Errors
/// Returns an error if a file is missing, damaged, of another model or of another format. Whatever the bytes, it neither panics
/// nor takes more memory than a small multiple of their number.
pub fn load(dir: &Path) -> Result<Model<Tensor<f32>>, CheckpointError> {
    read(dir, &|name| Bytes::open(&dir.join(name)))
}

/// Reads a model from files that `open` finds by their names, such as `config.json`. `place` is their directory, for messages.
///
/// # Errors
/// Returns the errors of [`load`]. A file that is missing is [`NotFound`](std::io::ErrorKind::NotFound).
pub fn read(place: &Path, open: &dyn Fn(&str) -> std::io::Result<Bytes>) -> Result<Model<Tensor<f32>>, CheckpointError> {
    let source = Source { place, open };
    let path = source.path(CONFIG_FILE);
    let (fields, dialect) = config_json::fields(&path, &source.read(CONFIG_FILE)?)?;
    config_json::model(&path, &fields, dialect, &Held::default())?; // its errors are reported before the weights are opened
    let files = Files::open(source)?;
    let config = config_json::model(&path, &fields, dialect, &files.held(source, dialect)?)?;
    stored::read(source, config, (&fields, dialect), &files)
}

/// Notes on a checkpoint that deviates from what `transformers` saves, one sentence each. The weights are not read.
///
/// # Errors
/// Returns an error if `config.json` or the header of a weights' file cannot be read.
pub fn notes(place: &Path, open: &dyn Fn(&str) -> std::io::Result<Bytes>) -> Result<Vec<String>, CheckpointError> {
    let source = Source { place, open };
    let path = source.path(CONFIG_FILE);
    let (fields, dialect) = config_json::fields(&path, &source.read(CONFIG_FILE)?)?;
    let files = Files::open(source)?;
    let wrapping = files.wrapping(source, dialect)?;
    let mut notes = Vec::new();
    if !wrapping.is_empty() {
        notes.push(format!("every tensor's name begins with {wrapping}, which is left out: training code has wrapped the model"));
    }
    if !config_json::is_tied(&path, &fields)? {
        let has_output =
            dialect.names().copies.first().and_then(|(copy, _)| files.held(source, dialect).ok()?.has(copy)) == Some(true);
        let note = if has_output {
            "an output's matrix that equals the embedding is read as tied to it, and another one as a matrix of its own"
        } else {
            "the file has no output matrix, so the embedding is used where tokens are predicted"
        };
        notes.push(format!("config.json has tie_word_embeddings: false; {note}"));
    }
    Ok(notes)
}

/// Returns the files of a model by name, for callers that write them in their own way.
///
/// # Errors
/// Returns an error if the GPU that holds the parameters fails.
pub fn files(model: &Model<Tensor<f32>>) -> Result<Vec<(&'static str, Vec<u8>)>, DeviceError> {
    let mut files = vec![(CONFIG_FILE, config_json::encode(&model.config()))];
    files.extend(weights::encode(&model.to(&Device::CPU)?));
    Ok(files)
}

/// Writes a model into an existing directory, and flushes each file to disk. An existing file is overwritten in place, so no
/// process may be reading it.
pub fn save(dir: &Path, model: &Model<Tensor<f32>>) -> Result<(), CheckpointError> {
    for (name, bytes) in files(model)? {
        let path = dir.join(name);
        let file = std::fs::File::create(&path).map_err(io(&path, "create"))?;
        std::io::Write::write_all(&mut &file, &bytes).map_err(io(&path, "write"))?;
        file.sync_all().map_err(io(&path, "flush to disk"))?;
    }
    Ok(())
}

/// The prefix of the names of heads' parameters, here and in their own file.
const HEAD: &str = "score";

/// Passes the bytes of all parameters to `sink`, to be hashed: in the order of the tree, little-endian f32.
///
/// # Errors
/// Returns an error if the GPU that holds the parameters fails.
pub fn parameter_bytes(model: &Model<Tensor<f32>>, mut sink: impl FnMut(&[u8])) -> Result<(), DeviceError> {
    model.to(&Device::CPU)?.as_ref().visit(|_, p| sink(&weights::little_endian(p)));
    Ok(())
}

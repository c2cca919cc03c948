//! OpenAI's release of GPT-1 ([finetune-transformer-lm](https://github.com/openai/finetune-transformer-lm), `model/`), read and
//! written.
//!
//! | file | what |
//! |-|-|
//! | `params_shapes.json` | the shapes of the arrays, in their order |
//! | `params_0.npy` … `params_9.npy` | all arrays end to end, as one flat vector of f32, cut into ten pieces |
//! | `encoder_bpe_40000.json`, `vocab_40000.bpe` | the vocabulary: tokens and ids, merges by rank |
//!
//! | array | shape | here | |
//! |-|-|-|-|
//! | 0 | `[context, d]` | `positions_embed.weight` | W_p comes before Wₑ |
//! | 1 | `[V, d]` | `tokens_embed.weight` | |
//! | 2 + 12·l | `[1, d, 3d]` | `h.l.attn.c_attn.weight` | weights are `[in, out]` as here, with an axis of 1 in front: a convolution over one position |
//! | 3 + 12·l | `[3d]` | `h.l.attn.c_attn.bias` | |
//! | 4, 5 + 12·l | `[1, d, d], [d]` | `h.l.attn.c_proj.weight`, `.bias` | |
//! | 6, 7 + 12·l | `[d], [d]` | `h.l.ln_1.weight`, `.bias` | OpenAI's `g` and `b` |
//! | 8, 9 + 12·l | `[1, d, 4d], [4d]` | `h.l.mlp.c_fc.weight`, `.bias` | |
//! | 10, 11 + 12·l | `[1, 4d, d], [d]` | `h.l.mlp.c_proj.weight`, `.bias` | |
//! | 12, 13 + 12·l | `[d], [d]` | `h.l.ln_2.weight`, `.bias` | |
//!
//! The boundaries of the pieces have no meaning: `train.py` joins the pieces and splits them again by the shapes. It then builds
//! one matrix, `we = [tokens; specials; positions]`, with newly drawn rows for its special tokens between the two tables. This is
//! [`Embedding::Joint`](crate::Embedding), whose token rows come first here too; special tokens are the last of a vocabulary, so
//! they are where `train.py` has them.
//!
//! The release does not contain heads, activation and dropout: they are flags of `train.py`, whose defaults are the paper's. So
//! that nothing is lost, [`files`] adds a `config.json`, and [`read`] reads it if there is one.

mod layout;
mod npy;
#[cfg(test)]
mod tests;

use std::path::Path;

use gradus_tensor::{Device, Tensor};

use super::source::{Bytes, Source};
use super::values::{convert, tensor};
use super::{CONFIG_FILE, CheckpointError, config_json};
use crate::config::{Activation, Sizes};
use crate::model::{Model, ModelConfig};
use crate::output::OutputConfig;
use crate::transformer::Transformer;
use crate::transformer::{Embedding, Positions, TransformerConfig};
use crate::tree::Tree;

/// The file of the arrays' shapes.
pub const SHAPES_FILE: &str = "params_shapes.json";
/// The vocabulary: tokens and their ids, and merges by rank.
pub const VOCABULARY_FILES: [&str; 2] = ["encoder_bpe_40000.json", "vocab_40000.bpe"];
/// The number of files that `train.py` reads.
const PIECES: usize = 10;

/// Returns the name of a piece, counted from 0.
fn piece(n: usize) -> String {
    format!("params_{n}.npy")
}

/// The settings that the release itself does not contain.
#[derive(Clone, Copy, Debug, Default)]
pub struct Untold {
    /// The attention heads per block; by default those of the `config.json`, else the paper's 12.
    pub heads: Option<usize>,
    /// The form of the embedding, two tables or one; by default that of the `config.json`, else two.
    pub embedding: Option<Embedding>,
}

/// Reads the release in a directory.
///
/// # Errors
/// Returns the errors of [`read`].
pub fn load(dir: &Path, untold: Untold) -> Result<Model<Tensor<f32>>, CheckpointError> {
    read(dir, &|name| Bytes::open(&dir.join(name)), untold)
}

/// Reads a release from files that `open` finds by their names; `place` is their directory, for messages. There may be any number
/// of pieces, of f16 or f64 too.
///
/// # Errors
/// Returns an error if files are missing or damaged, if shapes are not GPT-1's, or if the shapes have another number of elements.
/// Whatever the bytes, it neither panics nor takes more memory than a small multiple of their number.
pub fn read(
    place: &Path,
    open: &dyn Fn(&str) -> std::io::Result<Bytes>,
    untold: Untold,
) -> Result<Model<Tensor<f32>>, CheckpointError> {
    let source = Source { place, open };
    let (sizes, config) = config(source, untold)?;
    let mut pieces = Vec::new();
    while let Some(bytes) = source.find(&piece(pieces.len()))? {
        pieces.push(bytes);
    }
    let flat = Flat::of(source, &pieces)?;
    if flat.len() != config.parameters(sizes) {
        let (next, found) = (piece(pieces.len()), flat.len());
        let problem =
            format!("these are shapes of {} numbers, found {found} in the files before {next}", config.parameters(sizes));
        return Err(CheckpointError::NotRelease { path: source.path(SHAPES_FILE), problem });
    }
    let begins = layout::offsets(sizes, &config);
    let gpt = Transformer::declare(sizes, &config).map(|name, p| {
        tensor(&p.shape, |out| {
            let tokens = if name == TOKENS { sizes.vocab * sizes.width } else { out.len() };
            let (first, positions) = out.split_at_mut(tokens);
            flat.copy(begins[name], first);
            flat.copy(begins[POSITIONS], positions); // in the joint matrix; other matrices have nothing left
        })
    });
    Ok(gpt.into())
}

const TOKENS: &str = "tokens_embed.weight";
const POSITIONS: &str = "positions_embed.weight";

/// Reads the configuration from the release and the `config.json` beside it.
fn config(source: Source<'_>, untold: Untold) -> Result<(Sizes, TransformerConfig), CheckpointError> {
    let path = source.path(SHAPES_FILE);
    let other = |problem: String| CheckpointError::NotRelease { path: path.clone(), problem };
    let shapes = source.find(SHAPES_FILE)?.ok_or_else(|| other("there is no such file".into()))?;
    let shapes = serde_json::from_slice(&shapes).map_err(|e| other(format!("expected a list of shapes: {e}")))?;
    let known = source.find(CONFIG_FILE)?.map(|bytes| config_json::read(&source.path(CONFIG_FILE), &bytes)).transpose()?;
    let known = known.map(|(known, _)| sayable(&known).map(|config| (known.sizes, *config))).transpose()?;
    let (sizes, mut config) = layout::config(&path, &shapes, known, untold.heads)?;
    config.embedding = untold.embedding.unwrap_or(config.embedding);
    config.check(sizes).map_err(|source| CheckpointError::Config { path, source })?;
    Ok((sizes, config))
}

/// The flat vector, in its pieces.
struct Flat<'a> {
    pieces: Vec<(&'a Bytes, npy::Array<'a>)>,
}

impl<'a> Flat<'a> {
    fn of(source: Source<'_>, pieces: &'a [Bytes]) -> Result<Self, CheckpointError> {
        let array = |(i, bytes): (usize, &'a Bytes)| match npy::read(bytes) {
            Ok(array) => Ok((bytes, array)),
            Err(problem) => Err(CheckpointError::NotRelease { path: source.path(&piece(i)), problem }),
        };
        Ok(Flat { pieces: pieces.iter().enumerate().map(array).collect::<Result<_, _>>()? })
    }

    fn len(&self) -> usize {
        self.pieces.iter().map(|(_, array)| array.len()).sum()
    }

    /// Copies the elements from `begin` on.
    fn copy(&self, begin: usize, mut out: &mut [f32]) {
        let mut skip = begin;
        for (bytes, array) in &self.pieces {
            let (len, size) = (array.len(), array.number.size());
            let from = skip.min(len);
            skip -= from;
            let n = out.len().min(len - from);
            let (now, later) = out.split_at_mut(n);
            convert(bytes, &array.data[from * size..(from + n) * size], array.number, now);
            out = later;
        }
    }
}

/// Returns the names of the files that [`files`] returns.
pub fn file_names() -> impl Iterator<Item = String> {
    (0..PIECES).map(piece).chain([SHAPES_FILE, CONFIG_FILE].map(str::to_owned))
}

/// Returns the flags of `train.py` for the settings that the release does not contain.
pub fn flags(sizes: Sizes, config: &TransformerConfig) -> String {
    let afn = serde_json::to_value(config.activation).unwrap_or_default();
    format!(
        "--n_ctx {} --n_embd {} --n_head {} --n_layer {} --afn {} --embd_pdrop {} --attn_pdrop {} --resid_pdrop {}",
        sizes.context,
        sizes.width,
        config.heads,
        config.layers,
        afn.as_str().unwrap_or_default(),
        config.embd_dropout,
        config.attn_dropout,
        config.resid_dropout
    )
}

/// Returns the files of a release by name, each computed when it is reached: pieces, shapes, and a `config.json` for the settings
/// that these do not contain. The tokenizer writes the vocabulary.
///
/// # Errors
/// Returns an error that names what the layout cannot hold, or an error if the GPU that holds the parameters fails.
pub fn files(model: &Model<Tensor<f32>>) -> Result<impl Iterator<Item = (String, Vec<u8>)>, CheckpointError> {
    let model_config = model.config();
    let config = sayable(&model_config)?;
    let arrays = flat_arrays(model)?;
    let total: usize = arrays.iter().map(Tensor::len).sum();
    // As numpy.array_split cuts: pieces of two lengths, the longer ones first.
    let bounds: Vec<usize> = (0..=PIECES).map(|n| n * (total / PIECES) + n.min(total % PIECES)).collect();
    let pieces = (0..PIECES).map(move |n| {
        let mut bytes = npy::header(bounds[n + 1] - bounds[n]);
        let mut at = 0;
        for array in &arrays {
            let overlap = bounds[n].clamp(at, at + array.len()) - at..bounds[n + 1].clamp(at, at + array.len()) - at;
            if !overlap.is_empty() {
                bytes.extend(super::weights::little_endian(&array.slice(0, overlap)));
            }
            at += array.len();
        }
        (piece(n), bytes)
    });
    let rest =
        [(SHAPES_FILE, shapes_json(model_config.sizes, config).into_bytes()), (CONFIG_FILE, config_json::encode(&model_config))];
    Ok(pieces.chain(rest.map(|(name, bytes)| (name.to_owned(), bytes))))
}

/// Returns the shapes in the format of OpenAI's file, to the byte.
fn shapes_json(sizes: Sizes, config: &TransformerConfig) -> String {
    format!("{:?}", layout::shapes(sizes, config))
}

/// Returns the arrays in their order, each as a flat vector.
fn flat_arrays(model: &Model<Tensor<f32>>) -> Result<Vec<Tensor<f32>>, CheckpointError> {
    let mut arrays = Vec::new();
    let tokens = model.sizes().vocab;
    model.to(&Device::CPU)?.as_ref().visit(|name, p| match name {
        TOKENS => arrays.extend([p.slice(0, tokens..p.shape()[0]), p.slice(0, 0..tokens)].into_iter().filter(|p| !p.is_empty())),
        POSITIONS => arrays.insert(0, p.clone()),
        _ => arrays.push(p.clone()),
    });
    Ok(arrays.into_iter().map(|p| p.reshape([p.len()])).collect())
}

/// Returns the Transformer, if `train.py` can compute it with some flags.
fn sayable(model: &ModelConfig) -> Result<&TransformerConfig, CheckpointError> {
    let refused = |what: String| Err(CheckpointError::NotSayable { what });
    let Some(config) = model.transformer() else { return refused(model.body.words().into()) };
    if !model.heads.is_empty() {
        return refused("a task's head; it holds the language model alone, before fine-tuning".into());
    }
    if config.parts() != TransformerConfig::GPT1 || model.outputs != [OutputConfig::NEXT] {
        return refused("parts that GPT-1 lacks, such as the norms of GPT-2".into());
    }
    if config.positions != Positions::Learned {
        return refused("sinusoidal positions, only learned ones".into());
    }
    if config.activation == Activation::GeluErf {
        return refused("GELU by the error function (gelu_erf), only gelu, its tanh form, and relu".into());
    }
    if config.layer_norm_epsilon != TransformerConfig::GPT1.layer_norm_epsilon {
        return refused(format!(
            "a layer norm's ε of {}, only {}",
            config.layer_norm_epsilon,
            TransformerConfig::GPT1.layer_norm_epsilon
        ));
    }
    Ok(config)
}

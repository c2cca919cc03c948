//! `model.safetensors` with Hugging Face's names, read: one file, or shards that an index names.

use std::collections::BTreeMap;
use std::path::PathBuf;

use gradus_tensor::Tensor;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

use super::source::{Bytes, Source};
use super::values::{Number, convert, tensor};
use super::weights::{POSITIONS, fixed_positions};
use super::{BACKBONE, CheckpointError, HEAD_FILE, INDEX_FILE, WEIGHTS_FILE, config_json, foreign, hugging_face_names, index};
use crate::model::{Model, ModelConfig};
use crate::param::{Param, Role};
use crate::tree::Tree;

/// Tensors by name, the file that each is in, and what is wrong with them.
struct Stored<'a> {
    path: PathBuf,
    views: BTreeMap<String, (&'a Bytes, TensorView<'a>)>,
    problems: Vec<String>,
}

impl<'a> Stored<'a> {
    /// Those of one file.
    fn of(path: PathBuf, bytes: &'a Bytes) -> Result<Self, CheckpointError> {
        let mut stored = Stored { path: path.clone(), views: BTreeMap::new(), problems: Vec::new() };
        for (name, view) in tensors(path, bytes)? {
            stored.insert(name, bytes, view);
        }
        Ok(stored)
    }

    fn insert(&mut self, name: String, bytes: &'a Bytes, view: TensorView<'a>) {
        let name = name.strip_prefix(BACKBONE).unwrap_or(&name);
        if self.views.insert(name.to_owned(), (bytes, view)).is_some() {
            self.problems.push(format!("{name} is there twice, with and without `{BACKBONE}`"));
        }
    }

    /// The values of a declared parameter; an empty tensor where they are a problem.
    fn take(&mut self, name: &str, Param { shape, .. }: &Param) -> Tensor<f32> {
        let name = name.strip_prefix(BACKBONE).unwrap_or(name);
        let result = match self.views.remove(name) {
            None => Err(format!("{name} is missing")),
            Some((_, view)) if *view.shape() != shape[..] => {
                Err(format!("{name}: config.json expects shape {shape}, found {:?}", view.shape()))
            }
            Some((bytes, view)) => {
                read_tensor(bytes, &view).map_err(|dtype| format!("{name}: expected F32, F64, F16 or BF16, found {dtype:?}"))
            }
        };
        result.map_err(|problem| self.problems.push(problem)).unwrap_or_else(|()| Tensor::zeros([0]))
    }

    /// Every parameter has its values, and nothing is left over.
    fn finish(mut self) -> Result<(), CheckpointError> {
        self.problems.extend(self.views.into_keys().map(|name| format!("{name} is not a parameter of this model")));
        disagree(self.path, &self.problems)
    }
}

/// The first few problems, if there are any.
pub(super) fn disagree(path: PathBuf, problems: &[String]) -> Result<(), CheckpointError> {
    let problem = match problems {
        [] => return Ok(()),
        [first, second, third, more @ ..] if !more.is_empty() => format!("{first}; {second}; {third}; and {} more", more.len()),
        few => few.join("; "),
    };
    Err(CheckpointError::Disagree { path, problem })
}

fn tensors(path: PathBuf, bytes: &Bytes) -> Result<Vec<(String, TensorView<'_>)>, CheckpointError> {
    match SafeTensors::deserialize(bytes) {
        Ok(file) => Ok(file.tensors()),
        Err(e) => Err(CheckpointError::Damaged { path, problem: e.to_string() }),
    }
}

/// The elements as f32; the dtype if it is one that is not read.
fn read_tensor(bytes: &Bytes, view: &TensorView<'_>) -> Result<Tensor<f32>, Dtype> {
    let number = match view.dtype() {
        Dtype::F32 => Number::F32,
        Dtype::F64 => Number::F64,
        Dtype::BF16 => Number::BF16,
        Dtype::F16 => Number::F16,
        other => return Err(other),
    };
    Ok(tensor(view.shape(), |out| convert(bytes, view.data(), number, out)))
}

/// The files that hold the weights, by name: one, or the shards of an index.
enum Files {
    One(Bytes),
    Sharded { weight_map: BTreeMap<String, String>, shards: BTreeMap<String, Bytes> },
}

impl Files {
    /// One file comes before an index, as `transformers` has it.
    fn open(source: Source<'_>) -> Result<Self, CheckpointError> {
        if let Some(bytes) = source.find(WEIGHTS_FILE)? {
            return Ok(Files::One(bytes));
        }
        if let Some(bytes) = source.find(INDEX_FILE)? {
            let weight_map = index::read(&source.path(INDEX_FILE), &bytes)?;
            let mut shards = BTreeMap::new();
            for name in weight_map.values() {
                if !shards.contains_key(name) {
                    let shard = source.find(name)?.ok_or_else(|| CheckpointError::NoShard { path: source.path(name) })?;
                    shards.insert(name.clone(), shard);
                }
            }
            return Ok(Files::Sharded { weight_map, shards });
        }
        foreign::refuse(source)?;
        source.read(WEIGHTS_FILE).map(Files::One)
    }

    /// Their tensors. Each is in the shard that the index names, and in no other.
    fn stored(&self, source: Source<'_>) -> Result<Stored<'_>, CheckpointError> {
        let (weight_map, shards) = match self {
            Files::One(bytes) => return Stored::of(source.path(WEIGHTS_FILE), bytes),
            Files::Sharded { weight_map, shards } => (weight_map, shards),
        };
        let mut stored = Stored { path: source.path(INDEX_FILE), views: BTreeMap::new(), problems: Vec::new() };
        let mut absent = weight_map.clone();
        for (shard, bytes) in shards {
            for (name, view) in tensors(source.path(shard), bytes)? {
                match weight_map.get(&name) {
                    None => stored.problems.push(format!("{name} is in {shard}, but not in the index")),
                    Some(other) if other != shard => {
                        stored.problems.push(format!("{name} is in {shard}; the index has it in {other}"));
                    }
                    Some(_) => {
                        absent.remove(&name);
                        stored.insert(name, bytes, view);
                    }
                }
            }
        }
        stored.problems.extend(absent.iter().map(|(name, shard)| format!("{name} is not in {shard}, where the index has it")));
        Ok(stored)
    }
}

/// Reads the parameters of a model.
pub(super) fn read(source: Source<'_>, config: &ModelConfig) -> Result<Model<Tensor<f32>>, CheckpointError> {
    let files = Files::open(source)?;
    let beside = config.head.as_ref().is_some_and(|head| !config_json::is_theirs(head));
    let head_bytes = beside.then(|| source.read(HEAD_FILE)).transpose()?;
    let mut file = files.stored(source)?;
    let mut head_file = head_bytes.as_ref().map(|bytes| Stored::of(source.path(HEAD_FILE), bytes)).transpose()?;

    let declared = Model::declare(config);
    let named = hugging_face_names(&declared).zip(declared);
    let mut table = None;
    let backbone = named.backbone.map(|_, (name, p)| {
        let value = file.take(&name, &p);
        if p.role == Role::TokenEmbedding {
            table = Some(value.clone());
        }
        value
    });
    let in_file = head_file.as_mut().unwrap_or(&mut file);
    let score = Tree::map(named.score, |_, (name, p)| in_file.take(&name, &p));
    if let Some((bytes, view)) = file.views.remove("lm_head.weight")
        && file.problems.is_empty()
        && read_tensor(bytes, &view).ok() != table
    {
        file.problems.push("lm_head.weight differs from tokens_embed.weight, to which GPT-1's output is tied".into());
    }
    if fixed_positions(config) {
        file.views.remove(POSITIONS);
    }
    // Buffers of the causal mask, as older versions saved them.
    file.views.retain(|name, _| !name.ends_with(".attn.bias") && !name.ends_with(".attn.masked_bias") && name != "position_ids");
    file.finish()?;
    head_file.map_or(Ok(()), Stored::finish)?;
    Ok(Model { backbone, score })
}

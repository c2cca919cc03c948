//! The reader of `model.safetensors` with Hugging Face's names: one file, or shards that an index names.

use std::collections::BTreeMap;
use std::path::PathBuf;

use gradus_tensor::Tensor;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

use super::dialect::{Dialect, Held, Theirs, theirs_of};
use super::fields::{Fields, class};
use super::source::{Bytes, Source};
use super::values::{Number, convert, tensor};
use super::weights::{POSITIONS, fixed_positions};
use super::{CONFIG_FILE, CheckpointError, HEAD, HEAD_FILE, INDEX_FILE, WEIGHTS_FILE, config_json, foreign, index};
use crate::model::{Model, ModelConfig};
use crate::param::Param;
use crate::tree::Tree;

/// Name prefixes that wrappers of a module add: PyTorch's DistributedDataParallel, `torch.compile`, Lightning.
const WRAPPERS: [&str; 3] = ["module.", "_orig_mod.", "model."];

/// Returns the wrapper prefix that all names share.
fn wrapping<'n>(names: impl Iterator<Item = &'n str> + Clone) -> String {
    let Some(first) = names.clone().next() else { return String::new() };
    let mut end = 0;
    let is_next = |wrapper: &&&str, end: usize| names.clone().all(|name| name[end..].starts_with(**wrapper));
    while let Some(wrapper) = WRAPPERS.iter().find(|wrapper| is_next(wrapper, end)) {
        end += wrapper.len();
    }
    first[..end].to_owned()
}

/// Tensors by name without the body's prefix, the file that each is in, and the problems found.
struct Stored<'a> {
    path: PathBuf,
    dialect: &'static dyn Dialect,
    /// The wrapper prefix of all names in the file.
    wrapping: String,
    views: BTreeMap<String, (&'a Bytes, TensorView<'a>)>,
    problems: Vec<String>,
    /// Whether a tensor is missing.
    lacks: bool,
}

impl<'a> Stored<'a> {
    /// Reads the tensors of one file.
    fn of(path: PathBuf, dialect: &'static dyn Dialect, bytes: &'a Bytes) -> Result<Self, CheckpointError> {
        let all = tensors(path.clone(), bytes)?;
        let mut stored = Stored::empty(path, dialect, wrapping(all.iter().map(|(name, _)| name.as_str())));
        for (name, view) in all {
            stored.insert(&name, bytes, view);
        }
        Ok(stored)
    }

    fn empty(path: PathBuf, dialect: &'static dyn Dialect, wrapping: String) -> Self {
        Stored { path, dialect, wrapping, views: BTreeMap::new(), problems: Vec::new(), lacks: false }
    }

    /// Returns a tensor's current name in the dialect, without prefixes.
    fn plain(&self, name: &str) -> String {
        let name = name.strip_prefix(&*self.wrapping).unwrap_or(name);
        self.dialect.modern(name.strip_prefix(self.dialect.names().prefix).unwrap_or(name))
    }

    fn insert(&mut self, name: &str, bytes: &'a Bytes, view: TensorView<'a>) {
        let prefix = self.dialect.names().prefix;
        let name = self.plain(name);
        if self.views.insert(name.clone(), (bytes, view)).is_some() {
            self.problems.push(format!("{name} occurs twice, with and without `{prefix}`"));
        }
    }

    /// Returns the values of a declared parameter, from one tensor or from several side by side; an empty tensor on a problem.
    fn take(&mut self, theirs: &[Theirs], Param { shape, .. }: &Param) -> Tensor<f32> {
        let parts: Result<Vec<_>, String> = theirs.iter().map(|one| self.one(one, &one.shape(shape, theirs.len()))).collect();
        match parts {
            Ok(parts) if parts.len() == 1 => parts.into_iter().next().expect("one"),
            Ok(parts) => Tensor::concat(&parts.iter().collect::<Vec<_>>(), shape.len() - 1),
            Err(problem) => {
                self.problems.push(problem);
                Tensor::zeros([0])
            }
        }
    }

    /// Returns one of the tensors that form a parameter, converted to Gradus's form.
    fn one(&mut self, theirs: &Theirs, expected: &[usize]) -> Result<Tensor<f32>, String> {
        let name = theirs.name.strip_prefix(self.dialect.names().prefix).unwrap_or(&theirs.name);
        match self.views.remove(name) {
            None => {
                self.lacks = true;
                Err(format!("{name} is missing"))
            }
            Some((_, view)) if view.shape() != expected => {
                Err(format!("{name}: config.json expects shape {expected:?}, found {:?}", view.shape()))
            }
            Some((bytes, view)) => match read_tensor(bytes, &view) {
                Ok(tensor) => Ok(theirs.to_ours(tensor)),
                Err(dtype) => Err(format!("{name}: expected F32, F64, F16 or BF16, found {dtype:?}")),
            },
        }
    }

    /// Removes copies of tied tensors. The output's matrix must equal the embedding; a bias takes the place of its original,
    /// since `transformers` adds the copy. A copy without an original becomes the original. `untied`: the configuration has
    /// `tie_word_embeddings: false`, and an output's matrix that differs from the embedding stays. `has_output`: the class has an
    /// output matrix. Returns whether the output has a matrix of its own.
    fn take_copies(&mut self, untied: bool, has_output: bool) -> bool {
        let output = self.dialect.names().copies.first().map(|(copy, _)| *copy);
        let mut has_own = false;
        for (copy, original) in self.dialect.names().copies {
            let is_output = output == Some(*copy);
            let is_untied = untied && is_output;
            let Some((bytes, view)) = self.views.remove(*copy) else {
                if is_untied && has_output {
                    self.problems.push(format!("{copy} is missing, though config.json has tie_word_embeddings: false"));
                }
                continue;
            };
            if !is_output || !self.views.contains_key(*original) && !is_untied {
                self.views.insert((*original).into(), (bytes, view));
                continue;
            }
            let tied = self.views.get(*original).and_then(|(bytes, view)| read_tensor(bytes, view).ok());
            if tied.is_none() || read_tensor(bytes, &view).ok() == tied {
                continue;
            }
            has_own = is_untied;
            if is_untied {
                self.views.insert((*copy).into(), (bytes, view));
            } else {
                self.problems.push(format!(
                    "{copy} differs from {original}, to which config.json ties it; if the output has a matrix of its own, set \
                     tie_word_embeddings to false"
                ));
            }
        }
        has_own
    }

    /// Returns an error if a problem was found or a tensor is left over. `unread`: the class in `architectures`, if it is not one
    /// that is read.
    fn finish(mut self, unread: Option<&str>) -> Result<(), CheckpointError> {
        self.views.retain(|name, _| !self.dialect.ignores(name));
        let others: Vec<String> = self.views.into_keys().collect();
        if !self.lacks {
            self.problems.extend(others.iter().map(|name| format!("{name} is not a parameter of this model")));
        }
        let instead = match &others[..] {
            [first, more @ ..] if self.lacks => {
                let some: Vec<&str> = more.iter().take(2).map(String::as_str).collect();
                let more = more.len() - some.len();
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                format!("; the file has instead {}{more}", [&[first.as_str()], &some[..]].concat().join(", "))
            }
            [_, ..] => unread.map_or(String::new(), |class| format!("; architectures: {class} is not a class that Gradus reads")),
            [] => String::new(),
        };
        disagree(self.path, &self.problems, &instead)
    }
}

/// Returns the first few problems as an error, followed by `more_to_say`; `Ok` if there are none.
pub(super) fn disagree(path: PathBuf, problems: &[String], more_to_say: &str) -> Result<(), CheckpointError> {
    let problem = match problems {
        [] => return Ok(()),
        [first, second, third, more @ ..] if !more.is_empty() => format!("{first}; {second}; {third}; and {} more", more.len()),
        few => few.join("; "),
    };
    Err(CheckpointError::Disagree { path, problem: format!("{problem}{more_to_say}") })
}

fn tensors(path: PathBuf, bytes: &Bytes) -> Result<Vec<(String, TensorView<'_>)>, CheckpointError> {
    if bytes.starts_with(b"version https://git-lfs") {
        let problem = "expected weights, found a Git LFS pointer; `git lfs pull` replaces it by the weights".into();
        return Err(CheckpointError::Damaged { path, problem });
    }
    match SafeTensors::deserialize(bytes) {
        Ok(file) => Ok(file.tensors()),
        Err(e) => Err(CheckpointError::Damaged { path, problem: e.to_string() }),
    }
}

/// Returns the elements as f32; the dtype if it is one that is not read.
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
pub(super) enum Files {
    One(Bytes),
    Sharded { weight_map: BTreeMap<String, String>, shards: BTreeMap<String, Bytes> },
}

impl Files {
    /// Opens the single file if there is one, else the shards of the index, as `transformers` does.
    pub fn open(source: Source<'_>) -> Result<Self, CheckpointError> {
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

    /// Returns the tensors of the files. Each is in the shard that the index names, and in no other.
    fn stored(&self, source: Source<'_>, dialect: &'static dyn Dialect) -> Result<Stored<'_>, CheckpointError> {
        let (weight_map, shards) = match self {
            Files::One(bytes) => return Stored::of(source.path(WEIGHTS_FILE), dialect, bytes),
            Files::Sharded { weight_map, shards } => (weight_map, shards),
        };
        let mut stored = Stored::empty(source.path(INDEX_FILE), dialect, wrapping(weight_map.keys().map(String::as_str)));
        let mut absent = weight_map.clone();
        for (shard, bytes) in shards {
            for (name, view) in tensors(source.path(shard), bytes)? {
                match weight_map.get(&name) {
                    None => {
                        stored.problems.push(format!("{name} is in {shard}, but not in the index"));
                        stored.insert(&name, bytes, view); // so that it does not count as missing, too
                    }
                    Some(other) if other != shard => {
                        stored.problems.push(format!("{name} is in {shard}; the index has it in {other}"));
                    }
                    Some(_) => {
                        absent.remove(&name);
                        stored.insert(&name, bytes, view);
                    }
                }
            }
        }
        // An index may list both names of a tied tensor while the shards store only one.
        let is_there = |name: &str| stored.views.contains_key(name);
        let held_otherwise = |name: &String| {
            let name = stored.plain(name);
            stored
                .dialect
                .names()
                .copies
                .iter()
                .any(|(copy, original)| (name == *copy && is_there(original)) || (name == *original && is_there(copy)))
        };
        absent.retain(|name, _| !held_otherwise(name));
        stored.problems.extend(absent.iter().map(|(name, shard)| format!("{name} is not in {shard}, where the index has it")));
        Ok(stored)
    }
}

impl Files {
    /// Returns the names and shapes of the tensors.
    pub fn held(&self, source: Source<'_>, dialect: &'static dyn Dialect) -> Result<Held, CheckpointError> {
        let stored = self.stored(source, dialect)?;
        Ok(Held(Some(stored.views.into_iter().map(|(name, (_, view))| (name, view.shape().to_vec())).collect())))
    }

    /// Returns the wrapper prefix of all names.
    pub fn wrapping(&self, source: Source<'_>, dialect: &'static dyn Dialect) -> Result<String, CheckpointError> {
        Ok(self.stored(source, dialect)?.wrapping)
    }
}

/// Reads the parameters of a model in a dialect, given the fields of its `config.json`.
pub(super) fn read(
    source: Source<'_>,
    mut config: ModelConfig,
    (fields, dialect): (&Fields, &'static dyn Dialect),
    files: &Files,
) -> Result<Model<Tensor<f32>>, CheckpointError> {
    let beside = !config.heads.is_empty() && !dialect.has_head(&config);
    let head_bytes = beside.then(|| source.read(HEAD_FILE)).transpose()?;
    let mut file = files.stored(source, dialect)?;
    let mut head_file = head_bytes.as_ref().map(|bytes| Stored::of(source.path(HEAD_FILE), dialect, bytes)).transpose()?;

    let tied = config_json::is_tied(&source.path(CONFIG_FILE), fields)?;
    let has_own = file.take_copies(!tied, dialect.has_output(fields, &config));
    config.outputs.first_mut().into_iter().for_each(|output| output.tied = !has_own);
    let model = Model::declare(&config).map(|path, p| {
        let of_head = path.starts_with(HEAD);
        let from = head_file.as_mut().filter(|_| of_head).unwrap_or(&mut file);
        from.take(&theirs_of(dialect, &config, path), &p)
    });
    if fixed_positions(&config) {
        file.views.remove(POSITIONS);
    }
    file.finish(class(fields).filter(|class| !dialect.names().classes.contains(class)))?;
    head_file.map_or(Ok(()), |file| file.finish(None))?;
    Ok(model)
}

#[cfg(test)]
mod tests {
    use super::wrapping;

    #[test]
    fn wrappers_are_prefixes_that_all_names_share() {
        let of = |names: &[&str]| wrapping(names.iter().copied());
        assert_eq!(of(&[]), "");
        assert_eq!(of(&["module.model.wte", "module.model.wpe"]), "module.model.");
        assert_eq!(of(&["module.model.wte", "module.wpe"]), "module.");
        assert_eq!(of(&["model.wte", "wpe"]), "");
        // By comparing from the start of the name after each wrapper, this would take minutes.
        let all = "model.".repeat(400_000);
        assert_eq!(of(&[&(all.clone() + "x")]), all);
    }
}

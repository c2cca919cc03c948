//! `model.safetensors` with Hugging Face's names.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

use gradus_tensor::Tensor;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensorError, SafeTensors, View};

use super::{BACKBONE, CheckpointError, HEAD_FILE, WEIGHTS_FILE, config_json, hugging_face_names, io};
use crate::config::Positions;
use crate::gpt::sinusoids;
use crate::model::{Model, ModelConfig};
use crate::param::{Param, Role};
use crate::tree::Tree;

/// The name of learned positions, under which fixed ones are written too.
const POSITIONS: &str = "positions_embed.weight";

/// The f32 elements as safetensors stores them.
pub(super) fn little_endian(t: &Tensor<f32>) -> Vec<u8> {
    t.to_vec().into_iter().flat_map(f32::to_le_bytes).collect()
}

/// A tensor as a safetensors file holds it: its f32 elements, little-endian.
pub struct StoredTensor<'a>(pub &'a Tensor<f32>);

impl View for StoredTensor<'_> {
    fn dtype(&self) -> Dtype {
        Dtype::F32
    }
    fn shape(&self) -> &[usize] {
        self.0.shape()
    }
    fn data(&self) -> Cow<'_, [u8]> {
        little_endian(self.0).into()
    }
    fn data_len(&self) -> usize {
        4 * self.0.len()
    }
}

/// The files of the parameters: one, or two where the head is stored beside the backbone.
pub(super) fn encode(model: &Model<Tensor<f32>>) -> Vec<(&'static str, Vec<u8>)> {
    let config = model.config();
    // Fixed positions are written as if they had been learned, so that others compute the same.
    let fixed =
        fixed_positions(&config).then(|| sinusoids(&Tensor::scalar(0.0), 0..config.backbone.context(), config.backbone.width()));
    let model = hugging_face_names(model).zip(model.as_ref());
    let (mut all, mut head) = (Vec::new(), Vec::new());
    model.backbone.visit(|_, (name, p)| all.push((name, StoredTensor(p))));
    model.score.visit(|_, (name, p)| head.push((name, StoredTensor(p))));
    if config.head.as_ref().is_some_and(config_json::is_theirs) {
        all.append(&mut head);
    }
    all.extend(fixed.as_ref().map(|p| (format!("{BACKBONE}{POSITIONS}"), StoredTensor(p))));
    let bytes = |tensors: Vec<(String, StoredTensor<'_>)>| {
        let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
        safetensors::serialize(tensors, Some(metadata)).expect("each view has the length of its shape")
    };
    let mut files = vec![(WEIGHTS_FILE, bytes(all))];
    files.extend((!head.is_empty()).then(|| (HEAD_FILE, bytes(head))));
    files
}

fn fixed_positions(config: &ModelConfig) -> bool {
    config.gpt().is_some_and(|c| c.positions == Positions::Sinusoidal)
}

/// A file's tensors by name, and what is wrong with them.
struct File<'a> {
    path: &'a Path,
    views: HashMap<String, TensorView<'a>>,
    problems: Vec<String>,
}

impl<'a> File<'a> {
    fn of(path: &'a Path, bytes: &'a [u8]) -> Result<Self, CheckpointError> {
        let damaged = |e: SafeTensorError| CheckpointError::Damaged { path: path.to_owned(), problem: e.to_string() };
        let file = SafeTensors::deserialize(bytes).map_err(damaged)?;
        let named = |(name, view): (&str, _)| (name.strip_prefix(BACKBONE).unwrap_or(name).to_owned(), view);
        Ok(File { path, views: file.iter().map(named).collect(), problems: Vec::new() })
    }

    /// The values of a declared parameter; an empty tensor where they are a problem.
    fn take(&mut self, name: &str, Param { shape, .. }: &Param) -> Tensor<f32> {
        let name = name.strip_prefix(BACKBONE).unwrap_or(name);
        let result = match self.views.remove(name) {
            None => Err(format!("{name} is missing")),
            Some(view) if *view.shape() != shape[..] => {
                Err(format!("{name}: config.json expects shape {shape}, found {:?}", view.shape()))
            }
            Some(view) => tensor(&view).map_err(|dtype| format!("{name}: expected F32, F64, F16 or BF16, found {dtype:?}")),
        };
        result.map_err(|problem| self.problems.push(problem)).unwrap_or_else(|()| Tensor::zeros([0]))
    }

    /// Every parameter has its values, and nothing is left over.
    fn finish(mut self) -> Result<(), CheckpointError> {
        let mut left: Vec<_> = self.views.into_keys().collect();
        left.sort();
        self.problems.extend(left.into_iter().map(|name| format!("{name} is not a parameter of this model")));
        let problem = match &self.problems[..] {
            [] => return Ok(()),
            [first, second, third, more @ ..] if !more.is_empty() => {
                format!("{first}; {second}; {third}; and {} more", more.len())
            }
            few => few.join("; "),
        };
        Err(CheckpointError::Disagree { path: self.path.to_owned(), problem })
    }
}

pub(super) fn read(dir: &Path, config: &ModelConfig) -> Result<Model<Tensor<f32>>, CheckpointError> {
    let [path, head_path] = [WEIGHTS_FILE, HEAD_FILE].map(|name| dir.join(name));
    let read = |path| std::fs::read(path).map_err(io(path, "read"));
    let bytes = read(&path)?;
    let beside = config.head.as_ref().is_some_and(|head| !config_json::is_theirs(head));
    let head_bytes = beside.then(|| read(&head_path)).transpose()?;
    let mut file = File::of(&path, &bytes)?;
    let mut head_file = head_bytes.as_ref().map(|bytes| File::of(&head_path, bytes)).transpose()?;

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
    if let Some(view) = file.views.remove("lm_head.weight")
        && tensor(&view).ok() != table
        && file.problems.is_empty()
    {
        file.problems.push("lm_head.weight differs from tokens_embed.weight, to which GPT-1's output is tied".into());
    }
    if fixed_positions(config) {
        file.views.remove(POSITIONS);
    }
    // Buffers of the causal mask, as older versions saved them.
    file.views.retain(|name, _| !name.ends_with(".attn.bias") && !name.ends_with(".attn.masked_bias") && name != "position_ids");
    file.finish()?;
    head_file.map_or(Ok(()), File::finish)?;
    Ok(Model { backbone, score })
}

/// The elements as f32; the dtype if it is one that is not read.
fn tensor(view: &TensorView<'_>) -> Result<Tensor<f32>, Dtype> {
    fn each<const N: usize>(data: &[u8], f: impl Fn([u8; N]) -> f32) -> Vec<f32> {
        data.as_chunks::<N>().0.iter().map(|&b| f(b)).collect()
    }
    let data = view.data();
    let values = match view.dtype() {
        Dtype::F32 => each(data, f32::from_le_bytes),
        Dtype::F64 => each(data, |b| f64::from_le_bytes(b) as f32),
        Dtype::BF16 => each(data, |b| f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16)),
        Dtype::F16 => each(data, |b| half(u16::from_le_bytes(b))),
        other => return Err(other),
    };
    Ok(Tensor::new(view.shape(), values))
}

/// An IEEE 754 half as f32: 1 sign, 5 exponent (bias 15), 10 fraction bits.
fn half(bits: u16) -> f32 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f32::from(bits & 1023) / 1024.0);
    sign * match exponent {
        0 => fraction * 2f32.powi(-14),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        e => (1.0 + fraction) * 2f32.powi(e - 15),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_read_exactly() {
        let cases =
            [(0x3C00, 1.0), (0xC000, -2.0), (0x7BFF, 65504.0), (0x0001, 5.960_464_5e-8), (0x8000, 0.0), (0x7C00, f32::INFINITY)];
        for (bits, value) in cases {
            assert_eq!(half(bits), value, "{bits:#06x}");
        }
        assert!(half(0x7E00).is_nan());
    }
}

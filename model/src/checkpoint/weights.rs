//! `model.safetensors` with Hugging Face's names.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

use gradus_tensor::Tensor;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors, View};

use super::{CheckpointError, HEAD, HEAD_FILE, WEIGHTS_FILE, config_json, hugging_face_name, io};
use crate::config::Positions;
use crate::gpt::sinusoids;
use crate::model::{Model, ModelConfig};
use crate::param::{Param, Role};
use crate::tree::Tree;

/// The name of learned positions, under which fixed ones are written too.
const POSITIONS: &str = "positions_embed.weight";

/// The f32 elements as safetensors stores them.
#[expect(clippy::disallowed_methods, reason = "a file holds the elements themselves")]
pub(super) fn little_endian(t: &Tensor<f32>) -> Vec<u8> {
    t.dense().as_slice().iter().flat_map(|x| x.to_le_bytes()).collect()
}

struct Parameter<'a>(&'a Tensor<f32>);

impl View for Parameter<'_> {
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

/// The files of the parameters: one, or two where the head stands beside the backbone.
pub(super) fn encode(model: &Model<Tensor<f32>>) -> Vec<(&'static str, Vec<u8>)> {
    let config = model.config();
    // Fixed positions are written as if they had been learned, so that others compute the same.
    let fixed =
        fixed_positions(&config).then(|| sinusoids(&Tensor::scalar(0.0), 0..config.backbone.context(), config.backbone.width()));
    let (mut all, mut head) = (Vec::new(), Vec::new());
    let beside = config.head.as_ref().is_some_and(|h| !config_json::is_theirs(h));
    model.as_ref().visit(|name, p| {
        let to = if beside && name.starts_with(HEAD) { &mut head } else { &mut all };
        to.push((hugging_face_name(name), Parameter(p)));
    });
    all.extend(fixed.as_ref().map(|p| (hugging_face_name(POSITIONS), Parameter(p))));
    let bytes = |tensors: Vec<(String, Parameter<'_>)>| {
        let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
        safetensors::serialize(tensors, Some(metadata)).expect("each view has the length of its shape")
    };
    let mut files = vec![(WEIGHTS_FILE, bytes(all))];
    if !head.is_empty() {
        files.push((HEAD_FILE, bytes(head)));
    }
    files
}

fn fixed_positions(config: &ModelConfig) -> bool {
    config.gpt().is_some_and(|c| c.positions == Positions::Sinusoidal)
}

pub(super) fn read(dir: &Path, config: &ModelConfig) -> Result<Model<Tensor<f32>>, CheckpointError> {
    let path = &dir.join(WEIGHTS_FILE);
    let bytes = std::fs::read(path).map_err(io(path, "read"))?;
    let beside = dir.join(HEAD_FILE);
    let head = match &config.head {
        Some(head) if !config_json::is_theirs(head) => Some(std::fs::read(&beside).map_err(io(&beside, "read"))?),
        _ => None,
    };
    let damaged = |path: &Path, problem: String| CheckpointError::Damaged { path: path.to_owned(), problem };
    let mut views: HashMap<String, TensorView<'_>> = HashMap::new();
    for (path, bytes) in [(path, &bytes)].into_iter().chain(head.as_ref().map(|bytes| (&beside, bytes))) {
        let file = SafeTensors::deserialize(bytes).map_err(|e| damaged(path, e.to_string()))?;
        for (name, view) in file.iter() {
            views.insert(name.strip_prefix("transformer.").unwrap_or(name).to_owned(), view);
        }
    }
    let mut problems = Vec::new();
    let mut table = None;
    let model = Model::declare(config).map(|name, Param { shape, role, .. }| {
        let found = views.remove(name);
        let result = match &found {
            None => Err(format!("{name} is missing")),
            Some(view) if *view.shape() != shape[..] => {
                Err(format!("{name}: config.json wants shape {shape}, found {:?}", view.shape()))
            }
            Some(view) => tensor(view).map_err(|dtype| format!("{name}: expected F32, F64, F16 or BF16, found {dtype:?}")),
        };
        let value = result.map_err(|problem| problems.push(problem)).unwrap_or_else(|()| Tensor::zeros([0]));
        if role == Role::TokenEmbedding {
            table = Some(value.clone());
        }
        value
    });
    if let Some(view) = views.remove("lm_head.weight") {
        let same = tensor(&view).ok() == table;
        if problems.is_empty() && !same {
            problems.push("lm_head.weight differs from tokens_embed.weight, to which GPT-1's output is tied".into());
        }
    }
    if fixed_positions(config) {
        views.remove(POSITIONS);
    }
    // Buffers of the causal mask, as older versions saved them.
    views.retain(|name, _| !name.ends_with(".attn.bias") && !name.ends_with(".attn.masked_bias") && name != "position_ids");
    let mut left: Vec<_> = views.into_keys().collect();
    left.sort();
    problems.extend(left.into_iter().map(|name| format!("{name} is not a parameter of this model")));
    if problems.is_empty() {
        return Ok(model);
    }
    let of_head = head.is_some() && problems.iter().all(|problem| problem.starts_with(HEAD));
    let path = if of_head { beside } else { path.clone() };
    let more = problems.len().saturating_sub(3);
    let shown = problems.into_iter().take(3).collect::<Vec<_>>().join("; ");
    let problem = if more > 0 { format!("{shown}; and {more} more") } else { shown };
    Err(CheckpointError::Disagree { path, problem })
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

//! The writer of `model.safetensors` with Hugging Face's names.

use std::borrow::Cow;
use std::collections::HashMap;

use gradus_tensor::Tensor;
use safetensors::{Dtype, View};

use super::{HEAD, HEAD_FILE, WEIGHTS_FILE, dialect};
use crate::model::{Model, ModelConfig};
use crate::transformer::{Positions, sinusoids};

/// The name of learned positions, under which fixed ones are written too.
pub(super) const POSITIONS: &str = "positions_embed.weight";

/// Returns the f32 elements as safetensors stores them.
pub(super) fn little_endian(t: &Tensor<f32>) -> Vec<u8> {
    t.to_vec().into_iter().flat_map(f32::to_le_bytes).collect()
}

/// A tensor as a safetensors file stores it: its f32 elements, little-endian.
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

/// Returns the files of the parameters: one, or two if the head is stored beside the backbone.
pub(super) fn encode(model: &Model<Tensor<f32>>) -> Vec<(&'static str, Vec<u8>)> {
    let config = model.config();
    let mut all = dialect::theirs(model);
    let has_head = dialect::of(&config).has_head(&config);
    let head = if has_head { Vec::new() } else { all.extract_if(.., |(name, _)| name.starts_with(HEAD)).collect() };
    // Fixed positions are written as if they had been learned, so that other programs compute the same.
    if fixed_positions(&config) {
        let fixed = sinusoids(&Tensor::scalar(0.0), 0..config.sizes.context as u32, config.sizes.width);
        all.push((format!("{}{POSITIONS}", dialect::of(&config).names().prefix), fixed));
    }
    let bytes = |tensors: Vec<(String, Tensor<f32>)>| {
        let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
        let tensors = tensors.iter().map(|(name, p)| (name, StoredTensor(p)));
        safetensors::serialize(tensors, Some(metadata)).expect("each view has the length of its shape")
    };
    let mut files = vec![(WEIGHTS_FILE, bytes(all))];
    files.extend((!head.is_empty()).then(|| (HEAD_FILE, bytes(head))));
    files
}

/// Returns whether positions are a fixed function, not parameters.
pub(super) fn fixed_positions(config: &ModelConfig) -> bool {
    config.transformer().is_some_and(|c| c.positions == Positions::Sinusoidal)
}

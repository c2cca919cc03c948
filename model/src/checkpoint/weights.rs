//! `model.safetensors` with Hugging Face's names, written.

use std::borrow::Cow;
use std::collections::HashMap;

use gradus_tensor::Tensor;
use safetensors::{Dtype, View};

use super::{BACKBONE, HEAD_FILE, WEIGHTS_FILE, config_json, hugging_face_names};
use crate::config::Positions;
use crate::gpt::sinusoids;
use crate::model::{Model, ModelConfig};
use crate::tree::Tree;

/// The name of learned positions, under which fixed ones are written too.
pub(super) const POSITIONS: &str = "positions_embed.weight";

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

/// Are positions a function, not parameters?
pub(super) fn fixed_positions(config: &ModelConfig) -> bool {
    config.gpt().is_some_and(|c| c.positions == Positions::Sinusoidal)
}

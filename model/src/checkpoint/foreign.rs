//! Weights in other programs' formats: recognised, and rejected with the command that converts them.

use super::source::Source;
use super::{CheckpointError, openai};

/// A Python program that converts pickled weights, given the directory and the files. It loads only numbers (`weights_only`),
/// since a pickle can run code.
const TORCH: &str = "import sys, glob, torch, safetensors.torch as s; d, f = sys.argv[1:]; s.save_file({k: \
    v.clone().contiguous() for p in sorted(glob.glob(d + '/' + f)) for k, v in torch.load(p, map_location='cpu', \
    weights_only=True).items()}, d + '/model.safetensors', {'format': 'pt'})";

const NOTHING: &str = "Gradus does not read it: take a checkpoint with model.safetensors";

/// Returns an error if there is a file of another format instead of the weights.
pub(super) fn refuse(source: Source<'_>) -> Result<(), CheckpointError> {
    let place = source.place.to_string_lossy().replace('\'', r"'\''");
    let torch =
        |files: &str| format!("convert it with Python's torch and safetensors: python3 -c \"{TORCH}\" '{place}' '{files}'");
    let pickled = ["pytorch_model.bin", "model.bin", "model.pt", "model.pth"].map(|name| (name, "pickled weights", torch(name)));
    let others = [
        ("pytorch_model.bin.index.json", "pickled shards", torch("pytorch_model-*.bin")),
        (openai::SHAPES_FILE, "OpenAI's release", format!("convert it: gradus import --openai '{place}' --out DIR")),
        ("tf_model.h5", "weights of TensorFlow", NOTHING.into()),
        ("model.ckpt.index", "weights of TensorFlow", NOTHING.into()),
        ("flax_model.msgpack", "weights of Flax", NOTHING.into()),
    ];
    let table = pickled.into_iter().chain(others);
    let mut there = table.filter(|(name, ..)| source.has(name));
    match there.next() {
        None => Ok(()),
        Some((name, what, remedy)) => Err(CheckpointError::Foreign { path: source.path(name), what, remedy }),
    }
}

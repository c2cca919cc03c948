//! A digest of a model's numbers.

use gradus_io::hex;
use gradus_model::{Model, Tree};
use gradus_tensor::Tensor;
use sha2::{Digest, Sha256};

/// SHA-256 of a model's numbers, each 8 bytes little endian, in the order of its tree.
pub fn digest(params: &Model<Tensor<f64>>) -> String {
    let mut hash = Sha256::new();
    params.as_ref().visit(|_, p| p.to_vec().iter().for_each(|x| hash.update(x.to_le_bytes())));
    hex::encode(hash.finalize())
}

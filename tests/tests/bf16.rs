//! Products in bf16 on the CPU, across crates.

use std::sync::Arc;

use gradus_autograd::Tape;
use gradus_model::check::{tiny_gpt, tiny_lstm};
use gradus_model::{Decoder, Input, Model, ModelConfig, Sizes, Tree};
use gradus_tensor::device::MatmulPrecision;
use gradus_tensor::{Device, Tensor};

const BF16: Device = Device::Cpu(MatmulPrecision::BF16);

fn models() -> [Model<Tensor>; 2] {
    let sizes = Sizes { vocab: 60, context: 70, width: 48 };
    [tiny_gpt(), tiny_lstm()].map(|config| Model::init(&ModelConfig { sizes, ..config }, 3).to(&BF16).unwrap())
}

/// The keys, values and states of a cache have the bits of the whole sequence, over more than one block of a sum.
#[test]
fn decoding_with_a_cache_gives_the_bits_of_the_full_pass() {
    for model in models() {
        let ids: Arc<[u32]> = (0..70).map(|i| i * 7 % 60).collect();
        let tape = Tape::off();
        let full = model.constants(&tape).logits(&Input::causal(1, ids.clone())).into_value();
        let mut decoder = Decoder::new(&model);
        let mut read = 0;
        for step in [1, 1, 31, 1, 33, 1, 1, 1] {
            let logits = decoder.read(&ids[read..read + step]);
            read += step;
            assert_eq!(logits, full.slice(1, read - 1..read).to_vec(), "after {read} tokens");
        }
    }
}

//! How fast this machine generates.

use gradus_io::numbers::median;
use gradus_model::{Decoder, Gpt, Model, Param, Role, Tree};
use gradus_tensor::rng::Philox;
use gradus_tensor::{Device, DeviceError, Tensor};
use serde::Serialize;

use crate::machine::{Passes, block_products, fastest_product, seconds};
use crate::profile::Profile;

/// What generating costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GenerateReport {
    /// What computed.
    pub device: String,
    /// Threads.
    pub threads: usize,
    /// Number of parameters.
    pub parameters: usize,
    /// Tokens read at once, before the first is generated.
    pub prompt_tokens: usize,
    /// Reading them, in milliseconds (the median of three times).
    pub prompt_ms: f64,
    /// 10⁹ FLOP/s of that, at 24·L·d² + 4·L·t·d for token t and 2·d·V for the last.
    pub prompt_gflops: f64,
    /// 10⁹ FLOP/s of the fastest matrix product, of 1024³ and of the prompt's own shapes.
    pub gemm_gflops: f64,
    /// Tokens generated.
    pub tokens: usize,
    /// The median token, in milliseconds.
    pub token_ms: f64,
    /// Tokens per second, by the median token.
    pub tokens_per_second: f64,
    /// Bytes of weights that each token reads, keys and values not counted.
    pub weight_bytes_per_token: u64,
    /// 10⁹ bytes of weights per second, by the median token.
    pub weight_gb_per_second: f64,
    /// 10⁹ bytes per second that the same threads, or the same GPU, read from memory, only adding them up: the median of passes
    /// between the tokens.
    pub bandwidth_gb_per_second: f64,
    /// The weights' rate as a share of the bandwidth; more than 1 where they stay in cache.
    pub share_of_bandwidth: f64,
    /// The token in the middle once more, on a GPU; `None` on a CPU.
    pub gpu: Option<Profile>,
}

/// Reads `prompt` random tokens and generates `tokens` more with the cache, which must fit the context.
///
/// # Errors
/// Where the device has no room for the model, or fails.
pub fn generate(gpt: &Gpt<Tensor<f32>>, device: &Device, prompt: usize, tokens: usize) -> Result<GenerateReport, DeviceError> {
    let (config, model) = (gpt.config(), Model::from(gpt.clone()).to(device)?);
    let mut rng = Philox::new(0);
    let mut random = || rng.below(config.vocab as u64) as u32;
    let ids: Vec<u32> = (0..prompt).map(|_| random()).collect();
    let mut decoder = Decoder::new(&model);
    let read = |ids: &[u32], tokens: usize| {
        let mut decoder = Decoder::new(&model);
        decoder.read(ids);
        (0..tokens).for_each(|_| drop(decoder.read(&ids[..1])));
        decoder
    };
    if *device != Device::Cpu {
        // All once: shaders are compiled, and for each kind of product the fastest is found.
        read(&ids, tokens);
    }
    let mut prompt_times = [(); 3].map(|()| {
        decoder = Decoder::new(&model);
        seconds(|| drop(decoder.read(&ids)))
    });
    let memory = Passes::on(device);
    let (mut times, mut passes) = (Vec::with_capacity(tokens), Vec::new());
    for at in 0..tokens {
        // A pass empties the caches, but only one token in eight begins so: the median ignores it.
        if at % 8 == 0 {
            passes.push(memory.bandwidth());
        }
        let id = [random()];
        times.push(seconds(|| drop(decoder.read(&id))));
    }
    drop(memory);
    let gpu = if *device == Device::Cpu {
        None
    } else {
        let mut decoder = read(&ids, tokens / 2);
        Profile::of(device, || drop(decoder.read(&ids[..1])))?
    };
    let (token_seconds, prompt_seconds) = (median(&mut times), median(&mut prompt_times));
    let bandwidth = median(&mut passes);
    // Every block, and the output's matrix; of the position table a row.
    let mut weights = 0;
    let numbers = |p: Param| if p.role == Role::PositionEmbedding { config.width } else { p.shape.numel() };
    Gpt::declare(config).visit(|_, p| weights += numbers(p));
    let weight_bytes_per_token = 4 * weights as u64;
    let rate = weight_bytes_per_token as f64 / token_seconds;
    let (layers, d) = (config.layers, config.width);
    let flops = layers * (24 * prompt * d * d + 2 * prompt * (prompt + 1) * d) + 2 * d * config.output_rows();
    Ok(GenerateReport {
        device: device.to_string(),
        threads: rayon::current_num_threads(),
        parameters: config.parameters(),
        prompt_tokens: prompt,
        prompt_ms: 1e3 * prompt_seconds,
        prompt_gflops: flops as f64 / prompt_seconds / 1e9,
        gemm_gflops: fastest_product(device, block_products(prompt, d)),
        tokens,
        token_ms: 1e3 * token_seconds,
        tokens_per_second: 1.0 / token_seconds,
        weight_bytes_per_token,
        weight_gb_per_second: rate / 1e9,
        bandwidth_gb_per_second: bandwidth / 1e9,
        share_of_bandwidth: rate / bandwidth,
        gpu,
    })
}

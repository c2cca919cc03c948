//! The rate of generation on this machine.

use gradus_io::numbers::median;
use gradus_model::{Decoder, Model, Param, Role, Transformer, Tree};
use gradus_tensor::rng::Philox;
use gradus_tensor::{Device, DeviceError, Tensor};
use serde::Serialize;

use crate::machine::{Passes, block_products, fastest_product, seconds};
use crate::profile::Profile;

/// The results of the benchmark of generation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GenerateReport {
    /// The device.
    pub device: String,
    /// The number of threads.
    pub threads: usize,
    /// The number of parameters.
    pub parameters: usize,
    /// The number of tokens of the prompt, read at once.
    pub prompt_tokens: usize,
    /// The time to read the prompt, in milliseconds (the median of three).
    pub prompt_ms: f64,
    /// The rate of reading the prompt in 10⁹ FLOP/s, at 24·L·d² + 4·L·t·d for token t and 2·d·V for the last.
    pub prompt_gflops: f64,
    /// The rate of the fastest matrix product in 10⁹ FLOP/s, over 1024³ and the prompt's shapes.
    pub gemm_gflops: f64,
    /// The number of tokens generated.
    pub tokens: usize,
    /// The median time of a token, in milliseconds.
    pub token_ms: f64,
    /// Tokens per second, by the median token.
    pub tokens_per_second: f64,
    /// The bytes of weights that each token reads, without keys and values.
    pub weight_bytes_per_token: u64,
    /// The rate of reading weights, in 10⁹ bytes per second, by the median token.
    pub weight_gb_per_second: f64,
    /// The bandwidth of memory, in 10⁹ bytes per second: the median of passes between the tokens, in which the same threads, or the
    /// same GPU, only add up numbers.
    pub bandwidth_gb_per_second: f64,
    /// The rate of reading weights as a fraction of the bandwidth; more than 1 if the weights stay in cache.
    pub share_of_bandwidth: f64,
    /// The profile of the middle token, repeated on a GPU; `None` on a CPU.
    pub gpu: Option<Profile>,
}

/// Reads `prompt` random tokens and generates `tokens` more with the cache. All must fit the context.
///
/// # Errors
/// Returns an error if the device has no room for the model, or fails.
pub fn generate(
    gpt: &Transformer<Tensor<f32>>,
    device: &Device,
    prompt: usize,
    tokens: usize,
) -> Result<GenerateReport, DeviceError> {
    let (sizes, config, model) = (gpt.sizes(), gpt.config(), Model::from(gpt.clone()).to(device)?);
    let mut rng = Philox::new(0);
    let mut random = || rng.below(sizes.vocab as u64) as u32;
    let ids: Vec<u32> = (0..prompt).map(|_| random()).collect();
    let mut decoder = Decoder::new(&model);
    let read = |ids: &[u32], tokens: usize| {
        let mut decoder = Decoder::new(&model);
        decoder.read(ids);
        (0..tokens).for_each(|_| drop(decoder.read(&ids[..1])));
        decoder
    };
    if !device.is_cpu() {
        // A warm-up compiles the shaders and selects the fastest kernel for each product.
        read(&ids, tokens);
    }
    let mut prompt_times = [(); 3].map(|()| {
        decoder = Decoder::new(&model);
        seconds(|| drop(decoder.read(&ids)))
    });
    let memory = Passes::on(device);
    let (mut times, mut passes) = (Vec::with_capacity(tokens), Vec::new());
    for at in 0..tokens {
        // A pass empties the caches. This affects one token in eight, which the median ignores.
        if at % 8 == 0 {
            passes.push(memory.bandwidth());
        }
        let id = [random()];
        times.push(seconds(|| drop(decoder.read(&id))));
    }
    drop(memory);
    let gpu = if device.is_cpu() {
        None
    } else {
        let mut decoder = read(&ids, tokens / 2);
        Profile::of(device, || drop(decoder.read(&ids[..1])))?
    };
    let (token_seconds, prompt_seconds) = (median(&mut times), median(&mut prompt_times));
    let bandwidth = median(&mut passes);
    // All weights of the blocks and of the output, and one row of the position table.
    let mut weights = 0;
    let numbers = |p: Param| if p.role == Role::PositionEmbedding { sizes.width } else { p.shape.numel() };
    Transformer::declare(sizes, config).visit(|_, p| weights += numbers(p));
    let weight_bytes_per_token = 4 * weights as u64;
    let rate = weight_bytes_per_token as f64 / token_seconds;
    let (layers, d) = (config.layers, sizes.width);
    let flops = layers * (24 * prompt * d * d + 2 * prompt * (prompt + 1) * d) + 2 * d * config.output_rows(sizes);
    Ok(GenerateReport {
        device: device.to_string(),
        threads: rayon::current_num_threads(),
        parameters: config.parameters(sizes),
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

//! The rate of evaluation, compared with the rate of its forward pass.

use gradus_autograd::Tape;
use gradus_io::numbers::median;
use gradus_model::{Model, Tree};
use gradus_tensor::{DeviceError, Tensor, on_pool};
use gradus_train::answers::evaluate::{SlidingWindow, token_losses};
use serde::Serialize;

use crate::machine::{gemm_gflops, seconds_on};
use crate::workload::{Workload, random_windows};

/// The results of the benchmark of evaluation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EvaluateReport {
    /// The workload's name.
    pub workload: &'static str,
    /// The device.
    pub device: String,
    /// The number of threads.
    pub threads: usize,
    /// The number of tokens predicted in a pass.
    pub tokens: usize,
    /// The number of passes measured, after one warm-up of each kind.
    pub passes: usize,
    /// Tokens per second of evaluation, by the median pass: windows, forward pass, the loss of every token.
    pub tokens_per_second: f64,
    /// Tokens per second of only the forward pass, from tokens to logits.
    pub forward_tokens_per_second: f64,
    /// Tokens per second of only the blocks, from tokens to the last hidden states, without the output matrix.
    pub hidden_tokens_per_second: f64,
    /// [`tokens_per_second`](Self::tokens_per_second) divided by
    /// [`forward_tokens_per_second`](Self::forward_tokens_per_second).
    pub of_forward: f64,
    /// 10⁹ FLOP/s of evaluation at a third of training's FLOPs: 24·L·d² + 2·d·V + 4·L·T·d per token.
    pub gflops: f64,
    /// The rate of the fastest matrix product in 10⁹ FLOP/s, over 1024³ and the workload's shapes.
    pub gemm_gflops: f64,
    /// The mean loss, in nats per token.
    pub loss: f64,
}

/// The minimum number of tokens of a pass: a batch of evaluation.
const TOKENS: usize = 4096;

/// Evaluates random tokens, in turns with forward passes alone over the same tokens. `after(pass)` is called after each pass.
///
/// # Errors
/// Returns an error if the device has no room for the model.
pub fn evaluate(workload: &Workload, passes: usize, mut after: impl FnMut(usize)) -> Result<EvaluateReport, DeviceError> {
    let device = &workload.device;
    let model: Model<Tensor<f32>> = Model::init(&workload.model(), 0).to(device)?;
    let (t, batches) = (workload.sizes.context, TOKENS.div_ceil(workload.tokens()));
    let batches: Vec<_> = (0..batches).map(|i| random_windows(workload.sizes, workload.sequences, i as u64)).collect();
    // A sequence of T + 1 tokens is one window: T inputs, and the targets shifted by one.
    let sequence = |inputs: &[u32], targets: &[u32]| [inputs, &targets[t - 1..]].concat();
    let rows = batches.iter().flat_map(|b| b.input.tokens.chunks(t).zip(b.tokens().flat_map(move |next| next.targets.chunks(t))));
    let sequences: Vec<Vec<u32>> = rows.map(|(inputs, targets)| sequence(inputs, targets)).collect();
    let sequences: Vec<&[u32]> = sequences.iter().map(Vec::as_slice).collect();
    let tokens = sequences.len() * t;
    let mut loss = 0.0;
    let mut evaluation = || {
        let losses = token_losses(&model, &sequences, SlidingWindow::apart(t), &mut |_| {});
        loss = losses.iter().flatten().sum::<f64>() / tokens as f64;
    };
    let forward = |logits: bool| {
        on_pool(|| {
            for batch in &batches {
                let tape = Tape::off();
                let hidden = model.constants(&tape).hidden(&batch.input, None);
                if logits {
                    hidden.logits();
                }
            }
        })
    };
    let mut times = [const { Vec::new() }; 3];
    for pass in 0..=passes {
        // The kinds alternate, so that a machine that slows down slows all three.
        let times_of = [&mut evaluation as &mut dyn FnMut(), &mut || forward(true), &mut || forward(false)];
        let all = times_of.map(|work| seconds_on(device, work));
        if pass > 0 {
            times.iter_mut().zip(all).for_each(|(times, time)| times.push(time));
        }
        after(pass + 1);
    }
    let [evaluated, forward, hidden] = times.map(|mut times| tokens as f64 / median(&mut times));
    Ok(EvaluateReport {
        workload: workload.name,
        device: device.to_string(),
        threads: rayon::current_num_threads(),
        tokens,
        passes,
        tokens_per_second: evaluated,
        forward_tokens_per_second: forward,
        hidden_tokens_per_second: hidden,
        of_forward: evaluated / forward,
        gflops: workload.config.training_flops(workload.sizes) as f64 / 3.0 * evaluated / 1e9,
        gemm_gflops: gemm_gflops(workload),
        loss,
    })
}

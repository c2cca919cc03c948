//! The workloads of `gradus bench train` in candle, f32 on a CPU; one JSON object per run.
//!
//! ```text
//! RAYON_NUM_THREADS=2 gpt1-candle --workload small --dropout 0.1 --steps 5 --warm-up 1
//! ```
//!
//! Under glibc, candle trains up to three times as fast when freed memory is kept:
//! `MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=17179869184` (compare.py sets both).

use std::error::Error;
use std::time::Instant;

use candle_core::{D, DType, Device, Result, Tensor, Var};
use candle_nn::ops::{dropout, layer_norm_slow, softmax};
use candle_nn::{AdamW, Init, Optimizer, ParamsAdamW, VarBuilder, VarMap};

#[derive(Clone, Copy)]
struct Workload {
    name: &'static str,
    layers: usize,
    width: usize,
    heads: usize,
    context: usize,
    sequences: usize,
    vocab: usize,
}

const WORKLOADS: [Workload; 3] = [
    Workload { name: "tiny", layers: 4, width: 128, heads: 4, context: 128, sequences: 16, vocab: 2_000 },
    Workload { name: "small", layers: 6, width: 384, heads: 6, context: 256, sequences: 8, vocab: 8_000 },
    Workload { name: "gpt1", layers: 12, width: 768, heads: 12, context: 512, sequences: 1, vocab: 40_478 },
];

impl Workload {
    fn training_flops(&self) -> usize {
        let Workload { layers, width, context, vocab, .. } = *self;
        72 * layers * width * width + 6 * width * vocab + 12 * layers * context * width
    }
}

/// A linear layer. The weights are (in, out), as in the paper's x·W, so the forward pass needs no transpose.
struct Linear {
    weight: Tensor,
    bias: Tensor,
}

impl Linear {
    fn new(from: usize, to: usize, vars: &VarBuilder<'_>) -> Result<Self> {
        let weight = vars.get_with_hints((from, to), "weight", Init::Randn { mean: 0.0, stdev: 0.02 })?;
        Ok(Linear { weight, bias: vars.get_with_hints(to, "bias", Init::Const(0.0))? })
    }

    /// Computes x·W + b for x (rows, in).
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.matmul(&self.weight)?.broadcast_add(&self.bias)
    }
}

struct Norm {
    weight: Tensor,
    bias: Tensor,
}

impl Norm {
    fn new(width: usize, vars: &VarBuilder<'_>) -> Result<Self> {
        let weight = vars.get_with_hints(width, "weight", Init::Const(1.0))?;
        Ok(Norm { weight, bias: vars.get_with_hints(width, "bias", Init::Const(0.0))? })
    }

    /// Normalises the rows of x by the one of candle's two layer norms that has a derivative.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        layer_norm_slow(x, &self.weight, &self.bias, 1e-5)
    }
}

struct Block {
    c_attn: Linear,
    c_proj: Linear,
    ln_1: Norm,
    fc: Linear,
    proj: Linear,
    ln_2: Norm,
}

struct Gpt {
    workload: Workload,
    p: f32,
    tokens: Tensor,
    positions: Tensor,
    /// The mask (T, T): 0 where a query may attend to a key, −∞ elsewhere.
    mask: Tensor,
    blocks: Vec<Block>,
}

impl Gpt {
    fn new(workload: Workload, p: f32, vars: &VarBuilder<'_>) -> Result<Self> {
        let Workload { layers, width: d, context: t, vocab, .. } = workload;
        let normal = Init::Randn { mean: 0.0, stdev: 0.02 };
        let block = |l: usize| {
            let vars = vars.pp(format!("h{l}"));
            Ok(Block {
                c_attn: Linear::new(d, 3 * d, &vars.pp("c_attn"))?,
                c_proj: Linear::new(d, d, &vars.pp("c_proj"))?,
                ln_1: Norm::new(d, &vars.pp("ln_1"))?,
                fc: Linear::new(d, 4 * d, &vars.pp("fc"))?,
                proj: Linear::new(4 * d, d, &vars.pp("proj"))?,
                ln_2: Norm::new(d, &vars.pp("ln_2"))?,
            })
        };
        let hidden: Vec<f32> = (0..t * t).map(|i| if i % t <= i / t { 0.0 } else { f32::NEG_INFINITY }).collect();
        Ok(Gpt {
            workload,
            p,
            tokens: vars.get_with_hints((vocab, d), "tokens", normal)?,
            positions: vars.get_with_hints((t, d), "positions", normal)?,
            mask: Tensor::from_vec(hidden, (t, t), vars.device())?,
            blocks: (0..layers).map(block).collect::<Result<_>>()?,
        })
    }

    fn drop(&self, x: &Tensor) -> Result<Tensor> {
        if self.p > 0.0 { dropout(x, self.p) } else { Ok(x.clone()) }
    }

    /// Returns the mean of −log P(target) over (B·T) tokens, in nats.
    fn loss(&self, ids: &Tensor, targets: &Tensor) -> Result<Tensor> {
        let Workload { width: d, heads, context: t, sequences: b, .. } = self.workload;
        let x = self.tokens.index_select(ids, 0)?.reshape((b, t, d))?.broadcast_add(&self.positions)?;
        let mut x = self.drop(&x.reshape((b * t, d))?)?;
        for block in &self.blocks {
            let packed = block.c_attn.forward(&x)?.reshape((b, t, 3, heads, d / heads))?.permute((2, 0, 3, 1, 4))?;
            let [q, k, v] = [packed.get(0)?.contiguous()?, packed.get(1)?.contiguous()?, packed.get(2)?.contiguous()?];
            let q = (q * (1.0 / ((d / heads) as f64).sqrt()))?;
            let scores = q.matmul(&k.t()?)?.broadcast_add(&self.mask)?;
            let y = self.drop(&softmax(&scores, D::Minus1)?)?.matmul(&v)?;
            let y = y.transpose(1, 2)?.reshape((b * t, d))?;
            let n = block.ln_1.forward(&(x + self.drop(&block.c_proj.forward(&y)?)?)?)?;
            let m = block.proj.forward(&block.fc.forward(&n)?.gelu()?)?;
            x = block.ln_2.forward(&(n + self.drop(&m)?)?)?;
        }
        candle_nn::loss::cross_entropy(&x.matmul(&self.tokens.t()?)?, targets)
    }
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let (mut workload, mut p, mut steps, mut warm_up) = (WORKLOADS[0], 0.1f32, 5usize, 1usize);
    let mut words = std::env::args().skip(1);
    while let Some(flag) = words.next() {
        let value = words.next().ok_or(format!("{flag}: a value is missing"))?;
        match flag.as_str() {
            "--workload" => {
                let found = WORKLOADS.into_iter().find(|w| w.name == value);
                workload = found.ok_or("--workload: expected tiny, small or gpt1")?;
            }
            "--dropout" => p = value.parse()?,
            "--steps" => steps = value.parse()?,
            "--warm-up" => warm_up = value.parse()?,
            _ => return Err(format!("{flag}: expected --workload, --dropout, --steps or --warm-up").into()),
        }
    }
    let (map, device) = (VarMap::new(), Device::Cpu);
    let model = Gpt::new(workload, p, &VarBuilder::from_varmap(&map, DType::F32, &device))?;
    let adam = |vars: Vec<Var>, weight_decay| AdamW::new(vars, ParamsAdamW { lr: 2.5e-4, weight_decay, ..Default::default() });
    let (decayed, others) = map.all_vars().into_iter().partition(|v: &Var| v.rank() > 1);
    let mut optimizers = [adam(decayed, 0.01)?, adam(others, 0.0)?];
    let tokens = workload.sequences * workload.context;
    let (mut times, mut last) = (Vec::new(), f32::NAN);
    for step in 0..warm_up + steps {
        let random = || Tensor::rand(0f32, workload.vocab as f32, tokens, &device)?.to_dtype(DType::U32);
        let (ids, targets) = (random()?, random()?);
        let begin = Instant::now();
        let loss = model.loss(&ids, &targets)?;
        let mut gradients = loss.backward()?;
        let mut squares = 0.0;
        for var in map.all_vars() {
            squares += gradients.get(&var).map_or(Ok(0.0), |g| g.sqr()?.sum_all()?.to_scalar::<f32>())?;
        }
        let norm = f64::from(squares).sqrt();
        if norm > 1.0 {
            for var in map.all_vars() {
                if let Some(g) = gradients.remove(&var) {
                    gradients.insert(&var, (g / norm)?);
                }
            }
        }
        for optimizer in &mut optimizers {
            optimizer.step(&gradients)?;
        }
        last = loss.to_scalar()?;
        if step >= warm_up {
            times.push(begin.elapsed().as_secs_f64());
        }
    }
    times.sort_by(f64::total_cmp);
    let median = times.get(times.len() / 2).ok_or("--steps: expected at least 1")?;
    let rate = tokens as f64 / median;
    println!(
        "{{\"peer\": \"candle\", \"version\": \"0.11\", \"workload\": \"{}\", \"threads\": {}, \"dropout\": {p}, \"steps\": {steps}, \
         \"tokens_per_step\": {tokens}, \"tokens_per_second\": {rate}, \"step_ms\": {}, \"peak_rss_mb\": {}, \"gflops\": {}, \
         \"final_loss\": {last}}}",
        workload.name,
        candle_core::utils::get_num_threads(),
        1e3 * median,
        peak_rss_mb().map_or("null".into(), |mb| mb.to_string()),
        workload.training_flops() as f64 * rate / 1e9,
    );
    Ok(())
}

/// Returns the peak memory of this process, in 10⁶ bytes: Linux's `VmHWM`.
fn peak_rss_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024.0 / 1e6)
}

//! A GPT in one file: its layers, a check of its gradient, and character-level training.
//!
//! ```text
//! x₀ = W_e[u] + W_p        x ← x + attention(norm(x)), x ← x + mlp(norm(x)) per block        P(next) = softmax(norm(x) W_eᵀ)
//! ```
//!
//! `cargo run --release -p gradus-train --example gpt -- [FILE]`; without FILE, it trains on stories of the micro-world.

use gradus_autograd::check::{self, Function};
use gradus_autograd::{Real, Shape, Tape, Tensor, Var};
use gradus_tensor::rng::Philox;
use gradus_world::World;
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

/// The sizes of a GPT.
#[derive(Clone, Copy, Debug)]
struct Gpt {
    vocab: usize,
    context: usize,
    width: usize,
    layers: usize,
    heads: usize,
}

impl Gpt {
    /// Returns shape, mean and standard deviation of each parameter, in the order in which `logits` takes them.
    fn parameters(&self) -> Vec<(Shape, f64, f64)> {
        let (v, t, d) = (self.vocab, self.context, self.width);
        let norm = || vec![([d].into(), 1.0, 0.0), ([d].into(), 0.0, 0.0)]; // gain, bias
        let linear = |from: usize, to: usize| {
            vec![([from, to].into(), 0.0, (from as f64).powf(-0.5)), ([to].into(), 0.0, 0.0)] // W, b
        };
        let block = || [norm(), linear(d, 3 * d), linear(d, d), norm(), linear(d, 4 * d), linear(4 * d, d)].concat();
        let tables = vec![([v, d].into(), 0.0, (d as f64).powf(-0.5)), ([t, d].into(), 0.0, 0.1)];
        [tables, (0..self.layers).flat_map(|_| block()).collect(), norm()].concat()
    }

    /// Computes the next-character logits (B·T, V) at each position of `ids` (B·T).
    fn logits<'t, T: Real>(&self, params: &[Var<'t, T>], ids: &[u32]) -> Var<'t, T> {
        let (b, t, d) = (ids.len() / self.context, self.context, self.width);
        let mut params = params.iter();
        let mut p = || params.next().expect("a parameter for each shape"); // arguments are evaluated left to right
        let embedding = p();
        let mut x = embedding.gather(ids, [b, t]) + p(); // (B, T, d)
        for _ in 0..self.layers {
            let n = x.layer_norm(p(), p(), 1e-5);
            x = x + self.attention(&n.linear(p(), p())).linear(p(), p());
            let n = x.layer_norm(p(), p(), 1e-5);
            x = x + n.linear(p(), p()).gelu().linear(p(), p());
        }
        x.layer_norm(p(), p(), 1e-5).reshape([b * t, d]).matmul(&embedding.t())
    }

    /// Computes softmax(QKᵀ/√D + mask) V per head: (B, T, 3d) → (B, T, d). Position i attends to j ≤ i.
    fn attention<'t, T: Real>(&self, qkv: &Var<'t, T>) -> Var<'t, T> {
        let (b, t, d, h) = (qkv.shape()[0], self.context, self.width, self.heads);
        let part = |i: usize| qkv.slice(2, i * d..(i + 1) * d).reshape([b, t, h, d / h]).permute(&[0, 2, 1, 3]);
        let (q, k, v) = (part(0), part(1), part(2)); // (B, H, T, D)
        let hidden = (0..t * t).map(|at| T::lit(if at % t > at / t { -1e9 } else { 0.0 }));
        let mask = qkv.constant(qkv.value().constant([t, t], hidden.collect()));
        let scores = q.matmul(&k.t()) * (1.0 / ((d / h) as f64).sqrt()) + mask; // (B, H, T, T)
        scores.softmax().matmul(&v).permute(&[0, 2, 1, 3]).reshape([b, t, d])
    }

    /// Computes the mean of −log P(target) over all slots, in nats.
    fn loss<'t, T: Real>(&self, params: &[Var<'t, T>], ids: &[u32], targets: &[u32]) -> Var<'t, T> {
        self.logits(params, ids).cross_entropy(targets).sum_all() * (1.0 / targets.len() as f64)
    }
}

/// The loss of a GPT on ids and their targets, as a function of the parameters, for the witnesses.
#[derive(Debug)]
struct Loss(Gpt, Vec<u32>, Vec<u32>); // the sizes, the ids, the targets

impl Function for Loss {
    fn call<'t, T: Real>(&self, ins: &[Var<'t, T>]) -> Var<'t, T> {
        self.0.loss(ins, &self.1, &self.2)
    }
}

/// Checks the gradient of the loss of a small GPT with the witnesses that apply to functions.
fn check_gradient(seed: u64) -> Result<(), Box<dyn std::error::Error>> {
    let gpt = Gpt { vocab: 5, context: 3, width: 4, layers: 1, heads: 2 };
    let mut rng = Philox::new(seed);
    let params: Vec<Tensor<f64>> = gpt.parameters().into_iter().map(|(shape, ..)| Tensor::normal(shape, 0.5, &mut rng)).collect();
    let mut draw = || (0..6).map(|_| rng.below(5) as u32).collect();
    let loss = Loss(gpt, draw(), draw());
    for outcome in check::function("gpt", loss, &params, seed) {
        let report = outcome?;
        println!("{:13} {:4} values compared, worst relative error {:.1e}", report.witness, report.compared, report.error());
    }
    Ok(())
}

/// A text as character ids.
struct Text {
    characters: Vec<char>,
    ids: Vec<u32>,
}

impl Text {
    fn new(text: &str) -> Self {
        let mut characters: Vec<char> = text.chars().collect();
        characters.sort_unstable();
        characters.dedup();
        let id = |c| characters.binary_search(&c).expect("a character of the text") as u32;
        Text { ids: text.chars().map(id).collect(), characters }
    }

    /// Computes −Σ P(c) log P(c) over the characters: the loss of a unigram model.
    fn unigram_entropy(&self) -> f64 {
        let share = |id: u32| self.ids.iter().filter(|&&found| found == id).count() as f64 / self.ids.len() as f64;
        (0..self.characters.len() as u32).map(share).map(|p| -p * p.ln()).sum()
    }

    /// Returns `n` random windows, and their targets (shifted by one).
    fn windows(&self, n: usize, context: usize, rng: &mut Philox) -> (Vec<u32>, Vec<u32>) {
        let starts: Vec<usize> = (0..n).map(|_| rng.below((self.ids.len() - context) as u64) as usize).collect();
        let cut = |by: usize| starts.iter().flat_map(|at| &self.ids[at + by..][..context]).copied().collect();
        (cut(0), cut(1))
    }
}

/// Trains with Adam (Kingma & Ba 2015). Returns the parameters and the mean loss of the last tenth of the steps.
fn train(gpt: &Gpt, text: &Text, steps: usize, rng: &mut Philox) -> (Vec<Tensor<f32>>, f64) {
    let draw = |(shape, mean, std): (Shape, f64, f64)| Tensor::<f32>::normal(shape, std, rng).map(|x| x + mean as f32);
    let mut params: Vec<Tensor<f32>> = gpt.parameters().into_iter().map(draw).collect();
    let zeros: Vec<Tensor<f32>> = params.iter().map(|p| p.zeros_like(*p.shape())).collect();
    let (mut m, mut v, mut losses) = (zeros.clone(), zeros, Vec::new());
    for step in 1..=steps {
        let (ids, targets) = text.windows(16, gpt.context, rng);
        let tape = Tape::new();
        let leaves: Vec<Var<'_, f32>> = params.iter().map(|p| tape.leaf(p.clone())).collect();
        let loss = gpt.loss(&leaves, &ids, &targets);
        let mut grads = tape.backward(&loss);
        let lr = 3e-3 * (1.0 - step as f32 / (steps + 1) as f32);
        let bias = |beta: f32| 1.0 - beta.powi(step as i32);
        for (i, leaf) in leaves.iter().enumerate() {
            let g = grads.take(leaf).expect("the loss depends on every parameter").dense();
            m[i] = m[i].zip(&g, |m, g| 0.9 * m + 0.1 * g);
            v[i] = v[i].zip(&g, |v, g| 0.99 * v + 0.01 * g * g);
            let change = m[i].zip(&v[i], |m, v| lr * (m / bias(0.9)) / ((v / bias(0.99)).sqrt() + 1e-8));
            params[i] = params[i].zip(&change, |p, change| p - change);
        }
        losses.push(f64::from(loss.value().item()));
        if step == 1 || step % (steps / 10).max(1) == 0 {
            println!("step {step:4}  loss {:.3} nats per character", losses[step - 1]);
        }
    }
    let last = steps.div_ceil(10);
    (params, losses[steps - last..].iter().sum::<f64>() / last as f64)
}

/// Extends the first window of a text by `n` characters: greedy decoding, each from the last `context` characters.
fn continuation(gpt: &Gpt, params: &[Tensor<f32>], text: &Text, n: usize) -> String {
    let mut ids = text.ids[..gpt.context].to_vec();
    let tape = Tape::off();
    let params: Vec<_> = params.iter().map(|p| tape.constant(p.clone())).collect();
    for _ in 0..n {
        let logits = gpt.logits(&params, &ids[ids.len() - gpt.context..]).into_value().to_vec();
        let last = logits[logits.len() - gpt.vocab..].iter().zip(0..);
        ids.push(last.max_by(|a, b| a.0.total_cmp(b.0)).expect("a character").1);
    }
    ids.iter().map(|&id| text.characters[id as usize]).collect()
}

fn stories(n: usize) -> String {
    World::default().corpus(&mut Xoshiro256PlusPlus::seed_from_u64(1), n).iter().map(|story| story.text.clone() + "\n").collect()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("The gradient of a small GPT, by each witness that applies to functions:");
    check_gradient(1)?;
    let text = Text::new(&std::env::args().nth(1).map_or_else(|| Ok(stories(200)), std::fs::read_to_string)?);
    let gpt = Gpt { vocab: text.characters.len(), context: 32, width: 48, layers: 2, heads: 4 };
    if text.ids.len() <= gpt.context {
        return Err(format!("expected a text of more than {} characters, found {}", gpt.context, text.ids.len()).into());
    }
    let entropy = text.unigram_entropy();
    println!("\n{} characters; their entropy is {entropy:.3} nats", text.ids.len());
    let (params, loss) = train(&gpt, &text, 300, &mut Philox::new(2));
    println!("\n{}\n\nloss {loss:.3}, unigram entropy {entropy:.3}", continuation(&gpt, &params, &text, 200));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loss_falls_below_the_unigram_entropy() -> Result<(), Box<dyn std::error::Error>> {
        check_gradient(3)?;
        let text = Text::new(&stories(20));
        let gpt = Gpt { vocab: text.characters.len(), context: 16, width: 24, layers: 1, heads: 2 };
        let (_, loss) = train(&gpt, &text, 120, &mut Philox::new(2));
        assert!(loss < text.unigram_entropy(), "{loss} {}", text.unigram_entropy());
        Ok(())
    }
}

//! The gradient of a small GPT-1, parameter by parameter, and a test of the whole gradient by one number.
//!
//! ```text
//! d/dε L(θ + εv) at 0 = ⟨∇L(θ), v⟩        for any direction v, here of length 1; on the left by central differences
//! ```
//!
//! `cargo run -p gradus-model --example gradient_of_a_gpt`

use gradus_autograd::{Tape, Tensor};
use gradus_model::check::random_batch;
use gradus_model::{ConfigError, Model, ModelConfig, Objective, Sizes, Tree};
use gradus_tensor::rng::Philox;

fn main() -> Result<(), ConfigError> {
    let config = ModelConfig::gpt(Sizes { vocab: 50, context: 16, width: 24 }, 2, 3);
    config.check()?;
    let params: Model<Tensor<f64>> = Model::init(&config, 1);
    let (sequences, t) = (4, config.sizes.context);
    let mut rng = Philox::new(2);
    let weights = Objective::TokenMean.weights(&vec![1.0; sequences * t], sequences);
    let batch = random_batch(&mut rng, config.sizes.vocab, sequences, weights);

    let tape = Tape::new();
    let model = params.leaves(&tape);
    let loss = model.loss(&batch, None);
    println!("{} parameters, {} nodes on the tape", config.parameters(), tape.len());
    println!(
        "loss {:.6} nats per token; log {} = {:.6}\n",
        loss.value().item(),
        config.sizes.vocab,
        (config.sizes.vocab as f64).ln()
    );

    let mut grads = tape.backward(&loss);
    let gradient = model.as_ref().map(|path, leaf| grads.take(leaf).unwrap_or_else(|| panic!("no gradient reaches {path}")));
    gradient.as_ref().visit(|path, g| {
        println!("{path:<30} {:<10} ‖g‖ = {:.3e}", g.shape().to_string(), g.dot(g).sqrt());
    });

    let v = params.as_ref().map(|_, p| Tensor::<f64>::normal(*p.shape(), 1.0, &mut rng));
    let mut squares: f64 = 0.0;
    v.as_ref().visit(|_, v| squares += v.dot(v));
    let v = v.map(|_, v| v.map(|x| x / squares.sqrt()));
    let mut along = 0.0; // ⟨∇L, v⟩
    gradient.zip(v.clone()).visit(|_, (g, v)| along += g.dot(&v));
    let at = |step: f64| {
        let moved = params.clone().zip(v.clone()).map(|_, (p, v)| p.zip(&v, |p, v| p + step * v));
        moved.constants(&Tape::off()).loss(&batch, None).value().item()
    };
    let h = 1e-4;
    let differences = (at(h) - at(-h)) / (2.0 * h);
    println!("\nalong a random direction: {along:.12e} by the tape");
    println!("                          {differences:.12e} by central differences");
    println!("                          {:.1e} relative difference", (along / differences - 1.0).abs());
    Ok(())
}

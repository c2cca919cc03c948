//! The whole model again, as loops over plain numbers: one sequence, one equation at a time, without tensors or a tape. This
//! detects errors that gradients and properties cannot, such as a difference in place of a sum.

use std::collections::BTreeMap;
use std::f64::consts::PI;

use gradus_autograd::{Tape, Tensor};
use gradus_model::check::{Loss, Reads, Sample, samples, tiny_gpt};
use gradus_model::{
    Activation, Batch, BodyConfig, Embedding, Form, GradientMode, HeadConfig, Input, LossTerm, LstmConfig, Model, ModelConfig,
    NormPlace, Objective, OutputConfig, Positions, Sight, Sizes, TransformerConfig, Tree,
};

type Row = Vec<f64>;

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn plus(a: &[f64], b: &[f64]) -> Row {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

fn softmax(z: &[f64]) -> Row {
    let e: Row = z.iter().map(|z| z.exp()).collect();
    let sum: f64 = e.iter().sum();
    e.iter().map(|e| e / sum).collect()
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn activation(kind: Activation, x: f64) -> f64 {
    match kind {
        Activation::Gelu => 0.5 * x * (1.0 + ((2.0 / PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh()),
        Activation::GeluErf => x * 0.5 * (1.0 + libm::erf(x / 2f64.sqrt())),
        Activation::Relu => x.max(0.0),
    }
}

/// The rows of each parameter, by its name.
struct Parameters(BTreeMap<String, Vec<Row>>);

impl Parameters {
    fn of(model: &Model<Tensor<f64>>) -> Self {
        let mut rows = BTreeMap::new();
        model.as_ref().visit(|name, p| {
            let width = p.shape().last().copied().unwrap_or(1);
            rows.insert(name.to_owned(), p.to_vec().chunks(width).map(<[f64]>::to_vec).collect());
        });
        Parameters(rows)
    }

    fn rows(&self, name: &str) -> &[Row] {
        &self.0[name]
    }

    /// Computes y = x·W + b.
    fn linear(&self, name: &str, x: &[f64]) -> Row {
        let mut y = self.rows(&format!("{name}.bias"))[0].clone();
        for (x, row) in x.iter().zip(self.rows(&format!("{name}.weight"))) {
            y.iter_mut().zip(row).for_each(|(y, w)| *y += x * w);
        }
        y
    }

    fn layer_norm(&self, name: &str, x: &[f64], eps: f64) -> Row {
        let n = x.len() as f64;
        let mean = x.iter().sum::<f64>() / n;
        let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
        let (gain, bias) = (&self.rows(&format!("{name}.weight"))[0], &self.rows(&format!("{name}.bias"))[0]);
        (0..x.len()).map(|i| gain[i] * (x[i] - mean) / (variance + eps).sqrt() + bias[i]).collect()
    }

    /// Computes softmax(QKᵀ/√D) V for each head, over the slots that slot t attends to.
    fn attention(&self, name: &str, x: &[Row], heads: usize, sees: &dyn Fn(usize, usize) -> bool) -> Vec<Row> {
        let (d, width) = (x[0].len(), x[0].len() / heads);
        let qkv: Vec<Row> = x.iter().map(|x| self.linear(&format!("{name}.c_attn"), x)).collect();
        let part = |t: usize, which: usize, head: usize| &qkv[t][which * d + head * width..][..width];
        let mut out = Vec::new();
        for t in 0..x.len() {
            let mut o = Row::new();
            for head in 0..heads {
                let seen: Vec<usize> = (0..x.len()).filter(|&s| sees(t, s)).collect();
                let score = |&s: &usize| dot(part(t, 0, head), part(s, 1, head)) / (width as f64).sqrt();
                let p = softmax(&seen.iter().map(score).collect::<Row>());
                o.extend((0..width).map(|i| seen.iter().zip(&p).map(|(&s, p)| p * part(s, 2, head)[i]).sum::<f64>()));
            }
            out.push(self.linear(&format!("{name}.c_proj"), &o));
        }
        out
    }

    fn gpt(
        &self,
        (sizes, c): (Sizes, &TransformerConfig),
        [ids, positions, segments]: [&[u32]; 3],
        sees: &dyn Fn(usize, usize) -> bool,
    ) -> Vec<Row> {
        let tokens = self.rows("tokens_embed.weight");
        let position = |t: usize| match (c.embedding, c.positions) {
            (Embedding::Joint, _) => tokens[sizes.vocab + t].clone(),
            (_, Positions::Learned) => self.rows("positions_embed.weight")[t].clone(),
            (_, Positions::Sinusoidal) => {
                let angle = |i: usize| t as f64 / 10_000f64.powf((i - i % 2) as f64 / sizes.width as f64);
                (0..sizes.width).map(|i| if i % 2 == 0 { angle(i).sin() } else { angle(i).cos() }).collect()
            }
        };
        let eps = c.layer_norm_epsilon;
        let embedded = |(t, &id): (usize, &u32)| {
            let sum = plus(&tokens[id as usize], &position(positions[t] as usize));
            let sum = if c.segments > 0 { plus(&sum, &self.rows("segments_embed.weight")[segments[t] as usize]) } else { sum };
            if c.embedding_norm { self.layer_norm("ln_embed", &sum, eps) } else { sum }
        };
        let mut h: Vec<Row> = ids.iter().enumerate().map(embedded).collect();
        for l in 0..c.layers {
            let norm = |which: &str, x: &Row| self.layer_norm(&format!("h.{l}.{which}"), x, eps);
            let attn = |x: &[Row]| self.attention(&format!("h.{l}.attn"), x, c.heads, sees);
            let mlp = |x: &Row| {
                let u = self.linear(&format!("h.{l}.mlp.c_fc"), x).into_iter().map(|x| activation(c.activation, x));
                self.linear(&format!("h.{l}.mlp.c_proj"), &u.collect::<Row>())
            };
            let each = |x: &[Row], f: &dyn Fn(&Row) -> Row| x.iter().map(f).collect::<Vec<Row>>();
            let add = |x: &[Row], y: &[Row]| x.iter().zip(y).map(|(x, y)| plus(x, y)).collect::<Vec<Row>>();
            h = match c.norm {
                NormPlace::After => {
                    let n = each(&add(&h, &attn(&h)), &|x| norm("ln_1", x));
                    each(&add(&n, &each(&n, &mlp)), &|x| norm("ln_2", x))
                }
                NormPlace::Before => {
                    let n = add(&h, &attn(&each(&h, &|x| norm("ln_1", x))));
                    add(&n, &each(&n, &|x| mlp(&norm("ln_2", x))))
                }
            };
        }
        if c.final_norm { h.iter().map(|h| self.layer_norm("ln_f", h, eps)).collect() } else { h }
    }

    fn lstm(&self, c: &LstmConfig, ids: &[u32]) -> Vec<Row> {
        let n = c.units;
        let (mut h, mut cell) = (vec![0.0; n], vec![0.0; n]);
        let mut states = Vec::new();
        for &id in ids {
            let x = &self.rows("tokens_embed.weight")[id as usize];
            let mut z = self.rows("cell.bias")[0].clone();
            for (x, row) in x.iter().zip(self.rows("cell.weight_ih")).chain(h.iter().zip(self.rows("cell.weight_hh"))) {
                z.iter_mut().zip(row).for_each(|(z, w)| *z += x * w);
            }
            for j in 0..n {
                cell[j] = sigmoid(z[n + j]) * cell[j] + sigmoid(z[j]) * z[2 * n + j].tanh();
                h[j] = sigmoid(z[3 * n + j]) * cell[j].tanh();
            }
            states.push(self.linear("c_proj", &h));
        }
        states
    }

    /// Computes the last hidden states of sequence b.
    fn hidden(&self, config: &ModelConfig, input: &Input, b: usize) -> Vec<Row> {
        let row = |all: &[u32]| all.chunks(input.length()).nth(b).unwrap().to_vec();
        let sees = |i: usize, j: usize| {
            let is_key = j < input.length() - input.query_only;
            is_key
                && match &input.sight {
                    Sight::Causal => j <= i,
                    Sight::Full(lengths) => lengths.as_ref().is_none_or(|lengths| j < lengths[b]),
                    Sight::Prefix(lengths) => j <= i || j < lengths[b],
                    Sight::Allowed(mask) => mask[(b * input.length() + i) * input.length() + j],
                }
        };
        let in_order: Vec<u32> = (0..input.tokens.len() as u32).map(|i| i % input.length() as u32).collect();
        let first = vec![0; input.tokens.len()];
        match &config.body {
            BodyConfig::Transformer(c) => {
                let positions = row(input.positions.as_deref().unwrap_or(&in_order));
                let segments = row(input.segments.as_deref().unwrap_or(&first));
                self.gpt((config.sizes, c), [&row(&input.tokens), &positions, &segments], &sees)
            }
            BodyConfig::Lstm(c) => self.lstm(c, &row(&input.tokens)),
        }
    }

    /// Computes the logits of an output whose parameters' names begin with `name`.
    fn logits(&self, name: &str, output: &OutputConfig, h: &[f64]) -> Row {
        let matrix = if output.tied { "tokens_embed.weight".to_owned() } else { format!("{name}lm_head.weight") };
        let z = |h: &[f64]| -> Row { self.rows(&matrix).iter().map(|row| dot(h, row)).collect() };
        let Some(transform) = output.transform else { return z(h) };
        let dense = self.linear(&format!("{name}transform.dense"), h);
        let u: Row = dense.into_iter().map(|x| activation(transform.activation, x)).collect();
        let h = self.layer_norm(&format!("{name}transform.ln"), &u, transform.layer_norm_epsilon);
        plus(&z(&h), &self.rows(&format!("{name}transform.bias"))[0])
    }

    /// Computes the logits of one example, from the states at the extract tokens of its sequences.
    fn class_logits(&self, name: &str, head: &HeadConfig, r: &[Row]) -> Row {
        let z = |r: &[f64]| -> Row {
            let pooled: Row = if head.pooler {
                self.linear(&format!("{name}.pooler"), r).into_iter().map(f64::tanh).collect()
            } else {
                r.into()
            };
            let r = &pooled;
            let z = self.rows(&format!("{name}.weight")).iter().map(|w| dot(w, r)).collect::<Row>();
            if head.bias { plus(&z, &self.rows(&format!("{name}.bias"))[0]) } else { z }
        };
        match head.form {
            Form::Classify => z(&r[0]),
            Form::Similar => z(&plus(&r[0], &r[1])),
            Form::Choose => r.iter().map(|r| z(r)[0]).collect(),
        }
    }
}

fn all() -> Vec<Loss> {
    let gpt = |activation| {
        Sample::new("another activation", tiny_gpt().with_transformer(|c| c.activation = activation), Objective::TokenMean)
    };
    let [sinusoidal, joint] = [
        tiny_gpt().with_transformer(|c| c.positions = Positions::Sinusoidal),
        tiny_gpt().with_transformer(|c| c.embedding = Embedding::Joint),
    ];
    let more = [
        gpt(Activation::GeluErf),
        gpt(Activation::Relu),
        Sample::new("sinusoidal, query-only slots", sinusoidal, Objective::TokenMean).read(Reads::Queried),
        Sample::new("joint embedding, prefix", joint, Objective::TokenMean).read(Reads::Prefix),
    ];
    samples().into_iter().chain(more).map(|sample| Loss { dropout: None, ..sample.loss(7) }).collect()
}

/// Compares numbers up to rounding: sums of some thousand products in another order, each off by at most 1.1e-16 of itself.
fn near(found: &[f64], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let largest = expected.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
    for (i, (f, e)) in found.iter().zip(expected).enumerate() {
        assert!((f - e).abs() <= 1e-12 * largest, "{what}: element {i} is {f}, by loops {e}");
    }
}

#[test]
fn model_values_equal_those_of_plain_loops() {
    for Loss { model, batch, .. } in all() {
        let config = model.config();
        let (what, t) = (format!("{config:?}"), batch.input.length());
        let loops = Parameters::of(&model);
        let states: Vec<Vec<Row>> = (0..batch.input.sequences).map(|b| loops.hidden(&config, &batch.input, b)).collect();
        let of_output = |(output, name): (&OutputConfig, &str)| -> Vec<Row> {
            states.iter().flatten().map(|h| loops.logits(name, output, h)).collect()
        };
        let outputs: Vec<Vec<Row>> = config.outputs.iter().zip(["", "output_1."]).map(of_output).collect();
        let logits = &outputs[0];

        let tape = Tape::off();
        let found = model.constants(&tape).logits(&batch.input).into_value();
        assert_eq!(found.shape()[..], [batch.input.sequences, t, logits[0].len()]);
        near(&found.to_vec(), &logits.concat(), &what);

        let mut loss = 0.0;
        for tokens in batch.tokens() {
            let every: Vec<u32> = (0..batch.input.tokens.len() as u32).collect();
            let slots = tokens.slots.as_deref().unwrap_or(&every).iter();
            let predicted = slots.map(|&slot| &outputs[tokens.output][slot as usize]);
            let losses: Row = predicted.zip(&*tokens.targets).map(|(z, &u)| -softmax(z)[u as usize].ln()).collect();
            let one = Batch { losses: vec![LossTerm::Tokens(tokens.clone())], ..batch.clone() };
            near(&model.token_losses(&one).to_vec(), &losses, &what);
            loss += dot(&losses, &tokens.weights);
        }
        for ((head, classes), name) in config.heads.iter().zip(batch.classes()).zip(["score", "score_1"]) {
            let ends: Vec<Row> = classes.slots.iter().map(|&slot| states[slot as usize / t][slot as usize % t].clone()).collect();
            let z: Vec<Row> = ends.chunks(classes.group).map(|r| loops.class_logits(name, head, r)).collect();
            let one = Batch::of(batch.input.clone()).with_classes(classes.clone());
            near(&model.class_logits(&one).to_vec(), &z.concat(), &what);
            for ((z, y), w) in z.iter().zip(classes.targets.chunks(z[0].len())).zip(&*classes.weights) {
                loss -= w * dot(y, &softmax(z).iter().map(|p| p.ln()).collect::<Row>());
            }
        }
        let modes = [GradientMode::Whole, GradientMode::Recompute, GradientMode::Head];
        for mode in &modes[..if config.heads.is_empty() { 2 } else { 3 }] {
            near(&[model.gradient(&batch, None, *mode).0.item()], &[loss], &what);
        }
        near(&[model.constants(&tape).loss(&batch, None).value().item()], &[loss], &what);
    }
}

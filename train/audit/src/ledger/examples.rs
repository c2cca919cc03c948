//! The paper's equations, evaluated on numbers small enough to check by hand.

use gradus_autograd::ops::Attention;
use gradus_autograd::{Tape, Tensor, Var};
use gradus_tensor::Mask;
use gradus_train::optim::{Optimizer, OptimizerKind, Schedule, ScheduleKind, StepFactors, Warmup};
use gradus_train::tasks;

/// A worked example of an equation.
#[derive(Clone, Debug)]
pub struct Example {
    /// The example's title.
    pub title: &'static str,
    /// The inputs and the computation.
    pub text: &'static str,
    /// The beginnings of the ledger's statements that the example illustrates.
    pub rows: &'static [&'static str],
    /// Each value: its formula, the number computed by this project, and the number computed by hand.
    pub values: Vec<(&'static str, f64, f64)>,
}

impl Example {
    /// Returns a line per value.
    pub fn lines(&self) -> Vec<String> {
        // A combining bar has no width.
        let width = |what: &str| what.chars().filter(|&c| c != '\u{304}').count();
        let widest = self.values.iter().map(|(what, ..)| width(what)).max().unwrap_or(0);
        let line = |(what, found, _): &(&str, f64, f64)| format!("{what}{} = {found:+.12}", " ".repeat(widest - width(what)));
        self.values.iter().map(line).collect()
    }
}

/// Returns all examples, in the order of the paper.
pub fn all() -> Vec<Example> {
    vec![
        equations_1_and_2(),
        attention(),
        layer_norm(),
        gelu(),
        equation_3(),
        multiple_choice(),
        equation_5(),
        adam(),
        schedule(),
    ]
}

/// Returns a matrix of these rows.
fn matrix<const R: usize, const C: usize>(rows: [[f64; C]; R]) -> Tensor<f64> {
    Tensor::new([R, C], rows.concat())
}

fn equations_1_and_2() -> Example {
    let tape = Tape::new();
    let (h, w) = (tape.leaf(matrix([[1.0, 2.0]])), tape.leaf(matrix([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])));
    let loss = h.linear_cross_entropy(&w, None, [2].into(), [1.0].into());
    let value = loss.value().item();
    let g = tape.backward(&loss);
    let (gh, gw) = (g.of(&h).expect("h is used").to_vec(), g.of(&w).expect("so is W").to_vec());
    let e = [1.0f64, 2.0, 3.0].map(f64::exp);
    let sum: f64 = e.iter().sum();
    let p = e.map(|e| e / sum);
    Example {
        title: "Equations 1 and 2",
        text: "Three tokens with Wₑ = (1, 0), (0, 1), (1, 1); the last hidden state is h = (1, 2). The logits h·Wₑᵀ are (1, 2, \
            3), and the target is the third token. z̄ = softmax(z) − (0, 0, 1), so h̄ = z̄ Wₑ and the rows of W̄ₑ are z̄ᵢ h.",
        rows: &["L₁(U) =", "P(u) = softmax"],
        values: vec![
            ("−log P = log(e + e² + e³) − 3", value, sum.ln() - 3.0),
            ("h̄₁ = P₁ + P₃ − 1", gh[0], p[0] + p[2] - 1.0),
            ("h̄₂ = P₂ + P₃ − 1", gh[1], p[1] + p[2] - 1.0),
            ("W̄ₑ, row 3, first = (P₃ − 1)·1", gw[4], p[2] - 1.0),
            ("W̄ₑ, row 3, second = (P₃ − 1)·2", gw[5], 2.0 * (p[2] - 1.0)),
        ],
    }
}

fn attention() -> Example {
    let tape = Tape::off();
    let column = |values: [f64; 2]| tape.constant(Tensor::new([1, 1, 2, 1], values.to_vec()));
    let (q, k, v) = (column([1.0, 2.0]), column([0.0, 3f64.ln()]), column([10.0, 20.0]));
    let o = q.attention(&k, &v, None, Attention::new(Mask::Causal)).into_value().to_vec();
    Example {
        title: "Masked self-attention",
        text: "Two tokens, one head of width 1: q = (1, 2), k = (0, ln 3), v = (10, 20). The first token attends only to itself. \
            The second has the scores 2·(0, ln 3), so the weights 1/10 and 9/10.",
        rows: &["Multi-headed self-attention", "The mask: OpenAI"],
        values: vec![("o₁ = 10", o[0], 10.0), ("o₂ = (1·10 + 9·20)/10", o[1], 19.0)],
    }
}

fn layer_norm() -> Example {
    let tape = Tape::off();
    let row = |values: [f64; 2]| tape.constant(Tensor::new([2], values.to_vec()));
    let y = row([1.0, 3.0]).layer_norm(&row([2.0, 2.0]), &row([0.0, 1.0]), 1e-5).into_value().to_vec();
    let r = (1.0f64 + 1e-5).sqrt();
    Example {
        title: "Layer norm",
        text: "x = (1, 3): mean 2, biased variance 1, ε = 1e-5 inside the root; gain (2, 2), bias (0, 1).",
        rows: &["Layer norm throughout", "Layer norm's ε"],
        values: vec![("y₁ = −2/√(1 + ε)", y[0], -2.0 / r), ("y₂ = 2/√(1 + ε) + 1", y[1], 2.0 / r + 1.0)],
    }
}

fn gelu() -> Example {
    let tape = Tape::off();
    let y = tape.constant(Tensor::scalar(1.0)).gelu().into_value().item();
    let u = (2.0 / std::f64::consts::PI).sqrt() * 1.044715;
    Example {
        title: "GELU",
        text: "Its tanh form at 1.",
        rows: &["The Gaussian error linear unit"],
        values: vec![("½(1 + tanh(√(2/π)·1.044715))", y, 0.5 * (1.0 + u.tanh()))],
    }
}

fn equation_3() -> Example {
    let p = tasks::probabilities(&[2.5, -1.0]);
    let first = 1.0 / (1.0 + (-3.5f64).exp());
    Example {
        title: "Equation 3",
        text: "Two classes with the logits 2.5 and −1.0.",
        rows: &["P(y | x¹"],
        values: vec![("P₁ = 1/(1 + e^−3.5)", p[0], first), ("P₂ = 1 − P₁", p[1], 1.0 - first)],
    }
}

fn multiple_choice() -> Example {
    let p = tasks::probabilities(&[3f64.ln(), 0.0, 0.0, 0.0]);
    Example {
        title: "Multiple choice",
        text: "Four answers, one scalar each: ln 3, 0, 0, 0. The softmax runs over the answers.",
        rows: &["Multiple choice: [z; q"],
        values: vec![("P₁ = 3/(3 + 1 + 1 + 1)", p[0], 0.5), ("P₂ = 1/6", p[1], 1.0 / 6.0)],
    }
}

fn equation_5() -> Example {
    let tape = Tape::<f64>::off();
    let row = |values: &[f64]| tape.constant(Tensor::new([1, values.len()], values.to_vec()));
    let loss = |z: Var<'_, f64>, target: u32| z.cross_entropy([target]).into_value().to_vec()[0];
    let (l2, l1) = (loss(row(&[2.5, -1.0]), 0), loss(row(&[1.0, 2.0, 3.0]), 2));
    let by_hand = (1.0 + (-3.5f64).exp()).ln() + 0.5 * ((1f64.exp() + 2f64.exp() + 3f64.exp()).ln() - 3.0);
    Example {
        title: "Equation 5",
        text: "The classifier of equation 3, its first class right, and the language model of equation 1, with λ = ½. \
            (Both negative: what is minimised.)",
        rows: &["L₃(C) ="],
        values: vec![("−L₃ = log(1 + e^−3.5) + ½(log(e + e² + e³) − 3)", l2 + 0.5 * l1, by_hand)],
    }
}

fn adam() -> Example {
    let optimizer = Optimizer { name: OptimizerKind::OpenAi, lr: 0.1, beta1: 0.9, beta2: 0.999, eps: 1e-8, decay: 0.01 };
    let (mut p, mut m, mut v) = (Tensor::scalar(2.0), Tensor::scalar(0.0), Tensor::scalar(0.0));
    let (at, clip, g) = (StepFactors { t: 1, schedule: 1.0 }, Tensor::scalar(1.0), Tensor::scalar(0.5));
    optimizer.update(at, &clip, true, &mut p, Some((&mut m, &mut v)), &g);
    let root = (0.001f64 * 0.25).sqrt();
    let step = 0.1 * (1.0f64 - 0.999).sqrt() / (1.0 - 0.9);
    Example {
        title: "Adam, as OpenAI's code has it",
        text: "The first step of p = 2 with g = 0.5, rate 0.1, β = (0.9, 0.999), ε = 1e-8, w = 0.01: m = 0.05, v = 0.00025, and \
         p − lr·√(1 − β₂)/(1 − β₁)·(m/(√v + ε) + w·p).",
        rows: &["A modified L2", "The paper cites [37]"],
        values: vec![
            ("p", p.item(), 2.0 - step * (0.05 / (root + 1e-8) + 0.02)),
            ("m = 0.1·0.5", m.item(), 0.05),
            ("v = 0.001·0.25", v.item(), 0.00025),
        ],
    }
}

fn schedule() -> Example {
    let paper = Schedule { kind: ScheduleKind::Paper, warmup: Warmup::Steps(2000) };
    let at = |t: u64| 2.5e-4 * paper.factor(t, 10_001);
    let cosine = 0.5 * (1.0 + (std::f64::consts::PI * (6000.0 / 10_001.0 - 2000.0 / 10_001.0) / (1.0 - 2000.0 / 10_001.0)).cos());
    Example {
        title: "The rate",
        text: "2.5e-4 at most, 2,000 steps of warm-up, 10,001 steps in all; step t takes x = (t − 1)/T.",
        rows: &["Adam, largest rate", "OpenAI's schedules take"],
        values: vec![
            ("step 1", at(1), 0.0),
            ("step 1001 = half of it", at(1001), 1.25e-4),
            ("step 2001 = all of it", at(2001), 2.5e-4),
            ("step 6001 = ½(1 + cos π(x − w)/(1 − w)) of it", at(6001), 2.5e-4 * cosine),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_equals_its_calculation_by_hand() {
        for example in all() {
            for (what, found, by_hand) in &example.values {
                let near = (found - by_hand).abs() <= 1e-13 * by_hand.abs().max(1.0);
                assert!(near, "{}, {what}: {found}, {by_hand}", example.title);
            }
        }
    }
}

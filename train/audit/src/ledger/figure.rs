//! Figure 1 of the paper, part by part, each with the rows of the ledger that tell where it is done and what pins it.

use std::ops::Range;

/// A part of the figure.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// What the figure calls it.
    pub name: &'static str,
    /// What it computes.
    pub text: &'static str,
    /// How the statements of its rows begin.
    pub rows: &'static [&'static str],
}

/// The figure's left side, from the tokens up.
pub const MODEL: [Part; 7] = [
    Part {
        name: "Text and position embed", text: "h₀ = U Wₑ + W_p", rows: &["h₀ = U Wₑ + W_p.", "Learned position embeddings"]
    },
    Part {
        name: "Masked multi self-attention",
        text: "a = softmax(QKᵀ/√D, causal) V",
        rows: &["Multi-headed self-attention", "The mask: OpenAI"],
    },
    Part {
        name: "+, layer norm",
        text: "n = LN(hₗ₋₁ + a)",
        rows: &["A multi-layer Transformer decoder", "Layer norm throughout", "Layer norm's ε"],
    },
    Part {
        name: "Feed forward",
        text: "m = GELU(n W₁ + b₁) W₂ + b₂",
        rows: &["The Gaussian error linear unit", "12 layers, 768"],
    },
    Part {
        name: "+, layer norm",
        text: "hₗ = LN(n + m)",
        rows: &["hₗ = transformer_block", "Layer norm throughout", "Layer norm's ε"],
    },
    Part { name: "Text prediction", text: "P(u) = softmax(hₙ Wₑᵀ)", rows: &["P(u) = softmax", "L₁(U) ="] },
    Part {
        name: "Task classifier", text: "P(y | x¹ … xᵐ) = softmax(hₙᵐ W_y)", rows: &["P(y | x¹", "L₂(C) =", "L₃(C) ="]
    },
];

/// Those that stand n times one above the other.
pub const BLOCK: Range<usize> = 1..5;

/// Its right side: what each kind of task becomes.
pub const TASKS: [Part; 4] = [
    Part {
        name: "Classification",
        text: "[start; text; extract] → linear",
        rows: &["Classification: [start", "All transformations include"],
    },
    Part {
        name: "Entailment",
        text: "[start; premise; delimiter; hypothesis; extract] → linear",
        rows: &["Classification: [start", "W_y and the embeddings"],
    },
    Part {
        name: "Similarity",
        text: "[start; text 1; delimiter; text 2; extract] and the other order, their states added → linear",
        rows: &["Similarity: both orders"],
    },
    Part {
        name: "Multiple choice",
        text: "[start; context; delimiter; answer k; extract] → linear, softmax over k",
        rows: &["Multiple choice: [z; q"],
    },
];

#[cfg(test)]
mod tests {
    use super::super::ROWS;
    use super::*;

    #[test]
    fn every_part_leads_to_one_row_each() {
        for part in MODEL.iter().chain(&TASKS) {
            assert!(!part.rows.is_empty(), "{}", part.name);
            for begins in part.rows {
                let found = ROWS.iter().filter(|row| row.statement.starts_with(begins)).count();
                assert_eq!(found, 1, "{}: {begins}", part.name);
            }
        }
    }
}

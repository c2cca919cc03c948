//! GPT-2 (Radford et al. 2019).

use gradus_model::{NormPlace, TransformerConfig};

use super::{Axes, Card, Comparison, Density, Figure, Settled, transformer};

/// GPT-2.
pub const CARD: Card = Card {
    name: "gpt2",
    title: "GPT-2",
    year: 2019,
    equation: "L₁(U) = Σᵢ log P(uᵢ | u₁ … uᵢ₋₁), to be maximised;  x ← x + f(LN(x)),  P(u) = softmax(LN(hₙ) Wₑᵀ);  f: attention or feed-forward network",
    sources: &[
        "Radford, Wu, Child, Luan, Amodei, Sutskever 2019: “Language Models are Unsupervised Multitask Learners”, §2.3",
        "openai/gpt-2 (model.py)",
    ],
    settled: &[
        Settled {
            what: "which initial weights are scaled",
            here: "the output projections of the residual branches, by 1/√(2L), L: the number of blocks",
            by: "transformers",
        },
        Settled { what: "the form of GELU", here: "tanh", by: "OpenAI's code" },
        Settled { what: "ε of layer norm", here: "1e-5", by: "OpenAI's code" },
        Settled {
            what: "the initial positions",
            here: "from the same normal distribution as the tokens",
            by: "transformers (OpenAI's code: half its std)",
        },
        Settled { what: "the context", here: "as configured", by: "us (the paper: 1,024 tokens)" },
    ],
    axes: Axes {
        body: transformer(TransformerConfig {
            norm: NormPlace::Before,
            final_norm: true,
            scaled_init: true,
            ..TransformerConfig::GPT1
        }),
        ..Axes::GPT
    },
    sight: &[('a', "······"), ('b', "a·····"), ('c', "ab····"), ('d', "abc···"), ('e', "abcd··"), ('f', "abcde·")],
    density: Density::Joint,
    relatives: &["gpt"],
    model_type: "gpt2",
    stories: None,
    claims: &["A language model with enough capacity learns tasks from text alone, without being trained for them (§1)."],
    compared: &[Comparison {
        name: "pre-norm",
        statement: "GPT-2 predicts the next word better than GPT-1 (G)",
        sentence: None,
        figure: Figure::Generation,
        other_figure: Figure::Generation,
        other: "gpt",
        primary: false,
    }],
};

//! An additional system, which needs only a card. `cargo run --release -p gradus-train --example system_of_my_own`
//!
//! BERT's view of single texts with GPT-2's order of norms, as in later encoders. `tests/tests/systems.rs` tests it against its
//! card like every other system. To keep it, move the card to a file of `train/src/systems`, and name it twice in `mod.rs` there.

use gradus_model::{NormPlace, TransformerConfig};
use gradus_train::systems::{Axes, Card, Density, Settled, named, transformer};
use gradus_train::views::{Corrupt, ViewPlan};

/// A BERT of single texts with norms before each branch.
pub const CARD: Card = Card {
    name: "pre-bert",
    title: "Pre-norm BERT",
    year: 2020,
    equation: "L = −1/|M| Σ_{i∈M} log P(xᵢ | x̃);  x ← x + f(LN(x)),  P = softmax(LN(gelu(h W + b)) Wₑᵀ + b′)",
    sources: &["Xiong et al. 2020: “On Layer Normalization in the Transformer Architecture”"],
    settled: &[Settled { what: "the norm of the embeddings", here: "none: each branch norms what it reads", by: "us" }],
    axes: Axes {
        body: transformer(TransformerConfig {
            layer_norm_epsilon: 1e-12,
            norm: NormPlace::Before,
            final_norm: true,
            scaled_init: true,
            ..TransformerConfig::GPT1
        }),
        transform: true,
        view: ViewPlan::Masked(Corrupt::BERT),
    },
    sight: &[('a', "·bcdef"), ('b', "a·cdef"), ('c', "ab·def"), ('d', "abc·ef"), ('e', "abcd·f"), ('f', "abcde·")],
    density: Density::Pseudo,
    relatives: &["gpt2"],
    model_type: "gradus-gpt",
    stories: None,
    claims: &["With norms before each branch no warm-up is needed."],
    compared: &[],
};

#[allow(dead_code, reason = "the tests read the card alone")]
fn main() {
    println!("{} ({})\n{}\n", CARD.title, CARD.year, CARD.picture());
    let bert = named("bert").expect("a system of the house");
    for (flag, own, its) in CARD.against(bert) {
        println!("--{flag:<16} {own:<16} {}'s: {its}", bert.title);
    }
    let flags: Vec<String> = CARD.axes.flags().iter().map(|(flag, value)| format!("--{flag} {value}")).collect();
    println!("\ngradus pretrain {}", flags.join(" "));
}

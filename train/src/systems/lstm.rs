//! The LSTM of GPT-1's ablation (Radford et al. 2018, §5).

use gradus_model::{BodyConfig, LstmConfig};

use super::{Axes, Card, Density, Settled, SystemBody};

/// The LSTM.
pub const CARD: Card = Card {
    name: "lstm",
    title: "LSTM",
    year: 2018,
    equation: "L₁(U) = Σᵢ log P(uᵢ | u₁ … uᵢ₋₁), to be maximised;  hᵢ, cᵢ = LSTM(uᵢ₋₁, hᵢ₋₁, cᵢ₋₁)",
    sources: &[
        "Radford, Narasimhan, Salimans, Sutskever 2018, §5 (ablation studies)",
        "Hochreiter, Schmidhuber 1997: “Long Short-Term Memory”; with the forget gate of Gers, Schmidhuber, Cummins 2000",
    ],
    settled: &[
        Settled { what: "the layers", here: "one, of 2,048 units", by: "the paper's §5: “a single layer 2048 unit LSTM”" },
        Settled { what: "the initial bias of the forget gate", here: "1", by: "us (Jozefowicz, Zaremba, Sutskever 2015)" },
        Settled { what: "projection before the tied output", here: "a linear layer to the embedding's width, tied", by: "us" },
    ],
    axes: Axes { body: SystemBody::Network(BodyConfig::Lstm(LstmConfig::PAPER)), ..Axes::GPT },
    sight: &[('a', "······"), ('b', "a·····"), ('c', "ab····"), ('d', "abc···"), ('e', "abcd··"), ('f', "abcde·")],
    density: Density::Joint,
    relatives: &[],
    model_type: "gradus-lstm",
    stories: None,
    claims: &["It scores 5.6 points less than the Transformer on average over the tasks (§5)."],
    compared: &[],
};

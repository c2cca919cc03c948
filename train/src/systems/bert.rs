//! BERT (Devlin et al. 2018).

use gradus_model::{Activation, Asks, Parts};

use super::{Axes, Card, Density, Settled};
use crate::views::{Keyed, MaskPlan, ViewPlan};

/// BERT.
pub const CARD: Card = Card {
    name: "bert",
    title: "BERT",
    year: 2018,
    equation: "L = −1/|M| Σ_{i∈M} log P(xᵢ | x̃) − log P(next | x̃);  P = softmax(LN(gelu(h W + b)) Wₑᵀ + b′)",
    sources: &[
        "Devlin, Chang, Lee, Toutanova 2018: “BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding”, §3, A.1, A.2",
        "google-research/bert (modeling.py, create_pretraining_data.py)",
    ],
    settled: &[
        Settled { what: "the form of GELU", here: "tanh", by: "Google's code (transformers: erf)" },
        Settled { what: "ε of layer norm", here: "1e-12", by: "Google's code" },
        Settled { what: "how often a text's mask changes", here: "ten masks of each", by: "Google's code (dupe_factor)" },
        Settled { what: "where norms stand", here: "after each branch, and after the embeddings", by: "Google's code" },
        Settled { what: "short rows", here: "none on purpose", by: "us (the code makes one pair in ten short)" },
    ],
    axes: Axes {
        activation: Activation::Gelu,
        epsilon: 1e-12,
        parts: Parts { asks: Asks::Masked, segments: 2, embedding_norm: true, transform: true, ..Parts::NONE },
        view: ViewPlan::Masked(MaskPlan { masks: Keyed::Copies, pairs: true, ..MaskPlan::PLAIN }),
        ..Axes::GPT
    },
    sight: &[('a', "·bcdef"), ('d', "abc·ef"), ('f', "abcde·")],
    density: Density::Pseudo,
    identities: &["without pairs, with one segment and a new mask each time it is roberta"],
    model_type: "bert",
    claims: &[
        "Reading in both directions at once is worth more than left to right, or than the two side by side (§1, §5.1).",
        "Asking whether a sentence follows helps tasks on pairs of sentences (§5.1).",
    ],
};

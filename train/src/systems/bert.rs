//! BERT (Devlin et al. 2018).

use gradus_model::{Activation, Asks, Parts};

use super::{Axes, Card, Comparison, Density, Figure, Sentence, Settled};
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
    compared: &[
        BOTH_SIDES,
        Comparison {
            name: "left-only",
            statement: "BERT, which is given all words, is nearer to exact than GPT-1 from the words before (U)",
            other_figure: Figure::UnderstandingLeftOnly,
            primary: false,
            ..BOTH_SIDES
        },
        Comparison {
            name: "both-sides-far",
            statement: "BERT understands words better than GPT-1 that were last said 20 words ago or more (U)",
            figure: Figure::UnderstandingFar,
            other_figure: Figure::UnderstandingFar,
            primary: false,
            ..BOTH_SIDES
        },
    ],
};

const BOTH_SIDES: Comparison = Comparison {
    name: "both-sides",
    statement: "BERT understands better than GPT-1 by Bayes (U)",
    sentence: Some(Sentence {
        section: "BERT, §1",
        text: "The major limitation is that standard language models are unidirectional, and this limits the choice of architectures that \
               can be used during pre-training",
    }),
    figure: Figure::Understanding,
    other_figure: Figure::Understanding,
    other: "gpt",
    primary: true,
};

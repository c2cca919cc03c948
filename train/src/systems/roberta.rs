//! RoBERTa (Liu et al. 2019).

use gradus_model::{Activation, TransformerConfig};

use super::{Axes, Card, Density, Settled, transformer};
use crate::views::{Corrupt, ViewPlan};

/// RoBERTa.
pub const CARD: Card = Card {
    name: "roberta",
    title: "RoBERTa",
    year: 2019,
    equation: "L = −1/|M| Σ_{i∈M} log P(xᵢ | x̃),  M: target tokens, resampled each time",
    sources: &[
        "Liu et al. 2019: “RoBERTa: A Robustly Optimized BERT Pretraining Approach”, §4",
        "facebookresearch/fairseq (roberta)",
    ],
    settled: &[
        Settled { what: "the form of GELU", here: "erf", by: "fairseq" },
        Settled { what: "ε of layer norm", here: "1e-5", by: "fairseq, and the published checkpoints" },
        Settled { what: "segments", here: "one, a vector added to every slot", by: "transformers" },
        Settled {
            what: "a token whose id is 1",
            here: "a word like any other",
            by: "us (transformers treats it as padding and counts no position for it: pass position_ids, from 2 on)",
        },
        Settled {
            what: "number of target tokens",
            here: "15 % of the text's, rounded, at least one",
            by: "Google's code of BERT (fairseq rounds up or down at random)",
        },
        Settled {
            what: "random replacement tokens",
            here: "any token except special tokens, possibly the original",
            by: "fairseq",
        },
        Settled {
            what: "contents of a row",
            here: "a text or a part of one, as long as the context allows",
            by: "us (the paper's FULL-SENTENCES crosses documents)",
        },
    ],
    axes: Axes {
        body: transformer(TransformerConfig {
            activation: Activation::GeluErf,
            segments: 1,
            embedding_norm: true,
            ..TransformerConfig::GPT1
        }),
        transform: true,
        view: ViewPlan::Masked(Corrupt::BERT),
    },
    sight: &[('a', "·bcdef"), ('b', "a·cdef"), ('c', "ab·def"), ('d', "abc·ef"), ('e', "abcd·f"), ('f', "abcde·")],
    density: Density::Pseudo,
    relatives: &["bert"],
    model_type: "roberta",
    stories: None,
    claims: &[
        "A new mask each time is as good as, or slightly better than, ten fixed masks of each text (§4.1).",
        "Without next-sentence prediction, scores on tasks are equal or better (§4.2).",
    ],
    compared: &[],
};

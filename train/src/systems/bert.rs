//! BERT (Devlin et al. 2018).

use gradus_model::TransformerConfig;

use super::{Axes, Card, Comparison, Density, Figure, Sentence, Settled, Stories, transformer};
use crate::views::{Corrupt, Redraw, ViewPlan};

/// BERT.
pub const CARD: Card = Card {
    name: "bert",
    title: "BERT",
    year: 2018,
    equation: "L = −1/|M| Σ_{i∈M} log P(xᵢ | x̃) − log P(c | x̃);  P = softmax(LN(gelu(h W + b)) Wₑᵀ + b′);  M: target tokens, x̃: the corrupted text, c: whether its second part follows the first",
    sources: &[
        "Devlin, Chang, Lee, Toutanova 2018: “BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding”, §3, A.1, A.2",
        "google-research/bert (modeling.py, create_pretraining_data.py)",
    ],
    settled: &[
        Settled { what: "the form of GELU", here: "tanh", by: "Google's code (transformers: erf)" },
        Settled { what: "ε of layer norm", here: "1e-12", by: "Google's code" },
        Settled { what: "masks", here: "ten per text, in turn (--masks copies)", by: "Google's code (dupe_factor)" },
        Settled { what: "place of norms", here: "after each branch, and after the embeddings", by: "Google's code" },
        Settled { what: "targets", here: "15 %, at least one", by: "Google's code (which counts special tokens; at most 20)" },
        Settled {
            what: "random replacement tokens",
            here: "any but special tokens, possibly the original; 60 % of them occur in no story of the micro-world",
            by: "Google's code (which includes special tokens)",
        },
        Settled { what: "a row", here: "one text, split after a sentence", by: "us (the code: sentences of a document)" },
        Settled { what: "negative pairs", here: "an end of another text, of similar length", by: "us (the code: any sentences)" },
        Settled { what: "deliberately short rows", here: "none", by: "us (the code shortens 10 % of the pairs)" },
        Settled { what: "initial weights", here: "normal", by: "us (Google's code truncates at two standard deviations)" },
    ],
    axes: Axes {
        body: transformer(TransformerConfig {
            layer_norm_epsilon: 1e-12,
            segments: 2,
            embedding_norm: true,
            ..TransformerConfig::GPT1
        }),
        transform: true,
        view: ViewPlan::Pairs(Corrupt { redraw: Redraw::Copies, ..Corrupt::BERT }),
    },
    sight: &[('a', "·bcdef"), ('b', "a·cdef"), ('c', "ab·def"), ('d', "abc·ef"), ('e', "abcd·f"), ('f', "abcde·")],
    density: Density::Pseudo,
    relatives: &["roberta"],
    model_type: "bert",
    // A survey trains all systems with one recipe, that of the card. On the micro-world, this file's settings converge faster.
    stories: Some(Stories { file: "train/examples/cloze.toml", config: include_str!("../../examples/cloze.toml"), steps: 3_000 }),
    claims: &[
        "Bidirectional pre-training outperforms left-to-right models and their concatenation (§1, §5.1).",
        "Next-sentence prediction helps sentence-pair tasks (§5.1).",
    ],
    compared: &[
        BOTH_SIDES,
        Comparison {
            name: "left-only",
            statement: "BERT's predictions of a masked word, given all others, are closer to exact than GPT-1's from the \
                        preceding words (U); so are those of any well-trained model, as the preceding words do not determine it",
            sentence: None,
            other_figure: Figure::UnderstandingLeftOnly,
            primary: false,
            ..BOTH_SIDES
        },
        Comparison {
            name: "both-sides-far",
            statement: "For words last mentioned at least 20 words ago, BERT's predictions are closer to exact than GPT-1's by \
                        Bayes' rule (U)",
            figure: Figure::UnderstandingFar,
            other_figure: Figure::UnderstandingFar,
            primary: false,
            ..BOTH_SIDES
        },
    ],
};

const BOTH_SIDES: Comparison = Comparison {
    name: "both-sides",
    statement: "BERT's predictions of a masked word are closer to exact than GPT-1's, which are computed by Bayes' rule (U)",
    sentence: Some(Sentence {
        section: "BERT, §3.1",
        text: "Intuitively, it is reasonable to believe that a deep bidirectional model is strictly more powerful than either a \
               left-to-right model or the shallow concatenation of a left-to-right and a right-to-left model",
    }),
    figure: Figure::Understanding,
    other_figure: Figure::Understanding,
    other: "gpt",
    primary: true,
};

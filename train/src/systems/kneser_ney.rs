//! Modified Kneser–Ney n-grams (Chen, Goodman 1999).

use super::{Axes, Card, Density, Settled, SystemBody};

/// Kneser–Ney 5-grams.
pub const CARD: Card = Card {
    name: "kneser-ney",
    title: "Kneser–Ney",
    year: 1999,
    equation: "p(w|h) = (c(h w) − D(c(h w)))₊ / Σᵥ c(h v) + γ(h) p(w|h′);  h′: h without its first token, D(c): the discount of count c, γ(h): the discounted fraction, (x)₊ = max(x, 0)",
    sources: &[
        "Chen, Goodman 1999: “An Empirical Study of Smoothing Techniques for Language Modeling”, §3",
        "Kneser, Ney 1995: “Improved Backing-Off for M-Gram Language Modeling”",
    ],
    settled: &[
        Settled {
            what: "the counts of n-grams below the highest order",
            here: "the number of different tokens that precede the n-gram",
            by: "the paper (§2.7)",
        },
        Settled {
            what: "the start of a text",
            here: "a begin symbol; n-grams that start with it keep their raw counts",
            by: "KenLM",
        },
        Settled {
            what: "the end of a text",
            here: "of a story, the separator, which is predicted; a corpus is one text without an end, its files joined",
            by: "us",
        },
        Settled {
            what: "an estimated discount of n-grams of count k, if it is outside (0, k]",
            here: "k/2",
            by: "KenLM, whose fallback is per order",
        },
        Settled { what: "below the unigrams", here: "the uniform distribution over the vocabulary", by: "KenLM" },
    ],
    axes: Axes { body: SystemBody::Ngram { order: 5 }, ..Axes::GPT },
    sight: &[('a', "······"), ('b', "a·····"), ('c', "ab····"), ('d', "abc···"), ('e', "abcd··"), ('f', "·bcde·")],
    density: Density::Joint,
    relatives: &[],
    model_type: "gradus-ngram",
    stories: None,
    claims: &["Modified Kneser–Ney smoothing consistently outperforms the other smoothing techniques (abstract)."],
    compared: &[],
};

//! Modified Kneser–Ney n-grams (Chen, Goodman 1999).

use super::{Axes, Card, Density, Settled, SystemBody};

/// Kneser–Ney 5-grams.
pub const CARD: Card = Card {
    name: "kneser-ney",
    title: "Kneser–Ney",
    year: 1999,
    equation: "p(w|h) = (c(h w) − D(c(h w)))₊ / Σᵥ c(h v) + γ(h) p(w|h′);  h′: h without its first token",
    sources: &[
        "Chen, Goodman 1999: “An Empirical Study of Smoothing Techniques for Language Modeling”, §3",
        "Kneser, Ney 1995: “Improved Backing-Off for M-Gram Language Modeling”",
    ],
    settled: &[
        Settled { what: "the counts of n-grams below the highest order", here: "continuations", by: "the paper (§2.7)" },
        Settled { what: "the start of a text", here: "a begin symbol, whose n-grams keep their occurrences", by: "KenLM" },
        Settled { what: "a discount outside (0, k]", here: "k/2", by: "KenLM’s fallback" },
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

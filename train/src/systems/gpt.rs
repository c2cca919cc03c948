//! GPT-1 (Radford et al. 2018).

use super::{Axes, Card, Comparison, Density, Figure, Sentence, Settled};

/// GPT-1.
pub const CARD: Card = Card {
    name: "gpt",
    title: "GPT-1",
    year: 2018,
    equation: "L₁(U) = Σᵢ log P(uᵢ | uᵢ₋ₖ … uᵢ₋₁), to be maximised;  P(u) = softmax(hₙ Wₑᵀ)",
    sources: &[
        "Radford, Narasimhan, Salimans, Sutskever 2018: “Improving Language Understanding by Generative Pre-Training”, §3.1, §4.1",
        "openai/finetune-transformer-lm (train.py)",
    ],
    settled: &[
        Settled { what: "the form of GELU", here: "tanh", by: "OpenAI's code" },
        Settled { what: "ε of layer norm", here: "1e-5", by: "OpenAI's code" },
        Settled { what: "the initial positions", here: "from the same normal distribution as the tokens", by: "OpenAI's code" },
    ],
    axes: Axes::GPT,
    sight: &[('a', "······"), ('b', "a·····"), ('c', "ab····"), ('d', "abc···"), ('e', "abcd··"), ('f', "abcde·")],
    density: Density::Joint,
    relatives: &["gpt2"],
    model_type: "openai-gpt",
    stories: None,
    claims: &[
        "Pre-training on stretches of contiguous text transfers to tasks by fine-tuning, with minimal changes to the network \
         (§1).",
        "Each layer of the pre-trained model contains features useful for the tasks (§5).",
        "It solves the tasks to some degree zero-shot, better than an LSTM (§5).",
    ],
    compared: &[
        Comparison {
            name: "recurrent-far",
            statement: "For words last mentioned at least 20 words ago, GPT-1's predictions are closer to exact than an LSTM's (U)",
            sentence: Some(Sentence {
                section: "GPT-1, §1",
                text: "This model choice provides us with a more structured memory for handling long-term dependencies in text, compared to \
                       alternatives like recurrent networks",
            }),
            figure: Figure::UnderstandingFar,
            other_figure: Figure::UnderstandingFar,
            primary: true,
            ..TELLS
        },
        Comparison { name: "recurrent", statement: "GPT-1 predicts the next word better than an LSTM (G)", ..TELLS },
        Comparison { name: "telling", statement: "GPT-1 predicts the next word better than BERT (G)", other: "bert", ..TELLS },
    ],
};

const TELLS: Comparison = Comparison {
    name: "",
    statement: "",
    sentence: None,
    figure: Figure::Generation,
    other_figure: Figure::Generation,
    other: "lstm",
    primary: false,
};

//! The conversion of a pre-trained model for fine-tuning: rows for special tokens, a head, and the part that is kept (§3.2, §5).
//!
//! ```text
//! [Wₑ] → [Wₑ; start; delimiter; extract]     the new rows N(0, σ²); in the joint form they precede the position rows;
//!                                            a vocabulary with room for them has these rows drawn anew
//! transferred: nothing, embeddings, 1 … n    embeddings are Wₑ and W_p; l blocks are these and the blocks 1 … l; the rest is fresh
//! ```
//!
//! BERT's embeddings include W_s and their norm. Its pooler is pre-trained, so it is kept if all is kept; its classifier is fresh
//! (Devlin et al. 2018, §3.2).
//!
//! Blocks above the kept ones are drawn with a separate seed: the seed of pre-training would give the very weights beside which
//! the kept blocks began to learn. If nothing is kept, the model is the one that pre-training with this seed starts from, so that
//! the two differ by pre-training alone.

use std::ops::Range;

use gradus_tensor::rng::Philox;
use gradus_tensor::{Real, Tensor};
use serde::{Deserialize, Serialize};

use crate::head::{HeadConfig, Heads};
use crate::model::{Model, ModelConfig};
use crate::output::{Output, OutputConfig, Outputs};
use crate::param::{Param, Role, Serves, draw};
use crate::tree::Tree;

/// The part of a pre-trained model that is kept (figure 2, left).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transfer {
    /// All of it.
    #[default]
    All,
    /// Nothing.
    None,
    /// The embeddings and this many blocks, from the first.
    Layers(usize),
}

impl std::fmt::Display for Transfer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Transfer::All => f.write_str("all"),
            Transfer::None => f.write_str("none"),
            Transfer::Layers(n) => write!(f, "{n}"),
        }
    }
}

impl std::str::FromStr for Transfer {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        match (s, s.parse()) {
            ("all", _) => Ok(Transfer::All),
            ("none", _) => Ok(Transfer::None),
            (_, Ok(n)) => Ok(Transfer::Layers(n)),
            _ => Err(format!("expected all, none or a number of blocks, got {s}")),
        }
    }
}

impl Transfer {
    /// Returns whether a parameter of the body or of an output is kept.
    fn keeps(self, p: &Param) -> bool {
        match (self, p.serves) {
            (Transfer::All, _) => true,
            (Transfer::None, _) => false,
            (Transfer::Layers(n), Serves::Block(block)) => block < n,
            (Transfer::Layers(_), serves) => serves == Serves::Embedding,
        }
    }
}

/// The bits that separate the seed of fresh blocks above kept ones from that of pre-training ("above" in ASCII).
const ABOVE: u64 = 0x6162_6f76_6500;

impl<T: Real> Model<Tensor<T>> {
    /// Returns the model with these tokens' rows of Wₑ drawn from N(0, std²); the vocabulary grows to hold them.
    ///
    /// # Panics
    /// Panics if they begin beyond the vocabulary.
    pub fn with_tokens(self, tokens: Range<usize>, std: f64, seed: u64) -> Self {
        let config = self.config();
        let vocab = config.sizes.vocab;
        assert!(tokens.start <= vocab, "tokens {tokens:?} begin beyond the vocabulary of {vocab}");
        let grown = config.with_vocab(vocab.max(tokens.end));
        let mut streams = 0x726f_7773..; // one for each matrix with a row per token
        Model::declare(&grown).zip(self).map(|_, (declared, p)| {
            let fresh: Tensor<T> = match declared.role {
                Role::TokenEmbedding => {
                    let stream = streams.next().expect("few matrices");
                    Tensor::normal([tokens.len(), p.shape()[1]], std, &mut Philox::with_stream(seed, stream))
                }
                // The output's bias has an element per token.
                Role::Bias if declared.shape != *p.shape() => Tensor::zeros([tokens.len()]),
                _ => return p,
            };
            let grown =
                Tensor::concat(&[&p.slice(0, 0..tokens.start), &fresh, &p.slice(0, tokens.end.min(vocab)..p.shape()[0])], 0);
            assert_eq!(*grown.shape(), declared.shape);
            grown
        })
    }

    /// Returns the model with outputs that have no parameters, for tasks that predict no token: no loss would reach them.
    pub fn with_plain_outputs(self) -> Self {
        let plain = |output: Output<_>| {
            let config = OutputConfig { tied: true, transform: None, ..output.config };
            Output { lm_head: None, transform: None, config }
        };
        Model { outputs: Outputs::new(self.outputs.0.into_iter().map(plain).collect()), ..self }
    }

    /// Returns the body and its outputs with this fresh head, and no other; parts that are not transferred are fresh too.
    pub fn with_head(mut self, head: HeadConfig, transfer: Transfer, seed: u64) -> Self {
        let old = std::mem::replace(&mut self.heads, Heads::new(Vec::new()));
        let mut declared = Model::declare(&ModelConfig { heads: vec![head], ..self.config() });
        let mut heads = draw(std::mem::replace(&mut declared.heads, Heads::new(Vec::new())), seed);
        let of = if matches!(transfer, Transfer::Layers(_)) { seed ^ ABOVE } else { seed };
        let fresh = draw(declared.clone(), of);
        let choose = |_: &str, ((declared, old), new)| if transfer.keeps(&declared) { old } else { new };
        let model = declared.zip(self).zip(fresh).map(choose);
        // A pooler is pre-trained.
        if let (Transfer::All, [new], Some(old)) = (transfer, &mut heads.0[..], old.0.into_iter().next())
            && new.pooler.is_some()
            && old.pooler.is_some()
        {
            new.pooler = old.pooler;
        }
        Model { heads, ..model }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::tiny_bert;
    use crate::config::Sizes;
    use crate::head::{Form, Head};
    use crate::transformer::Embedding;

    fn kept(by: Transfer) -> Vec<String> {
        kept_of(&tiny(), by)
    }

    fn kept_of(config: &ModelConfig, by: Transfer) -> Vec<String> {
        let mut names = Vec::new();
        Model::declare(config).visit(|name, p| names.extend(by.keeps(&p).then(|| name.to_owned())));
        names
    }

    fn tiny() -> ModelConfig {
        ModelConfig::gpt(Sizes { vocab: 5, context: 4, width: 4 }, 2, 2)
    }

    fn began(config: ModelConfig) -> Model<Tensor<f64>> {
        Model::init(&config, 1)
    }

    fn table(model: &Model<Tensor<f64>>) -> Vec<f64> {
        model.transformer().unwrap().tokens_embed.weight.0.to_vec()
    }

    #[test]
    fn a_transfer_is_parsed_from_its_name() {
        for (transfer, name) in
            [(Transfer::All, "all"), (Transfer::None, "none"), (Transfer::Layers(0), "0"), (Transfer::Layers(12), "12")]
        {
            assert_eq!((transfer.to_string().as_str(), name.parse()), (name, Ok(transfer)));
        }
        assert_eq!("some".parse::<Transfer>().unwrap_err(), "expected all, none or a number of blocks, got some");
    }

    #[test]
    fn new_tokens_grow_the_table_and_the_bias_of_the_output() {
        let old = began(tiny_bert());
        let vocab = old.sizes().vocab;
        assert!(old.clone().with_tokens(vocab..vocab, 0.02, 7) == old);
        let new = old.clone().with_tokens(vocab..vocab + 2, 0.02, 7);
        Model::declare(&new.config())
            .zip(new.clone())
            .visit(|name, (declared, p)| assert_eq!(declared.shape, *p.shape(), "{name}"));
        let bias = |model: &Model<Tensor<f64>>| {
            let mut found = Vec::new();
            model.as_ref().visit(|name, p| found.extend((name == "transform.bias").then(|| p.to_vec())));
            found.concat()
        };
        assert_eq!(bias(&new), [bias(&old), vec![0.0; 2]].concat());
    }

    #[test]
    #[should_panic(expected = "tokens 6..7 begin beyond the vocabulary of 5")]
    fn rows_that_would_leave_a_gap_panic() {
        let _ = began(tiny()).with_tokens(6..7, 0.02, 7);
    }

    #[test]
    fn layers_are_kept_from_the_first() {
        assert!(kept(Transfer::None).is_empty());
        assert_eq!(kept(Transfer::Layers(0)), ["tokens_embed.weight", "positions_embed.weight"]);
        assert!(kept(Transfer::Layers(1)).iter().all(|n| n.contains("embed") || n.starts_with("h.0.")));
        assert_eq!(kept(Transfer::Layers(1)).len(), 2 + 12);
        assert_eq!(kept(Transfer::Layers(2)), kept(Transfer::All));
        let embeddings =
            ["tokens_embed.weight", "positions_embed.weight", "segments_embed.weight", "ln_embed.weight", "ln_embed.bias"];
        assert_eq!(kept_of(&tiny_bert(), Transfer::Layers(0)), embeddings);
    }

    /// A pre-trained pooler is kept if all is kept; the classifier is always new.
    #[test]
    fn a_pooler_is_kept_and_a_classifier_is_drawn_anew() {
        let head = |classes| HeadConfig { pooler: true, bias: true, ..HeadConfig::new(Form::Classify, classes) };
        let old: Model<Tensor<f64>> = Model::init(&ModelConfig { heads: vec![head(2)], ..tiny_bert() }, 1).with_plain_outputs();
        let with = |transfer| old.clone().with_head(head(2), transfer, 1).head().unwrap().clone();
        let (of_old, kept, fresh) = (old.head().unwrap(), with(Transfer::All), with(Transfer::Layers(2)));
        let weight = |head: &Head<Tensor<f64>>| head.pooler.as_ref().unwrap().weight.0.clone();
        assert_eq!(weight(&kept), weight(of_old));
        let other = old.clone().with_head(head(3), Transfer::All, 2).head().unwrap().clone();
        assert_eq!((weight(&other), other.weight.0.shape()[0]), (weight(of_old), 3));
        assert_ne!(old.clone().with_head(head(2), Transfer::All, 2).head().unwrap().weight.0, of_old.weight.0);
        assert_eq!(weight(&fresh), weight(Model::init(&old.config(), 1).head().unwrap()), "drawn as at the beginning");
        assert_ne!(weight(old.clone().with_head(head(2), Transfer::Layers(2), 2).head().unwrap()), weight(of_old));
    }

    #[test]
    fn plain_outputs_change_only_the_outputs() {
        let [mut untied] = tiny_bert().outputs[..] else { panic!("one output") };
        untied.tied = false;
        let old: Model<Tensor<f64>> = Model::init(&ModelConfig { outputs: vec![untied], ..tiny_bert() }, 1);
        let new = old.clone().with_plain_outputs();
        let mut names = Vec::new();
        new.as_ref().visit(|name, _| names.push(name.to_owned()));
        assert!(names.iter().all(|name| !name.starts_with("transform") && !name.starts_with("lm_head")));
        assert_eq!(new.config().outputs, [OutputConfig { predicts: untied.predicts, ..OutputConfig::NEXT }]);
        Model::declare(&new.config())
            .zip(new.clone())
            .visit(|name, (declared, p)| assert_eq!(declared.shape, *p.shape(), "{name}"));
        assert!(new == Model::init(&new.config(), 1), "drawn from the same numbers");
        assert!(began(tiny()).with_plain_outputs() == began(tiny()));
    }

    #[test]
    fn transferred_parameters_keep_their_bits_and_others_are_drawn_anew() {
        let old = began(tiny());
        let new = old.clone().with_head(HeadConfig::new(Form::Classify, 3), Transfer::Layers(1), 2);
        assert_eq!(new.config().head().unwrap().classes, 3);
        assert_eq!(new.head().unwrap().weight.0.shape()[..], [3, 4]);
        new.without_heads().zip(old).visit(|name, (new, old)| {
            let kept = name.contains("embed") || name.starts_with("h.0.");
            let random = new.shape().len() > 1; // biases are 0 and gains 1 in both
            assert_eq!(new == old, kept || !random, "{name}");
        });
    }

    /// This holds even with the seed of pre-training; if nothing is kept, the model is the one that pre-training starts from.
    #[test]
    fn fresh_blocks_differ_from_the_initial_blocks_of_pre_training() {
        let began = began(tiny());
        let with = |transfer| began.clone().with_head(HeadConfig::new(Form::Classify, 3), transfer, 1).without_heads();
        with(Transfer::Layers(1)).zip(began.clone()).visit(|name, (new, old)| {
            let random = name.starts_with("h.1.") && new.shape().len() > 1;
            assert_eq!(new == old, !random, "{name}");
        });
        assert!(with(Transfer::None) == began);
    }

    /// Every seed gives its own blocks, even a seed with the bits that separate the two.
    #[test]
    fn fresh_blocks_differ_by_seed() {
        let last = |seed| {
            let model = began(tiny()).with_head(HeadConfig::new(Form::Classify, 3), Transfer::Layers(1), seed);
            model.transformer().unwrap().h.0[1].mlp.c_fc.weight.0.to_vec()
        };
        let all = [0, 1, 2, ABOVE].map(last);
        assert!(all.iter().enumerate().all(|(i, one)| !all[..i].contains(one)));
    }

    /// A vocabulary may have been made larger than the tokenizer: the new tokens take existing rows.
    #[test]
    fn new_rows_may_stand_within_the_vocabulary() {
        let old = began(tiny());
        for (tokens, vocab) in [(2..4, 5), (4..6, 6)] {
            let new = old.clone().with_tokens(tokens.clone(), 0.02, 7);
            assert_eq!(new.sizes().vocab, vocab);
            let same: Vec<bool> = table(&new).chunks(4).zip(table(&old).chunks(4)).map(|(new, old)| new == old).collect();
            let kept: Vec<bool> = (0..5).map(|token| !tokens.contains(&token)).collect();
            assert_eq!(same, kept);
        }
    }

    /// The matrix of an untied output has rows of its own.
    #[test]
    fn an_untied_output_grows_too() {
        let untied = OutputConfig { tied: false, ..OutputConfig::NEXT };
        let old: Model<Tensor<f64>> = Model::init(&ModelConfig { outputs: vec![untied], ..tiny() }, 1);
        let new = old.clone().with_tokens(5..8, 0.02, 7);
        let rows = |model: &Model<Tensor<f64>>| model.outputs.0[0].lm_head.as_ref().unwrap().weight.0.to_vec();
        assert_eq!(rows(&new)[..5 * 4], rows(&old)[..]);
        assert_eq!(rows(&new).len(), 8 * 4);
        assert_ne!(rows(&new)[5 * 4..], table(&new)[5 * 4..]);
    }

    #[test]
    fn new_rows_follow_the_tokens() {
        for embedding in [Embedding::Separate, Embedding::Joint] {
            let old = began(tiny().with_transformer(|c| c.embedding = embedding));
            let new = old.clone().with_tokens(5..8, 0.02, 7);
            let grown = new.config();
            assert_eq!(grown.sizes.vocab, 8);
            let (before, after) = (table(&old), table(&new));
            assert_eq!(after[..5 * 4], before[..5 * 4]);
            assert_eq!(after[8 * 4..], before[5 * 4..]);
            let rows = &after[5 * 4..8 * 4];
            assert!(rows.iter().all(|x| *x != 0.0 && x.abs() < 0.1), "{rows:?}");
            let again = new.clone().with_tokens(5..8, 0.02, 8);
            assert!(again.config() == grown && again != new, "rows from another seed");
            assert!(again.with_tokens(5..8, 0.02, 7) == new, "and back");
            Model::declare(&grown).zip(new).visit(|name, (declared, p)| assert_eq!(declared.shape, *p.shape(), "{name}"));
        }
    }
}

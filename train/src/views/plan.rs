//! The plan by which a run views its texts, which is stored with the run.

use gradus_model::Input;
use gradus_text::Tokenizer;
use serde::{Deserialize, Serialize};

use super::{MaskMix, MaskedLm, Next, Pairs, Redraw, Scheme, SpecialTokens};
use crate::hyperparameters::{RangeError, require};

/// The objective on a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ViewPlan {
    /// The next token after each.
    #[default]
    Next,
    /// Some of the tokens, most of which are hidden.
    Masked(MaskPlan),
}

/// The choice of target tokens, and the way they are hidden.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MaskPlan {
    /// The share of tokens that become targets.
    pub rate: f64,
    /// The shares of targets that are hidden, replaced and kept.
    pub shares: MaskMix,
    /// The frequency of changes of a text's mask.
    pub masks: Redraw,
    /// Whether the model reads pairs of texts and predicts whether the second follows the first.
    pub pairs: bool,
}

impl MaskPlan {
    /// BERT's plan for single texts (Devlin et al. 2018, §3.1), with a new mask each time.
    pub const PLAIN: MaskPlan = MaskPlan { rate: 0.15, shares: MaskMix::EIGHTY, masks: Redraw::Dynamic, pairs: false };

    /// Checks that the rate and the shares are fractions.
    ///
    /// # Errors
    /// The flag that is out of range.
    pub fn check(&self) -> Result<(), RangeError> {
        let MaskMix { mask, replace } = self.shares;
        require("mask-rate", self.rate, self.rate > 0.0 && self.rate <= 1.0, "a share of the tokens, above 0 and at most 1")?;
        require("mask-hide", mask, (0.0..=1.0).contains(&mask), "a share from 0 to 1")?;
        require("mask-replace", replace, (0.0..=1.0).contains(&replace), "a share from 0 to 1")?;
        let fits = mask + replace <= 1.0;
        require("mask-hide", mask, fits, format!("at most {}, since --mask-replace is {replace}", 1.0 - replace))
    }

    /// The number of slots of a view for the tokens that open and close it.
    pub const SPECIAL_SLOTS: usize = 2;

    /// Returns the scheme of views with at most `room` tokens beside these.
    pub(crate) fn scheme(&self, special: SpecialTokens, room: usize) -> Box<dyn Scheme> {
        let masked = MaskedLm { special, rate: self.rate, shares: self.shares, room };
        if self.pairs { Box::new(Pairs(masked)) } else { Box::new(masked) }
    }
}

impl ViewPlan {
    /// Returns the scheme of views of texts between these separators, with at most `room` tokens beside the special tokens.
    ///
    /// # Panics
    /// Panics if the plan hides tokens and there are no special tokens.
    pub fn scheme(&self, separator: Option<u32>, special: Option<SpecialTokens>, room: usize) -> Box<dyn Scheme> {
        match self {
            ViewPlan::Next => Box::new(Next { separator }),
            ViewPlan::Masked(plan) => plan.scheme(special.expect("special tokens"), room),
        }
    }

    /// Returns whether the objective is the next token.
    pub fn is_next(&self) -> bool {
        *self == ViewPlan::Next
    }
}

impl SpecialTokens {
    /// The names in BERT's vocabulary of the tokens that open a row, close a text, and hide a token.
    pub const BERT: [&str; 3] = ["[CLS]", "[SEP]", "[MASK]"];
    /// The names of these tokens in RoBERTa's vocabulary.
    pub const ROBERTA: [&str; 3] = ["<s>", "</s>", "<mask>"];

    /// Returns the special tokens of a tokenizer: by the roles in its files, else by BERT's names, else by RoBERTa's; `None` if
    /// all of these are incomplete.
    pub fn of(tokenizer: &Tokenizer) -> Option<Self> {
        let ids = |names: [&str; 3]| -> Option<[u32; 3]> {
            // A token without a row in the model counts as missing.
            let id = |name: &&str| tokenizer.token_id(name).filter(|&id| tokenizer.has_row(id));
            let all: Option<Vec<u32>> = names.iter().map(id).collect();
            all?.try_into().ok()
        };
        let roles = ["cls_token", "sep_token", "mask_token"].map(|role| tokenizer.roles().get(role).unwrap_or_default());
        let [open, close, mask] = ids(roles).or_else(|| ids(Self::BERT)).or_else(|| ids(Self::ROBERTA))?;
        // Tokens added to a vocabulary are at its end, and are no words.
        let size = tokenizer.vocab_size() as u32;
        let added = (0..size).rev().take_while(|&id| tokenizer.is_added(id)).count() as u32;
        let words = if [open, close, mask].iter().all(|&id| id >= size - added) { size - added } else { size };
        Some(SpecialTokens { open, close, mask, words })
    }

    /// Returns the special tokens that a tokenizer has, as part of a message.
    pub fn found(tokenizer: &Tokenizer) -> String {
        let named = |name: &&str| match tokenizer.has_row(tokenizer.token_id(name)?) {
            true => Some((*name).to_owned()),
            false => Some(format!("{name} (without a row in the model)")),
        };
        let found: Vec<String> = Self::BERT.iter().chain(&Self::ROBERTA).filter_map(named).collect();
        if found.is_empty() { "none of them".into() } else { format!("only {}", found.join(", ")) }
    }

    /// Returns a text between its special tokens: token `at` of the text is in slot 1 + at.
    pub fn around(&self, text: &[u32]) -> Vec<u32> {
        [&[self.open], text, &[self.close]].concat()
    }

    /// Returns a text between its special tokens with token `at` hidden, and the slot of that token.
    pub fn hide(&self, text: &[u32], at: usize) -> (Input, usize) {
        let mut tokens = self.around(text);
        tokens[1 + at] = self.mask;
        (Input::full(1, tokens), 1 + at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_shares() {
        let check = |plan: MaskPlan| plan.check().map_err(|e| e.to_string());
        let plain = MaskPlan::PLAIN;
        assert_eq!(check(plain), Ok(()));
        for (wrong, told) in [
            (MaskPlan { rate: 0.0, ..plain }, "--mask-rate 0: expected a share of the tokens"),
            (MaskPlan { rate: f64::NAN, ..plain }, "--mask-rate NaN"),
            (MaskPlan { shares: MaskMix { mask: 1.1, replace: 0.0 }, ..plain }, "--mask-hide 1.1"),
            (
                MaskPlan { shares: MaskMix { mask: 0.8, replace: 0.3 }, ..plain },
                "--mask-hide 0.8: expected at most 0.7, since --mask-replace is 0.3",
            ),
            (MaskPlan { shares: MaskMix { mask: 0.8, replace: -0.1 }, ..plain }, "--mask-replace -0.1"),
        ] {
            let error = check(wrong).unwrap_err();
            assert!(error.starts_with(told), "{error}");
        }
    }

    #[test]
    fn marks_are_found_under_either_name() {
        let mut tokenizer = Tokenizer::characters(["abc"]);
        assert_eq!(SpecialTokens::of(&tokenizer), None);
        for name in ["<story>", "<s>", "</s>", "<mask>"] {
            tokenizer.add_special(name).unwrap();
        }
        assert_eq!(SpecialTokens::of(&tokenizer), Some(SpecialTokens { open: 4, close: 5, mask: 6, words: 3 }));
        for name in SpecialTokens::BERT {
            tokenizer.add_special(name).unwrap();
        }
        let special = SpecialTokens::of(&tokenizer).unwrap();
        assert_eq!(special, SpecialTokens { open: 7, close: 8, mask: 9, words: 3 }, "BERT's first");
        let (input, slot) = special.hide(&[0, 1, 2], 1);
        assert_eq!((&input.tokens[..], slot), (&[7, 0, 9, 2, 8][..], 2));
    }
}

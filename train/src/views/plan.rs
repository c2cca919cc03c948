//! How a run views its texts, as it is kept with it.

use gradus_model::Input;
use gradus_text::Tokenizer;
use serde::{Deserialize, Serialize};

use super::{MaskMix, MaskedLm, Pairs, Redraw, Scheme, SpecialTokens};
use crate::hyperparameters::{RangeError, require};

/// What is asked of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ViewPlan {
    /// What follows each token.
    #[default]
    Next,
    /// What some of them are, most of which are hidden.
    Masked(MaskPlan),
}

/// Which tokens are asked, and how they are hidden.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MaskPlan {
    /// The share of tokens that is asked.
    pub rate: f64,
    /// What becomes of those.
    pub shares: MaskMix,
    /// How often the mask of a text changes.
    pub masks: Redraw,
    /// Are pairs of texts read, and is it asked whether the second follows?
    pub pairs: bool,
}

impl MaskPlan {
    /// BERT's, of single texts (Devlin et al. 2018, §3.1), a new mask each time.
    pub const PLAIN: MaskPlan = MaskPlan { rate: 0.15, shares: MaskMix::EIGHTY, masks: Redraw::Dynamic, pairs: false };

    /// Are these shares and a rate?
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

    /// The slots of a view that no token of a text fills: what opens it and closes it.
    pub const SPECIAL_SLOTS: usize = 2;

    /// Views of at most `room` tokens beside those.
    pub fn scheme(&self, special: SpecialTokens, room: usize) -> Box<dyn Scheme> {
        let masked = MaskedLm { special, rate: self.rate, shares: self.shares, room };
        if self.pairs { Box::new(Pairs(masked)) } else { Box::new(masked) }
    }
}

impl ViewPlan {
    /// Is it the plan of a language model that predicts the next token?
    pub fn is_next(&self) -> bool {
        *self == ViewPlan::Next
    }
}

impl SpecialTokens {
    /// Their names in BERT's vocabulary: what opens a row, closes a text, and hides a token.
    pub const BERT: [&str; 3] = ["[CLS]", "[SEP]", "[MASK]"];
    /// Their names in RoBERTa's vocabulary.
    pub const ROBERTA: [&str; 3] = ["<s>", "</s>", "<mask>"];

    /// The special tokens of a tokenizer: by the roles in its files, else by BERT's names, else by RoBERTa's; `None` if all of these are
    /// incomplete.
    pub fn of(tokenizer: &Tokenizer) -> Option<Self> {
        let ids = |names: [&str; 3]| -> Option<[u32; 3]> {
            // A token without a row in the model counts as missing.
            let id = |name: &&str| tokenizer.token_id(name).filter(|&id| tokenizer.has_row(id));
            let all: Option<Vec<u32>> = names.iter().map(id).collect();
            all?.try_into().ok()
        };
        let roles = ["cls_token", "sep_token", "mask_token"].map(|role| tokenizer.roles().get(role).unwrap_or_default());
        let [open, close, mask] = ids(roles).or_else(|| ids(Self::BERT)).or_else(|| ids(Self::ROBERTA))?;
        // What was added to a vocabulary stands at its end, and is no word.
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

    /// A text between its special tokens: its token `at` is in slot 1 + at.
    pub fn around(&self, text: &[u32]) -> Vec<u32> {
        [&[self.open], text, &[self.close]].concat()
    }

    /// A text between its special tokens, and the slot of its token `at`, which is hidden.
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

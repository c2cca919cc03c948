//! The plan by which a run views its texts: one text on a card, as the value of `--view` and in `run.json`. A new view is a file
//! here with its [`Scheme`], and a variant of [`ViewPlan`] with text and words; it reads chunks between special tokens.
//!
//! ```text
//! next                                                             the next token after each
//! masked:rate=0.15,hide=0.8,replace=0.1,masks=dynamic              some tokens, most of which are masked
//! pairs:rate=0.15,hide=0.8,replace=0.1,masks=dynamic               … and whether the second of two texts follows the first
//! ```

mod corrupt;
mod next;
mod pairs;

use std::fmt;
use std::str::FromStr;

use gradus_model::Input;
use gradus_text::Tokenizer;
use serde::{Deserialize, Serialize};

use super::{Redraw, Scheme, SpecialTokens};
use crate::hyperparameters::{RangeError, require};

pub use corrupt::{Corrupt, MaskMix, MaskedLm, Noise};
pub use next::Next;
pub use pairs::Pairs;

/// The objective on a text. A parsed text that leaves options out has BERT's ([`Corrupt::BERT`]).
///
/// ```
/// use gradus_train::views::{Corrupt, ViewPlan};
///
/// let plan: ViewPlan = "masked:rate=0.3".parse()?;
/// assert_eq!(plan.to_string(), "masked:rate=0.3,hide=0.8,replace=0.1,masks=dynamic");
/// assert_eq!("pairs".parse(), Ok(ViewPlan::Pairs(Corrupt::BERT)));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ViewPlan {
    /// The next token after each.
    #[default]
    Next,
    /// Some of the tokens, most of which are masked.
    Masked(Corrupt),
    /// Some of the tokens of two texts, and whether the second follows the first.
    Pairs(Corrupt),
}

impl ViewPlan {
    /// The help of `--view`.
    pub const HELP: &str = "What the model predicts: `next`, the token after each token; `masked`, some tokens from all others (BERT), or \
        `pairs`, of two texts, and whether the second follows the first; optionally with options, as `gradus systems` \
        prints them: masked:rate=0.15,hide=0.8,replace=0.1,masks=dynamic. An option that is left out is that of the system \
        [default: next]";
    /// The names of the options.
    pub const OPTIONS: [&str; 4] = ["rate", "hide", "replace", "masks"];

    /// Reads a text; options that it leaves out are those of `base`.
    ///
    /// # Errors
    /// Returns what was expected, for an unknown view, or an option that is unknown, repeated or invalid.
    pub fn read(text: &str, base: Corrupt) -> Result<Self, String> {
        let (kind, options) = text.split_once(':').map_or((text, None), |(kind, options)| (kind, Some(options)));
        let view: fn(Corrupt) -> Self = match kind {
            "next" if options.is_none() => |_| ViewPlan::Next,
            "masked" => ViewPlan::Masked,
            "pairs" => ViewPlan::Pairs,
            _ => return Err("next, masked or pairs, the last two optionally with options, as in masked:rate=0.15".into()),
        };
        let (mut corrupt, mut read) = (base, Vec::new());
        for option in options.into_iter().flat_map(|options| options.split(',')) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            if read.contains(&name) {
                return Err(format!("one value of {name}, found two"));
            }
            read.push(name);
            let share = || value.parse().map_err(|_| format!("a number as the value of {name}, found {value:?}"));
            match name {
                "rate" => corrupt.noise = Noise::Share(share()?),
                "hide" => corrupt.replacement.mask = share()?,
                "replace" => corrupt.replacement.replace = share()?,
                "masks" => {
                    corrupt.redraw = Redraw::deserialize(serde_json::Value::from(value))
                        .map_err(|_| format!("static, copies or dynamic as the value of masks, found {value:?}"))?;
                }
                other => return Err(format!("rate, hide, replace or masks, found {other:?}")),
            }
        }
        Ok(view(corrupt))
    }

    /// Removes the options with these names from the text of a view.
    pub fn without(text: &str, names: &[&str]) -> String {
        let Some((kind, options)) = text.split_once(':') else { return text.into() };
        let is_left = |option: &&str| !names.contains(&option.split('=').next().unwrap_or_default());
        let left: Vec<&str> = options.split(',').filter(is_left).collect();
        if left.is_empty() { kind.into() } else { format!("{kind}:{}", left.join(",")) }
    }

    /// Checks that the shares are fractions.
    ///
    /// # Errors
    /// Returns an error with the view and the option that is out of range.
    pub fn check(&self) -> Result<(), RangeError> {
        let Some(Corrupt { noise: Noise::Share(rate), replacement: MaskMix { mask, replace }, .. }) = self.corrupt() else {
            return Ok(());
        };
        let fits = |fits: bool, expected: String| require("view", self, fits, expected);
        let share = "a fraction from 0 to 1";
        fits(*rate > 0.0 && *rate <= 1.0, "a rate (--mask-rate) above 0 and at most 1".into())?;
        fits((0.0..=1.0).contains(mask), format!("{share} to hide (--mask-hide)"))?;
        fits((0.0..=1.0).contains(replace), format!("{share} to replace (--mask-replace)"))?;
        fits(mask + replace <= 1.0, "hide + replace (--mask-hide, --mask-replace) of at most 1".into())
    }

    /// Returns the corruption of texts; `None` if the objective is the next token.
    pub fn corrupt(&self) -> Option<&Corrupt> {
        match self {
            ViewPlan::Next => None,
            ViewPlan::Masked(corrupt) | ViewPlan::Pairs(corrupt) => Some(corrupt),
        }
    }

    /// Returns whether the model reads pairs of texts.
    pub fn has_pairs(&self) -> bool {
        matches!(self, ViewPlan::Pairs(_))
    }

    /// Returns the scheme of views of texts between these separators, with at most `room` tokens beside the special tokens.
    ///
    /// # Panics
    /// Panics if the plan masks tokens and there are no special tokens.
    pub fn scheme(&self, separator: Option<u32>, special: Option<SpecialTokens>, room: usize) -> Box<dyn Scheme> {
        let masked = |corrupt| MaskedLm { special: special.expect("special tokens"), corrupt, room };
        match *self {
            ViewPlan::Next => Box::new(Next { separator }),
            ViewPlan::Masked(corrupt) => Box::new(masked(corrupt)),
            ViewPlan::Pairs(corrupt) => Box::new(Pairs(masked(corrupt))),
        }
    }

    /// Returns the objective in words.
    pub fn words(&self) -> String {
        match self.corrupt() {
            None => "it reads from left to right and predicts the token after each token".into(),
            Some(&Corrupt { noise: Noise::Share(rate), replacement: MaskMix { mask, replace }, redraw }) => {
                let percent = (100.0 * rate).round();
                let masks = match redraw {
                    Redraw::Static => "one mask for each text",
                    Redraw::Copies => "ten masks of each text",
                    Redraw::Dynamic => "a new mask each time",
                };
                let pairs = if self.has_pairs() { ", and whether the second of two texts follows the first" } else { "" };
                let share = |share: f64| format!("{} %", (100.0 * share).round());
                let (hidden, replaced, left) = (share(mask), share(replace), share(1.0 - mask - replace));
                let shares = format!("{hidden} of them masked, {replaced} replaced, {left} unchanged");
                format!("it reads the whole text and predicts {percent} % of the tokens ({shares}; {masks}){pairs}")
            }
        }
    }

    /// Returns whether the objective is the next token.
    pub fn is_next(&self) -> bool {
        *self == ViewPlan::Next
    }
}

impl fmt::Display for ViewPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(Corrupt { noise: Noise::Share(rate), replacement: MaskMix { mask, replace }, redraw }) = self.corrupt() else {
            return f.write_str("next");
        };
        let kind = if self.has_pairs() { "pairs" } else { "masked" };
        write!(f, "{kind}:rate={rate},hide={mask},replace={replace},masks=")?;
        redraw.serialize(f)
    }
}

impl FromStr for ViewPlan {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Self::read(text, Corrupt::BERT).map_err(|expected| format!("{text:?}: expected {expected}"))
    }
}

impl From<ViewPlan> for String {
    fn from(plan: ViewPlan) -> Self {
        plan.to_string()
    }
}

impl TryFrom<String> for ViewPlan {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl SpecialTokens {
    /// The names in BERT's vocabulary of the tokens that open a row, close a text, and mask a token.
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

    /// Returns a text between its special tokens with token `at` masked, and the slot of that token.
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
    fn a_plan_is_parsed_from_its_text() {
        let corrupt =
            Corrupt { noise: Noise::Share(0.25), replacement: MaskMix { mask: 1.0, replace: 0.0 }, redraw: Redraw::Copies };
        for (plan, text) in [
            (ViewPlan::Next, "next"),
            (ViewPlan::Masked(Corrupt::BERT), "masked:rate=0.15,hide=0.8,replace=0.1,masks=dynamic"),
            (ViewPlan::Pairs(corrupt), "pairs:rate=0.25,hide=1,replace=0,masks=copies"),
        ] {
            assert_eq!((plan.to_string().as_str(), text.parse()), (text, Ok(plan)));
            assert_eq!(serde_json::to_value(plan).unwrap(), text);
        }
        assert_eq!("masked".parse(), Ok(ViewPlan::Masked(Corrupt::BERT)));
        for (text, expected) in [
            ("mask", "\"mask\": expected next, masked or pairs"),
            ("mask:rate=2", "expected next, masked or pairs"),
            ("next:rate=0.1", "expected next, masked or pairs"),
            ("next:", "expected next, masked or pairs"),
            ("masked:", "expected rate, hide, replace or masks, found \"\""),
            ("masked:rate=0.1,rate=0.2", "expected one value of rate, found two"),
            ("masked:rat=0.1", "expected rate, hide, replace or masks, found \"rat\""),
            ("masked:rate", "expected a number as the value of rate, found \"\""),
            ("pairs:masks=often", "expected static, copies or dynamic as the value of masks, found \"often\""),
        ] {
            let error = text.parse::<ViewPlan>().unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn invalid_rates_are_rejected() {
        let check = |text: &str| text.parse::<ViewPlan>().unwrap().check().map_err(|e| e.to_string());
        assert_eq!((check("next"), check("masked:rate=1"), check("pairs:hide=1,replace=0")), (Ok(()), Ok(()), Ok(())));
        for (options, expected) in [
            ("rate=0", "a rate (--mask-rate) above 0 and at most 1"),
            ("rate=NaN", "a rate (--mask-rate) above 0"),
            ("hide=1.1,replace=0", "a fraction from 0 to 1 to hide (--mask-hide)"),
            ("replace=-0.1", "a fraction from 0 to 1 to replace (--mask-replace)"),
            ("replace=0.3", "hide + replace (--mask-hide, --mask-replace) of at most 1"),
        ] {
            let error = check(&format!("pairs:{options}")).unwrap_err();
            assert!(error.starts_with("--view pairs:rate=") && error.contains(&format!(": expected {expected}")), "{error}");
        }
    }

    #[test]
    fn special_tokens_are_found_under_either_name() {
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

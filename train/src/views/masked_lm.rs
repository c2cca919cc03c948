//! Masked language modelling (Devlin et al. 2018, §3.1):
//!
//! ```text
//! M ⊂ {1 … n}, |M| = max(1, round(rate·n))        L = −1/Σ|M| Σ Σ_{i∈M} log P(xᵢ | x̃), over the texts of a step
//!
//! x̃ᵢ = [MASK]           with probability 0.8, for i ∈ M
//!      a random token   0.1          drawn from the vocabulary without the special tokens; it may equal xᵢ, or occur in no text
//!      xᵢ               0.1
//! ```
//!
//! The choice of M without replacement and with at least one token follows BERT's code (`create_masked_lm_predictions`), which
//! also counts [CLS] and [SEP] among the n tokens, and chooses at most 20.

use serde::{Deserialize, Serialize};

use super::{Draw, Given, Scheme, SpecialTokens, Text, View};

/// The shares of the chosen tokens that become the mask, become a random word, and stay.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MaskMix {
    /// The share that becomes the mask.
    pub mask: f64,
    /// The share that becomes a random word; the rest stays.
    pub replace: f64,
}

impl MaskMix {
    /// 80, 10 and 10 %.
    pub const EIGHTY: MaskMix = MaskMix { mask: 0.8, replace: 0.1 };
}

/// The scheme that views a text as one segment, with some of its tokens as targets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MaskedLm {
    /// The special tokens.
    pub special: SpecialTokens,
    /// The share of tokens that become targets.
    pub rate: f64,
    /// The shares of targets that are hidden, replaced and kept.
    pub shares: MaskMix,
    /// The most tokens of a text; longer texts lose their end.
    pub room: usize,
}

impl MaskedLm {
    /// Returns a view of a text without hidden tokens, in which every token of the text is a target.
    pub(super) fn whole(&self, text: &Text) -> View {
        let words = &text.tokens[..text.tokens.len().min(self.room)];
        let tokens = self.special.around(words);
        View { segments: vec![0; tokens.len()], tokens, asked: (1..).zip(words.iter().copied()).collect(), ..View::default() }
    }

    /// Returns the `whole` view with the tokens at these places hidden, as targets. Given the tokens before only, the text ends with
    /// the last target. A hidden token ends no sentence, so the division of a text does not reveal it.
    pub(super) fn hidden(&self, text: &Text, at: &[usize], given: Given, whole: impl FnOnce(&Text) -> View) -> Option<View> {
        let n = if given == Given::All { text.tokens.len() } else { at.last()? + 1 };
        let ends = text.sentences.iter().copied().filter(|&end| end < n && !at.contains(&(end - 1)));
        let text = Text { tokens: text.tokens[..n].to_vec(), sentences: ends.chain([n]).collect(), ..*text };
        let mut view = whole(&text);
        view.asked = at.iter().filter_map(|&at| view.asked.get(at).copied()).collect();
        view.asked.iter().for_each(|&(slot, _)| view.tokens[slot] = self.special.mask);
        (view.asked.len() == at.len()).then_some(view)
    }

    /// Makes some of the tokens at these slots of a view its targets, and hides them.
    pub(super) fn ask(&self, view: &mut View, mut slots: Vec<usize>, draw: &mut Draw<'_>) {
        let n = ((self.rate * slots.len() as f64).round() as usize).clamp(1.min(slots.len()), slots.len());
        draw.rng.shuffle(&mut slots);
        slots.truncate(n);
        slots.sort_unstable();
        for slot in slots {
            let token = view.tokens[slot];
            view.asked.push((slot, token));
            let u = draw.rng.uniform_f64();
            if u < self.shares.mask {
                view.tokens[slot] = self.special.mask;
            } else if u < self.shares.mask + self.shares.replace {
                view.tokens[slot] = draw.rng.below(u64::from(self.special.words)) as u32;
            }
        }
    }
}

impl Scheme for MaskedLm {
    fn train_view(&self, text: &Text, draw: &mut Draw<'_>) -> View {
        let mut view = self.whole(text);
        let slots = std::mem::take(&mut view.asked).into_iter().map(|(slot, _)| slot).collect();
        self.ask(&mut view, slots, draw);
        view
    }

    fn eval_view(&self, text: &Text, at: &[usize], given: Given) -> Option<View> {
        self.hidden(text, at, given, |text| self.whole(text))
    }
}

#[cfg(test)]
mod tests {
    use gradus_tensor::rng::Philox;

    use super::*;

    const SPECIAL: SpecialTokens = SpecialTokens { open: 100, close: 101, mask: 102, words: 90 };

    fn text(tokens: Vec<u32>) -> Text {
        Text { number: 0, epoch: 0, sentences: vec![tokens.len()], tokens }
    }

    fn view(masked: &MaskedLm, tokens: Vec<u32>, seed: u64) -> View {
        masked.train_view(&text(tokens), &mut Draw { rng: Philox::new(seed), other: &|_| unreachable!("one text is enough") })
    }

    #[test]
    fn what_is_asked_is_what_was_there() {
        let masked = MaskedLm { special: SPECIAL, rate: 0.15, shares: MaskMix::EIGHTY, room: 20 };
        let words: Vec<u32> = (0..30).collect();
        for seed in 0..200 {
            let View { tokens, asked, segments, class, .. } = view(&masked, words.clone(), seed);
            assert_eq!((tokens.len(), tokens[0], tokens[21], segments, class), (22, 100, 101, vec![0; 22], None));
            assert!(asked.is_sorted_by(|a, b| a.0 < b.0) && asked.len() == 3, "round(0.15·20)");
            assert!(asked.iter().all(|&(slot, token)| token == words[slot - 1]));
            let changed = (1..21).filter(|&slot| tokens[slot] != words[slot - 1]);
            assert!(changed.clone().all(|slot| asked.iter().any(|&(at, _)| at == slot)), "nothing else changes");
            assert!(changed.clone().all(|slot| tokens[slot] == 102 || tokens[slot] < 90));
        }
        assert_eq!(view(&masked, vec![7], 1).asked, [(1, 7)], "one at least");
        assert_eq!(view(&masked, vec![], 1).asked, []);
    }

    /// With 9,000 targets, the standard deviation of a share is at most 0.5 %.
    #[test]
    fn the_shares_are_those_asked_for() {
        let masked = MaskedLm { special: SPECIAL, rate: 0.3, shares: MaskMix::EIGHTY, room: 1000 };
        let (mut hidden, mut replaced, mut all) = (0, 0, 0);
        for seed in 0..30 {
            let words: Vec<u32> = vec![95; 1000]; // a token that is never drawn as a replacement
            let View { tokens, asked, .. } = view(&masked, words, seed);
            all += asked.len();
            hidden += asked.iter().filter(|(slot, _)| tokens[*slot] == 102).count();
            replaced += asked.iter().filter(|(slot, _)| tokens[*slot] < 90).count();
        }
        assert_eq!(all, 9000);
        let near = |found: usize, share: f64| (found as f64 / 9000.0 - share).abs() < 0.02;
        assert!(near(hidden, 0.8) && near(replaced, 0.1), "{hidden} hidden, {replaced} replaced");
    }

    #[test]
    fn each_token_is_asked_as_often() {
        let masked = MaskedLm { special: SPECIAL, rate: 0.2, shares: MaskMix { mask: 1.0, replace: 0.0 }, room: 10 };
        let mut counts = [0; 10];
        for seed in 0..2000 {
            view(&masked, (0..10).collect(), seed).asked.iter().for_each(|&(slot, _)| counts[slot - 1] += 1);
        }
        // 400 each, σ = 18.
        assert!(counts.iter().all(|n| (320..480).contains(n)), "{counts:?}");
    }
}

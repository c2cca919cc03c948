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

use gradus_tensor::rng::Philox;

use crate::views::{Draw, Given, Redraw, Scheme, SpecialTokens, Text, View};

/// A corruption of texts: noise × replacement × redraw. Noise chooses tokens, each of which is predicted in its own slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Corrupt {
    /// The choice of target tokens.
    pub noise: Noise,
    /// The replacement of target tokens.
    pub replacement: MaskMix,
    /// The frequency of changes of a text's targets.
    pub redraw: Redraw,
}

/// The choice of target tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Noise {
    /// A share of the tokens, rounded, at least one.
    Share(f64),
}

/// The shares of the target tokens that become the mask, become a random word, and stay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MaskMix {
    /// The share that becomes the mask.
    pub mask: f64,
    /// The share that becomes a random word; the rest stays.
    pub replace: f64,
}

impl Corrupt {
    /// The corruption of BERT (Devlin et al. 2018, §3.1), with new targets each time.
    pub const BERT: Corrupt = Corrupt { noise: Noise::Share(0.15), replacement: MaskMix::EIGHTY, redraw: Redraw::Dynamic };

    /// The number of slots of a view for the tokens that open and close it.
    pub const SPECIAL_SLOTS: usize = 2;
}

impl Noise {
    /// Returns some of these slots, in increasing order.
    fn choose(self, mut slots: Vec<usize>, rng: &mut Philox) -> Vec<usize> {
        let Noise::Share(rate) = self;
        let n = ((rate * slots.len() as f64).round() as usize).clamp(1.min(slots.len()), slots.len());
        rng.shuffle(&mut slots);
        slots.truncate(n);
        slots.sort_unstable();
        slots
    }
}

impl MaskMix {
    /// 80 % masked, 10 % replaced and 10 % unchanged.
    pub const EIGHTY: MaskMix = MaskMix { mask: 0.8, replace: 0.1 };

    /// Returns the token that replaces a target.
    fn replace(self, token: u32, special: &SpecialTokens, rng: &mut Philox) -> u32 {
        let u = rng.uniform_f64();
        if u < self.mask {
            special.mask
        } else if u < self.mask + self.replace {
            rng.below(u64::from(special.words)) as u32
        } else {
            token
        }
    }
}

/// The scheme that views a text as one segment, with some of its tokens as targets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MaskedLm {
    /// The special tokens.
    pub special: SpecialTokens,
    /// The corruption of the text.
    pub corrupt: Corrupt,
    /// The maximum number of tokens of a text; longer texts lose their end.
    pub room: usize,
}

impl MaskedLm {
    /// Returns a view of a text without masked tokens, in which every token of the text is a target.
    pub(super) fn whole(&self, text: &Text) -> View {
        let words = &text.tokens[..text.tokens.len().min(self.room)];
        let tokens = self.special.around(words);
        View { segments: vec![0; tokens.len()], tokens, targets: (1..).zip(words.iter().copied()).collect(), ..View::default() }
    }

    /// Returns the `whole` view with the tokens at these positions masked, as targets. Given only the preceding tokens, the text
    /// ends with the last target. A masked token ends no sentence, so the division of a text does not reveal it.
    pub(super) fn hidden(&self, text: &Text, at: &[usize], given: Given, whole: impl FnOnce(&Text) -> View) -> Option<View> {
        let n = if given == Given::All { text.tokens.len() } else { at.last()? + 1 };
        let ends = text.sentences.iter().copied().filter(|&end| end < n && !at.contains(&(end - 1)));
        let text = Text { tokens: text.tokens[..n].to_vec(), sentences: ends.chain([n]).collect(), ..*text };
        let mut view = whole(&text);
        view.targets = at.iter().filter_map(|&at| view.targets.get(at).copied()).collect();
        view.targets.iter().for_each(|&(slot, _)| view.tokens[slot] = self.special.mask);
        (view.targets.len() == at.len()).then_some(view)
    }

    /// Makes some of the tokens at these slots of a view its targets, and replaces them.
    pub(super) fn ask(&self, view: &mut View, slots: Vec<usize>, draw: &mut Draw<'_>) {
        for slot in self.corrupt.noise.choose(slots, &mut draw.rng) {
            let token = &mut view.tokens[slot];
            view.targets.push((slot, *token));
            *token = self.corrupt.replacement.replace(*token, &self.special, &mut draw.rng);
        }
    }
}

impl Scheme for MaskedLm {
    fn train_view(&self, text: &Text, draw: &mut Draw<'_>) -> View {
        let mut view = self.whole(text);
        let slots = std::mem::take(&mut view.targets).into_iter().map(|(slot, _)| slot).collect();
        self.ask(&mut view, slots, draw);
        view
    }

    fn eval_view(&self, text: &Text, at: &[usize], given: Given) -> Option<View> {
        self.hidden(text, at, given, |text| self.whole(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPECIAL: SpecialTokens = SpecialTokens { open: 100, close: 101, mask: 102, words: 90 };

    fn corrupt(rate: f64, replacement: MaskMix) -> Corrupt {
        Corrupt { noise: Noise::Share(rate), replacement, ..Corrupt::BERT }
    }

    fn text(tokens: Vec<u32>) -> Text {
        Text { number: 0, epoch: 0, sentences: vec![tokens.len()], tokens }
    }

    fn view(masked: &MaskedLm, tokens: Vec<u32>, seed: u64) -> View {
        masked.train_view(&text(tokens), &mut Draw { rng: Philox::new(seed), other: &|_| unreachable!("one text is enough") })
    }

    #[test]
    fn targets_are_the_tokens_of_the_text() {
        let masked = MaskedLm { special: SPECIAL, corrupt: corrupt(0.15, MaskMix::EIGHTY), room: 20 };
        let words: Vec<u32> = (0..30).collect();
        for seed in 0..200 {
            let View { tokens, targets, segments, class, .. } = view(&masked, words.clone(), seed);
            assert_eq!((tokens.len(), tokens[0], tokens[21], segments, class), (22, 100, 101, vec![0; 22], None));
            assert!(targets.is_sorted_by(|a, b| a.0 < b.0) && targets.len() == 3, "round(0.15·20)");
            assert!(targets.iter().all(|&(slot, token)| token == words[slot - 1]));
            let changed = (1..21).filter(|&slot| tokens[slot] != words[slot - 1]);
            assert!(changed.clone().all(|slot| targets.iter().any(|&(at, _)| at == slot)), "nothing else changes");
            assert!(changed.clone().all(|slot| tokens[slot] == 102 || tokens[slot] < 90));
        }
        assert_eq!(view(&masked, vec![7], 1).targets, [(1, 7)], "one at least");
        assert_eq!(view(&masked, vec![], 1).targets, []);
    }

    /// With 9,000 targets, the standard deviation of a share is at most 0.5 %.
    #[test]
    fn the_shares_are_those_of_the_corruption() {
        let masked = MaskedLm { special: SPECIAL, corrupt: corrupt(0.3, MaskMix::EIGHTY), room: 1000 };
        let (mut hidden, mut replaced, mut all) = (0, 0, 0);
        for seed in 0..30 {
            let words: Vec<u32> = vec![95; 1000]; // a token that is never drawn as a replacement
            let View { tokens, targets, .. } = view(&masked, words, seed);
            all += targets.len();
            hidden += targets.iter().filter(|(slot, _)| tokens[*slot] == 102).count();
            replaced += targets.iter().filter(|(slot, _)| tokens[*slot] < 90).count();
        }
        assert_eq!(all, 9000);
        let near = |found: usize, share: f64| (found as f64 / 9000.0 - share).abs() < 0.02;
        assert!(near(hidden, 0.8) && near(replaced, 0.1), "{hidden} hidden, {replaced} replaced");
    }

    #[test]
    fn each_token_is_a_target_equally_often() {
        let masked = MaskedLm { special: SPECIAL, corrupt: corrupt(0.2, MaskMix { mask: 1.0, replace: 0.0 }), room: 10 };
        let mut counts = [0; 10];
        for seed in 0..2000 {
            view(&masked, (0..10).collect(), seed).targets.iter().for_each(|&(slot, _)| counts[slot - 1] += 1);
        }
        // 400 each, σ = 18.
        assert!(counts.iter().all(|n| (320..480).contains(n)), "{counts:?}");
    }
}

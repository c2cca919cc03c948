//! Pairs of texts, with a class that states whether the second follows the first (Devlin et al. 2018, §3.1):
//!
//! ```text
//! [CLS] a [SEP] b [SEP]        segments 0 … 0 1 … 1        b follows a in half of the rows, else b is from another text
//! L = L_masked − log P(follows | h at [CLS])
//! ```
//!
//! A text is divided after a sentence into a and the rest. A b from another text is the end of that text, from the sentence that
//! makes it nearest in length to the rest: the form and length of a pair do not reveal its class. (In BERT's code,
//! `create_instances_from_document`, b begins at any sentence.) After a text of one sentence, b is always from another text. If a
//! and b do not fit, the longer one loses tokens at its beginning or its end with equal probability, as in BERT's code.

use super::MaskedLm;
use crate::views::{Draw, Given, Scheme, SpecialTokens, Text, View};

/// The scheme that views pairs of texts: some tokens are targets, and the class states whether the second text follows the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pairs(
    /// The choice of target tokens; its room is for both texts together.
    pub MaskedLm,
);

/// The class of a pair whose second text follows the first, as in `transformers`.
const FOLLOWS: usize = 0;
/// The class of any other pair.
const ANOTHER: usize = 1;

impl Pairs {
    /// Returns the two texts, and the class whether the second follows.
    fn divided(text: &Text, draw: &mut Draw<'_>) -> (Vec<u32>, Vec<u32>, usize) {
        let ends = &text.sentences[..text.sentences.len().saturating_sub(1)];
        let other = ends.is_empty() || draw.rng.uniform_f64() < 0.5;
        let at = if ends.is_empty() { text.tokens.len() } else { ends[draw.rng.below(ends.len() as u64) as usize] };
        let (a, rest) = text.tokens.split_at(at);
        if !other {
            return (a.to_vec(), rest.to_vec(), FOLLOWS);
        }
        let another = (draw.other)(&mut draw.rng);
        let long = if rest.is_empty() { a.len() } else { rest.len() };
        let begins = std::iter::once(0).chain(another.sentences.iter().copied()).filter(|&at| at < another.tokens.len());
        let from = begins.min_by_key(|at| (another.tokens.len() - at).abs_diff(long)).unwrap_or(0);
        let b = another.tokens[from..].to_vec();
        (a.to_vec(), b, ANOTHER)
    }

    /// Returns the view of both texts between special tokens, in which every token of the texts is a target.
    fn joined(&self, a: &[u32], b: &[u32], class: usize) -> View {
        let SpecialTokens { open, close, .. } = self.0.special;
        let (first, second) = (a.len() + 2, b.len() + 1);
        let slots = (1..=a.len()).chain(first..first + b.len());
        View {
            targets: slots.zip([a, b].concat()).collect(),
            tokens: [&[open], a, &[close], b, &[close]].concat(),
            segments: [vec![0; first], vec![1; second]].concat(),
            class: Some(class),
            ..View::default()
        }
    }

    /// Divides the text after the sentence that ends nearest to its middle; a text without room for another mark is not divided.
    fn whole(&self, text: &Text) -> View {
        let n = text.tokens.len();
        if n >= self.0.room {
            return View { class: Some(FOLLOWS), ..self.0.whole(text) };
        }
        let inner = text.sentences.iter().copied().filter(|&end| end < n);
        let at = inner.min_by_key(|end| (2 * end).abs_diff(n)).unwrap_or(n);
        self.joined(&text.tokens[..at], &text.tokens[at..], FOLLOWS)
    }

    /// Cuts the longer text, token by token, until both fit together.
    fn cut(&self, a: &mut Vec<u32>, b: &mut Vec<u32>, draw: &mut Draw<'_>) {
        while a.len() + b.len() > self.0.room.saturating_sub(1) {
            let longer = if a.len() > b.len() { &mut *a } else { &mut *b };
            if longer.is_empty() {
                return;
            }
            let at = if draw.rng.uniform_f64() < 0.5 { 0 } else { longer.len() - 1 };
            longer.remove(at);
        }
    }
}

impl Scheme for Pairs {
    fn train_view(&self, text: &Text, draw: &mut Draw<'_>) -> View {
        let (mut a, mut b, class) = Pairs::divided(text, draw);
        self.cut(&mut a, &mut b, draw);
        let mut view = self.joined(&a, &b, class);
        let slots = std::mem::take(&mut view.targets).into_iter().map(|(slot, _)| slot).collect();
        self.0.ask(&mut view, slots, draw);
        view
    }

    fn eval_view(&self, text: &Text, at: &[usize], given: Given) -> Option<View> {
        self.0.hidden(text, at, given, |text| self.whole(text))
    }

    fn classes(&self) -> usize {
        2
    }
}

#[cfg(test)]
mod tests {
    use gradus_tensor::rng::Philox;

    use super::*;
    use crate::views::{Corrupt, MaskMix};

    const SPECIAL: SpecialTokens = SpecialTokens { open: 100, close: 101, mask: 102, words: 90 };

    fn corrupt(replacement: MaskMix) -> Corrupt {
        Corrupt { replacement, ..Corrupt::BERT }
    }

    /// Returns text `number`: three sentences of tokens that no other text has.
    fn text(number: u64) -> Text {
        let first = 10 * number as u32;
        Text { number, epoch: 0, tokens: (first..first + 9).collect(), sentences: vec![2, 5, 9] }
    }

    fn view(room: usize, seed: u64) -> View {
        let nothing_hidden = MaskedLm { special: SPECIAL, corrupt: corrupt(MaskMix { mask: 0.0, replace: 0.0 }), room };
        let other = |rng: &mut Philox| text(1 + rng.below(3));
        Pairs(nothing_hidden).train_view(&text(0), &mut Draw { rng: Philox::new(seed), other: &other })
    }

    #[test]
    fn a_pair_is_one_text_divided_or_two() {
        let mut follows = 0;
        for seed in 0..400 {
            let View { tokens, segments, targets, class, .. } = view(40, seed);
            let closes: Vec<usize> = (0..tokens.len()).filter(|&at| tokens[at] == 101).collect();
            let [first, last] = closes[..] else { panic!("{tokens:?}") };
            assert_eq!((tokens[0], last), (100, tokens.len() - 1));
            assert!((0..tokens.len()).all(|at| segments[at] == u32::from(at > first)));
            let (a, b) = (&tokens[1..first], &tokens[first + 1..last]);
            assert!([2, 5].contains(&a.len()) && a.iter().copied().eq(0..a.len() as u32));
            assert!(targets.iter().all(|(slot, _)| *slot != 0 && *slot != first && *slot != last));
            if class == Some(FOLLOWS) {
                follows += 1;
                assert!(b.iter().copied().eq(a.len() as u32..9));
            } else {
                let own = b[0] / 10 * 10;
                assert!(
                    own >= 10 && b.iter().copied().eq(own + a.len() as u32..own + 9),
                    "another text's end, as long as the rest"
                );
            }
        }
        // 200, σ = 10.
        assert!((150..250).contains(&follows), "{follows}");
    }

    /// The sentences end at 2, 5 and 9: 5 is nearest to the middle. Nine tokens and three special tokens need a room of 10.
    #[test]
    fn a_whole_text_is_divided_near_its_middle_where_there_is_room() {
        let whole = |room| Pairs(MaskedLm { special: SPECIAL, corrupt: corrupt(MaskMix::EIGHTY), room }).whole(&text(0));
        let divided = whole(10);
        assert_eq!(divided.tokens, [100, 0, 1, 2, 3, 4, 101, 5, 6, 7, 8, 101]);
        assert_eq!(divided.segments, [0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1]);
        let slots = [1, 2, 3, 4, 5, 7, 8, 9, 10].into_iter().zip(0..9);
        assert!(divided.targets.iter().copied().eq(slots));
        let undivided = whole(9);
        assert_eq!((undivided.tokens.len(), &undivided.segments[..], undivided.class), (11, &[0; 11][..], Some(FOLLOWS)));
        assert!(undivided.targets.iter().copied().eq((1..).zip(0..9)));
    }

    /// The sentences of the other text begin at 0, 3, 4 and 8.
    #[test]
    fn another_text_gives_the_ending_nearest_in_length() {
        let masked = MaskedLm { special: SPECIAL, corrupt: corrupt(MaskMix { mask: 0.0, replace: 0.0 }), room: 40 };
        let long = |sentences: Vec<usize>| {
            let one = Text { number: 0, epoch: 0, tokens: (0..10).collect(), sentences };
            let other = |_: &mut Philox| Text { number: 1, epoch: 0, tokens: (20..30).collect(), sentences: vec![3, 4, 8, 10] };
            let views = (0..50).map(|seed| Pairs(masked).train_view(&one, &mut Draw { rng: Philox::new(seed), other: &other }));
            let another: Vec<View> = views.filter(|view| view.class == Some(ANOTHER)).collect();
            let seconds = another.iter().map(|view| view.segments.iter().filter(|&&segment| segment == 1).count() - 1);
            assert!(
                seconds.clone().all(|n| seconds.clone().next() == Some(n))
                    && another.iter().all(|it| it.tokens.ends_with(&[29, 101]))
            );
            (another.len(), another[0].tokens.len() - 3)
        };
        let (of_half, tokens) = long(vec![9, 10]);
        assert!((10..40).contains(&of_half));
        assert_eq!(tokens, 9 + 2, "one token follows: two are nearest");
        assert_eq!(long(vec![3, 10]).1, 3 + 7, "seven follow");
        assert_eq!(long(vec![10]), (50, 10 + 10), "nothing follows: as long as the first");
    }

    #[test]
    fn overlong_pairs_are_truncated_at_the_longer_text() {
        for seed in 0..50 {
            let View { tokens, segments, .. } = view(7, seed);
            assert_eq!(tokens.len(), 9);
            let first = segments.iter().filter(|&&s| s == 0).count() - 2;
            assert!([2, 3].contains(&first), "{segments:?}");
        }
    }
}

//! The random numbers of views. A draw does not depend on other draws: it is a function of the seed and its key.

use gradus_tensor::rng::Philox;
use serde::{Deserialize, Serialize};

use super::Text;

/// The domain that separates the draws of views from other draws with the same seed ("views" in ASCII).
const DOMAIN: u64 = 0x76_6965_7773;
/// The number of random numbers reserved for one draw.
const ROOM: u64 = 1 << 24;

/// The frequency of changes of a text's mask: the key of the draw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "snake_case")]
pub enum Redraw {
    /// One mask of each text, the same in every epoch.
    Static,
    /// Ten masks of each text, by the epoch modulo ten (BERT's code: `dupe_factor`; *static* in Liu et al. 2019, §4.1).
    Copies,
    /// A new mask in each step and row (RoBERTa; *dynamic* in Liu et al. 2019).
    #[default]
    Dynamic,
}

/// Random numbers for one view, and other texts of the same source.
pub struct Draw<'s> {
    /// The random numbers.
    pub rng: Philox,
    /// A function that draws another text of the source.
    pub other: &'s dyn Fn(&mut Philox) -> Text,
}

impl Redraw {
    /// Returns the random numbers for the text in this row of step `t`.
    pub fn rng(self, seed: u64, text: &Text, t: u64, row: usize) -> Philox {
        let (stream, part) = match self {
            Redraw::Static => (2 * text.number, 0),
            Redraw::Copies => (2 * text.number, text.epoch % 10),
            Redraw::Dynamic => (2 * t + 1, row as u64),
        };
        let mut rng = Philox::with_stream(seed ^ DOMAIN, stream);
        rng.set_position(part * ROOM);
        rng
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(keyed: Redraw, (number, epoch): (u64, u64), (t, row): (u64, usize)) -> u64 {
        let text = Text { number, epoch, tokens: Vec::new(), sentences: Vec::new() };
        keyed.rng(5, &text, t, row).double_word()
    }

    /// The three differ only in the key of a draw.
    #[test]
    fn a_mask_changes_only_with_its_key() {
        let same = |keyed, a, b| first(keyed, a, (1, 0)) == first(keyed, b, (9, 3));
        assert!(same(Redraw::Static, (4, 0), (4, 7)) && !same(Redraw::Static, (4, 0), (5, 0)));
        assert!(same(Redraw::Copies, (4, 3), (4, 13)) && !same(Redraw::Copies, (4, 3), (4, 4)));
        assert!(
            first(Redraw::Copies, (4, 0), (1, 0)) == first(Redraw::Static, (4, 6), (2, 2)),
            "the first copy is the static one"
        );
        assert!(!same(Redraw::Dynamic, (4, 0), (4, 0)));
        assert_eq!(first(Redraw::Dynamic, (4, 0), (3, 2)), first(Redraw::Dynamic, (8, 1), (3, 2)));
    }
}

//! A cache of words and their ids.

use std::fmt;
use std::sync::OnceLock;

/// A cache of words and their ids: a hash table of fixed size, whose slots are written once and never change. So threads read it
/// without locks. A word whose slots are all taken by other words is merged again each time.
pub(crate) struct Cache {
    slots: Box<[OnceLock<Known>]>,
}

/// A word and its ids.
type Known = Box<(Box<str>, Box<[u32]>)>;

impl Cache {
    const SLOTS: usize = 1 << 17; // a novel has some 10⁴ words, all of Wikipedia 10⁷, of which few make up most of the text
    const PROBES: usize = 8;
    const LONGEST_WORD: usize = 64; // bytes; longer ones are seldom met twice

    /// Returns the slots that a word may take.
    fn slots(&self, word: &str) -> impl Iterator<Item = &OnceLock<Known>> {
        // FNV-1a, 64 bits
        let hash = word.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
        let start = (hash ^ (hash >> 32)) as usize;
        (0..Self::PROBES).map(move |i| &self.slots[start.wrapping_add(i) % Self::SLOTS])
    }

    /// Returns the word's ids if the cache contains it.
    pub(crate) fn get(&self, word: &str) -> Option<&[u32]> {
        self.slots(word).map_while(OnceLock::get).find(|known| *known.0 == *word).map(|known| &*known.1)
    }

    pub(crate) fn insert(&self, word: &str, ids: &[u32]) {
        if word.len() <= Self::LONGEST_WORD
            && let Some(free) = self.slots(word).find(|slot| slot.get().is_none())
        {
            let _ = free.set(Box::new((word.into(), ids.into()))); // another thread may have filled it first: no loss
        }
    }
}

impl Default for Cache {
    fn default() -> Self {
        Cache { slots: std::iter::repeat_with(OnceLock::new).take(Self::SLOTS).collect() }
    }
}

impl Clone for Cache {
    fn clone(&self) -> Self {
        Cache::default()
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cache({} words)", self.slots.iter().filter(|slot| slot.get().is_some()).count())
    }
}

//! The merging of the symbols of one word: the pair of lowest rank first, the leftmost of equal rank, until no pair is a merge.
//!
//! Symbols are a linked list in an array. A queue holds the pairs that are merges; a pair that has changed since it was queued is
//! skipped. The time is O(n log n) in the number of characters, also for a word of a hundred megabytes. In long words the queue
//! is read in the order of memory.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// The result of a merge, and its rank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Merge {
    pub rank: u32,
    pub into: u32,
}

/// The mark of an absent symbol or place.
const NONE: u32 = u32::MAX;
/// The number of symbols from which a word is long.
const LONG: usize = 1 << 12;

/// A symbol, with the places of its neighbours beside it, because memory accesses are expensive in a long word.
#[derive(Clone, Copy)]
struct Node {
    symbol: u32,
    previous: u32,
    next: u32,
}

/// Merges about `count` symbols and appends the resulting ids to `ids`.
///
/// # Panics
/// Panics for 2³² − 1 symbols or more.
pub(crate) fn merge(
    symbols: impl Iterator<Item = u32>,
    count: usize,
    rule: impl Fn(u32, u32) -> Option<Merge>,
    ids: &mut Vec<u32>,
) {
    if count < LONG {
        merge_by(BinaryHeap::new(), symbols, count, rule, ids);
    } else {
        merge_by(Buckets::default(), symbols, count, rule, ids);
    }
}

fn merge_by(
    mut queue: impl Queue,
    symbols: impl Iterator<Item = u32>,
    count: usize,
    rule: impl Fn(u32, u32) -> Option<Merge>,
    ids: &mut Vec<u32>,
) {
    let mut word: Vec<Node> = Vec::with_capacity(count);
    for symbol in symbols {
        let here = u32::try_from(word.len()).ok().filter(|&here| here < NONE - 1).expect("a word of fewer than 2³² characters");
        let previous = word.last().and_then(|before| rule(before.symbol, symbol));
        if let Some(merge) = previous {
            queue.push(merge.rank, here - 1);
        }
        word.push(Node { symbol, previous: here.wrapping_sub(1), next: here + 1 }); // NONE before the first
    }
    let Some(last) = word.last_mut() else { return };
    last.next = NONE;
    while let Some((rank, place)) = queue.pop() {
        let here = word[place as usize];
        if here.symbol == NONE || here.next == NONE {
            continue;
        }
        let gone = word[here.next as usize];
        let Some(merge) = rule(here.symbol, gone.symbol).filter(|merge| merge.rank == rank) else { continue };
        word[here.next as usize].symbol = NONE;
        word[place as usize] = Node { symbol: merge.into, next: gone.next, ..here };
        if here.previous != NONE
            && let Some(merge) = rule(word[here.previous as usize].symbol, merge.into)
        {
            queue.push(merge.rank, here.previous);
        }
        if gone.next != NONE {
            let after = &mut word[gone.next as usize];
            after.previous = place;
            if let Some(merge) = rule(merge.into, after.symbol) {
                queue.push(merge.rank, place);
            }
        }
    }
    ids.extend(word.iter().map(|node| node.symbol).filter(|&symbol| symbol != NONE));
}

/// The queued pairs, as rank and place: the lowest rank first, then the leftmost.
trait Queue {
    fn push(&mut self, rank: u32, place: u32);
    fn pop(&mut self) -> Option<(u32, u32)>;
}

impl Queue for BinaryHeap<Reverse<(u32, u32)>> {
    fn push(&mut self, rank: u32, place: u32) {
        BinaryHeap::push(self, Reverse((rank, place)));
    }
    fn pop(&mut self) -> Option<(u32, u32)> {
        BinaryHeap::pop(self).map(|Reverse(pair)| pair)
    }
}

/// A queue with separate places for each rank. A heap of a long word's pairs would access memory at random in each step. Here a
/// rank's places are sorted once, and are mostly sorted already, since merges go from left to right.
#[derive(Default)]
struct Buckets {
    of: HashMap<u32, Bucket>,
    /// The ranks that have places.
    ranks: BinaryHeap<Reverse<u32>>,
}

#[derive(Default)]
struct Bucket {
    places: Vec<u32>,
    /// The number of places taken; if greater than 0, the places are sorted.
    taken: usize,
    /// Places that were added after the sorting.
    late: BinaryHeap<Reverse<u32>>,
}

impl Queue for Buckets {
    fn push(&mut self, rank: u32, place: u32) {
        let ranks = &mut self.ranks;
        let bucket = self.of.entry(rank).or_insert_with(|| {
            ranks.push(Reverse(rank));
            Bucket::default()
        });
        if bucket.taken == 0 {
            bucket.places.push(place);
        } else {
            bucket.late.push(Reverse(place));
        }
    }

    fn pop(&mut self) -> Option<(u32, u32)> {
        let Reverse(rank) = *self.ranks.peek()?;
        let bucket = self.of.get_mut(&rank)?;
        if bucket.taken == 0 {
            bucket.places.sort(); // merges the sorted runs of which it consists
        }
        let place = match (bucket.places.get(bucket.taken), bucket.late.peek()) {
            (Some(&place), Some(&Reverse(late))) if late < place => bucket.late.pop().map_or(place, |Reverse(late)| late),
            (Some(&place), _) => {
                bucket.taken += 1;
                place
            }
            (None, _) => bucket.late.pop()?.0,
        };
        if bucket.taken == bucket.places.len() && bucket.late.is_empty() {
            self.of.remove(&rank);
            self.ranks.pop();
        }
        Some((rank, place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Overlaps, one symbol from two pairs, and merges whose rank is below that of their own parts: in every word of two letters.
    #[test]
    fn both_queues_equal_the_definition() {
        // 0 = a, 1 = b, 2 = ab, 3 = aa, 4 = aab, 5 = ba, 6 = aaaa
        let merges = [(3, 1, 4), (0, 0, 3), (0, 2, 4), (0, 1, 2), (1, 0, 5), (3, 3, 6), (5, 1, 7), (4, 4, 8)];
        let rule = |a, b| {
            let rank = merges.iter().position(|&(x, y, _)| (x, y) == (a, b))?;
            Some(Merge { rank: rank as u32, into: merges[rank].2 })
        };
        for bits in 0..4096u32 {
            for n in 0..=12 {
                let word: Vec<u32> = (0..n).map(|i| bits >> i & 1).collect();
                let mut expected = word.clone();
                while let Some((_, i, into)) = (1..expected.len())
                    .filter_map(|j| rule(expected[j - 1], expected[j]).map(|merge| (merge.rank, j - 1, merge.into)))
                    .min()
                {
                    expected[i] = into;
                    expected.remove(i + 1);
                }
                let (mut few, mut many) = (Vec::new(), Vec::new());
                merge_by(BinaryHeap::new(), word.iter().copied(), n, rule, &mut few);
                merge_by(Buckets::default(), word.into_iter(), n, rule, &mut many);
                assert_eq!((&few, &many), (&expected, &expected), "{bits:b} of {n}");
            }
        }
    }

    /// A long word takes the buckets, with the same result as the heap.
    #[test]
    fn long_and_short_words_are_merged_alike() {
        let rule = |a: u32, b: u32| (a + b < 900).then(|| Merge { rank: a * 7919 % 97 + b % 89, into: a + b + 1 });
        let mut state = 1u32;
        let word: Vec<u32> = (0..3 * LONG)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                state >> 24
            })
            .collect();
        let (mut few, mut many) = (Vec::new(), Vec::new());
        merge_by(BinaryHeap::new(), word.iter().copied(), word.len(), rule, &mut few);
        merge(word.iter().copied(), word.len(), rule, &mut many);
        assert!(few.len() < 2 * LONG && few == many);
    }
}

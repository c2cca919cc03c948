//! Interpolated modified Kneser–Ney n-grams (Chen & Goodman 1999, "An empirical study of smoothing techniques for language
//! modeling"): the best that counting short contexts can do, and so the measure of what a long context is worth.
//!
//! ```text
//!             max(c(h w) − D(c(h w)), 0)   D₁N₁(h) + D₂N₂(h) + D₃N₃(h)
//! p(w | h) =  ────────────────────────── + ─────────────────────────── · p(w | h′)
//!                     Σᵥ c(h v)                     Σᵥ c(h v)
//!
//! h′   h without its first symbol; below the empty context is the uniform distribution
//! c    occurrences at the highest order; below it the number of different symbols that
//!      precede h w ("continuations"); occurrences again where the begin symbol leads h w
//! Nₖ   the number of w with c(h w) = k (three or more for k = 3)
//! Y = n₁/(n₁ + 2n₂),  Dₖ = k − (k + 1)·Y·nₖ₊₁/nₖ,   nₖ the n-grams of that order with c = k
//! ```
//!
//! Both terms share one denominator and the discounts are what the second hands out, so each p(· | h) sums to 1.

use std::collections::HashMap;

/// A place in the tree of n-grams; the path from the root spells the n-gram.
type Node = u32;
const ROOT: Node = 0;

/// The counts of the tokens that follow a context.
#[derive(Clone, Copy, Debug, Default)]
struct Followers {
    /// Σᵥ c(h v)
    total: u64,
    /// N₁, N₂, N₃
    kinds: [u32; 3],
}

/// An n-gram model of sequences of ids below a vocabulary size. Each sequence is opened by a
/// begin symbol, which is never predicted, and closed by an end symbol, which is.
#[derive(Clone, Debug)]
pub struct KneserNey {
    order: usize,
    vocab: u32,
    children: HashMap<(Node, u32), Node>,
    /// c of the n-gram that ends at each node.
    counts: Vec<u32>,
    followers: Vec<Followers>,
    /// D₁, D₂, D₃ for n-grams of length 1, 2, …
    discounts: Vec<[f64; 3]>,
}

impl KneserNey {
    /// Counts n-grams up to length `order` (≥ 1) in `sequences` of ids below `vocab`.
    ///
    /// # Panics
    /// If `order` is 0 or an id is not below `vocab`.
    pub fn train<'a>(order: usize, sequences: impl IntoIterator<Item = &'a [u32]>, vocab: usize) -> Self {
        assert!(order > 0, "an n-gram model has order 1 or more, not 0");
        let mut model = KneserNey {
            order,
            vocab: u32::try_from(vocab).expect("the vocabulary size fits in 32 bits"),
            children: HashMap::new(),
            counts: vec![0],
            followers: Vec::new(),
            discounts: Vec::new(),
        };
        // For each node the n-gram's length and the context it follows.
        let mut origins: Vec<(u8, Node)> = vec![(0, ROOT)];
        for sequence in sequences {
            model.count(sequence, &mut origins);
        }
        model.summarise(&origins);
        model
    }

    /// The end symbol, as an id for [`probability`](Self::probability).
    pub fn end(&self) -> u32 {
        self.vocab
    }

    /// The begin symbol, as the first id of a context for [`probability`](Self::probability).
    pub fn begin(&self) -> u32 {
        self.vocab + 1
    }

    /// A sequence between the begin and the end symbol.
    fn symbols(&self, sequence: &[u32]) -> Vec<u32> {
        [&[self.begin()], sequence, &[self.end()]].concat()
    }

    fn count(&mut self, sequence: &[u32], origins: &mut Vec<(u8, Node)>) {
        if let Some(id) = sequence.iter().find(|id| **id >= self.vocab) {
            panic!("id {id} is not below the vocabulary size {}", self.vocab);
        }
        // The n-grams that end at the last symbol, by length; none but the empty one at first.
        let mut last: Vec<Node> = vec![ROOT];
        for (at, symbol) in self.symbols(sequence).into_iter().enumerate() {
            let mut ending = vec![ROOT];
            for (length, &context) in (1..=self.order).zip(&last) {
                let fresh = self.counts.len() as Node;
                let node = *self.children.entry((context, symbol)).or_insert(fresh);
                if node == fresh {
                    self.counts.push(0);
                    origins.push((length as u8, context));
                    // A new n-gram is one more symbol that precedes its own tail.
                    if length > 1 {
                        self.counts[ending[length - 1] as usize] += 1;
                    }
                }
                // Nothing precedes the begin symbol: what it leads is counted as it occurs.
                if length == self.order || length == at + 1 {
                    self.counts[node as usize] += 1;
                }
                ending.push(node);
            }
            last = ending;
        }
    }

    fn summarise(&mut self, origins: &[(u8, Node)]) {
        // The begin symbol alone predicts nothing: it must not take part in the unigrams.
        if let Some(&begin) = self.children.get(&(ROOT, self.begin())) {
            self.counts[begin as usize] = 0;
        }
        self.followers = vec![Followers::default(); self.counts.len()];
        let mut frequencies = vec![[0_u64; 5]; self.order + 1];
        for (&count, &(length, context)) in self.counts.iter().zip(origins).skip(1) {
            if count > 0 {
                frequencies[usize::from(length)][(count as usize).min(5) - 1] += 1;
                let followers = &mut self.followers[context as usize];
                followers.total += u64::from(count);
                followers.kinds[(count as usize).min(3) - 1] += 1;
            }
        }
        self.discounts = frequencies[1..].iter().map(discounts).collect();
    }

    /// p(symbol | context), of which the last order − 1 ids count. The context of a sequence's first id is the begin symbol.
    pub fn probability(&self, context: &[u32], symbol: u32) -> f64 {
        let longest = context.len().min(self.order - 1);
        let mut p = 1.0 / f64::from(self.vocab + 1);
        for length in 0..=longest {
            let tail = &context[context.len() - length..];
            let Some(node) = self.node(tail) else { break };
            let followers = self.followers[node as usize];
            if followers.total == 0 {
                break;
            }
            let total = followers.total as f64;
            let discounts = self.discounts[length];
            let handed_out: f64 = discounts.iter().zip(followers.kinds).map(|(d, n)| d * f64::from(n)).sum();
            let count = self.children.get(&(node, symbol)).map_or(0, |&child| self.counts[child as usize]);
            let own = match count {
                0 => 0.0,
                c => f64::from(c) - discounts[(c as usize).min(3) - 1],
            };
            p = own / total + handed_out / total * p;
        }
        p
    }

    /// −ln p of a sequence, its end included, in nats.
    pub fn nll(&self, sequence: &[u32]) -> f64 {
        let symbols = self.symbols(sequence);
        (1..symbols.len()).map(|at| -self.probability(&symbols[..at], symbols[at]).ln()).sum()
    }

    fn node(&self, ngram: &[u32]) -> Option<Node> {
        ngram.iter().try_fold(ROOT, |node, &symbol| self.children.get(&(node, symbol)).copied())
    }
}

/// The three discounts from the numbers of n-grams with counts 1 to 4.
fn discounts(n: &[u64; 5]) -> [f64; 3] {
    let [n1, n2, n3, n4, _] = n.map(|n| n as f64);
    let y = n1 / (n1 + 2.0 * n2);
    [(1.0, n1, n2), (2.0, n2, n3), (3.0, n3, n4)].map(|(k, lower, upper)| {
        let d = k - (k + 1.0) * y * upper / lower;
        // Small or very regular corpora put D outside (0, k]: then half the count, as KenLM does.
        if d > 0.0 && d <= k { d } else { 0.5 * k }
    })
}

#[cfg(test)]
mod tests {
    use super::{KneserNey, discounts};

    const CORPUS: [&[u32]; 6] =
        [&[0, 1, 2, 0, 1, 3], &[0, 1, 2, 4], &[2, 0, 1, 2, 0, 1, 2], &[4, 4, 0, 1], &[], &[3, 1, 2, 0, 5]];

    #[test]
    fn probabilities_sum_to_one_in_every_context() {
        for order in 1..=6 {
            let model = KneserNey::train(order, CORPUS, 8);
            let begin = model.begin();
            let mut contexts: Vec<Vec<u32>> = vec![vec![], vec![7], vec![6, 7, 6], vec![begin, 7]];
            for sequence in CORPUS {
                let opened = [&[begin], sequence].concat();
                contexts.extend((0..=opened.len()).map(|n| opened[..n].to_vec()));
            }
            for context in contexts {
                let sum: f64 = (0..=model.end()).map(|w| model.probability(&context, w)).sum();
                assert!((sum - 1.0).abs() < 1e-12, "order {order}, {context:?}: {sum}");
            }
        }
    }

    /// A bigram model of "0 1" and "0 0", by hand. Bigrams: ^0 twice, 01, 1$, 00, 0$ once:
    /// n₁ = 4, n₂ = 1, Y = 4/6, D₁ = 1 − 2·(2/3)·(1/4) = 2/3, D₂ = 2 − 0 = 2. Unigrams by continuation:
    /// 0 after ^ and 0: 2; 1: 1; $ after 1 and 0: 2; so n₁ = 1, n₂ = 2, Y = 1/5,
    /// D₁ = 1 − 2·(1/5)·2 = 1/5, D₂ = 2.
    #[test]
    fn agrees_with_a_calculation_by_hand() {
        let sequences: [&[u32]; 2] = [&[0, 1], &[0, 0]];
        let model = KneserNey::train(2, sequences, 2);
        let uniform = 1.0 / 3.0;
        let share = (0.2 + 2.0 * 2.0) / 5.0;
        let one = (1.0 - 0.2) / 5.0 + share * uniform;
        let zero = (2.0 - 2.0) / 5.0 + share * uniform;
        assert!((model.probability(&[], 1) - one).abs() < 1e-12);
        assert!((model.probability(&[], 0) - zero).abs() < 1e-12);
        // After 0 come 1, 0 and the end, once each: total 3, handed out 3 · 2/3.
        let after = (1.0 - 2.0 / 3.0) / 3.0 + (3.0 * 2.0 / 3.0) / 3.0 * one;
        assert!((model.probability(&[0], 1) - after).abs() < 1e-12);
    }

    /// D₂ = 2 − 3·Y·n₃/n₂ = 2 − 3·(1/3)·2 = 0 is no discount, and neither is 0/0.
    #[test]
    fn a_discount_that_is_none_is_half_the_count() {
        assert_eq!(discounts(&[0; 5]), [0.5, 1.0, 1.5]);
        assert_eq!(discounts(&[1, 1, 2, 0, 0]), [1.0 - 2.0 * (1.0 / 3.0), 1.0, 3.0]);
        assert_eq!(discounts(&[1, 1, 3, 5, 0])[1..], [1.0, 3.0 - 4.0 * (1.0 / 3.0) * 5.0 / 3.0]);
    }

    #[test]
    fn the_loss_of_a_sequence_is_the_sum_over_its_symbols_and_its_end() {
        let model = KneserNey::train(3, CORPUS, 8);
        let begin = model.begin();
        let p =
            model.probability(&[begin], 0) * model.probability(&[begin, 0], 1) * model.probability(&[begin, 0, 1], model.end());
        assert!((model.nll(&[0, 1]) + p.ln()).abs() < 1e-12);
    }

    #[test]
    fn a_higher_order_learns_a_regular_text_better() {
        let text: Vec<u32> = (0..60).map(|i| [0, 1, 0, 2, 0, 3][i % 6]).collect();
        let loss = |order| KneserNey::train(order, [text.as_slice(); 4], 4).nll(&text);
        assert!(loss(3) < 0.5 * loss(1));
    }
}

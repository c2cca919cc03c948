//! Interpolated modified Kneser–Ney n-grams (Chen & Goodman 1999, "An empirical study of smoothing techniques for language
//! modeling"): the best smoothing of short contexts in that study, and so a baseline for the value of a long context.
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
//! Both terms share one denominator, and the second distributes what the discounts take from the first, so p(· | h) sums to 1.

use std::collections::HashMap;

/// A node of the tree of n-grams; the path from the root spells the n-gram.
type Node = u32;
const ROOT: Node = 0;

/// The counts of the tokens that follow a context.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Followers {
    /// Σᵥ c(h v)
    total: u64,
    /// N₁, N₂, N₃
    kinds: [u32; 3],
}

/// An n-gram model of sequences of ids below a vocabulary size. A begin symbol opens each sequence; it is never predicted. With a
/// separator each sequence has an end, which is predicted: the separator. Without one, a text is a section of a longer text.
#[derive(Clone, Debug, PartialEq)]
pub struct KneserNey {
    order: usize,
    vocab: u32,
    /// The id that stands for begin and end in texts; `None` if texts have neither.
    separator: Option<u32>,
    /// The n-gram that each node extends, and its last symbol, in the order in which they were first seen. A node comes after its
    /// parent; the root is no part of the list.
    nodes: Vec<(Node, u32)>,
    children: HashMap<(Node, u32), Node>,
    /// c of the n-gram that ends at each node.
    counts: Vec<u32>,
    followers: Vec<Followers>,
    /// D₁, D₂, D₃ for n-grams of length 1, 2, …
    discounts: Vec<[f64; 3]>,
}

/// The n-grams of one length that extend a context.
struct Level {
    /// The node of the context h.
    node: Node,
    /// Σᵥ c(h v)
    total: f64,
    /// D₁N₁(h) + D₂N₂(h) + D₃N₃(h)
    handed_out: f64,
    /// D₁, D₂, D₃
    discounts: [f64; 3],
}

impl KneserNey {
    /// Counts n-grams up to length `order` in `sequences` of ids below `vocab`; the end symbol is the id `vocab`.
    ///
    /// # Panics
    /// If `order` is 0 or above 255, or an id is not below `vocab`.
    pub fn train<'a>(order: usize, sequences: impl IntoIterator<Item = &'a [u32]>, vocab: usize) -> Self {
        let ids = |ids: &'a [u32]| {
            ids.iter().inspect(move |id| assert!((**id as usize) < vocab, "id {id}, vocabulary {vocab}")).copied()
        };
        Self::between(Some(vocab as u32), order, sequences.into_iter().map(ids), vocab + 1)
    }

    /// Counts n-grams up to length `order` in `sequences` of ids below `vocab`, in texts between separators.
    ///
    /// # Panics
    /// If `order` is 0 or above 255, or an id is not below `vocab`.
    pub fn between(
        separator: Option<u32>,
        order: usize,
        sequences: impl IntoIterator<Item: IntoIterator<Item = u32>>,
        vocab: usize,
    ) -> Self {
        let mut model = Self::empty(separator, order, vocab);
        for sequence in sequences {
            model.count(sequence);
        }
        model.summarise();
        model
    }

    fn empty(separator: Option<u32>, order: usize, vocab: usize) -> Self {
        assert!((1..256).contains(&order), "an n-gram model has an order from 1 to 255, not {order}");
        KneserNey {
            order,
            vocab: u32::try_from(vocab).expect("the vocabulary size fits in 32 bits"),
            separator,
            nodes: Vec::new(),
            children: HashMap::new(),
            counts: vec![0],
            followers: Vec::new(),
            discounts: Vec::new(),
        }
    }

    /// Returns the length of the longest n-gram.
    pub fn order(&self) -> usize {
        self.order
    }

    /// Returns the number of ids.
    pub fn vocab(&self) -> usize {
        self.vocab as usize
    }

    /// Returns the id that opens and closes each sequence in texts, if it is the end symbol.
    pub fn separator(&self) -> Option<u32> {
        self.separator
    }

    /// Returns the number of different n-grams of all lengths.
    pub fn ngrams(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the begin symbol, as the first id of a context for [`probability`](Self::probability).
    pub fn begin(&self) -> u32 {
        self.vocab
    }

    fn count(&mut self, sequence: impl IntoIterator<Item = u32>) {
        let (begin, end, vocab) = (self.begin(), self.separator, self.vocab);
        let ids = sequence.into_iter().inspect(|id| assert!(*id < vocab, "id {id} is not below the vocabulary size {vocab}"));
        // The n-grams that end at the last symbol, by length; none but the empty one at first.
        let mut last: Vec<Node> = vec![ROOT];
        for (at, symbol) in [begin].into_iter().chain(ids).chain(end).enumerate() {
            let mut ending = vec![ROOT];
            for (length, &context) in (1..=self.order).zip(&last) {
                let fresh = self.counts.len() as Node;
                let node = *self.children.entry((context, symbol)).or_insert(fresh);
                if node == fresh {
                    self.counts.push(0);
                    self.nodes.push((context, symbol));
                    // A new n-gram is one more symbol that precedes its own tail.
                    if length > 1 {
                        self.counts[ending[length - 1] as usize] += 1;
                    }
                }
                // Nothing precedes the begin symbol: n-grams that begin with it are counted as they occur.
                if length == self.order || length == at + 1 {
                    self.counts[node as usize] += 1;
                }
                ending.push(node);
            }
            last = ending;
        }
    }

    /// Computes the counts of the tokens that follow each context, and the discounts.
    fn summarise(&mut self) {
        // The begin symbol alone predicts nothing: it must not take part in the unigrams.
        if let Some(&begin) = self.children.get(&(ROOT, self.begin())) {
            self.counts[begin as usize] = 0;
        }
        self.followers = vec![Followers::default(); self.counts.len()];
        let (mut frequencies, mut lengths) = (vec![[0_u64; 5]; self.order + 1], vec![0_u8]);
        for (&count, &(context, _)) in self.counts[1..].iter().zip(&self.nodes) {
            let length = lengths[context as usize] + 1;
            lengths.push(length);
            if count > 0 {
                frequencies[usize::from(length)][(count as usize).min(5) - 1] += 1;
                let followers = &mut self.followers[context as usize];
                followers.total += u64::from(count);
                followers.kinds[(count as usize).min(3) - 1] += 1;
            }
        }
        self.discounts = frequencies[1..].iter().map(discounts).collect();
    }

    /// Computes p(symbol | context), of which the last order − 1 ids count. The context of a first id is [`begin`](Self::begin).
    pub fn probability(&self, context: &[u32], symbol: u32) -> f64 {
        self.of_symbol(&self.levels(context), symbol)
    }

    /// Computes p(id | the preceding text) of each id. The context begins after the last separator, which opens a sequence.
    pub fn probabilities(&self, text: &[u32]) -> Vec<f64> {
        let levels = self.levels(&self.context(text));
        (0..self.vocab).map(|id| self.of_symbol(&levels, id)).collect()
    }

    /// Computes −ln p of each id of a text but the first, given those before it, in nats.
    pub fn losses(&self, text: &[u32]) -> Vec<f64> {
        (1..text.len()).map(|at| 0.0 - self.probability(&self.context(&text[..at]), text[at]).ln()).collect() // no −0.0
    }

    /// Returns the symbols at the end of a text, from its last separator on.
    fn context(&self, text: &[u32]) -> Vec<u32> {
        let tail = &text[text.len().saturating_sub(self.order - 1)..];
        match tail.iter().rposition(|id| Some(*id) == self.separator) {
            Some(at) => [&[self.begin()], &tail[at + 1..]].concat(),
            None => tail.to_vec(),
        }
    }

    /// Returns the levels of the contexts that were seen, from the empty one on.
    fn levels(&self, context: &[u32]) -> Vec<Level> {
        let level = |length: usize| {
            let node = self.node(&context[context.len() - length..])?;
            let Followers { total, kinds } = self.followers[node as usize];
            let discounts = self.discounts[length];
            let handed_out = discounts.iter().zip(kinds).map(|(d, n)| d * f64::from(n)).sum();
            (total > 0).then_some(Level { node, total: total as f64, handed_out, discounts })
        };
        (0..=context.len().min(self.order - 1)).map_while(level).collect()
    }

    /// Computes p(w | h) of one symbol w, from the uniform distribution up to the longest context h.
    fn of_symbol(&self, levels: &[Level], symbol: u32) -> f64 {
        let mut p = 1.0 / f64::from(self.vocab);
        for Level { node, total, handed_out, discounts } in levels {
            let own = match self.children.get(&(*node, symbol)).map_or(0, |&child| self.counts[child as usize]) {
                0 => 0.0,
                c => f64::from(c) - discounts[(c as usize).min(3) - 1],
            };
            p = own / total + handed_out / total * p;
        }
        p
    }

    /// Computes −ln p of a sequence, its end included, in nats.
    pub fn nll(&self, sequence: &[u32]) -> f64 {
        let symbols: Vec<u32> = [self.begin()].into_iter().chain(sequence.iter().copied()).chain(self.separator).collect();
        (1..symbols.len()).map(|at| -self.probability(&symbols[..at], symbols[at]).ln()).sum()
    }

    fn node(&self, ngram: &[u32]) -> Option<Node> {
        ngram.iter().try_fold(ROOT, |node, &symbol| self.children.get(&(node, symbol)).copied())
    }

    /// Returns the tree of n-grams as three lists: the index of the n-gram that each extends (0: the empty one), last symbol, c.
    pub fn to_lists(&self) -> [Vec<u32>; 3] {
        let (parents, symbols) = self.nodes.iter().copied().unzip();
        [parents, symbols, self.counts[1..].to_vec()]
    }

    /// Returns the model of these lists ([`to_lists`](Self::to_lists)).
    ///
    /// # Errors
    /// Returns a description of the first n-gram that is invalid, or of lists of different lengths.
    pub fn from_lists(
        separator: Option<u32>,
        order: usize,
        vocab: usize,
        [parents, symbols, counts]: [Vec<u32>; 3],
    ) -> Result<Self, String> {
        let n = parents.len();
        if symbols.len() != n || counts.len() != n || n >= u32::MAX as usize {
            return Err(format!("expected lists of one length, found {n}, {} and {}", symbols.len(), counts.len()));
        }
        if counts.iter().all(|&count| count == 0) {
            return Err("expected an n-gram that occurs, found none".into());
        }
        let mut model = Self::empty(separator, order, vocab);
        let mut lengths = vec![0];
        for (node, (&parent, symbol)) in (1..).zip(parents.iter().zip(symbols)) {
            let is_symbol = symbol < model.begin() || symbol == model.begin() && parent == ROOT;
            let length = lengths.get(parent as usize).map_or(usize::MAX, |length| length + 1);
            if !is_symbol || length > order || model.children.insert((parent, symbol), node).is_some() {
                return Err(format!(
                    "n-gram {node}: expected a new n-gram of at most {order} ids below {vocab}; the first may be the begin symbol, {vocab}"
                ));
            }
            lengths.push(length);
            model.nodes.push((parent, symbol));
        }
        model.counts.extend(counts);
        model.summarise();
        Ok(model)
    }
}

/// Computes the three discounts from the numbers of n-grams with counts 1 to 4.
fn discounts(n: &[u64; 5]) -> [f64; 3] {
    let [n1, n2, n3, n4, _] = n.map(|n| n as f64);
    let y = n1 / (n1 + 2.0 * n2);
    [(1.0, n1, n2), (2.0, n2, n3), (3.0, n3, n4)].map(|(k, lower, upper)| {
        let d = k - (k + 1.0) * y * upper / lower;
        // Small or very regular corpora give D outside (0, k]; D is then half the count, as in KenLM.
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
        let open = |order| KneserNey::between(None, order, CORPUS.map(<[u32]>::to_vec), 8);
        for model in (1..=6).flat_map(|order| [KneserNey::train(order, CORPUS, 8), open(order)]) {
            let begin = model.begin();
            let mut contexts: Vec<Vec<u32>> = vec![vec![], vec![7], vec![6, 7, 6], vec![begin, 7], vec![5]];
            for sequence in CORPUS {
                let opened = [&[begin], sequence].concat();
                contexts.extend((0..=opened.len()).map(|n| opened[..n].to_vec()));
            }
            for context in contexts {
                let sum: f64 = (0..model.vocab() as u32).map(|w| model.probability(&context, w)).sum();
                assert!((sum - 1.0).abs() < 1e-12, "order {}, {context:?}: {sum}", model.order());
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
        // After 0 come 1, 0 and the end, once each: total 3, discounted mass 3 · 2/3.
        let after = (1.0 - 2.0 / 3.0) / 3.0 + (3.0 * 2.0 / 3.0) / 3.0 * one;
        assert!((model.probability(&[0], 1) - after).abs() < 1e-12);
    }

    /// D₂ = 2 − 3·Y·n₃/n₂ = 2 − 3·(1/3)·2 = 0 is no discount, and neither is 0/0.
    #[test]
    fn a_zero_or_undefined_discount_is_half_the_count() {
        assert_eq!(discounts(&[0; 5]), [0.5, 1.0, 1.5]);
        assert_eq!(discounts(&[1, 1, 2, 0, 0]), [1.0 - 2.0 * (1.0 / 3.0), 1.0, 3.0]);
        assert_eq!(discounts(&[1, 1, 3, 5, 0])[1..], [1.0, 3.0 - 4.0 * (1.0 / 3.0) * 5.0 / 3.0]);
    }

    #[test]
    fn the_loss_of_a_sequence_is_the_sum_over_its_symbols_and_its_end() {
        let model = KneserNey::train(3, CORPUS, 8);
        let begin = model.begin();
        let p = model.probability(&[begin], 0) * model.probability(&[begin, 0], 1) * model.probability(&[begin, 0, 1], 8);
        assert!((model.nll(&[0, 1]) + p.ln()).abs() < 1e-12);
    }

    /// With a separator, its id is the end symbol, so the ids alone sum to 1.
    #[test]
    fn a_separator_is_both_the_begin_and_the_end_symbol() {
        let model = KneserNey::between(Some(7), 3, CORPUS.map(<[u32]>::to_vec), 8);
        let plain = KneserNey::train(3, CORPUS, 7);
        let begin = plain.begin();
        for (text, context) in [(&[][..], &[][..]), (&[7], &[begin]), (&[3, 7, 0], &[begin, 0]), (&[4, 0, 1], &[0, 1])] {
            let found = model.probabilities(text);
            assert!((found.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{text:?}");
            // Seven other ids and the end symbol, which is id 7 in both.
            (0..8).for_each(|id| assert_eq!(found[id as usize], plain.probability(context, id), "{text:?} {id}"));
        }
        let losses: f64 = model.losses(&[7, 0, 1, 7]).iter().sum();
        assert_eq!(losses, plain.nll(&[0, 1]));
    }

    #[test]
    fn lists_restore_the_model_and_invalid_lists_are_rejected() {
        for (separator, order) in [(None, 4), (Some(7), 2)] {
            let model = KneserNey::between(separator, order, CORPUS.map(<[u32]>::to_vec), 8);
            let of = |order, lists| KneserNey::from_lists(separator, order, 8, lists);
            assert_eq!(of(order, model.to_lists()), Ok(model.clone()));
            assert_eq!(model.ngrams(), model.to_lists()[0].len());
            let broken = |change: fn(&mut [Vec<u32>; 3])| {
                let mut lists = model.to_lists();
                change(&mut lists);
                of(order, lists).is_err()
            };
            assert!(broken(|lists| lists[0][5] = 6), "a later parent");
            assert!(broken(|lists| lists[1][5] = 9), "no symbol");
            assert!(broken(|lists| lists[1][5] = 8), "a begin symbol after the first place");
            assert!(broken(|lists| lists[2].fill(0)), "nothing occurs");
            assert!(broken(|lists| lists.iter_mut().for_each(Vec::clear)), "no n-grams");
            assert!(broken(|lists| (lists[0][5], lists[1][5]) = (lists[0][4], lists[1][4])), "twice");
            assert!(broken(|lists| _ = lists[2].pop()), "a count is missing");
            assert!(of(1, model.to_lists()).is_err(), "too long");
        }
    }

    #[test]
    fn a_higher_order_learns_a_regular_text_better() {
        let text: Vec<u32> = (0..60).map(|i| [0, 1, 0, 2, 0, 3][i % 6]).collect();
        let loss = |order| KneserNey::train(order, [text.as_slice(); 4], 4).nll(&text);
        assert!(loss(3) < 0.5 * loss(1));
    }
}

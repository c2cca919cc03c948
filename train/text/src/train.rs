//! Learning a BPE vocabulary from a corpus.
//!
//! ```text
//! count the words of the corpus; write each as its symbols, the last with </w>
//! repeat: count(a, b) = Σ over words  (occurrences of a b in it) · (occurrences of the word)
//!         merge the pair of the largest count everywhere
//! ```
//!
//! Ties go to the pair with the older left symbol (the smaller id), then to the one with the older right symbol. So the result
//! depends only on the corpus, not on the number of threads or the order of its files.
//!
//! Each merge changes only the words that contain the pair, so counts are updated word by word. A heap holds upper bounds of the
//! counts: a count that has fallen since it was pushed is pushed again with its present value when it is popped.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use gradus_io::numbers::count as number;
use rayon::prelude::*;

use crate::basic;
use crate::bpe::{Bpe, UNKNOWN, alphabet};
use crate::error::TextError;
use crate::matcher::{Edges, Matcher, Piece, Target};
use crate::mode::Mode;
use crate::tokenizer::Tokenizer;

/// The maximum length of a word, in characters. Longer ones count for the alphabet only, as every merge would traverse them.
pub const LONGEST_WORD: usize = 1000;

/// The options of the training.
#[derive(Clone, Debug)]
pub struct BpeTrainer {
    /// The number of ids in all: `<unk>`, characters twice (within a word, at its end), merges and specials. A corpus with too
    /// few repeated pairs gives fewer.
    pub vocab_size: usize,
    /// Control tokens, such as `<start>`. They get the last ids, in this order, and are not words of the corpus.
    pub specials: Vec<String>,
    /// The minimum number of occurrences of a pair that is merged. Default: 2.
    pub min_frequency: u64,
    /// The number of characters that are kept, the most common (ties: the smaller code point); the others become `<unk>`.
    /// Default: all.
    pub max_characters: Option<usize>,
    /// The mode in which text is split into words. Default: [`Mode::Basic`].
    pub mode: Mode,
}

impl BpeTrainer {
    /// Creates a trainer for `vocab_size` ids in all, without specials.
    pub fn new(vocab_size: usize) -> Self {
        BpeTrainer { vocab_size, specials: Vec::new(), min_frequency: 2, max_characters: None, mode: Mode::Basic }
    }

    /// Creates an empty count with this trainer's specials. Add each text of the corpus to it, then call [`train`](Self::train).
    pub fn word_counts(&self) -> WordCounts {
        let mut specials = Matcher::default();
        for special in self.specials.iter().map(String::as_str).filter(|s| !s.is_empty()).chain([UNKNOWN]) {
            specials.insert(special.to_owned(), Target { id: 0, edges: Edges::default(), skipped: false });
        }
        WordCounts { specials, mode: self.mode, counts: Counts::new(), read: 0, folded: 0, first_folded: None }
    }

    /// Learns the vocabulary from the counted words. `progress(done, total)` is called from time to time with the number of
    /// merges.
    ///
    /// The vocabulary has GPT-1's layout: `<unk>` is 0, then the characters by code point, the characters with `</w>`, the merges
    /// by rank, the specials. (A token that two different pairs make has one id, that of the first.)
    ///
    /// # Errors
    /// Returns [`TextError::TooSmall`] if `vocab_size` is too small for the characters; [`TextError::Special`] for an empty or
    /// repeated special.
    pub fn train(&self, words: &WordCounts, mut progress: impl FnMut(usize, usize)) -> Result<Tokenizer, TextError> {
        let characters = self.characters(words);
        let needed = 1 + 2 * characters.len() + self.specials.len();
        if self.vocab_size < needed {
            return Err(TextError::TooSmall {
                requested: self.vocab_size,
                needed,
                characters: characters.len(),
                specials: self.specials.len(),
            });
        }
        let mut tokens = alphabet(&characters);
        let mut pairs = Pairs::new(words, &characters);
        let mut ids: HashMap<String, u32> = tokens.iter().cloned().zip(0..).collect();
        let mut merges = Vec::new();
        let total = self.vocab_size - needed;
        let first_merge = tokens.len();
        while tokens.len() < first_merge + total
            && let Some((a, b)) = pairs.pop(self.min_frequency.max(1))
        {
            let (left, right) = (tokens[a as usize].clone(), tokens[b as usize].clone());
            let merged = format!("{left}{right}");
            let new = *ids.entry(merged.clone()).or_insert(tokens.len() as u32);
            if new as usize == tokens.len() {
                tokens.push(merged);
            }
            pairs.merge((a, b), new);
            merges.push((left, right));
            let done = tokens.len() - first_merge;
            if done.is_multiple_of(256) {
                progress(done, total);
            }
        }
        progress(tokens.len() - first_merge, total);
        let mut tokenizer = Tokenizer::bpe(Bpe::new(tokens, &merges)?.with_mode(words.mode));
        for special in &self.specials {
            if tokenizer.token_id(special).is_some() {
                let reason = "it is in the vocabulary already. Choose another name, such as <start>".into();
                return Err(TextError::Special { token: special.clone(), reason });
            }
            tokenizer.add_special(special)?;
        }
        Ok(tokenizer)
    }

    /// Returns the characters to keep, by code point.
    fn characters(&self, words: &WordCounts) -> Vec<char> {
        let mut counts: BTreeMap<char, u64> = BTreeMap::new();
        for (word, n) in &words.counts {
            for c in word.chars() {
                *counts.entry(c).or_default() += n;
            }
        }
        let mut characters: Vec<char> = counts.keys().copied().collect();
        if let Some(max) = self.max_characters {
            characters.sort_by_key(|c| Reverse(counts[c])); // stable: ties stay by code point
            characters.truncate(max);
            characters.sort_unstable();
        }
        characters
    }
}

/// The number of occurrences of each word.
#[derive(Clone, Debug)]
pub struct WordCounts {
    specials: Matcher,
    mode: Mode,
    counts: Counts,
    /// The number of words read.
    read: usize,
    /// The number of words whose accents mode `basic` removes, and the first of them.
    folded: usize,
    first_folded: Option<String>,
}

type Counts = HashMap<Box<str>, u64>;

impl WordCounts {
    /// Returns the number of different words that are too long to learn from.
    pub fn too_long(&self) -> usize {
        self.counts.keys().filter(|word| word.chars().count() > LONGEST_WORD).count()
    }

    /// Returns a note on lost accents if mode `basic` removes the accents of at least one word in a thousand.
    pub fn note(&self) -> Option<String> {
        let first = self.first_folded.as_ref().filter(|_| 1000 * self.folded >= self.read)?;
        let (folded, read) = (number(self.folded as u64), number(self.read as u64));
        Some(format!(
            "note: mode `basic`, GPT-1's, strips accents and capitals: {folded} of {read} words have accents ({first} becomes {}), and \
             the model will write them without; --mode spacy keeps accents, a tokenizer of characters or bytes keeps all",
            basic::normalize(first)
        ))
    }

    /// Counts the words of one text, on all threads. Specials, and `<unk>` itself, are cut out first.
    pub fn add(&mut self, text: &str) {
        if self.mode == Mode::Basic {
            self.look_for_accents(text);
        }
        for (_, piece) in self.specials.split(text) {
            let Piece::Text(text) = piece else { continue };
            let counts = match self.mode {
                // No word extends across a blank or a line end.
                Mode::Basic => text.par_split([' ', '\n']).fold(Counts::new, counted).reduce(Counts::new, merged),
                mode => {
                    let mut counts = Counts::new();
                    mode.for_each_word(text, false, |word| count(&mut counts, word));
                    counts
                }
            };
            self.counts = merged(std::mem::take(&mut self.counts), counts);
        }
    }
}

impl WordCounts {
    fn look_for_accents(&mut self, text: &str) {
        for word in text.split_whitespace() {
            self.read += 1;
            if basic::loses_accents(word) {
                self.folded += 1;
                self.first_folded.get_or_insert_with(|| word.chars().filter(|c| c.is_alphanumeric()).collect());
            }
        }
    }
}

fn merged(a: Counts, b: Counts) -> Counts {
    let (mut large, small) = if a.len() < b.len() { (b, a) } else { (a, b) };
    for (word, n) in small {
        *large.entry(word).or_default() += n;
    }
    large
}

/// Adds the words of `text` to `counts`.
fn counted(mut counts: Counts, text: &str) -> Counts {
    basic::for_each_word(text, |word| count(&mut counts, word));
    counts
}

fn count(counts: &mut Counts, word: &str) {
    match counts.get_mut(word) {
        Some(n) => *n += 1,
        None => _ = counts.insert(word.into(), 1),
    }
}

type Pair = (u32, u32);

/// The words as symbols, and every pair of neighbours with its count and its words.
struct Pairs {
    words: Vec<(Vec<u32>, u64)>,
    pairs: HashMap<Pair, Occurrences>,
    heap: BinaryHeap<(u64, Reverse<Pair>)>, // counts here are never below the true ones
}

#[derive(Default)]
struct Occurrences {
    count: u64,
    words: Vec<u32>, // may include words that have lost the pair, or a word twice
}

impl Pairs {
    fn new(words: &WordCounts, characters: &[char]) -> Self {
        let id = |c: char| characters.binary_search(&c).map_or(0, |i| 1 + i as u32);
        let symbols = |word: &str| -> Vec<u32> {
            let mut symbols: Vec<u32> = word.chars().map(id).collect();
            if let Some(last) = symbols.last_mut().filter(|last| **last != 0) {
                *last += characters.len() as u32;
            }
            symbols
        };
        let words: Vec<_> = words.counts.iter().map(|(w, &n)| (symbols(w), n)).filter(|(s, _)| s.len() <= LONGEST_WORD).collect();
        let mut pairs: HashMap<Pair, Occurrences> = HashMap::new();
        for ((symbols, n), i) in words.iter().zip(0..) {
            for pair in neighbours(symbols) {
                let at = pairs.entry(pair).or_default();
                at.count += n;
                if at.words.last() != Some(&i) {
                    at.words.push(i);
                }
            }
        }
        let heap = pairs.iter().map(|(&pair, at)| (at.count, Reverse(pair))).collect();
        Pairs { words, pairs, heap }
    }

    /// Pops the pair to merge next: the largest count, then the smallest ids.
    fn pop(&mut self, min: u64) -> Option<Pair> {
        while let Some((bound, Reverse(pair))) = self.heap.pop() {
            let count = self.pairs.get(&pair).map_or(0, |at| at.count);
            if count == bound && count >= min {
                return Some(pair);
            }
            if min <= count && count < bound {
                self.heap.push((count, Reverse(pair)));
            }
        }
        None
    }

    /// Replaces the pair by `new` in every word that contains it.
    fn merge(&mut self, pair: Pair, new: u32) {
        let mut holders = std::mem::take(&mut self.pairs.entry(pair).or_default().words);
        holders.sort_unstable();
        holders.dedup();
        let mut grown = Vec::new();
        for i in holders {
            let (symbols, n) = &mut self.words[i as usize];
            let before = symbols.clone();
            replace(symbols, pair, new);
            if symbols.len() == before.len() {
                continue;
            }
            for old in neighbours(&before) {
                if let Some(at) = self.pairs.get_mut(&old) {
                    at.count -= *n;
                }
            }
            for now in neighbours(symbols) {
                let at = self.pairs.entry(now).or_default();
                at.count += *n;
                if now.0 == new || now.1 == new {
                    at.words.push(i);
                    grown.push(now);
                }
            }
        }
        self.pairs.remove(&pair);
        grown.sort_unstable();
        grown.dedup();
        self.heap.extend(grown.into_iter().map(|p| (self.pairs.get(&p).map_or(0, |at| at.count), Reverse(p))));
    }
}

/// Returns the pairs of neighbours in a word, except those with an unknown symbol.
fn neighbours(symbols: &[u32]) -> impl Iterator<Item = Pair> + '_ {
    symbols.windows(2).map(|w| (w[0], w[1])).filter(|&(a, b)| a != 0 && b != 0)
}

/// Replaces the pair from left to right.
fn replace(symbols: &mut Vec<u32>, (a, b): Pair, new: u32) {
    let mut write = 0;
    let mut read = 0;
    while read < symbols.len() {
        let hit = symbols[read] == a && symbols.get(read + 1) == Some(&b);
        symbols[write] = if hit { new } else { symbols[read] };
        read += if hit { 2 } else { 1 };
        write += 1;
    }
    symbols.truncate(write);
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Vocabulary;

    const CORPUS: &str = "low low low low low lower lower newest newest newest newest newest newest widest widest widest \
                          aaaa aaa aaaaa abab baba banana ananas aaab aab ab <start> Änd über 日本";

    fn trained(trainer: &BpeTrainer, texts: &[&str]) -> Tokenizer {
        let mut words = trainer.word_counts();
        texts.iter().for_each(|t| words.add(t));
        trainer.train(&words, |_, _| {}).unwrap()
    }

    fn bpe(tokenizer: &Tokenizer) -> &Bpe {
        let Vocabulary::Bpe(bpe) = tokenizer.vocabulary() else { panic!("a BPE") };
        bpe
    }

    #[test]
    fn lost_accents_are_noted() {
        let note = |mode, text: &str| {
            let mut words = BpeTrainer { mode, ..BpeTrainer::new(100) }.word_counts();
            words.add(text);
            words.note()
        };
        let message = note(Mode::Basic, "Eine Brücke, für alle <unk>").expect("a note");
        assert!(message.contains("2 of 5 words") && message.contains("(Brücke becomes brucke)"), "{message}");
        assert_eq!(note(Mode::Spacy, "Eine Brücke"), None);
        assert_eq!(note(Mode::Basic, "A bridge — for all of us: 橋"), None);
        assert_eq!(note(Mode::Basic, &("café ".to_owned() + &"tea ".repeat(2000))), None);
    }

    /// Computes the definition: count all pairs of all words again for every merge.
    fn naive(words: &WordCounts, characters: &[char], merges: usize) -> Vec<(String, String)> {
        let mut tokens = alphabet(characters);
        let mut words = Pairs::new(words, characters).words;
        let mut out = Vec::new();
        for _ in 0..merges {
            let mut counts: BTreeMap<Pair, u64> = BTreeMap::new();
            for (symbols, n) in &words {
                neighbours(symbols).for_each(|p| *counts.entry(p).or_default() += n);
            }
            let Some((&pair, _)) = counts.iter().filter(|(_, n)| **n >= 2).max_by_key(|(p, n)| (**n, Reverse(**p))) else {
                break;
            };
            let (a, b) = (tokens[pair.0 as usize].clone(), tokens[pair.1 as usize].clone());
            let merged = format!("{a}{b}");
            let new = tokens.iter().position(|t| *t == merged).unwrap_or_else(|| {
                tokens.push(merged);
                tokens.len() - 1
            });
            words.iter_mut().for_each(|(symbols, _)| replace(symbols, pair, new as u32));
            out.push((a, b));
        }
        out
    }

    #[test]
    fn the_heap_equals_the_definition() {
        let corpus = CORPUS.replace("<start>", "overlapping aaaaaaa abababab bananarama lowest wider");
        let trainer = BpeTrainer::new(400);
        let mut words = trainer.word_counts();
        words.add(&corpus);
        let tokenizer = trainer.train(&words, |_, _| {}).unwrap();
        let learned: Vec<_> = bpe(&tokenizer).merge_tokens().map(|(a, b)| (a.to_owned(), b.to_owned())).collect();
        assert_eq!(learned, naive(&words, &trainer.characters(&words), 400));
        assert_eq!(learned.len(), 23);
    }

    /// Compares with the vocabulary that tests/golden/tokenizer.py learns from the same corpus, with the same rule for ties.
    #[test]
    fn the_vocabulary_equals_that_of_the_reference() {
        let data = Path::new("tests/data/tokenizer");
        let reference = Tokenizer::load(data).unwrap();
        let reference = bpe(&reference);
        let corpus = crate::read_text(&data.join("corpus.txt")).unwrap();
        let tokenizer = trained(&BpeTrainer::new(reference.tokens().len()), &[&corpus]);
        assert_eq!(bpe(&tokenizer).tokens(), reference.tokens());
        assert_eq!(bpe(&tokenizer).merges(), reference.merges());
        assert_eq!(reference.merges().len(), 90);
    }

    #[test]
    fn the_vocabulary_is_ordered_as_in_gpt_1() {
        let trainer = BpeTrainer { specials: vec!["<start>".into(), "<end>".into()], ..BpeTrainer::new(60) };
        let tokenizer = trained(&trainer, &["ab ab abc b <start> ab"]);
        let tokens: Vec<_> = (0..tokenizer.vocab_size() as u32).map(|i| tokenizer.token(i).unwrap()).collect();
        assert_eq!(
            tokens,
            ["<unk>", "a", "b", "c", "a</w>", "b</w>", "c</w>", "ab</w>", "<start>", "<end>"],
            "only one pair occurs twice"
        );
        assert_eq!(tokenizer.encode("ab<start>C").unwrap(), [7, 8, 6]);
    }

    #[test]
    fn the_vocabulary_size_includes_all_tokens() {
        let trainer = BpeTrainer { specials: vec!["<start>".into()], ..BpeTrainer::new(50) };
        assert_eq!(trained(&trainer, &[CORPUS]).vocab_size(), 50);
        let small = BpeTrainer::new(20);
        let mut words = small.word_counts();
        words.add(CORPUS);
        let error = small.train(&words, |_, _| {}).unwrap_err();
        assert!(matches!(error, TextError::TooSmall { requested: 20, needed: 35, characters: 17, specials: 0 }), "{error}");
        let few = BpeTrainer { max_characters: Some(3), ..small };
        let tokenizer = few.train(&words, |_, _| {}).unwrap();
        assert_eq!(bpe(&tokenizer).tokens()[1..4], ["a", "e", "w"]);
    }

    #[test]
    fn threads_and_order_do_not_change_the_result() {
        let long = CORPUS.repeat(3000);
        let texts: Vec<&str> = CORPUS.split(' ').collect();
        let reversed: Vec<&str> = texts.iter().rev().copied().collect();
        let trainer = BpeTrainer::new(70);
        let on = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| trained(&trainer, &[&long]).fingerprint())
        };
        assert_eq!(on(1), on(4));
        assert_eq!(trained(&trainer, &texts).fingerprint(), trained(&trainer, &reversed).fingerprint());
    }
}

//! The search for added tokens in a text, as by `AddedVocabulary::find_matches` of `tokenizers`: the leftmost, and among those
//! with the same start the longest.

use std::collections::{HashMap, VecDeque};
use std::sync::OnceLock;

use unicode_categories::UnicodeCategories;

/// The options of an added token for the text next to the token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Edges {
    /// Whether the token includes the white space before it (`lstrip`).
    pub left: bool,
    /// Whether the token includes the white space after it (`rstrip`).
    pub right: bool,
    /// Whether the token is matched only if no word character is next to it (`single_word`).
    pub word: bool,
}

/// The token of a pattern.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub id: u32,
    /// The options for the text next to the token.
    pub edges: Edges,
    /// Whether its matches stay text.
    pub skipped: bool,
}

/// A set of patterns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Matcher {
    patterns: HashMap<String, Target>,
    /// The automaton of the patterns, built by the first search.
    automaton: OnceLock<Automaton>,
}

/// A piece of text, or a token found in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    Text(&'a str),
    Token(u32),
}

/// A token found in a text, from `start` to `end`, including the white space that belongs to it.
#[derive(Clone, Copy)]
struct Match {
    start: usize,
    end: usize,
    id: u32,
}

/// The state of a search.
#[derive(Clone, Copy, Default)]
struct Search {
    /// The start of the text that is not yet part of a piece.
    from: usize,
    /// The earliest start of the next pattern: after the last one, without the white space that belongs to it.
    at: usize,
    /// The end of the last run of white space after a pattern.
    blank: usize,
}

impl Matcher {
    /// Adds a pattern that is not empty. Of two equal patterns, the first counts.
    pub(crate) fn insert(&mut self, pattern: String, target: Target) {
        self.patterns.entry(pattern).or_insert(target);
        self.automaton = OnceLock::new();
    }

    /// Removes the pattern of a token.
    pub(crate) fn remove(&mut self, pattern: &str, id: u32) {
        if self.patterns.get(pattern).is_some_and(|target| target.id == id) {
            self.patterns.remove(pattern);
            self.automaton = OnceLock::new();
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Returns the last bytes of the tokens that include the white space after them.
    pub(crate) fn ends_before_space(&self) -> impl Iterator<Item = u8> {
        let all = self.patterns.iter().filter(|(_, target)| target.edges.right);
        all.filter_map(|(pattern, _)| pattern.as_bytes().last().copied())
    }

    /// Splits `text` into its tokens and the text between them, each with its byte offset.
    pub(crate) fn split<'a>(&'a self, text: &'a str) -> impl Iterator<Item = (usize, Piece<'a>)> {
        let (mut search, mut found) = (Search::default(), None); // `found`: a token after the text that was returned last
        std::iter::from_fn(move || {
            let from = search.from;
            let (end, piece) = match found.take().or_else(|| self.find(text, &mut search)) {
                Some(Match { start, end, id }) if start <= from => (end, (start, Piece::Token(id))),
                Some(next) => {
                    found = Some(next);
                    (next.start, (from, Piece::Text(&text[from..next.start])))
                }
                None if from < text.len() => (text.len(), (from, Piece::Text(&text[from..]))),
                None => return None,
            };
            search.from = end;
            Some(piece)
        })
    }

    /// Finds the next match. After a skipped match, or one that `single_word` rejects, the search continues behind it.
    fn find(&self, text: &str, search: &mut Search) -> Option<Match> {
        if self.is_empty() {
            return None;
        }
        let automaton = self.automaton.get_or_init(|| Automaton::of(&self.patterns));
        while let Some((mut start, mut end, Target { id, edges, skipped })) = automaton.find(text.as_bytes(), search.at) {
            search.at = end;
            let (before, after) = (&text[..start], &text[end..]);
            let is_within = before.chars().next_back().is_some_and(is_word) || after.chars().next().is_some_and(is_word);
            if skipped || (edges.word && is_within) {
                continue;
            }
            if edges.left {
                let from = search.from.min(start);
                start = search.from.max(from + text[from..start].trim_end().len());
            }
            if edges.right {
                if search.blank < end {
                    search.blank = text.len() - after.trim_start().len();
                }
                end = search.blank;
            }
            return Some(Match { start, end: end.max(start), id });
        }
        search.at = text.len();
        None
    }
}

/// The automaton of Aho and Corasick (1975), over bytes. A node represents the beginning of a pattern; node 0 is empty.
#[derive(Clone, Debug)]
struct Automaton {
    next: HashMap<(u32, u8), u32>,
    nodes: Vec<Node>,
    starts: [bool; 256],
}

#[derive(Clone, Debug, Default)]
struct Node {
    /// The number of bytes.
    depth: usize,
    /// The longest other node that is a suffix of the bytes.
    fail: u32,
    /// The longest pattern that is a suffix of the bytes, and its length.
    pattern: Option<(usize, Target)>,
}

impl Automaton {
    fn of(patterns: &HashMap<String, Target>) -> Self {
        let mut automaton = Automaton { next: HashMap::new(), nodes: vec![Node::default()], starts: [false; 256] };
        let mut children = vec![Vec::new()];
        for (pattern, target) in patterns {
            let mut node = 0;
            for (depth, byte) in (1..).zip(pattern.bytes()) {
                let fresh = automaton.nodes.len() as u32;
                let child = *automaton.next.entry((node, byte)).or_insert(fresh);
                if child == fresh {
                    automaton.nodes.push(Node { depth, ..Node::default() });
                    children.push(Vec::new());
                    children[node as usize].push((byte, child));
                }
                node = child;
            }
            automaton.nodes[node as usize].pattern = Some((pattern.len(), *target));
            automaton.starts[pattern.as_bytes()[0] as usize] = true;
        }
        let mut queue = VecDeque::from([0]);
        while let Some(node) = queue.pop_front() {
            for (byte, child) in std::mem::take(&mut children[node as usize]) {
                let fail = if node == 0 { 0 } else { automaton.step(automaton.nodes[node as usize].fail, byte) };
                let shorter = automaton.nodes[fail as usize].pattern;
                let child_node = &mut automaton.nodes[child as usize];
                (child_node.fail, child_node.pattern) = (fail, child_node.pattern.or(shorter));
                queue.push_back(child);
            }
        }
        automaton
    }

    /// Returns the longest node that is a suffix of a node's bytes followed by `byte`.
    fn step(&self, mut node: u32, byte: u8) -> u32 {
        loop {
            match self.next.get(&(node, byte)) {
                Some(&next) => return next,
                None if node == 0 => return 0,
                None => node = self.nodes[node as usize].fail,
            }
        }
    }

    /// Finds the leftmost longest pattern from byte `from` on: its start, its end and its target.
    fn find(&self, bytes: &[u8], from: usize) -> Option<(usize, usize, Target)> {
        let (mut node, mut best) = (0, None::<(usize, usize, Target)>);
        for (end, &byte) in (from + 1..).zip(&bytes[from..]) {
            if node == 0 && !self.starts[byte as usize] {
                if best.is_some() {
                    break;
                }
                continue;
            }
            node = self.step(node, byte);
            let Node { depth, pattern, .. } = self.nodes[node as usize];
            if best.is_some_and(|(start, ..)| start < end - depth) {
                break;
            }
            if let Some((length, target)) = pattern
                && best.is_none_or(|(start, ..)| end - length <= start)
            {
                best = Some((end - length, end, target));
            }
        }
        best
    }
}

/// Returns whether the regular expression `\w` matches a character (Unicode Technical Standard 18, Annex C).
fn is_word(c: char) -> bool {
    c.is_alphabetic()
        || c.is_number_decimal_digit()
        || c.is_mark()
        || c.is_punctuation_connector()
        || matches!(c, '\u{200c}' | '\u{200d}')
}

#[cfg(test)]
mod tests {
    use super::Piece::{Text, Token};
    use super::*;

    fn matcher(patterns: &[(&str, Edges)]) -> Matcher {
        let mut matcher = Matcher::default();
        for (id, (pattern, edges)) in (0..).zip(patterns) {
            matcher.insert((*pattern).into(), Target { id, edges: *edges, skipped: false });
        }
        matcher
    }

    fn pieces<'a>(matcher: &'a Matcher, text: &'a str) -> Vec<Piece<'a>> {
        matcher.split(text).map(|(_, piece)| piece).collect()
    }

    #[test]
    fn leftmost_longest() {
        let mut matcher = matcher(&["<a>", "<a><b>", "é"].map(|pattern| (pattern, Edges::default())));
        assert_eq!(
            matcher.split("x<a><b><a>é<a").collect::<Vec<_>>(),
            [(0, Text("x")), (1, Token(1)), (7, Token(0)), (10, Token(2)), (12, Text("<a"))]
        );
        let other = Target { id: 9, edges: Edges::default(), skipped: false };
        matcher.insert("é".into(), other);
        assert_eq!(pieces(&matcher, "é"), [Token(2)], "of two alike the first");
        matcher.remove("é", 9);
        assert_eq!(pieces(&matcher, "é"), [Token(2)], "the pattern of another token stays");
        matcher.remove("é", 2);
        assert_eq!(pieces(&matcher, "é"), [Text("é")]);
        assert_eq!(matcher.split("").count(), 0);
        assert_eq!(pieces(&Matcher::default(), "<a>"), [Text("<a>")]);
    }

    /// Compares with the definition: the least start, and then the greatest end.
    #[test]
    fn the_automaton_finds_the_leftmost_longest_match() {
        let mut state = 1u64;
        let mut below = |n: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % n
        };
        for _ in 0..2000 {
            let mut word = |most: u64| -> String { (0..=below(most)).map(|_| ['a', 'b', 'é'][below(3) as usize]).collect() };
            let (patterns, text) = ([word(4), word(4), word(3), word(2)], word(30));
            let matcher = matcher(&patterns.each_ref().map(|pattern| (pattern.as_str(), Edges::default())));
            let automaton = Automaton::of(&matcher.patterns);
            for from in (0..text.len()).filter(|&from| text.is_char_boundary(from)) {
                let all = patterns.iter().filter_map(|pattern| Some((from + text[from..].find(pattern)?, pattern.len())));
                let expected = all.min_by_key(|&(start, length)| (start, std::cmp::Reverse(length)));
                let found = automaton.find(text.as_bytes(), from).map(|(start, end, _)| (start, end - start));
                assert_eq!(found, expected, "{patterns:?} in {text:?} from {from}");
            }
        }
    }

    /// A search that restarted at each byte would take 10 billion steps.
    #[test]
    fn a_repeated_prefix_of_a_long_token_takes_linear_time() {
        let (beginning, edges) = ("a".repeat(100_000), Edges::default());
        let matcher = matcher(&[(&format!("{beginning}<"), edges), ("b", Edges { left: true, right: true, ..edges })]);
        assert_eq!(pieces(&matcher, &format!("{beginning}ab")), [Text(&format!("a{beginning}")), Token(1)]);
        assert_eq!(pieces(&matcher, &format!("{beginning}a<")), [Text("a"), Token(0)]);
        assert_eq!(pieces(&matcher, &" b".repeat(50_000)).len(), 50_000);
    }

    #[test]
    fn white_space_left_of_a_token_is_stripped() {
        let matcher = matcher(&[("<s>", Edges::default()), ("<m>", Edges { left: true, ..Edges::default() })]);
        assert_eq!(
            pieces(&matcher, "a \u{3000}\n<m> <m>  <s> b<m>"),
            [Text("a"), Token(1), Token(1), Text("  "), Token(0), Text(" b"), Token(1)]
        );
        assert_eq!(pieces(&matcher, " <m> "), [Token(1), Text(" ")]);
    }

    /// `tokenizers` searches on from the end of the pattern, so white space may belong to two tokens.
    #[test]
    fn white_space_may_belong_to_two_tokens() {
        let matcher = matcher(&[("<x>", Edges { right: true, ..Edges::default() }), ("  ", Edges::default())]);
        assert_eq!(pieces(&matcher, "a<x>    b  c"), [Text("a"), Token(0), Token(1), Token(1), Text("b"), Token(1), Text("c")]);
    }
}

//! Similarity of two texts. Paraphrases vary the words but not the meaning; any other difference is one of fact.
//!
//! | task | first | second | label |
//! |-|-|-|-|
//! | MRPC | Once the red kite lay at the lake. Mia took her rope to the lake. | The red kite lay at the lake. Mia carried her key to the lake. | 0 |
//! | QQP | Who took the rope to the lake? | To the lake, who carried the rope? | 1 (10 % of the labels are wrong) |
//! | STS-B | The red kite lay at the lake. Mia took her rope to the lake. | Once the blue kite lay at the lake. Mia brought her rope to the lake. | 4 of 5 facts agree |

use gradus_data::sets::Split;
use gradus_world::Gender;

use super::tale::{Tale, Teller, capital};
use super::{FLIPPED, Labelled};

/// Makes a row of five facts and a paraphrase of them (1), or one with one to three other facts (0).
pub(super) fn mrpc(teller: &mut Teller<'_>, _: Split) -> Labelled {
    let label = teller.below(2);
    let agree = if label == 1 { 5 } else { 2 + teller.below(3) };
    let (first, second) = pair(teller, agree);
    let (one, other) = loop {
        let two = (sentences(teller, first), sentences(teller, second));
        if two.0 != two.1 {
            break two;
        }
    };
    Labelled { texts: vec![one, other], label, kind: "" }
}

/// A question, given by its kind and two words; the verb or the wording varies.
struct Query {
    kind: usize,
    words: [&'static str; 2],
}

impl Query {
    fn draw(teller: &mut Teller<'_>) -> Query {
        let tale = teller.tale();
        let f = tale.facts();
        let kind = teller.below(QUERIES.len());
        let words = match kind {
            0 => [f.hero_tool, f.place],
            1 | 2 => [f.colour, f.thing],
            _ => [f.thing, f.place],
        };
        Query { kind, words }
    }

    fn ask(&self, teller: &mut Teller<'_>) -> String {
        let [first, second] = self.words;
        teller.one(QUERIES[self.kind]).replace('1', first).replace('2', second)
    }
}

/// The wordings of four questions; the digits are placeholders for words.
const QUERIES: [&[&str]; 4] = [
    &["Who took the 1 to the 2?", "Who carried the 1 to the 2?", "To the 2, who brought the 1?", "To the 2, who took the 1?"],
    &["Where was the 1 2?", "The 1 2, where was it?", "So where was the 1 2?", "Now the 1 2, where was it?"],
    &["Who had lost the 1 2?", "The 1 2, who had lost it?", "So who had lost the 1 2?", "Now the 1 2, who had lost it?"],
    &["Who had the 1 at the 2?", "At the 2, who had the 1?", "Now who had the 1 at the 2?", "So at the 2, who had the 1?"],
];

/// Makes two questions with equal answers (1) or not (0): one word differs, or the question does. The labels are flipped with
/// probability [`FLIPPED`], in every split, so right answers score at most 0.9.
pub(super) fn qqp(teller: &mut Teller<'_>, _: Split) -> Labelled {
    let query = Query::draw(teller);
    let same = teller.coin();
    let first = query.ask(teller);
    let second = if same {
        query.ask(teller)
    } else {
        loop {
            let other = Query::draw(teller);
            let at = teller.below(2);
            let mut changed = Query { kind: query.kind, words: query.words };
            if matches!(query.kind, 1 | 2) && teller.below(3) == 0 {
                changed.kind = 3 - query.kind;
                break changed.ask(teller);
            } else if other.kind == query.kind && other.words[at] != query.words[at] {
                changed.words[at] = other.words[at];
                break changed.ask(teller);
            }
        }
    };
    if first == second {
        return qqp(teller, Split::Train);
    }
    let flipped = teller.below(FLIPPED) == 0;
    Labelled { texts: vec![first, second], label: usize::from(same != flipped), kind: "" }
}

/// Makes two texts of five facts; the score, 0 to 5, is the number of facts that agree.
pub(super) fn stsb(teller: &mut Teller<'_>, _: Split) -> Labelled {
    let label = teller.below(6);
    let (first, second) = pair(teller, label);
    Labelled { texts: vec![sentences(teller, first), sentences(teller, second)], label, kind: "" }
}

/// A name, a tool, a colour, a thing, a place.
type Five = [&'static str; 5];

fn five(tale: &Tale) -> Five {
    let f = tale.facts();
    [f.hero.name, f.hero_tool, f.colour, f.thing, f.place]
}

/// Returns two lists of five facts, of which `agree` are equal.
fn pair(teller: &mut Teller<'_>, agree: usize) -> (Five, Five) {
    let mut places = [0, 1, 2, 3, 4];
    // The first facts of a random order agree.
    teller.rng.shuffle(&mut places);
    let first = five(&teller.tale());
    loop {
        let mut second = five(&teller.tale());
        if (0..5).all(|i| first[i] != second[i]) {
            places[..agree].iter().for_each(|&i| second[i] = first[i]);
            return (first, second);
        }
    }
}

/// Returns two sentences on five facts: Once the red kite lay at the lake. Mia took her rope to the lake.
fn sentences(teller: &mut Teller<'_>, [name, tool, colour, thing, place]: Five) -> String {
    let (once, took) = (teller.one(&["Once the", "The"]), teller.one(&["took", "carried", "brought"]));
    let (his, name) = (Gender::of(name).possessive(), capital(name));
    format!("{once} {colour} {thing} lay at the {place}. {name} {took} {his} {tool} to the {place}.")
}

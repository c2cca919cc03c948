//! Do two texts say the same? Wordings vary and mean the same; what differs otherwise, differs in fact.
//!
//! | task | first | second | label |
//! |-|-|-|-|
//! | MRPC | Once the red kite lay at the lake. Mia took her rope to the lake. | The red kite lay at the lake. Mia carried her key to the lake. | 0 |
//! | QQP | Who took the rope to the lake? | To the lake, who carried the rope? | 1 (of the labels 10 % are wrong) |
//! | STS-B | The red kite lay at the lake. Mia took her rope to the lake. | Once the blue kite lay at the lake. Mia brought her rope to the lake. | 4 of 5 facts agree |

use gradus_world::Gender;

use super::tale::{Source, Tale, capital};
use super::{FLIPPED, Row, Split};

/// Five facts, and the same in other words (1), or with one to three other facts (0).
pub(super) fn mrpc(source: &mut Source<'_>, _: Split) -> Row {
    let label = source.below(2);
    let agree = if label == 1 { 5 } else { 2 + source.below(3) };
    let (first, second) = pair(source, agree);
    let (one, other) = loop {
        let two = (sentences(source, first), sentences(source, second));
        if two.0 != two.1 {
            break two;
        }
    };
    Row { texts: vec![one, other], label, kind: "" }
}

/// What a question is made of: whether the verb or the wording varies, two words.
struct Query {
    kind: usize,
    words: [&'static str; 2],
}

impl Query {
    fn draw(source: &mut Source<'_>) -> Query {
        let tale = source.tale();
        let f = tale.facts();
        let kind = source.below(QUERIES.len());
        let words = match kind {
            0 => [f.hero_tool, f.place],
            1 | 2 => [f.colour, f.thing],
            _ => [f.thing, f.place],
        };
        Query { kind, words }
    }

    fn ask(&self, source: &mut Source<'_>) -> String {
        let [first, second] = self.words;
        source.one(QUERIES[self.kind]).replace('1', first).replace('2', second)
    }
}

/// Wordings of four questions; the digits stand for their words.
const QUERIES: [&[&str]; 4] = [
    &["Who took the 1 to the 2?", "Who carried the 1 to the 2?", "To the 2, who brought the 1?", "To the 2, who took the 1?"],
    &["Where was the 1 2?", "The 1 2, where was it?", "So where was the 1 2?", "Now the 1 2, where was it?"],
    &["Who had lost the 1 2?", "The 1 2, who had lost it?", "So who had lost the 1 2?", "Now the 1 2, who had lost it?"],
    &["Who had the 1 at the 2?", "At the 2, who had the 1?", "Now who had the 1 at the 2?", "So at the 2, who had the 1?"],
];

/// Two questions with the same answer (1) or not (0): one word differs, or the question does. The labels are flipped with
/// probability [`FLIPPED`], in every split: nobody who answers right can score more than 0.9.
pub(super) fn qqp(source: &mut Source<'_>, _: Split) -> Row {
    let query = Query::draw(source);
    let same = source.coin();
    let first = query.ask(source);
    let second = if same {
        query.ask(source)
    } else {
        loop {
            let other = Query::draw(source);
            let at = source.below(2);
            let mut changed = Query { kind: query.kind, words: query.words };
            if matches!(query.kind, 1 | 2) && source.below(3) == 0 {
                changed.kind = 3 - query.kind;
                break changed.ask(source);
            } else if other.kind == query.kind && other.words[at] != query.words[at] {
                changed.words[at] = other.words[at];
                break changed.ask(source);
            }
        }
    };
    if first == second {
        return qqp(source, Split::Train);
    }
    let flipped = source.below(FLIPPED) == 0;
    Row { texts: vec![first, second], label: usize::from(same != flipped), kind: "" }
}

/// Five facts and five; the score, 0 to 5, is how many of them agree.
pub(super) fn stsb(source: &mut Source<'_>, _: Split) -> Row {
    let label = source.below(6);
    let (first, second) = pair(source, label);
    Row { texts: vec![sentences(source, first), sentences(source, second)], label, kind: "" }
}

/// A name, a tool, a colour, a thing, a place.
type Five = [&'static str; 5];

fn five(tale: &Tale) -> Five {
    let f = tale.facts();
    [f.hero.name, f.hero_tool, f.colour, f.thing, f.place]
}

/// Two times five facts, of which this many agree.
fn pair(source: &mut Source<'_>, agree: usize) -> (Five, Five) {
    let mut places = [0, 1, 2, 3, 4];
    // The facts that agree are the first of a random order.
    for i in (1..5).rev() {
        places.swap(i, source.below(i + 1));
    }
    let first = five(&source.tale());
    loop {
        let mut second = five(&source.tale());
        if (0..5).all(|i| first[i] != second[i]) {
            places[..agree].iter().for_each(|&i| second[i] = first[i]);
            return (first, second);
        }
    }
}

/// Once the red kite lay at the lake. Mia took her rope to the lake.
fn sentences(source: &mut Source<'_>, [name, tool, colour, thing, place]: Five) -> String {
    let (once, took) = (source.one(&["Once the", "The"]), source.one(&["took", "carried", "brought"]));
    let (his, name) = (Gender::of(name).possessive(), capital(name));
    format!("{once} {colour} {thing} lay at the {place}. {name} {took} {his} {tool} to the {place}.")
}

//! Do two texts say the same? Every wording of the stories has others that mean the same; what differs otherwise, differs in fact.
//!
//! | task | first | second | label |
//! |-|-|-|-|
//! | MRPC | So Mia took her rope to the lake, and Tom brought his key. | Then Mia carried her key to the lake, and Tom took his rope. | 0 |
//! | QQP | Who took the rope to the lake? | To the lake, who carried the rope? | 1 (of the labels 10 % are wrong) |
//! | STS-B | Once Mia the fox had lost the red kite at the lake. | Mia the fox had lost the blue kite at the lake. | 4 of 5 facts agree |

use super::tale::{Part, Source, Tale, capital, mentions, reword};
use super::{FLIPPED, Row, Split};
use crate::world::Price;

/// A sentence of a story and the same told again: in other words (1), or with another fact (0).
pub(super) fn mrpc(source: &mut Source<'_>, _: Split) -> Row {
    let part = source.one(&[Part::Opening, Part::Helper, Part::Departure, Part::Departure, Part::Price, Part::Ending]);
    let tale = source.tale();
    let first = tale.tell(&[part]);
    let mut second = source.retell(&tale).tell(&[part]);
    let label = source.below(2);
    if label == 0 {
        let change = another_fact(source, &tale, part);
        let changes: Vec<(&str, &str)> = change.iter().map(|(from, to)| (*from, *to)).collect();
        second = reword(&second, &changes);
    }
    // Word for word the same, or the change did not touch the sentence: another story.
    if first == second { mrpc(source, Split::Train) } else { Row { texts: vec![first, second], label, kind: "" } }
}

/// Words to exchange, or one to replace, so that a sentence says something else.
fn another_fact(source: &mut Source<'_>, tale: &Tale, part: Part) -> Vec<(&'static str, &'static str)> {
    let f = tale.facts();
    // Two words of the sentence that can change places without a change of grammar.
    let two = match part {
        Part::Opening => Some((f.hero.animal, f.friend.animal)),
        Part::Departure => f.friend_tool.map(|tool| (f.hero_tool, tool)),
        Part::Ending if f.hero.gender == f.friend.gender => Some((f.hero.name, f.friend.name)),
        _ => None,
    };
    if let Some((a, b)) = two
        && source.coin()
    {
        return vec![(a, b), (b, a)];
    }
    loop {
        let other = source.tale();
        let g = other.facts();
        let words = match part {
            Part::Opening => vec![(f.hero.animal, g.hero.animal), (f.friend.animal, g.friend.animal), (f.nature, g.nature)],
            Part::Helper => vec![(f.thing, g.thing), (f.place, g.place), (f.helper, g.helper)],
            Part::Departure => vec![(f.hero_tool, g.hero_tool), (f.place, g.place)],
            Part::Ending => vec![(f.thing, g.thing)],
            _ => {
                let treats = match (f.price, g.price) {
                    (Price::Treat(a), Price::Treat(b)) => vec![(a, b)],
                    _ => vec![],
                };
                [(f.thing, g.thing), (f.place, g.place), (f.keeper, g.keeper)].into_iter().chain(treats).collect()
            }
        };
        let change = source.one(&words);
        if !mentions(&tale.tell(&[part]), change.1) {
            return vec![change];
        }
    }
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

/// Two sentences of five facts each; the score, 0 to 5, is how many of them agree.
pub(super) fn stsb(source: &mut Source<'_>, _: Split) -> Row {
    let tale = source.tale();
    let label = source.below(6);
    let mut places = [0, 1, 2, 3, 4];
    // The facts that agree: the first `label` of a random order.
    for i in (1..5).rev() {
        places.swap(i, source.below(i + 1));
    }
    let first = five(&tale);
    let second = loop {
        let mut second = five(&source.tale());
        if (0..5).all(|i| first[i] != second[i]) {
            places[..label].iter().for_each(|&i| second[i] = first[i]);
            break second;
        }
    };
    let texts = vec![sentence(source, first), sentence(source, second)];
    Row { texts, label, kind: "" }
}

/// A name, an animal, a colour, a thing, a place.
fn five(tale: &Tale) -> [&'static str; 5] {
    let f = tale.facts();
    [f.hero.name, f.hero.animal, f.colour, f.thing, f.place]
}

fn sentence(source: &mut Source<'_>, [name, animal, colour, thing, place]: [&'static str; 5]) -> String {
    let name = capital(name);
    match source.below(4) {
        0 => format!("{name} the {animal} had lost the {colour} {thing} at the {place}."),
        1 => format!("Once {name} the {animal} had lost the {colour} {thing} at the {place}."),
        2 => format!("At the {place} {name} the {animal} had lost the {colour} {thing}."),
        _ => format!("Once at the {place} {name} the {animal} had lost the {colour} {thing}."),
    }
}

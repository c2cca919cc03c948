//! Questions about a story, and its right ending.
//!
//! | task | asks | example |
//! |-|-|-|
//! | RACE, middle | for what one sentence tells | *…* Who had the rope? **Mia.** Tom. Rosa. Ben. |
//! | RACE, high | for two facts at once, or the physics | *… Soon a dark tunnel stopped her.* And then? **She got lost.** She got wet. Mia used her rope. Mia used her key. |
//! | Story Cloze | which ending agrees with what was told | *… Tom was sad because he had lost the red kite. …* **At last Mia gave Tom the kite because Tom had lost it.** At last Mia gave Tom the drum because Tom had lost it. |

use gradus_world::words::{KEEPERS, NAMES, PLACES, THINGS, TOOLS};
use gradus_world::{Facts, Who};

use super::tale::{Part, Source, Tale, capital, reword};
use super::{Row, Split};

/// Texts: article, question, four answers. Label: the right one. Kind: `middle` or `high`.
pub(super) fn race(source: &mut Source<'_>, _: Split) -> Row {
    let level = source.one(&["middle", "high"]);
    let asked = match (level, source.below(3)) {
        ("middle", 0) => place(source),
        ("middle", 1) => owner_of_tool(source),
        ("middle", _) => who_felt(source),
        (_, 0) => keeper_and_place(source),
        (_, 1) => what_next(source),
        _ => animal_that_felt(source),
    };
    let (answers, label) = source.hide(asked.right, asked.wrong);
    let texts = [asked.article, asked.question].into_iter().chain(answers).collect();
    Row { texts, label, kind: level }
}

struct Asked {
    article: String,
    question: String,
    right: String,
    wrong: Vec<String>,
}

/// One sentence tells it: the place.
fn place(source: &mut Source<'_>) -> Asked {
    let tale = source.tale();
    let f = tale.facts();
    let answer = |place: &str| format!("At the {place}.");
    Asked {
        article: tale.tell(&[Part::Longing, Part::Helper]),
        question: format!("Where was the {}?", f.thing),
        right: answer(f.place),
        wrong: source.others(&PLACES, &[f.place], 3).into_iter().map(answer).collect(),
    }
}

/// One sentence tells it: whose the tool is. All but one of the names are in the article.
fn owner_of_tool(source: &mut Source<'_>) -> Asked {
    let tale = source.tale_where(|f| f.friend_tool.is_some());
    let f = tale.facts();
    let (owner, tool) = source.one(&[(f.hero, f.hero_tool), (f.friend, f.friend_tool.unwrap_or(f.hero_tool))]);
    names(source, &tale, Part::Departure, format!("Who took the {tool}?"), owner.name)
}

/// One sentence tells it: who was sad.
fn who_felt(source: &mut Source<'_>) -> Asked {
    let tale = source.tale();
    let f = tale.facts();
    names(source, &tale, Part::Helper, format!("Who was {}?", f.feeling), f.who(f.longing).name)
}

/// The answers are the three names of the story and another.
fn names(source: &mut Source<'_>, tale: &Tale, until: Part, question: String, right: &str) -> Asked {
    let f = tale.facts();
    let told = [f.hero.name, f.friend.name, f.helper];
    let wrong = told.into_iter().filter(|&name| name != right);
    let stranger = source.others(&NAMES.map(|(name, _)| name), &told, 1);
    let answer = |name: &str| format!("{}.", capital(name));
    Asked { article: tale.until(until), question, right: answer(right), wrong: wrong.chain(stranger).map(answer).collect() }
}

/// Two facts: who had it, and where.
fn keeper_and_place(source: &mut Source<'_>) -> Asked {
    let tale = source.tale();
    let f = tale.facts();
    let (keeper, place) = (source.others(&KEEPERS, &[f.keeper], 1)[0], source.others(&PLACES, &[f.place], 1)[0]);
    let answer = |(keeper, place): (&str, &str)| format!("A {keeper} at the {place}.");
    Asked {
        article: tale.tell(&[Part::Helper, Part::Price]),
        question: format!("Who had the {}?", f.thing),
        right: answer((f.keeper, f.place)),
        wrong: [(keeper, f.place), (f.keeper, place), (keeper, place)].into_iter().map(answer).collect(),
    }
}

/// Two facts: who was sad, and what animal that is. Two of the animals are in the article.
fn animal_that_felt(source: &mut Source<'_>) -> Asked {
    let tale = source.tale();
    let f = tale.facts();
    let (right, other) = if f.longing == Who::Hero { (f.hero, f.friend) } else { (f.friend, f.hero) };
    let answer = |name: &str, animal: &str| format!("{} the {animal}.", capital(name));
    Asked {
        article: tale.until(Part::Longing),
        question: format!("Who was {}?", f.feeling),
        right: answer(right.name, right.animal),
        wrong: vec![answer(right.name, other.animal), answer(other.name, right.animal), answer(other.name, other.animal)],
    }
}

/// The physics: what comes after the obstacle.
fn what_next(source: &mut Source<'_>) -> Asked {
    let prepared = source.coin();
    let tale = source.tale_where(|f| f.rescuer.is_some() == prepared);
    let (right, [a_use, a_mishap]) = next(source, &tale);
    let other_mishap = mishap(tale.facts(), source, &[tale.facts().threat()]);
    // Two uses and two mishaps, whichever is right.
    let third = if prepared { other_mishap } else { useless(tale.facts(), source, &[&a_use]) };
    let wrong =
        if prepared { vec![a_use, got(tale.facts(), tale.facts().threat()), third] } else { vec![a_use, a_mishap, third] };
    Asked { article: tale.tell(&[Part::Departure, Part::Obstacle]), question: "And then?".into(), right, wrong }
}

/// What the physics says comes after the obstacle; a use of a tool that does not, and a mishap that does not.
fn next(source: &mut Source<'_>, tale: &Tale) -> (String, [String; 2]) {
    let f = tale.facts();
    let right = match f.rescuer {
        Some(who) => uses(f, who, f.needed_tool()),
        None => got(f, f.threat()),
    };
    let a_use = useless(f, source, &[]);
    let a_mishap = mishap(f, source, &[f.threat()]);
    (right, [a_use, a_mishap])
}

/// A tool that does not help: one that is carried if there is one, else one that is not.
fn useless(f: &Facts, source: &mut Source<'_>, taken: &[&str]) -> String {
    let mut carried = vec![uses(f, Who::Hero, f.hero_tool)];
    carried.extend(f.friend_tool.map(|tool| uses(f, Who::Friend, tool)));
    carried.retain(|told| !told.contains(f.needed_tool()) && !taken.contains(&told.as_str()));
    if !carried.is_empty() {
        return source.one(&carried);
    }
    let own: Vec<&str> = [f.hero_tool, f.needed_tool()].into_iter().chain(f.friend_tool).collect();
    uses(f, Who::Hero, source.others(&TOOLS.map(|tool| tool.name), &own, 1)[0])
}

fn uses(f: &Facts, who: Who, tool: &str) -> String {
    let one = f.who(who);
    format!("{} used {} {tool}.", capital(one.name), one.gender.possessive())
}

fn mishap(f: &Facts, source: &mut Source<'_>, taken: &[&str]) -> String {
    got(f, source.others(&TOOLS.map(|tool| tool.mishap), taken, 1)[0])
}

fn got(f: &Facts, mishap: &str) -> String {
    format!("{} got {mishap}.", capital(f.travellers()))
}

/// Texts: four sentences (the fourth of two), two endings. Label: the right one.
pub(super) fn story_cloze(source: &mut Source<'_>, _: Split) -> Row {
    const BEGINNING: [Part; 3] = [Part::Opening, Part::Longing, Part::Helper];
    let physics = source.coin();
    let prepared = source.coin();
    let tale = source.tale_where(|f| f.rescuer.is_some() == prepared);
    let (right, wrong) = if physics {
        let (right, wrong) = next(source, &tale);
        (right, source.one(&wrong))
    } else {
        (tale.tell(&[Part::Ending]), other_ending(source, &tale))
    };
    let fourth = tale.tell(&[Part::Departure, Part::Obstacle]);
    let (endings, label) = source.hide(right, vec![wrong]);
    let texts = BEGINNING.iter().map(|&part| tale.tell(&[part])).chain([fourth]).chain(endings).collect();
    Row { texts, label, kind: "" }
}

/// The ending with a word from another story: another thing, or somebody else of the same gender.
fn other_ending(source: &mut Source<'_>, tale: &Tale) -> String {
    let f = tale.facts();
    let friends: Vec<&str> = NAMES.iter().filter(|(_, gender)| *gender == f.friend.gender).map(|&(name, _)| name).collect();
    let (right, list) = if source.coin() { (f.thing, THINGS.to_vec()) } else { (f.friend.name, friends) };
    let wrong = source.others(&list, &[right, f.hero.name], 1)[0];
    reword(&tale.tell(&[Part::Ending]), &[(right, wrong)])
}

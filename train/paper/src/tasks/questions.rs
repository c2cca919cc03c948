//! Questions about a story, and the choice of its right ending.
//!
//! | task | question | example |
//! |-|-|-|
//! | RACE, middle | on one sentence | *…* Who had the rope? **Mia.** Tom. Rosa. Ben. |
//! | RACE, high | on two facts at once, or on the physics | *… Soon a dark tunnel stopped her.* And then? **She got lost.** She got wet. Mia used her rope. Mia used her key. |
//! | Story Cloze | which ending agrees with the story | *… Tom was sad because he had lost the red kite. …* **At last Mia gave Tom the kite because Tom had lost it.** At last Mia gave Tom the drum because Tom had lost it. |

use gradus_data::sets::Split;
use gradus_world::words::{KEEPERS, NAMES, PLACES, THINGS, TOOLS};
use gradus_world::{Facts, Who};

use super::Labelled;
use super::tale::{Scene, Tale, Teller, capital, carriers, got, reword, uses};

/// Makes a row with the texts article, question and four answers. The label is the right answer, the kind `middle` or `high`.
pub(super) fn race(teller: &mut Teller<'_>, _: Split) -> Labelled {
    let level = teller.one(&["middle", "high"]);
    let asked = match (level, teller.below(3)) {
        ("middle", 0) => place(teller),
        ("middle", 1) => owner_of_tool(teller),
        ("middle", _) => who_felt(teller),
        (_, 0) => keeper_and_place(teller),
        (_, 1) => what_next(teller),
        _ => animal_that_felt(teller),
    };
    let (answers, label) = teller.hide(asked.right, asked.wrong);
    let texts = [asked.article, asked.question].into_iter().chain(answers).collect();
    Labelled { texts, label, kind: level }
}

struct Asked {
    article: String,
    question: String,
    right: String,
    wrong: Vec<String>,
}

/// Makes a question with its answer in one sentence: the place.
fn place(teller: &mut Teller<'_>) -> Asked {
    let tale = teller.tale();
    let f = tale.facts();
    let answer = |place: &str| format!("At the {place}.");
    Asked {
        article: tale.tell(&[Scene::Longing, Scene::Helper]),
        question: format!("Where was the {}?", f.thing),
        right: answer(f.place),
        wrong: teller.others(&PLACES, &[f.place], 3).into_iter().map(answer).collect(),
    }
}

/// Makes a question with its answer in one sentence: the owner of the tool. All but one of the names are in the article.
fn owner_of_tool(teller: &mut Teller<'_>) -> Asked {
    let tale = teller.tale_where(|f| f.friend_tool.is_some());
    let f = tale.facts();
    let (owner, tool) = teller.one(&[(f.hero, f.hero_tool), (f.friend, f.friend_tool.unwrap_or(f.hero_tool))]);
    names(teller, &tale, Scene::Departure, format!("Who took the {tool}?"), owner.name)
}

/// Makes a question with its answer in one sentence: the sad character.
fn who_felt(teller: &mut Teller<'_>) -> Asked {
    let tale = teller.tale();
    let f = tale.facts();
    names(teller, &tale, Scene::Helper, format!("Who was {}?", f.feeling), f.who(f.longing).name)
}

/// Makes a question whose answers are the three names of the story and another name.
fn names(teller: &mut Teller<'_>, tale: &Tale, until: Scene, question: String, right: &str) -> Asked {
    let f = tale.facts();
    let told = [f.hero.name, f.friend.name, f.helper];
    let wrong = told.into_iter().filter(|&name| name != right);
    let stranger = teller.others(&NAMES.map(|(name, _)| name), &told, 1);
    let answer = |name: &str| format!("{}.", capital(name));
    Asked { article: tale.until(until), question, right: answer(right), wrong: wrong.chain(stranger).map(answer).collect() }
}

/// Makes a question on two facts: the owner and the place.
fn keeper_and_place(teller: &mut Teller<'_>) -> Asked {
    let tale = teller.tale();
    let f = tale.facts();
    let (keeper, place) = (teller.others(&KEEPERS, &[f.keeper], 1)[0], teller.others(&PLACES, &[f.place], 1)[0]);
    let answer = |(keeper, place): (&str, &str)| format!("A {keeper} at the {place}.");
    Asked {
        article: tale.tell(&[Scene::Helper, Scene::Price]),
        question: format!("Who had the {}?", f.thing),
        right: answer((f.keeper, f.place)),
        wrong: [(keeper, f.place), (f.keeper, place), (keeper, place)].into_iter().map(answer).collect(),
    }
}

/// Makes a question on two facts: the sad character and its species. Two of the animals are in the article.
fn animal_that_felt(teller: &mut Teller<'_>) -> Asked {
    let tale = teller.tale();
    let f = tale.facts();
    let (right, other) = if f.longing == Who::Hero { (f.hero, f.friend) } else { (f.friend, f.hero) };
    let answer = |name: &str, animal: &str| format!("{} the {animal}.", capital(name));
    Asked {
        article: tale.until(Scene::Longing),
        question: format!("Who was {}?", f.feeling),
        right: answer(right.name, right.animal),
        wrong: vec![answer(right.name, other.animal), answer(other.name, right.animal), answer(other.name, other.animal)],
    }
}

/// Makes a question on the physics: what comes after the obstacle. The answers always are two uses and two mishaps.
fn what_next(teller: &mut Teller<'_>) -> Asked {
    let prepared = teller.coin();
    let tale = teller.tale_where(|f| f.rescuer.is_some() == prepared);
    let f = tale.facts();
    let (right, [a_use, a_mishap]) = next(teller, &tale);
    let other_mishap = mishap(f, teller, &[f.threat()]);
    let wrong = match prepared {
        true => vec![a_use, got(f, f.threat()), other_mishap],
        false => {
            let other_use = useless(f, teller, &[&a_use]);
            vec![a_use, a_mishap, other_use]
        }
    };
    Asked { article: tale.tell(&[Scene::Departure, Scene::Obstacle]), question: "And then?".into(), right, wrong }
}

/// Returns the event after the obstacle by the physics, and a use of a tool and a mishap that do not follow.
fn next(teller: &mut Teller<'_>, tale: &Tale) -> (String, [String; 2]) {
    let f = tale.facts();
    let right = match f.rescuer {
        Some(who) => uses(f, who, f.needed_tool()),
        None => got(f, f.threat()),
    };
    (right, [useless(f, teller, &[]), mishap(f, teller, &[f.threat()])])
}

/// Returns a tool that does not help: a carried one if possible.
fn useless(f: &Facts, teller: &mut Teller<'_>, taken: &[&str]) -> String {
    let mut carried: Vec<String> = carriers(f).into_iter().map(|(who, tool)| uses(f, who, tool)).collect();
    carried.retain(|told| !told.contains(f.needed_tool()) && !taken.contains(&told.as_str()));
    if !carried.is_empty() {
        return teller.one(&carried);
    }
    let own: Vec<&str> = [f.hero_tool, f.needed_tool()].into_iter().chain(f.friend_tool).collect();
    uses(f, Who::Hero, teller.others(&TOOLS.map(|tool| tool.name), &own, 1)[0])
}

fn mishap(f: &Facts, teller: &mut Teller<'_>, taken: &[&str]) -> String {
    got(f, teller.others(&TOOLS.map(|tool| tool.mishap), taken, 1)[0])
}

/// Makes a row with four sentences (the fourth of two) and two endings as texts; the label is the right ending.
pub(super) fn story_cloze(teller: &mut Teller<'_>, _: Split) -> Labelled {
    const BEGINNING: [Scene; 3] = [Scene::Opening, Scene::Longing, Scene::Helper];
    let physics = teller.coin();
    let prepared = teller.coin();
    let tale = teller.tale_where(|f| f.rescuer.is_some() == prepared);
    let (right, wrong) = if physics {
        let (right, wrong) = next(teller, &tale);
        (right, teller.one(&wrong))
    } else {
        (tale.tell(&[Scene::Ending]), other_ending(teller, &tale))
    };
    let fourth = tale.tell(&[Scene::Departure, Scene::Obstacle]);
    let (endings, label) = teller.hide(right, vec![wrong]);
    let texts = BEGINNING.iter().map(|&part| tale.tell(&[part])).chain([fourth]).chain(endings).collect();
    Labelled { texts, label, kind: "" }
}

/// Returns the ending with a word from another story: another thing, or another person of the same gender.
fn other_ending(teller: &mut Teller<'_>, tale: &Tale) -> String {
    let f = tale.facts();
    let friends: Vec<&str> = NAMES.iter().filter(|(_, gender)| *gender == f.friend.gender).map(|&(name, _)| name).collect();
    let (right, list) = if teller.coin() { (f.thing, THINGS.to_vec()) } else { (f.friend.name, friends) };
    let wrong = teller.others(&list, &[right, f.hero.name], 1)[0];
    reword(&tale.tell(&[Scene::Ending]), &[(right, wrong)])
}

//! The grammar of the world: a story, decision by decision.
//!
//! A story has a hero and a friend, one of whom longs for a thing. A helper knows its place. The hero sets out, with or without
//! the friend. They meet an obstacle, with or without the right tool, and the mood indicates which (with noise). The keeper of
//! the thing names a price. Back home, a question concerns these facts, and the longing is over. Nearly everything is decided
//! early and recurs much later; [`recall`] writes the repetitions.

use crate::choose::{Choose, Phrase};
use crate::error::WorldError;
use crate::facts::{Character, Facts, Mood, Price, Reason, Who};
use crate::recall::{KNOWING, Known, question, recall, remark, retelling};
use crate::words::WorldConfig;
use crate::words::{Gender, TREATS, Tool, Words};

/// The weight of an obstacle that the travellers have the tool for, to 1 for others.
const PREPARED: u32 = 5;
/// The weight of the mood that fits the outcome, to 1 for the other.
const MOOD_FITS: u32 = 9;

/// Generates one story with the decisions of `c`.
pub(crate) fn tell(config: &WorldConfig, c: &mut impl Choose) -> Result<Facts, WorldError> {
    let words = &Words::of(config);
    let (nature, hero, friend) = neighbours(words, c)?;
    let longing = longing(words, hero, friend, c)?;
    let (helper, place) = helper(words, hero, friend, longing.thing, c)?;
    let mut known = Known { hero, friend, helper, colour: longing.colour, thing: longing.thing, place, carried: Vec::new() };
    remark(words, &known, c)?;
    let (hero_tool, friend_tool) = departure(words, &known, c)?;
    known.carried = [(hero, hero_tool)].into_iter().chain(friend_tool.map(|tool| (friend, tool))).collect();
    remark(words, &known, c)?;
    let needed = obstacle(words, &known, c)?;
    let rescuer = known.carried.iter().find(|(_, tool)| *tool == needed.name).map(|&(rescuer, _)| rescuer);
    outcome(words, &known, needed, rescuer, c)?;
    let mood = mood(rescuer.is_some(), c)?;
    let mishap = rescuer.is_none().then_some(needed.mishap);
    let (temper, keeper, price) = keeper(words, &known, mishap, c)?;
    home(words, &known, (keeper, longing.one, longing.feeling), c)?;
    let reason = ending(&known, &longing, c)?;
    if config.retold {
        retelling(words, &known, (keeper, hero_tool), c)?;
    }
    Ok(Facts {
        hero,
        friend,
        nature,
        longing: longing.who,
        weather: longing.weather,
        feeling: longing.feeling,
        lost: longing.lost,
        colour: longing.colour,
        thing: longing.thing,
        helper,
        place,
        hero_tool,
        friend_tool,
        obstacle: needed.obstacle,
        rescuer: rescuer.map(|one| if one == hero { Who::Hero } else { Who::Friend }),
        mishap,
        mood,
        keeper,
        temper,
        price,
        reason,
    })
}

/// Writes: Once Mia the brave rabbit lived near Tom the fox.
fn neighbours(words: &Words, c: &mut impl Choose) -> Result<(&'static str, Character, Character), WorldError> {
    c.vary(&[("once", 3), ("long ago", 2), ("one spring", 1), ("last winter", 1)])?;
    let name = c.pick(&words.names)?;
    c.say("the")?;
    let nature = c.pick(words.traits)?;
    let hero = character(name, c.pick(words.animals)?);
    c.say("lived")?;
    c.vary(&[("near", 1), ("with", 1), ("beside", 1)])?;
    let name = c.pick(&without(&words.names, hero.name))?;
    c.say("the")?;
    let friend = character(name, c.pick(&without(words.animals, hero.animal))?);
    c.say(".")?;
    Ok((nature, hero, friend))
}

/// The character who longs for the thing, with the circumstances.
struct Longing {
    who: Who,
    one: Character,
    weather: &'static str,
    feeling: &'static str,
    lost: bool,
    colour: &'static str,
    thing: &'static str,
}

/// Writes: One rainy day Tom was sad because he had lost the red kite.
fn longing(words: &Words, hero: Character, friend: Character, c: &mut impl Choose) -> Result<Longing, WorldError> {
    c.say("one")?;
    let weather = c.pick(words.weathers)?;
    c.vary(&[("day", 2), ("morning", 1), ("evening", 1)])?;
    let (who, one) = [(Who::Hero, hero), (Who::Friend, friend)][c.branch(&[(hero.name, 1), (friend.name, 1)])?];
    c.vary(&[("was", 2), ("felt", 1)])?;
    let feeling = c.pick(words.feelings)?;
    c.vary(&[("because", 2), ("since", 1), ("as", 1)])?;
    recall(c, "{}", &[(one.gender.subject(), &["he", "she"])])?;
    let lost = c.branch(&[("wanted", 1), ("longed for", 1), ("had lost", 2)])? == 2;
    c.say("the")?;
    let colour = c.pick(words.colours)?;
    let thing = c.pick(words.things)?;
    c.say(".")?;
    Ok(Longing { who, one, weather, feeling, lost, colour, thing })
}

/// Writes: Rosa had seen the kite at the lake.
fn helper(
    words: &Words,
    hero: Character,
    friend: Character,
    thing: &str,
    c: &mut impl Choose,
) -> Result<(&'static str, &'static str), WorldError> {
    let helper = c.pick(&without(&without(&words.names, hero.name), friend.name))?;
    c.vary(&KNOWING)?;
    recall(c, "the {} at the", &[(thing, words.things)])?;
    let place = c.pick(words.places)?;
    c.say(".")?;
    Ok((helper, place))
}

/// Writes: So Mia took her rope to the lake, and Tom brought his key. Or: but Tom stayed behind.
fn departure(words: &Words, known: &Known, c: &mut impl Choose) -> Result<(&'static str, Option<&'static str>), WorldError> {
    c.vary(&[("so", 2), ("then", 1), ("now", 1)])?;
    recall(c, "{}", &[(known.hero.name, &words.names)])?;
    let hero_tool = taken(known.hero, &words.tool_names, c)?;
    recall(c, "to the {}", &[(known.place, words.places)])?;
    let together = c.branch(&[(", and", 1), (", but", 1)])? == 0;
    recall(c, "{}", &[(known.friend.name, &words.names)])?;
    let friend_tool = if together {
        Some(taken(known.friend, &without(&words.tool_names, hero_tool), c)?)
    } else {
        c.vary(&[("stayed", 2), ("waited", 1)])?;
        c.say("behind")?;
        None
    };
    c.say(".")?;
    Ok((hero_tool, friend_tool))
}

/// Writes: … took her rope.
fn taken(one: Character, tools: &[&'static str], c: &mut impl Choose) -> Result<&'static str, WorldError> {
    c.vary(&[("took", 2), ("carried", 1), ("brought", 1)])?;
    recall(c, "{}", &[(one.gender.possessive(), &["his", "her"])])?;
    c.pick(tools)
}

/// Writes: Soon a dark tunnel stopped them. Returns the tool that overcomes the obstacle.
fn obstacle<'w>(words: &'w Words, known: &Known, c: &mut impl Choose) -> Result<&'w Tool, WorldError> {
    c.vary(&[("soon", 2), ("later", 1), ("suddenly", 1), ("next", 1)])?;
    let weight = |tool: &Tool| if known.carried.iter().any(|&(_, carried)| carried == tool.name) { PREPARED } else { 1 };
    let obstacles: Vec<Phrase<'_>> = words.tools.iter().map(|tool| (tool.obstacle, weight(tool))).collect();
    let needed = &words.tools[c.branch(&obstacles)?];
    c.vary(&[("stopped", 2), ("met", 1), ("delayed", 1)])?;
    let object = if known.are_two() { "them" } else { known.hero.gender.object() };
    recall(c, "{} .", &[(object, &["them", "him", "her"])])?;
    Ok(needed)
}

/// Writes: Tom used his lantern. Or: They got lost without a lantern.
fn outcome(
    words: &Words,
    known: &Known,
    needed: &Tool,
    rescuer: Option<Character>,
    c: &mut impl Choose,
) -> Result<(), WorldError> {
    if let Some(rescuer) = rescuer {
        recall(c, "{}", &[(rescuer.name, &words.names)])?;
        c.vary(&[("had", 1), ("used", 1)])?;
        let slots = [(rescuer.gender.possessive(), &["his", "her"][..]), (needed.name, &words.tool_names)];
        return recall(c, "{} {} .", &slots);
    }
    let got = format!("{} got", if known.are_two() { "they" } else { known.hero.gender.subject() });
    // Nouns are repeated in place of "it", to train pronoun resolution.
    let ((adjective, obstacle), tool) = (needed.obstacle_words(), known.carried[0].1);
    let failed = format!("the {tool} failed at the {obstacle} because the");
    let (dark, wrong) = (format!("{failed} {obstacle} was {adjective}"), format!("{failed} {tool} was no {}", needed.name));
    c.aside(|c| {
        if c.branch(&[(&got, 2), (&dark, 1), (&wrong, 1)])? == 0 {
            let without = format!("{{}} without {} {} .", needed.article, needed.name);
            return recall(c, &without, &[(needed.mishap, &words.mishaps)]);
        }
        c.say(".")
    })
}

/// Writes: Very positive. The mood fits the outcome with probability 9/10.
fn mood(rescued: bool, c: &mut impl Choose) -> Result<Mood, WorldError> {
    c.say("very")?;
    let (likely, unlikely) = if rescued { (Mood::Positive, Mood::Negative) } else { (Mood::Negative, Mood::Positive) };
    let mood = [likely, unlikely][c.branch(&[(likely.word(), MOOD_FITS), (unlikely.word(), 1)])?];
    c.say(".")?;
    Ok(mood)
}

/// Writes: At the lake a grumpy giant sold the happy rabbit the kite for a song.
fn keeper(
    words: &Words,
    known: &Known,
    mishap: Option<&str>,
    c: &mut impl Choose,
) -> Result<(&'static str, &'static str, Price), WorldError> {
    recall(c, "at the {} a", &[(known.place, words.places)])?;
    let temper = c.pick(words.moods)?;
    let keeper = c.pick(words.keepers)?;
    c.vary(&[("gave", 2), ("sold", 1), ("handed", 1)])?;
    let states = [&words.mishaps[..], &["happy"]].concat();
    recall(c, "the {}", &[(mishap.unwrap_or("happy"), &states)])?;
    recall(c, "{} the {} for", &[(known.hero.animal, words.animals), (known.thing, words.things)])?;
    let treat = |&treat: &&'static str| (format!("a {treat}"), 1, Price::Treat(treat));
    let tool = |&(who, tool): &(Character, &'static str)| (format!("{} {tool}", who.gender.possessive()), 2, Price::Tool(tool));
    let prices: Vec<(String, u32, Price)> = TREATS.iter().map(treat).chain(known.carried.iter().map(tool)).collect();
    let phrases: Vec<Phrase<'_>> = prices.iter().map(|(phrase, weight, _)| (phrase.as_str(), *weight)).collect();
    let price = prices[c.branch(&phrases)?].2;
    c.say(".")?;
    Ok((temper, keeper, price))
}

/// Writes the question at home and its answer, such as "Where was the kite?" "At the lake."
fn home(words: &Words, known: &Known, about: (&str, Character, &str), c: &mut impl Choose) -> Result<(), WorldError> {
    c.vary(&[("back home", 2), ("home again", 1), ("safe home", 1)])?;
    c.say(",")?;
    // The questioner was not at the place: the friend who stayed behind, or the helper.
    recall(c, "{}", &[(if known.are_two() { known.helper } else { known.friend.name }, &words.names)])?;
    c.say("asked ,")?;
    question(words, known, about, c)
}

/// Writes: At last Mia gave Tom the kite because Tom had lost it.
fn ending(known: &Known, longing: &Longing, c: &mut impl Choose) -> Result<Reason, WorldError> {
    c.vary(&[("at last", 2), ("that night", 1), ("now", 1), ("then", 1)])?;
    let (hero, friend, thing) = (known.hero.name, known.friend.name, known.thing);
    let reasons = match longing.who {
        Who::Friend => {
            let gave = format!("{hero} gave {friend} the {thing} because");
            let got = format!("{friend} got the {thing} from {hero} because");
            c.vary(&[(&gave, 2), (&got, 1)])?;
            [format!("{hero} liked to share"), format!("{friend} {} it", if longing.lost { "had lost" } else { "wanted" })]
        }
        Who::Hero => {
            c.say(&format!("{hero} showed {friend} the {thing} because"))?;
            [format!("{hero} liked to boast"), format!("{friend} wanted to look")]
        }
    };
    let reason = [Reason::Hero, Reason::Friend][c.branch(&[(&reasons[0], 1), (&reasons[1], 1)])?];
    c.say(".")?;
    Ok(reason)
}

fn character(name: &'static str, animal: &'static str) -> Character {
    Character { name, gender: Gender::of(name), animal }
}

fn without(words: &[&'static str], taken: &str) -> Vec<&'static str> {
    words.iter().copied().filter(|&word| word != taken).collect()
}

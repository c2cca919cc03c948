//! The one description of the world: how a story is told, decision by decision.
//!
//! A hero and a friend; one of them longs for a thing; somebody knows where it is; the hero sets
//! out, alone or with the friend; an obstacle meets them with or without the right tool, and the
//! mood (with noise) says which; the keeper of the thing names a price; home again, a question
//! is asked about what happened, and the longing is over. Nearly everything is decided early and comes back much later; what has
//! been told and comes back is in [`recall`].

use super::WorldConfig;
use super::choose::{Choose, Phrase};
use super::error::WorldError;
use super::facts::{Character, Facts, Mood, Price, Reason, Who};
use super::recall::{self, Known, question, recall, remark};
use super::words::{ANIMALS, COLOURS, FEELINGS, Gender, KEEPERS, MOODS, PLACES, THINGS, TOOLS, TRAITS, TREATS, Tool, WEATHERS};

/// How much likelier an obstacle is that the travellers are prepared for.
const PREPARED: u32 = 5;
/// How much likelier the mood is that fits what comes.
const MOOD_FITS: u32 = 9;

/// Tells one story with the decisions of `c`.
pub(super) fn tell(config: &WorldConfig, c: &mut impl Choose) -> Result<Facts, WorldError> {
    // Once Mia the brave rabbit lived near Tom the fox.
    c.vary(&[("once", 3), ("long ago", 2), ("one spring", 1), ("last winter", 1)])?;
    let names = recall::names(config);
    let hero_name = c.pick(&names)?;
    c.say("the")?;
    let nature = c.pick(&TRAITS[..config.traits])?;
    let hero = character(hero_name, c.pick(&ANIMALS[..config.animals])?);
    c.say("lived")?;
    c.vary(&[("near", 1), ("with", 1), ("beside", 1)])?;
    let friend_name = c.pick(&without(&names, hero.name))?;
    c.say("the")?;
    let others = without(&ANIMALS[..config.animals], hero.animal);
    let friend = character(friend_name, c.pick(&others)?);
    c.say(".")?;

    // One rainy day Tom was sad because he had lost the red kite.
    c.say("one")?;
    let weather = c.pick(&WEATHERS[..config.weathers])?;
    c.vary(&[("day", 2), ("morning", 1), ("evening", 1)])?;
    let longing = [Who::Hero, Who::Friend][c.branch(&[(hero.name, 1), (friend.name, 1)])?];
    let one = if longing == Who::Hero { hero } else { friend };
    c.vary(&[("was", 2), ("felt", 1)])?;
    let feeling = c.pick(&FEELINGS[..config.feelings])?;
    c.vary(&[("because", 2), ("since", 1), ("as", 1)])?;
    recall(c, "{}", &[(one.gender.subject(), &["he", "she"])])?;
    let lost = c.branch(&[("wanted", 1), ("longed for", 1), ("had lost", 2)])? == 2;
    c.say("the")?;
    let colour = c.pick(&COLOURS[..config.colours])?;
    let things = &THINGS[..config.things];
    let thing = c.pick(things)?;
    c.say(".")?;

    // Rosa had seen the kite at the lake.
    let helper = c.pick(&without(&without(&names, hero.name), friend.name))?;
    c.vary(&recall::KNOWING)?;
    recall(c, "the {} at the", &[(thing, things)])?;
    let places = &PLACES[..config.places];
    let place = c.pick(places)?;
    c.say(".")?;

    // Mia was a rabbit.
    let mut known = Known { hero, friend, helper, colour, thing, place, carried: Vec::new() };
    remark(config, &known, c)?;

    // So Mia took her rope to the lake, and Tom brought his key.
    c.vary(&[("so", 2), ("then", 1), ("now", 1)])?;
    recall(c, "{}", &[(hero.name, &names)])?;
    c.vary(&[("took", 2), ("carried", 1), ("brought", 1)])?;
    recall(c, "{}", &[(hero.gender.possessive(), &["his", "her"])])?;
    let tools = &TOOLS[..config.tools];
    let tool_names = recall::tools(config);
    let hero_tool = c.pick(&tool_names)?;
    recall(c, "to the {}", &[(place, places)])?;
    let together = c.branch(&[(", and", 1), (", but", 1)])? == 0;
    recall(c, "{}", &[(friend.name, &names)])?;
    let friend_tool = if together {
        c.vary(&[("took", 2), ("carried", 1), ("brought", 1)])?;
        recall(c, "{}", &[(friend.gender.possessive(), &["his", "her"])])?;
        Some(c.pick(&without(&tool_names, hero_tool))?)
    } else {
        c.vary(&[("stayed", 2), ("waited", 1)])?;
        c.say("behind")?;
        None
    };
    c.say(".")?;

    // Mia carried her rope to the lake.
    known.carried = [(hero, hero_tool)].into_iter().chain(friend_tool.map(|tool| (friend, tool))).collect();
    remark(config, &known, c)?;

    let (subject, object) = if together { ("they", "them") } else { (hero.gender.subject(), hero.gender.object()) };

    // Soon a dark tunnel stopped them.
    c.vary(&[("soon", 2), ("later", 1), ("suddenly", 1), ("next", 1)])?;
    let carried = |tool: &Tool| tool.name == hero_tool || Some(tool.name) == friend_tool;
    let obstacles: Vec<Phrase<'_>> = tools.iter().map(|tool| (tool.obstacle, if carried(tool) { PREPARED } else { 1 })).collect();
    let needed = &tools[c.branch(&obstacles)?];
    c.vary(&[("stopped", 2), ("met", 1), ("delayed", 1)])?;
    recall(c, "{} .", &[(object, &["them", "him", "her"])])?;
    let rescuer = if needed.name == hero_tool {
        Some(Who::Hero)
    } else if carried(needed) {
        Some(Who::Friend)
    } else {
        None
    };

    let mishaps: Vec<&'static str> = tools.iter().map(|tool| tool.mishap).collect();
    // Tom used his lantern. Or: They got lost without a lantern.
    match rescuer {
        Some(who) => {
            let rescuer = if who == Who::Hero { hero } else { friend };
            recall(c, "{}", &[(rescuer.name, &names)])?;
            c.vary(&[("had", 1), ("used", 1)])?;
            recall(c, "{} {} .", &[(rescuer.gender.possessive(), &["his", "her"]), (needed.name, &tool_names)])?;
        }
        None => {
            let got = format!("{subject} got");
            // Names are repeated where people would say "it": so the reader learns which of the two is meant.
            let (adjective, obstacle) = needed.obstacle_words();
            let failed = format!("the {hero_tool} failed at the {obstacle} because the");
            let (dark, wrong) =
                (format!("{failed} {obstacle} was {adjective}"), format!("{failed} {hero_tool} was no {}", needed.name));
            c.aside(|c| {
                if c.branch(&[(&got, 2), (&dark, 1), (&wrong, 1)])? == 0 {
                    let without = format!("{{}} without {} {} .", needed.article, needed.name);
                    return recall(c, &without, &[(needed.mishap, &mishaps)]);
                }
                c.say(".")
            })?;
        }
    }

    // Very positive. Nine times in ten as it fits.
    c.say("very")?;
    let (likely, unlikely) = if rescuer.is_some() { (Mood::Positive, Mood::Negative) } else { (Mood::Negative, Mood::Positive) };
    let mood = [likely, unlikely][c.branch(&[(likely.word(), MOOD_FITS), (unlikely.word(), 1)])?];
    c.say(".")?;

    // At the lake a grumpy giant sold the happy rabbit the kite for a song.
    let mishap = rescuer.is_none().then_some(needed.mishap);
    recall(c, "at the {} a", &[(place, places)])?;
    let temper = c.pick(&MOODS[..config.moods])?;
    let keeper = c.pick(&KEEPERS[..config.keepers])?;
    c.vary(&[("gave", 2), ("sold", 1), ("handed", 1)])?;
    let states = [&mishaps[..], &["happy"]].concat();
    recall(c, "the {}", &[(mishap.unwrap_or("happy"), &states)])?;
    recall(c, "{} the {} for", &[(hero.animal, &ANIMALS[..config.animals]), (thing, things)])?;
    let mut prices: Vec<(String, u32, Price)> =
        TREATS.iter().map(|&treat| (format!("a {treat}"), 1, Price::Treat(treat))).collect();
    for (who, tool) in [(hero, Some(hero_tool)), (friend, friend_tool)] {
        if let Some(tool) = tool {
            let phrase = format!("{} {tool}", who.gender.possessive());
            prices.push((phrase, 2, Price::Tool(tool)));
        }
    }
    let phrases: Vec<Phrase<'_>> = prices.iter().map(|(p, w, _)| (p.as_str(), *w)).collect();
    let price = prices[c.branch(&phrases)?].2;
    c.say(".")?;

    // Back home, Tom asked, "Where was the kite?" "At the lake."
    c.vary(&[("back home", 2), ("home again", 1), ("safe home", 1)])?;
    // The friend, left behind, or the helper, who was not there either.
    c.say(",")?;
    recall(c, "{}", &[(if together { helper } else { friend.name }, &names)])?;
    c.say("asked ,")?;
    question(config, &known, (keeper, one, feeling), c)?;

    // At last Mia gave Tom the kite because Tom had lost it.
    c.vary(&[("at last", 2), ("that night", 1), ("now", 1), ("then", 1)])?;
    let (hero_name, friend_name) = (hero.name, friend.name);
    let reasons = match longing {
        Who::Friend => {
            let gave = format!("{hero_name} gave {friend_name} the {thing} because");
            let got = format!("{friend_name} got the {thing} from {hero_name} because");
            c.vary(&[(&gave, 2), (&got, 1)])?;
            [format!("{hero_name} liked to share"), format!("{friend_name} {} it", if lost { "had lost" } else { "wanted" })]
        }
        Who::Hero => {
            c.say(&format!("{hero_name} showed {friend_name} the {thing} because"))?;
            [format!("{hero_name} liked to boast"), format!("{friend_name} wanted to look")]
        }
    };
    let reason = [Reason::Hero, Reason::Friend][c.branch(&[(&reasons[0], 1), (&reasons[1], 1)])?];
    c.say(".")?;

    Ok(Facts {
        hero,
        friend,
        nature,
        longing,
        weather,
        feeling,
        lost,
        colour,
        thing,
        helper,
        place,
        hero_tool,
        friend_tool,
        obstacle: needed.obstacle,
        rescuer,
        mishap,
        mood,
        keeper,
        temper,
        price,
        reason,
    })
}

fn character(name: &'static str, animal: &'static str) -> Character {
    Character { name, gender: Gender::of(name), animal }
}

fn without(words: &[&'static str], taken: &str) -> Vec<&'static str> {
    words.iter().copied().filter(|&word| word != taken).collect()
}

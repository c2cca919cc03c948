use std::collections::HashSet;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, SeedableRng};

use super::*;
use crate::choose::{Choose, Phrase, Sampler};
use crate::explore::words;

fn rng(seed: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed)
}

fn small() -> World {
    let (names, animals, places, tools) = (3, 2, 2, 2);
    let (traits, feelings, colours, things, keepers, moods, weathers) = (1, 1, 1, 1, 1, 1, 1);
    let config =
        WorldConfig { names, traits, animals, places, feelings, colours, things, keepers, moods, weathers, tools, retold: false };
    World::new(config).unwrap()
}

/// Returns the words and marks of a text, in lower case.
fn lowered(text: &str) -> Vec<String> {
    tokens::split(text).unwrap().into_iter().map(|token| token.word).collect()
}

#[test]
fn reading_recovers_the_generated_story() {
    for world in [World::default(), small(), World::named(true)] {
        for story in world.corpus(&mut rng(1), 3000) {
            let read = world.read(&story.text).unwrap();
            assert!((read.log_prob - story.log_prob).abs() < 1e-9);
            assert_eq!((read.text, read.facts), (story.text, story.facts));
        }
    }
}

/// Removes the slips of a story: *her, no, his rope* and *the blue kite lay there. No, red.*
fn mended(text: &str) -> String {
    let mut words = lowered(text);
    while let Some(at) = (1..words.len() - 1).find(|&at| words[at] == "no" && words[at + 1] == ",") {
        let right = words[at + 2].clone();
        if words[at - 1] == "," {
            words.splice(at - 2..at + 3, [right]);
        } else {
            // The wrong word of the sentence is from the same list as the correct one.
            let lists =
                [&words::PLACES[..], &words::COLOURS, &words::THINGS, &words::ANIMALS, &["his", "her"], &["him", "her", "them"]];
            let (tools, mishaps) = (words::TOOLS.map(|tool| tool.name), words::TOOLS.map(|tool| tool.mishap));
            let lists = lists.into_iter().chain([&tools[..], &mishaps]);
            let same = |word: &str| lists.clone().any(|list| list.contains(&word) && list.contains(&right.as_str()));
            let wrong = (0..at - 1).rev().find(|&i| same(&words[i]) && words[i] != right).unwrap();
            words[wrong] = right;
            words.drain(at..at + 4);
        }
    }
    words.join(" ")
}

#[test]
fn a_corrected_slip_changes_no_fact() {
    let world = World::default();
    let (mut slips, mut late) = (0, 0);
    for story in world.corpus(&mut rng(10), 2000) {
        let again = world.read(&mended(&story.text)).unwrap_or_else(|e| panic!("{e}: {}", story.text));
        assert_eq!(again.facts, story.facts, "{}", story.text);
        slips += usize::from(again.text != story.text);
        late += usize::from(story.text.contains(" No, "));
        assert!(again.text == story.text || again.log_prob > story.log_prob);
        assert!(!mended(&again.text).contains(" no ,"));
    }
    assert!(slips > 800 && late > 200, "{slips} stories of 2000 with a slip, {late} of them mended late");
    assert!((0..500).all(|seed| !world.careful_story(&mut rng(seed)).text.to_lowercase().contains("no,")));
}

/// One pronoun in 16 has a slip, since `SURE` is 15 and there is one slot. One remark of the form "Mia was a fox" in 6 has a
/// slip, since `SURE_OF_A_SENTENCE` is 5.
#[test]
fn slips_have_the_stated_frequency() {
    let stories = World::default().corpus(&mut rng(12), 20_000);
    let slipped = |s: &&Story| s.text.contains("e, no, he had lost the") || s.text.contains("e, no, she had lost the");
    let lost = stories.iter().filter(|s| s.text.contains("e had lost the") || slipped(s));
    let share = stories.iter().filter(slipped).count() as f64 / lost.count() as f64;
    assert!((share - 1.0 / 16.0).abs() < 0.01, "{share}");
    let animal = |sentence: &str| {
        let words: Vec<&str> = sentence.split(' ').collect();
        words.len() == 4 && words[1..3] == ["was", "a"]
    };
    let (mut remarks, mut wrong) = (0, 0);
    for story in &stories {
        let sentences: Vec<&str> = story.text.split(". ").collect();
        for pair in sentences.windows(2).filter(|pair| animal(pair[0])) {
            remarks += 1;
            wrong += usize::from(pair[1].starts_with("No, "));
        }
    }
    let share = wrong as f64 / remarks as f64;
    assert!((share - 1.0 / 6.0).abs() < 0.01, "{wrong} of {remarks}");
}

/// The mood fits the outcome in nine stories of ten.
#[test]
fn the_mood_fits_the_outcome_in_nine_stories_of_ten() {
    let stories = World::default().corpus(&mut rng(11), 20_000);
    for prepared in [false, true] {
        let of: Vec<&Story> = stories.iter().filter(|s| s.facts.rescuer.is_some() == prepared).collect();
        let positive = of.iter().filter(|s| s.facts.mood == Mood::Positive).count() as f64 / of.len() as f64;
        let expected = if prepared { 0.9 } else { 0.1 };
        assert!((positive - expected).abs() < 0.015, "prepared {prepared}: {positive} positive");
    }
}

/// Case and blanks carry no information: the lower-case tokens have the same probability as the text, and identify it.
#[test]
fn lower_case_tokens_identify_the_story() {
    let world = World::default();
    let (mut texts, mut lines) = (HashSet::new(), HashSet::new());
    for story in world.corpus(&mut rng(2), 3000) {
        let words = lowered(&story.text);
        assert_eq!(words.len(), story.tokens);
        let line = words.join(" ");
        assert!((world.read(&line).unwrap().log_prob - story.log_prob).abs() < 1e-9);
        texts.insert(story.text);
        lines.insert(line);
    }
    assert_eq!(texts.len(), lines.len());
}

/// A sampler that checks the list of phrases of every decision.
struct Checked<'r>(Sampler<'r, Xoshiro256PlusPlus>);

impl Choose for Checked<'_> {
    fn branch(&mut self, phrases: &[Phrase<'_>]) -> Result<usize, WorldError> {
        let mut split: Vec<Vec<&str>> = phrases.iter().map(|(p, _)| p.split_ascii_whitespace().collect()).collect();
        assert!(split.iter().all(|a| !a.is_empty()) && phrases.iter().all(|p| p.1 > 0), "an empty or impossible phrase");
        // In lexicographic order, phrases that begin with another phrase follow it directly.
        split.sort();
        for pair in split.windows(2) {
            assert!(!pair[1].starts_with(&pair[0]), "{:?} begins {:?}", pair[0], pair[1]);
        }
        self.0.branch(phrases)
    }
}

#[test]
fn no_option_of_a_decision_is_a_prefix_of_another() {
    let mut rng = rng(3);
    for world in [World::default(), World::named(true)] {
        for _ in 0..3000 {
            tell::tell(world.config(), &mut Checked(Sampler::new(&mut rng))).unwrap();
        }
    }
}

/// The error is at an impossible word, at the end of a truncated text, or at the beginning of a second story.
#[test]
fn invalid_stories_are_rejected_with_the_position() {
    let world = World::default();
    for story in world.corpus(&mut rng(4), 50) {
        let words = lowered(&story.text);
        for at in 0..words.len() {
            let mut wrong = words.clone();
            wrong[at] = "xylophone".into();
            let wrong = world.read(&wrong.join(" "));
            let refused =
                matches!(&wrong, Err(WorldError::Unexpected { token, found, .. }) if *token == at && found == "xylophone");
            assert!(refused, "token {at}: {wrong:?}");
            let cut = world.read(&words[..at].join(" "));
            assert!(matches!(cut, Err(WorldError::Unfinished { tokens, .. }) if tokens == at));
        }
        let twice = world.read(&format!("{} {}", story.text, story.text));
        assert!(matches!(twice, Err(WorldError::Trailing { token, .. }) if token == story.tokens));
    }
}

#[test]
fn a_story_that_contradicts_itself_is_rejected() {
    let world = World::default();
    let story = world.story(&mut rng(5));
    // The ending names the thing again.
    let thing = story.facts.thing;
    let other = if thing == "kite" { "drum" } else { "kite" };
    let at = story.text.rfind(thing).unwrap();
    let (before, after) = story.text.split_at(at);
    let forgetful = format!("{before}{}", after.replacen(thing, other, 1));
    let error = world.read(&forgetful).unwrap_err();
    assert!(matches!(&error, WorldError::Unexpected { found, .. } if found == other), "{error} in {forgetful}");
    assert!(matches!(world.read("Once a brave rabbit; named"), Err(WorldError::Character { found: ';', byte: 19 })));
}

#[test]
fn a_seed_determines_the_stories() {
    let world = World::default();
    assert_eq!(world.corpus(&mut rng(6), 20), world.corpus(&mut rng(6), 20));
    assert_ne!(world.corpus(&mut rng(6), 20), world.corpus(&mut rng(7), 20));
}

/// A source of decisions that chooses the longest wording and any branch, and counts the words.
struct Longwinded<'r> {
    rng: &'r mut Xoshiro256PlusPlus,
    words: usize,
}

impl Choose for Longwinded<'_> {
    fn branch(&mut self, phrases: &[Phrase<'_>]) -> Result<usize, WorldError> {
        let at = self.rng.next_u32() as usize % phrases.len();
        self.words += words(phrases[at].0);
        Ok(at)
    }

    fn vary(&mut self, phrases: &[Phrase<'_>]) -> Result<(), WorldError> {
        self.words += phrases.iter().map(|(phrase, _)| words(phrase)).max().unwrap();
        Ok(())
    }
}

/// The longest story has every possible slip, so it is practically never sampled.
#[test]
fn the_longest_story_has_the_stated_length() {
    let mut rng = rng(13);
    for world in [World::default(), World::named(true)] {
        let longest = (0..20_000).map(|_| {
            let mut teller = Longwinded { rng: &mut rng, words: 0 };
            tell::tell(world.config(), &mut teller).unwrap();
            teller.words
        });
        assert_eq!(longest.max(), Some(world.properties().max_tokens));
    }
}

#[test]
fn exact_properties_agree_with_samples() {
    for world in [World::default(), small(), World::named(true)] {
        let exact = world.properties();
        let stories = world.corpus(&mut rng(8), 20_000);
        let measure = Measure::of(&stories);
        let nats = (measure.nats_per_story - exact.entropy) / measure.nats_per_story_error;
        assert!(nats.abs() < 4.0, "{measure}, but exactly {}", exact.entropy);
        let tokens = stories.iter().map(|s| s.tokens as f64).sum::<f64>() / 20_000.0;
        assert!((tokens - exact.mean_tokens).abs() < 0.2);
        let longest = stories.iter().map(|s| s.tokens).max().unwrap();
        assert!(
            longest <= exact.max_tokens && exact.max_tokens <= 206 + if world.config().retold { 28 } else { 0 },
            "{longest}, {exact:?}"
        );
    }
}

#[test]
fn facts_agree_with_one_another() {
    for Story { facts, .. } in World::default().corpus(&mut rng(9), 500) {
        let carried = [Some(facts.hero_tool), facts.friend_tool];
        assert!(matches!(facts.price, Price::Treat(_)) || carried.iter().flatten().any(|tool| facts.price == Price::Tool(tool)));
        let tool = facts.rescuer.map(|rescuer| if rescuer == Who::Hero { carried[0] } else { carried[1] });
        assert_eq!(tool.is_some(), carried.contains(&Some(facts.needed_tool())));
        assert!(tool.is_none_or(|tool| tool == Some(facts.needed_tool())));
        assert_eq!(facts.mishap, facts.rescuer.is_none().then(|| facts.threat()));
    }
}

#[test]
fn sizes_out_of_range_are_rejected() {
    let refused = |config| World::new(config).unwrap_err();
    let error = refused(WorldConfig { names: 17, ..WorldConfig::default() });
    assert_eq!(error, WorldError::Size { list: "names", found: 17, min: 3, max: 12 });
    let error = refused(WorldConfig { tools: 1, ..WorldConfig::default() });
    assert_eq!(error, WorldError::Size { list: "tools", found: 1, min: 2, max: 6 });
}

/// Half of the summaries are correct: each of six words is wrong with probability 1/12.
#[test]
fn half_of_the_retellings_contain_corrected_slips() {
    let world = World::named(true);
    let stories = world.corpus(&mut rng(14), 4000);
    let (mut wrong, mut firsts) = (0, 0);
    for Story { text, facts, .. } in &stories {
        let begin = ["In short, ", "All in all, ", "In other words, "].iter().find_map(|words| text.rfind(words)).unwrap();
        let (story, retelling) = text.split_at(begin);
        assert!(World::default().read(story.trim_end()).is_ok(), "{story}");
        let is_wrong = retelling.contains(" No, ");
        wrong += usize::from(is_wrong);
        firsts += usize::from(retelling.contains(" owned it."));
        let named = [facts.hero.animal, facts.place, facts.hero_tool, facts.colour, facts.thing, facts.keeper];
        let missing = named.iter().filter(|word| !retelling.split(". No, ").next().unwrap().contains(**word)).count();
        assert_eq!(missing, usize::from(is_wrong), "{retelling}");
    }
    // Half of 4,000, with a tolerance of nearly four standard deviations of 32.
    assert!((1880..2120).contains(&wrong) && (1880..2120).contains(&firsts), "{wrong} wrong, {firsts} of the first kind");
}

/// The stories of the frozen worlds and their probabilities. A change of either requires another version.
#[test]
fn the_worlds_are_frozen() {
    for (world, name, digest) in [
        (World::default(), "micro-world-1", "dc5999100ab99a00"),
        (World::named(true), "micro-world-1-retold", "0e4122dcf16c63bf"),
    ] {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64; // FNV-1a
        let stories = world.corpus(&mut rng(15), 500);
        let lines = stories.iter().map(|story| format!("{} {:.6}\n", story.text, story.log_prob));
        lines.collect::<String>().bytes().for_each(|byte| hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
        assert_eq!((world.name().as_str(), format!("{hash:016x}").as_str()), (name, digest));
    }
    assert_eq!(small().name(), "micro-world-1-other-words");
}

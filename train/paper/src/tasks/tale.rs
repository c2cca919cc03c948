//! Stories in the form that the tasks use: facts, sentences and random choices.

use gradus_tensor::rng::Philox;
use gradus_world::{Facts, Story, Who, World};

/// The twelve sentences of every story, in order, without four of them: SST-2 predicts the mood, remarks resemble claims, and
/// questions have tasks of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scene {
    /// The opening: Once Mia the brave rabbit lived near Tom the fox.
    Opening,
    /// The longing: One rainy day Tom was sad because he had lost the red kite.
    Longing,
    /// The helper: Rosa had seen the kite at the lake.
    Helper,
    /// The departure: So Mia took her rope to the lake, and Tom brought his key.
    Departure = 4,
    /// The obstacle: Soon a dark tunnel stopped them.
    Obstacle = 6,
    /// The outcome: Tom used his lantern. (The next sentence gives the mood: *Very positive.*)
    Outcome,
    /// The price: At the lake a grumpy giant sold the happy rabbit the kite for a song.
    Price = 9,
    /// The ending: At last Mia gave Tom the kite because Tom had lost it.
    Ending = 11,
}

/// A story, with its sentences.
#[derive(Clone, Debug)]
pub(super) struct Tale {
    pub(super) story: Story,
    sentences: Vec<String>,
}

impl Tale {
    pub(super) fn facts(&self) -> &Facts {
        &self.story.facts
    }

    /// Returns the story from its beginning up to this sentence, which is familiar text for a language model.
    pub(super) fn until(&self, part: Scene) -> String {
        self.sentences[..=part as usize].join(" ")
    }

    /// Returns these sentences, separated by blanks.
    pub(super) fn tell(&self, parts: &[Scene]) -> String {
        parts.iter().map(|&part| self.sentences[part as usize].as_str()).collect::<Vec<_>>().join(" ")
    }
}

/// Splits a story into its sentences. A quotation belongs to the sentence around it.
fn sentences(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split(' ').collect();
    let mut quoted = false;
    let sentences = words.split_inclusive(|word| {
        quoted ^= word.matches('"').count() % 2 == 1;
        !quoted && word.trim_end_matches('"').ends_with('.')
    });
    sentences.map(|words| words.join(" ")).collect()
}

/// A source of stories and random choices for the rows of one split of one task.
pub(super) struct Teller<'w> {
    pub(super) world: &'w World,
    pub(super) rng: Philox,
}

impl Teller<'_> {
    /// Returns a new story without slips.
    pub(super) fn tale(&mut self) -> Tale {
        let story = self.world.careful_story(&mut self.rng);
        let sentences = sentences(&story.text);
        debug_assert_eq!(sentences.len(), Scene::Ending as usize + 1);
        Tale { story, sentences }
    }

    /// Returns a new story for which `wanted` is true; some stories must satisfy it.
    pub(super) fn tale_where(&mut self, wanted: impl Fn(&Facts) -> bool) -> Tale {
        loop {
            let tale = self.tale();
            if wanted(tale.facts()) {
                return tale;
            }
        }
    }

    /// Returns 0 … n − 1 with equal probability.
    pub(super) fn below(&mut self, n: usize) -> usize {
        self.rng.below(n as u64) as usize
    }

    /// Returns true with probability 1/2.
    pub(super) fn coin(&mut self) -> bool {
        self.below(2) == 0
    }

    /// Returns one of several values.
    pub(super) fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    /// Returns `n` different words of a list, none of them among `taken`.
    pub(super) fn others(&mut self, list: &[&'static str], taken: &[&str], n: usize) -> Vec<&'static str> {
        let mut rest: Vec<&'static str> = list.iter().copied().filter(|word| !taken.contains(word)).collect();
        self.rng.shuffle(&mut rest);
        rest.truncate(n);
        rest
    }

    /// Inserts the right answer among the wrong ones at a random index, and returns all answers and the index.
    pub(super) fn hide(&mut self, right: String, wrong: Vec<String>) -> (Vec<String>, usize) {
        let mut answers = wrong;
        self.rng.shuffle(&mut answers);
        let place = self.below(answers.len() + 1);
        answers.insert(place, right);
        (answers, place)
    }
}

/// Returns the characters who carry a tool, each with the tool.
pub(super) fn carriers(f: &Facts) -> Vec<(Who, &'static str)> {
    [(Who::Hero, f.hero_tool)].into_iter().chain(f.friend_tool.map(|tool| (Who::Friend, tool))).collect()
}

/// Returns a sentence such as "Mia used her rope."
pub(super) fn uses(f: &Facts, who: Who, tool: &str) -> String {
    let one = f.who(who);
    format!("{} used {} {tool}.", capital(one.name), one.gender.possessive())
}

/// Returns a sentence such as "They got lost."
pub(super) fn got(f: &Facts, mishap: &str) -> String {
    format!("{} got {mishap}.", capital(f.travellers()))
}

/// Replaces several whole words simultaneously, so two words can be exchanged; capitals are kept.
pub(super) fn reword(text: &str, changes: &[(&str, &str)]) -> String {
    let changed = |piece: &str| {
        let word = piece.trim_end_matches(|c: char| !c.is_ascii_alphabetic());
        let lower = word.to_ascii_lowercase();
        let other = match changes.iter().find(|(from, _)| *from == lower) {
            Some((_, to)) if word != lower => capital(to),
            Some((_, to)) => (*to).to_owned(),
            None => word.to_owned(),
        };
        other + &piece[word.len()..]
    };
    text.split_inclusive(|c: char| !c.is_ascii_alphabetic()).map(changed).collect()
}

/// Returns the word with a capital: a name, or the first word of a sentence.
pub(super) fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or(String::new(), |first| first.to_ascii_uppercase().to_string() + letters.as_str())
}

/// Returns the word with its article: a rope, an umbrella.
pub(super) fn a(word: &str) -> String {
    format!("{} {word}", if word.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" })
}

/// Returns whether a word occurs in a text, in any case.
pub(super) fn mentions(text: &str, word: &str) -> bool {
    text.split(|c: char| !c.is_ascii_alphabetic()).any(|w| w.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_words_are_replaced_simultaneously() {
        assert_eq!(reword("Mia, Tom: her rope", &[("mia", "tom"), ("tom", "mia"), ("rope", "key")]), "Tom, Mia: her key");
        assert_eq!(reword("the roper", &[("rope", "key")]), "the roper");
        assert!(mentions("At the lake.", "Lake") && !mentions("At the lakes.", "lake"));
        assert_eq!((a("rope"), a("umbrella"), capital("tom")), ("a rope".into(), "an umbrella".into(), "Tom".into()));
    }

    #[test]
    fn a_story_has_its_twelve_sentences() {
        let world = World::default();
        let mut teller = Teller { world: &world, rng: Philox::new(1) };
        for _ in 0..300 {
            let tale = teller.tale();
            assert_eq!(tale.sentences.join(" "), tale.story.text);
            let f = tale.facts();
            for (part, word) in [
                (Scene::Opening, f.hero.animal),
                (Scene::Longing, f.feeling),
                (Scene::Helper, f.helper),
                (Scene::Departure, f.hero_tool),
                (Scene::Obstacle, f.obstacle.rsplit(' ').next().unwrap()),
                (Scene::Price, f.keeper),
                (Scene::Ending, "because"),
            ] {
                assert!(mentions(&tale.tell(&[part]), word), "{part:?} without {word}: {}", tale.story.text);
            }
            let outcome = tale.tell(&[Scene::Outcome]);
            assert_eq!(mentions(&outcome, "used") || mentions(&outcome, "had"), f.rescuer.is_some(), "{outcome}");
            assert!(tale.story.text.contains(&format!("{outcome} Very {}.", f.mood.word())));
        }
    }
}

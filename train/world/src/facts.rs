//! The facts of a story: the state behind the text, for tasks with exact labels.

use crate::words::{Gender, TOOLS, Tool};

/// A character with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Character {
    /// The name, in lower case like all words here.
    pub name: &'static str,
    /// The gender of the pronouns.
    pub gender: Gender,
    /// The kind of animal.
    pub animal: &'static str,
}

/// One of the two main characters, two neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub enum Who {
    /// The character who sets out.
    Hero,
    /// The neighbour of the hero.
    Friend,
}

/// The price that the keeper gets for the thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub enum Price {
    /// A song, a story, …
    Treat(&'static str),
    /// The tool of the hero or the friend, who no longer has it.
    Tool(&'static str),
}

/// The mood of the travellers after the obstacle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub enum Mood {
    /// A good mood, with probability 9/10 if a traveller has the right tool, and 1/10 otherwise.
    Positive,
    /// A bad mood.
    Negative,
}

impl Mood {
    /// Returns the word for the mood.
    pub fn word(self) -> &'static str {
        if self == Mood::Positive { "positive" } else { "negative" }
    }
}

/// The reason why the hero gave the friend the thing, or showed it. Both characters may be a *she*: the action and the reason
/// identify the character.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub enum Reason {
    /// The hero gave it: the hero liked to share. The hero showed it: the hero liked to boast.
    Hero,
    /// The hero gave it: the friend had lost or wanted it. The hero showed it: the friend wanted to look.
    Friend,
}

/// The facts of one story.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Facts {
    /// The character who sets out.
    pub hero: Character,
    /// The character who comes along or waits.
    pub friend: Character,
    /// The nature of the hero: brave, shy, …
    pub nature: &'static str,
    /// The character who longs for the thing, and has it in the end.
    pub longing: Who,
    /// The weather of the day.
    pub weather: &'static str,
    /// The feeling of the character without the thing.
    pub feeling: &'static str,
    /// Whether the thing had been lost; otherwise it was only wanted.
    pub lost: bool,
    /// The colour of the thing.
    pub colour: &'static str,
    /// The thing.
    pub thing: &'static str,
    /// The name of the character who knows where the thing is.
    pub helper: &'static str,
    /// The place where the thing is.
    pub place: &'static str,
    /// The tool that the hero takes along.
    pub hero_tool: &'static str,
    /// The tool that the friend takes along; `None` if the friend stays behind.
    pub friend_tool: Option<&'static str>,
    /// The obstacle on the way.
    pub obstacle: &'static str,
    /// The traveller with the tool against the obstacle.
    pub rescuer: Option<Who>,
    /// The state of the travellers if neither has the tool.
    pub mishap: Option<&'static str>,
    /// The mood of the travellers.
    pub mood: Mood,
    /// The owner of the thing at first.
    pub keeper: &'static str,
    /// The keeper's nature.
    pub temper: &'static str,
    /// The price that the keeper gets for the thing.
    pub price: Price,
    /// The reason why the hero gave the friend the thing (if the friend longed for it) or showed it (if the hero kept it).
    pub reason: Reason,
}

impl Facts {
    /// Returns the hero or the friend.
    pub fn who(&self, who: Who) -> Character {
        match who {
            Who::Hero => self.hero,
            Who::Friend => self.friend,
        }
    }

    /// Returns the tool that overcomes the obstacle.
    pub fn needed_tool(&self) -> &'static str {
        physics(self.obstacle).name
    }

    /// Returns the state of travellers who meet the obstacle without that tool.
    pub fn threat(&self) -> &'static str {
        physics(self.obstacle).mishap
    }

    /// Returns the pronoun of the travellers: they, she or he.
    pub fn travellers(&self) -> &'static str {
        if self.friend_tool.is_some() { "they" } else { self.hero.gender.subject() }
    }
}

fn physics(obstacle: &str) -> &'static Tool {
    TOOLS.iter().find(|tool| tool.obstacle == obstacle).unwrap_or(&TOOLS[0])
}

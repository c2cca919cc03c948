//! The vocabulary of the world. A [`WorldConfig`] uses the first few words of each list; no word is in two lists.

/// The number of words of each list that the world uses; more words make the stories harder to predict.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorldConfig {
    /// Names of the hero, the friend and the helper, 3 to 12.
    pub names: usize,
    /// Natures of the hero, 1 to 8; never mentioned again.
    pub traits: usize,
    /// Kinds of animals, 2 to 10.
    pub animals: usize,
    /// Places, 2 to 10.
    pub places: usize,
    /// Feelings, 1 to 6.
    pub feelings: usize,
    /// Colours, 1 to 8.
    pub colours: usize,
    /// Things to long for, 1 to 12.
    pub things: usize,
    /// Keepers of the thing, 1 to 6.
    pub keepers: usize,
    /// Moods of the keepers, 1 to 8; never mentioned again.
    pub moods: usize,
    /// Kinds of weather, 1 to 8; never mentioned again.
    pub weathers: usize,
    /// Tools and the obstacles they overcome, 2 to 6.
    pub tools: usize,
    /// Whether each story is repeated in short at its end, in other words, with one wrong word in half of the cases.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub retold: bool,
}

impl Default for WorldConfig {
    fn default() -> Self {
        WorldConfig {
            names: NAMES.len(),
            traits: TRAITS.len(),
            animals: ANIMALS.len(),
            places: PLACES.len(),
            feelings: FEELINGS.len(),
            colours: COLOURS.len(),
            things: THINGS.len(),
            keepers: KEEPERS.len(),
            moods: MOODS.len(),
            weathers: WEATHERS.len(),
            tools: TOOLS.len(),
            retold: false,
        }
    }
}

/// The gender of a character's pronouns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Gender {
    /// she, her
    She,
    /// he, his, him
    He,
}

impl Gender {
    /// Returns the gender of the character with this name.
    pub fn of(name: &str) -> Self {
        if NAMES.contains(&(name, He)) { He } else { She }
    }

    /// Returns `she` or `he`.
    pub fn subject(self) -> &'static str {
        if self == She { "she" } else { "he" }
    }
    /// Returns `her` or `him`.
    pub fn object(self) -> &'static str {
        if self == She { "her" } else { "him" }
    }
    /// Returns `her` or `his`.
    pub fn possessive(self) -> &'static str {
        if self == She { "her" } else { "his" }
    }
}

use Gender::{He, She};

/// Names, with the gender of their pronouns.
pub const NAMES: [(&str, Gender); 12] = [
    ("mia", She),
    ("tom", He),
    ("lily", She),
    ("ben", He),
    ("nora", She),
    ("max", He),
    ("rosa", She),
    ("leo", He),
    ("anna", She),
    ("finn", He),
    ("ella", She),
    ("hugo", He),
];

/// Natures of the hero.
pub const TRAITS: [&str; 8] = ["brave", "shy", "kind", "clever", "sleepy", "proud", "gentle", "curious"];

/// Kinds of animals.
pub const ANIMALS: [&str; 10] = ["rabbit", "fox", "bear", "mouse", "cat", "dog", "pig", "goat", "duck", "frog"];

/// Places.
pub const PLACES: [&str; 10] = ["mill", "lake", "castle", "farm", "tower", "bridge", "cave", "harbor", "market", "garden"];

/// Feelings.
pub const FEELINGS: [&str; 6] = ["sad", "lonely", "angry", "bored", "worried", "gloomy"];

/// Colours.
pub const COLOURS: [&str; 8] = ["red", "blue", "green", "yellow", "white", "black", "golden", "silver"];

/// Things to long for.
pub const THINGS: [&str; 12] = ["kite", "drum", "ball", "bell", "book", "hat", "cup", "ring", "flute", "doll", "clock", "crown"];

/// Keepers of the thing.
pub const KEEPERS: [&str; 6] = ["giant", "witch", "troll", "wizard", "dragon", "pirate"];

/// Moods of the keepers.
pub const MOODS: [&str; 8] = ["grumpy", "friendly", "greedy", "lazy", "cheerful", "tiny", "mighty", "strange"];

/// Kinds of weather.
pub const WEATHERS: [&str; 8] = ["sunny", "rainy", "windy", "foggy", "snowy", "stormy", "cloudy", "warm"];

/// The words that a world uses, by list.
pub(crate) struct Words {
    pub(crate) names: Vec<&'static str>,
    pub(crate) traits: &'static [&'static str],
    pub(crate) animals: &'static [&'static str],
    pub(crate) places: &'static [&'static str],
    pub(crate) feelings: &'static [&'static str],
    pub(crate) colours: &'static [&'static str],
    pub(crate) things: &'static [&'static str],
    pub(crate) keepers: &'static [&'static str],
    pub(crate) moods: &'static [&'static str],
    pub(crate) weathers: &'static [&'static str],
    pub(crate) tools: &'static [Tool],
    pub(crate) tool_names: Vec<&'static str>,
    pub(crate) mishaps: Vec<&'static str>,
}

impl Words {
    pub(crate) fn of(config: &WorldConfig) -> Self {
        let tools = &TOOLS[..config.tools];
        Words {
            names: NAMES[..config.names].iter().map(|&(name, _)| name).collect(),
            traits: &TRAITS[..config.traits],
            animals: &ANIMALS[..config.animals],
            places: &PLACES[..config.places],
            feelings: &FEELINGS[..config.feelings],
            colours: &COLOURS[..config.colours],
            things: &THINGS[..config.things],
            keepers: &KEEPERS[..config.keepers],
            moods: &MOODS[..config.moods],
            weathers: &WEATHERS[..config.weathers],
            tools,
            tool_names: tools.iter().map(|tool| tool.name).collect(),
            mishaps: tools.iter().map(|tool| tool.mishap).collect(),
        }
    }
}

/// A tool, the obstacle that it overcomes, and the consequence of not having it.
#[derive(Debug, PartialEq, Eq)]
pub struct Tool {
    /// The name of the tool.
    pub name: &'static str,
    /// `a` or `an`.
    pub article: &'static str,
    /// The obstacle that the tool overcomes, with its article.
    pub obstacle: &'static str,
    /// The state of travellers who meet the obstacle without the tool.
    pub mishap: &'static str,
}

impl Tool {
    /// Returns the adjective and the noun of the obstacle.
    pub fn obstacle_words(&self) -> (&'static str, &'static str) {
        let mut words = self.obstacle.split(' ').skip(1);
        (words.next().unwrap_or(""), words.next().unwrap_or(""))
    }
}

const fn tool(name: &'static str, article: &'static str, obstacle: &'static str, mishap: &'static str) -> Tool {
    Tool { name, article, obstacle, mishap }
}

/// Tools, with the obstacles they overcome.
pub const TOOLS: [Tool; 6] = [
    tool("lantern", "a", "a dark tunnel", "lost"),
    tool("umbrella", "an", "a wild storm", "wet"),
    tool("rope", "a", "a steep cliff", "scratched"),
    tool("key", "a", "a locked gate", "hungry"),
    tool("ladder", "a", "a high wall", "tired"),
    tool("blanket", "a", "an icy wind", "cold"),
];

/// The prices that a keeper accepts instead of a tool.
pub const TREATS: [&str; 4] = ["song", "story", "dance", "joke"];

//! Tests that derive the labels again from the texts only, by independent means, and tests that the label does not follow from
//! parts of a row that should not reveal it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;

use gradus_data::sets;
use gradus_world::Gender;
use gradus_world::words::{ANIMALS, COLOURS, FEELINGS, KEEPERS, MOODS, NAMES, PLACES, THINGS, TOOLS, TRAITS, TREATS, WEATHERS};

use super::tale::Scene;
use super::*;

const ROWS: usize = 1000;

fn rows(task: &str, split: Split) -> Vec<Labelled> {
    let all = maker(task).unwrap().rows(&World::default(), 1, ROWS).unwrap();
    all.into_iter().find(|(s, _)| *s == split).unwrap().1
}

fn words(text: &str) -> Vec<String> {
    text.split(|c: char| !c.is_ascii_alphabetic()).filter(|w| !w.is_empty()).map(str::to_lowercase).collect()
}

fn has(text: &str, word: &str) -> bool {
    words(text).iter().any(|w| w == word)
}

/// Returns the words of a list that occur in a text, in order.
fn of<'a>(list: &[&'a str], text: &str) -> Vec<&'a str> {
    words(text).iter().filter_map(|w| list.iter().copied().find(|l| l == w)).collect()
}

fn names_in(text: &str) -> Vec<&'static str> {
    of(&NAMES.map(|(name, _)| name), text)
}

/// Returns the events after the obstacle of a text: (the tool needed, whether it is carried, the mishap).
fn physics(text: &str) -> (&'static str, bool, &'static str) {
    let needed = TOOLS.iter().find(|tool| text.contains(&format!("{} ", tool.obstacle))).unwrap();
    (needed.name, has(text, needed.name), needed.mishap)
}

/// Returns the first word of a list after a name of the text and before the next name.
fn belongs(text: &str, name: &str, list: &[&'static str]) -> Option<&'static str> {
    let spoken = words(text);
    let is_name = |w: &String| NAMES.iter().any(|(name, _)| name == w);
    let from =
        |at: usize| spoken[at + 1..].iter().take_while(|w| !is_name(w)).find_map(|w| list.iter().copied().find(|l| l == w));
    (0..spoken.len()).filter(|&at| spoken[at] == name).find_map(from)
}

/// Returns whether the sentences of a claim are true of its premise; `None` if the premise does not mention a subject.
fn verdict(premise: &str, claim: &str) -> Option<bool> {
    claim.split_inclusive('.').try_fold(true, |all, sentence| Some(follows(premise, sentence)? && all))
}

fn follows(premise: &str, claim: &str) -> Option<bool> {
    let claimed = words(claim);
    let last = claimed.last().unwrap().as_str();
    let tools = TOOLS.map(|tool| tool.name);
    let subject = match claimed[0].as_str() {
        "once" => claimed[3].as_str(),
        "the" => claimed[1].as_str(),
        name => name,
    };
    if !has(premise, subject) {
        return None;
    }
    Some(if claimed[0] == "once" {
        of(&COLOURS, premise)[0] == claimed[2] && of(&PLACES, premise)[0] == last
    } else if claim.contains(" carried ") {
        belongs(premise, subject, &tools) == Some(of(&tools, claim)[0]) && of(&PLACES, premise)[0] == last
    } else if claim.contains(" it from ") {
        let [first, second] = names_in(premise)[..2] else { panic!("{premise}") };
        let (giver, owner) = if premise.contains(" got ") { (second, first) } else { (first, second) };
        !premise.contains(" showed ") && (owner, giver) == (subject, last)
    } else if claim.contains(" got ") {
        of(&[&TREATS[..], &tools].concat(), premise).last() == Some(&last)
    } else {
        belongs(premise, subject, &ANIMALS) == Some(last)
    })
}

#[test]
fn claims_are_entailed_or_not_as_labelled() {
    for (task, split) in [
        ("mnli", Split::Train),
        ("mnli", Split::DevMismatched),
        ("snli", Split::Train),
        ("rte", Split::Train),
        ("rte", Split::Dev),
    ] {
        for row in rows(task, split) {
            let label = match (task, verdict(&row.texts[0], &row.texts[1])) {
                (_, Some(true)) => 0,
                ("rte", _) => 1,
                (_, None) => 1,
                (_, Some(false)) => 2,
            };
            assert_eq!(row.label, label, "{task}: {:?}", row.texts);
        }
    }
}

#[test]
fn scitail_labels_follow_from_the_physics() {
    for row in rows("scitail", Split::Train) {
        let (needed, had, mishap) = physics(&row.texts[0]);
        let claim = &row.texts[1];
        let follows = if claim.contains(" used ") {
            let tools = TOOLS.map(|tool| tool.name);
            assert_eq!(belongs(&row.texts[0], names_in(claim)[0], &tools), Some(of(&tools, claim)[0]), "{:?}", row.texts);
            has(claim, needed)
        } else {
            !had && has(claim, mishap)
        };
        assert_eq!(row.label, usize::from(!follows), "{:?}", row.texts);
    }
}

#[test]
fn qnli_labels_match_whether_the_sentence_answers() {
    for row in rows("qnli", Split::Train) {
        let [question, sentence] = &row.texts[..] else { panic!("two texts") };
        let word = words(question).pop().unwrap();
        let answers = has(sentence, &word)
            && if question.starts_with("Where") {
                sentence.contains(" at the ")
            } else if question.starts_with("Who wanted") {
                !of(&FEELINGS, sentence).is_empty()
            } else if TOOLS.iter().any(|tool| tool.name == word) {
                sentence.contains(" to the ")
            } else {
                !of(&KEEPERS, sentence).is_empty()
            };
        assert_eq!(row.label, usize::from(!answers), "{:?}", row.texts);
    }
}

/// Returns the index of the referent, by the verb and the reason.
fn meant(sentence: &str) -> usize {
    let second = if sentence.contains(" failed ") {
        !sentence.contains(" was no ")
    } else {
        let wants = sentence.contains(" wanted ") || sentence.contains(" had lost ");
        wants != sentence.contains(" got ")
    };
    usize::from(second)
}

#[test]
fn pronoun_labels_follow_from_verb_and_reason() {
    for row in rows("dprd", Split::Train) {
        let [sentence, pronoun, first, second] = &row.texts[..] else { panic!("four texts") };
        assert_eq!(row.label, meant(sentence), "{:?}", row.texts);
        assert!(sentence.find(first.as_str()).unwrap() < sentence.find(second.as_str()).unwrap());
        assert_eq!(
            words(sentence).iter().position(|w| w == pronoun),
            words(sentence).iter().position(|w| w == "because").map(|at| at + 1)
        );
        if pronoun != "it" {
            assert_eq!(Gender::of(&first.to_lowercase()), Gender::of(&second.to_lowercase()));
        }
    }
    // With too few different sentences, the last split would lack the rarer kind.
    let test = rows("dprd", Split::Test);
    let physics = test.iter().filter(|row| row.texts[1] == "it").count() as f64 / test.len() as f64;
    assert!((0.2..0.45).contains(&physics), "{physics} of the test rows are of physics");
    for row in rows("wnli", Split::Train) {
        let [sentence, claim] = &row.texts[..] else { panic!("two texts") };
        let candidates = if sentence.contains(" failed ") {
            [words(sentence)[4].clone(), words(sentence)[8].clone()]
        } else {
            [names_in(sentence)[0].to_owned(), names_in(sentence)[1].to_owned()]
        };
        let right = has(claim, &candidates[meant(sentence)]);
        assert_eq!(row.label, usize::from(right), "{:?}", row.texts);
    }
}

#[test]
fn exactly_one_answer_of_race_is_right() {
    let all = rows("race", Split::Train);
    for row in &all {
        let (article, question, answers) = (&row.texts[0], &row.texts[1], &row.texts[2..]);
        let target = words(question).pop().unwrap();
        let right = |answer: &str| match words(question)[0].as_str() {
            "where" => of(&PLACES, article) == of(&PLACES, answer),
            "and" => match (physics(article), answer.contains(" used ")) {
                ((needed, had, _), true) => had && has(answer, needed),
                ((_, had, mishap), false) => !had && has(answer, mishap),
            },
            _ if FEELINGS.contains(&target.as_str()) => {
                let sad = names_in(
                    article.split(" because ").next().unwrap().split(" since ").next().unwrap().split(" as ").next().unwrap(),
                );
                let (sad, given) = (sad.last().copied().unwrap(), words(answer));
                given[0] == sad && (row.kind == "middle" || verdict(article, &format!("{sad} was a {}.", given[2])) == Some(true))
            }
            _ if row.kind == "middle" => {
                belongs(article, &words(answer)[0], &TOOLS.map(|tool| tool.name)).is_some_and(|tool| tool == target)
            }
            _ => of(&KEEPERS, article) == of(&KEEPERS, answer) && of(&PLACES, article).contains(&of(&PLACES, answer)[0]),
        };
        let found: Vec<usize> = (0..4).filter(|&i| right(&answers[i])).collect();
        assert_eq!(found, [row.label], "{:?}", row.texts);
    }
    assert_eq!(all.iter().map(|row| row.kind).collect::<BTreeSet<_>>().len(), 2);
}

#[test]
fn exactly_one_ending_agrees_with_the_story() {
    for row in rows("story-cloze", Split::Train) {
        let story = row.texts[..4].join(" ");
        let right = |ending: &str| {
            if ending.contains(" because ") {
                let known = |list: &[&'static str]| of(list, ending).iter().all(|word| has(&story, word));
                known(&THINGS) && names_in(ending).iter().all(|name| [names_in(&story)[0], names_in(&story)[1]].contains(name))
            } else {
                let (needed, had, mishap) = physics(&story);
                if ending.contains(" used ") { had && has(ending, needed) } else { !had && has(ending, mishap) }
            }
        };
        let found: Vec<usize> = (0..2).filter(|&i| right(&row.texts[4 + i])).collect();
        assert_eq!(found, [row.label], "{:?}", row.texts);
    }
}

/// Returns the five facts of a text of MRPC or STS-B.
fn five(text: &str) -> [Vec<&str>; 5] {
    let (names, tools) = (NAMES.map(|(name, _)| name), TOOLS.map(|tool| tool.name));
    let lists: [&[&str]; 5] = [&names, &tools, &COLOURS, &THINGS, &PLACES];
    lists.map(|list| of(list, text))
}

fn agree(row: &Labelled) -> usize {
    five(&row.texts[0]).iter().zip(five(&row.texts[1])).filter(|(first, second)| *first == second).count()
}

#[test]
fn similarity_and_paraphrase_labels_follow_from_shared_facts() {
    for row in rows("sts-b", Split::Train) {
        assert_eq!(row.label, agree(&row), "{:?}", row.texts);
    }
    for row in rows("mrpc", Split::Train) {
        assert_eq!(row.label, usize::from(agree(&row) == 5), "{:?}", row.texts);
        assert!(agree(&row) >= 2 && row.texts[0] != row.texts[1], "{:?}", row.texts);
    }
}

/// Returns the content of a question, in alphabetical order.
fn query(text: &str) -> BTreeSet<String> {
    let skip = ["so", "now", "it", "to", "at", "the", "was"];
    let one = |w: String| if ["took", "carried", "brought"].contains(&w.as_str()) { "took".into() } else { w };
    words(text).into_iter().filter(|w| !skip.contains(&w.as_str())).map(one).collect()
}

/// The right answers reach the score that the noise allows, and no more.
#[test]
fn label_noise_matches_the_stated_bound() {
    let truth = |task, split, of: fn(&Labelled) -> usize| -> Vec<(usize, usize)> {
        rows(task, split).iter().map(|row| (of(row), row.label)).collect()
    };
    // From the physics of all sentences but the last, which reveals the outcome.
    let mood = truth("sst-2", Split::Train, |row| usize::from(physics(row.texts[0].rsplit_once(". ").unwrap().0).1));
    let accuracy = mood.iter().filter(|(p, l)| p == l).count() as f64 / mood.len() as f64;
    assert!((accuracy - bayes("sst-2").unwrap()).abs() < 0.03, "{accuracy}");
    let same = truth("qqp", Split::Train, |row| usize::from(query(&row.texts[0]) == query(&row.texts[1])));
    let count = |p, l| same.iter().filter(|&&pair| pair == (p, l)).count() as f64;
    let f1 = 2.0 * count(1, 1) / (2.0 * count(1, 1) + count(1, 0) + count(0, 1));
    assert!((f1 - bayes("qqp").unwrap()).abs() < 0.03, "{f1}");
    assert_eq!((bayes("rte"), bayes("imdb")), (Some(1.0), None));
    // H(0.9)
    assert!(["sst-2", "qqp"].iter().all(|task| (entropy(task).unwrap() - 0.325_082_973_391_448).abs() < 1e-12));
    assert_eq!((entropy("rte"), entropy("imdb")), (Some(0.0), None));
}

/// Returns a sentence with its names, nouns and adjectives replaced by their kinds, which leaves the grammar.
fn skeleton(text: &str) -> String {
    let (adjectives, obstacles): (Vec<&str>, Vec<&str>) = TOOLS.iter().map(|tool| tool.obstacle_words()).unzip();
    let lists: [(&str, &[&str]); 14] = [
        ("TOOL", &TOOLS.map(|tool| tool.name)),
        ("MISHAP", &TOOLS.map(|tool| tool.mishap)),
        ("ADJECTIVE", &adjectives),
        ("OBSTACLE", &obstacles),
        ("NATURE", &TRAITS),
        ("ANIMAL", &ANIMALS),
        ("PLACE", &PLACES),
        ("FEELING", &FEELINGS),
        ("COLOUR", &COLOURS),
        ("THING", &THINGS),
        ("KEEPER", &KEEPERS),
        ("MOOD", &MOODS),
        ("WEATHER", &WEATHERS),
        ("TREAT", &TREATS),
    ];
    let kind = |word: String| {
        if let Some((_, gender)) = NAMES.iter().find(|(name, _)| *name == word) {
            return format!("NAME-{}", gender.subject());
        }
        let vowel = if word.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
        match lists.iter().find(|(_, list)| list.contains(&word.as_str())) {
            Some((kind @ ("TOOL" | "ADJECTIVE"), _)) => format!("{kind}-{vowel}"),
            Some((kind, _)) => (*kind).into(),
            None => word,
        }
    };
    words(text).into_iter().map(kind).collect::<Vec<_>>().join(" ")
}

/// An acceptable sentence has the grammar of a sentence of the stories; a violation does not.
#[test]
fn only_unacceptable_sentences_violate_the_grammar() {
    let world = World::default();
    let mut teller = Teller { world: &world, rng: Philox::new(5) };
    let mut grammar = HashSet::new();
    for _ in 0..20_000 {
        let tale = teller.tale();
        for part in
            [Scene::Longing, Scene::Departure, Scene::Helper, Scene::Obstacle, Scene::Outcome, Scene::Price, Scene::Ending]
        {
            grammar.insert(skeleton(&tale.tell(&[part])));
        }
    }
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rows("cola", Split::Train) {
        *kinds.entry(row.kind).or_default() += 1;
        assert_eq!(row.label, usize::from(grammar.contains(&skeleton(&row.texts[0]))), "{} {}", row.kind, row.texts[0]);
    }
    for kind in ["gender", "article", "verb", "order", "case"] {
        assert!(kinds.get(kind).is_some_and(|&n| n >= 10), "{kinds:?}");
    }
}

/// Naive Bayes on the words of some of a row's texts: a baseline without word order, or without the other texts.
struct Unigrams {
    counts: HashMap<String, Vec<f64>>,
    totals: Vec<f64>,
    priors: Vec<f64>,
}

impl Unigrams {
    fn learn(classes: usize, rows: impl Iterator<Item = (String, usize)>) -> Self {
        let mut model = Unigrams { counts: HashMap::new(), totals: vec![0.0; classes], priors: vec![0.0; classes] };
        for (text, label) in rows {
            model.priors[label] += 1.0;
            for word in words(&text) {
                model.counts.entry(word).or_insert_with(|| vec![0.0; classes])[label] += 1.0;
                model.totals[label] += 1.0;
            }
        }
        model
    }

    fn scores(&self, text: &str) -> Vec<f64> {
        let size = self.counts.len() as f64;
        let score = |c: usize| {
            let of = |w: &String| ((self.counts.get(w).map_or(0.0, |n| n[c]) + 1.0) / (self.totals[c] + size)).ln();
            self.priors[c].ln() + words(text).iter().map(of).sum::<f64>()
        };
        (0..self.priors.len()).map(score).collect()
    }
}

fn best(scores: &[f64]) -> usize {
    (0..scores.len()).max_by(|&a, &b| scores[a].total_cmp(&scores[b])).unwrap()
}

fn accuracy(train: &[Labelled], test: &[Labelled], classes: usize, text: impl Fn(&Labelled) -> String) -> f64 {
    let model = Unigrams::learn(classes, train.iter().map(|row| (text(row), row.label)));
    test.iter().filter(|row| best(&model.scores(&text(row))) == row.label).count() as f64 / test.len() as f64
}

/// Neither one text nor the bag of all words reveals the label, and no class is much more frequent.
#[test]
fn shallow_features_do_not_reveal_the_labels() {
    // Classes, and the limit for a guess: chance plus a margin of more than three standard deviations of 400 rows.
    let cases: [(&str, usize, f64); 10] = [
        ("mnli", 3, 0.43),
        ("snli", 3, 0.43),
        ("scitail", 2, 0.6),
        ("qnli", 2, 0.6),
        ("rte", 2, 0.6),
        ("wnli", 2, 0.6),
        ("mrpc", 2, 0.6),
        ("qqp", 2, 0.6),
        ("sts-b", 6, 0.27),
        ("cola", 2, 0.63),
    ];
    for (task, classes, most) in cases {
        let train = rows(task, Split::Train);
        let test = rows(task, Split::Dev);
        for class in 0..classes {
            let share = train.iter().filter(|row| row.label == class).count() as f64 / train.len() as f64;
            assert!(share * classes as f64 > 0.75 && share * (classes as f64) < 1.25, "{task}: class {class} has {share}");
        }
        for at in 0..train[0].texts.len() {
            let found = accuracy(&train, &test, classes, |row| row.texts[at].clone());
            assert!(found <= most, "{task}: text {at} alone gives {found}");
        }
        let found = accuracy(&train, &test, classes, |row| row.texts.join(" "));
        assert!(found <= most, "{task}: the words alone give {found}");
    }
    for (task, split, first, most) in
        [("race", Split::Train, 2, 0.36), ("story-cloze", Split::Train, 4, 0.6), ("dprd", Split::Train, 2, 0.6)]
    {
        let (train, test) = (rows(task, split), rows(task, Split::Test));
        let options =
            |row: &Labelled| row.texts[first..].iter().cloned().enumerate().map(|(i, text)| (text, i)).collect::<Vec<_>>();
        let model = Unigrams::learn(
            2,
            train.iter().flat_map(|row| options(row).into_iter().map(|(text, i)| (text, usize::from(i == row.label)))),
        );
        let likely = |text: &str| {
            let scores = model.scores(text);
            scores[1] - scores[0]
        };
        let right =
            test.iter().filter(|row| best(&options(row).iter().map(|(text, _)| likely(text)).collect::<Vec<_>>()) == row.label);
        let found = right.count() as f64 / test.len() as f64;
        assert!(found <= most, "{task}: the answers alone give {found}");
    }
}

fn lines(dir: &Path, name: &str) -> Vec<String> {
    std::fs::read_to_string(dir.join(name)).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn generated_files_have_the_formats_of_the_originals() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("tasks");
    let written = write(3, &dir, 40, |_| {}).unwrap();
    assert_eq!(written.tasks.len(), 14);
    for (file, header, rows) in [
        ("cola/test.tsv", "index\tsentence", 24),
        ("sst-2/train.tsv", "sentence\tlabel", 6),
        ("sst-2/test.tsv", "index\tsentence", 24),
        ("mrpc/train.tsv", "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", 20),
        ("mrpc/test.tsv", "index\t#1 ID\t#2 ID\t#1 String\t#2 String", 24),
        ("qqp/dev.tsv", "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate", 12),
        ("qqp/test.tsv", "id\tquestion1\tquestion2", 24),
        ("sts-b/dev.tsv", "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore", 12),
        ("qnli/train.tsv", "index\tquestion\tsentence\tlabel", 40),
        ("rte/train.tsv", "index\tsentence1\tsentence2\tlabel", 10),
        ("wnli/test.tsv", "index\tsentence1\tsentence2", 24),
        ("mrpc/test_labels.tsv", "index\tprediction", 24),
    ] {
        let lines = lines(&dir, file);
        assert_eq!((lines[0].as_str(), lines.len()), (header, rows + 1), "{file}");
        let columns = header.split('\t').count();
        assert!(lines.iter().all(|line| line.split('\t').count() == columns), "{file}");
    }
    assert!(lines(&dir, "cola/train.tsv").iter().all(|line| line.split('\t').count() == 4));
    for (file, columns) in
        [("mnli/train.tsv", 12), ("mnli/dev_matched.tsv", 16), ("mnli/dev_mismatched.tsv", 16), ("mnli/test_matched.tsv", 10)]
    {
        assert!(lines(&dir, file).iter().all(|line| line.split('\t').count() == columns), "{file}");
    }
    assert!(lines(&dir, "mnli/train.tsv")[0].ends_with("sentence1\tsentence2\tlabel1\tgold_label"));
    let csv = lines(&dir, "story-cloze/cloze_test_val__spring2016 - cloze_test_ALL_val.csv");
    let columns = "InputStoryid,InputSentence1,InputSentence2,InputSentence3,InputSentence4,RandomFifthSentenceQuiz1,\
                   RandomFifthSentenceQuiz2,AnswerRightEnding";
    assert_eq!(csv[0], columns);
    // A reader of the originals finds every row, its columns and its label.
    for task in written.tasks {
        let set = sets::Task::named(task.name).unwrap();
        let read = |split: &Split| set.load(&dir.join(task.name), *split).unwrap().examples.len();
        assert_eq!(set.splits.iter().map(read).sum::<usize>(), task.rows, "{}", task.name);
    }
}

fn tree(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(tree(&path)) } else { drop(files.insert(path.clone(), std::fs::read(&path).unwrap())) }
    }
    files
}

#[test]
fn a_seed_gives_the_same_files_and_existing_ones_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let files = |dir: &Path| {
        tree(dir).into_iter().map(|(path, text)| (path.strip_prefix(dir).unwrap().to_owned(), text)).collect::<Vec<_>>()
    };
    let make = |name: &str, seed| {
        let dir = folder.path().join(name);
        write(seed, &dir, 10, |_| {}).unwrap();
        files(&dir)
    };
    let first = make("a", 1);
    assert_eq!(first, make("b", 1));
    assert_ne!(first, make("c", 2));
    let refused = |name: &str, rows| write(1, &folder.path().join(name), rows, |_| {}).unwrap_err().to_string();
    assert!(refused("a", 10).contains("not written over"));
    assert_eq!(files(&folder.path().join("a")), first, "as it was");
    assert!(refused("d", 6).contains("--rows 6: expected a number from 7 to 1000000"));
    assert!(!folder.path().join("d").exists());
}

/// Rows are counted and differ, within and between splits.
#[test]
fn no_row_occurs_in_two_splits() {
    for task in &MAKERS {
        let splits = task.rows(&World::default(), 2, 200).unwrap();
        let all: Vec<&Labelled> = splits.iter().flat_map(|(_, rows)| rows).collect();
        let different: HashSet<&Vec<String>> = all.iter().map(|row| &row.texts).collect();
        assert_eq!(different.len(), all.len(), "{}", task.name);
        assert_eq!(splits[0].1.len(), 200 * task.share / 100 * if task.splits == TWO { 5 } else { 4 } / 4);
    }
    let error = maker("wnli").unwrap().rows(&World::default(), 2, 400_000).unwrap_err().to_string();
    assert!(error.contains("wnli") && error.contains("use fewer"), "{error}");
}

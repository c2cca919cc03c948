//! Pronoun resolution files: four lines per example (sentence, pronoun, the two candidates separated by a comma, the correct one)
//! and a blank line between examples.

use std::ops::Range;

use gradus_io::numbers::count_of;

use super::error::quote;
use super::file::SetFile;
use super::location::Location;
use super::{Example, Input, Label, Loaded, SetError, Split, Task};

/// The largest number of commas on the line of candidates. The candidates are split at each comma in turn.
const MOST_COMMAS: usize = 32;

/// Reads a file.
pub(super) fn read(task: &Task, place: &Location<'_>, split: Split) -> Result<Loaded, SetError> {
    let file = SetFile::read(task, place)?;
    let lines: Vec<(usize, &str)> = file.lines().map(|(number, line)| (number, line.trim())).collect();
    let blocks = lines.split(|(_, line)| line.is_empty()).filter(|block| !block.is_empty());
    let examples = blocks.enumerate().map(|(id, block)| example(task, &file, split, id.to_string(), block));
    Ok(Loaded { examples: examples.collect::<Result<_, _>>()?, ..Loaded::of(&file) })
}

/// Parses one example from its numbered lines.
fn example(task: &Task, file: &SetFile, split: Split, id: String, block: &[(usize, &str)]) -> Result<Example, SetError> {
    let remedy = format!("Correct the example, or check that the folder is {}'s: it must hold {}", task.title, task.folder);
    let malformed = |line, expected: &str, found| file.malformed((line, 1), expected, found, remedy);
    let ([(_, sentence), (second, pronoun), (third, both)], answer) = (match block {
        [rest @ .., answer] if rest.len() == 3 => (rest, Some(answer)),
        _ if split.is_test() => (block, None),
        _ => (&block[..0], None),
    }) else {
        let expected = "four lines (sentence, pronoun, two candidates with a comma between, answer), then a blank one";
        return Err(malformed(block[0].0, expected, count_of(block.len(), "line")));
    };
    let Some(at) = find_word(sentence, pronoun) else {
        return Err(malformed(*second, "a word of the sentence above", quote(pronoun)));
    };
    match both.matches(',').take(MOST_COMMAS + 1).count() {
        0 => return Err(malformed(*third, "two candidates with a comma between", quote(both))),
        n if n > MOST_COMMAS => {
            let expected = format!("two candidates with at most {MOST_COMMAS} commas");
            return Err(malformed(*third, &expected, quote(both)));
        }
        _ => {}
    }
    // A candidate may contain a comma: the answer determines at which comma the candidates are separated.
    let same = |candidate: &str| answer.map(|(_, answer)| candidate.to_lowercase() == answer.to_lowercase());
    let parted = |(comma, _)| (both[..comma].trim(), both[comma + 1..].trim());
    let differ = |(a, b): &(&str, &str)| !a.is_empty() && !b.is_empty() && (answer.is_none() || same(a) != same(b));
    let mut parted = both.match_indices(',').map(parted).filter(differ);
    let (Some((first, other)), None) = (parted.next(), parted.next()) else {
        let Some((fourth, answer)) = answer else {
            return Err(malformed(*third, "two candidates with one comma between", quote(both)));
        };
        return Err(malformed(*fourth, &format!("one of two different candidates {}", quote(both)), quote(answer)));
    };
    Ok(Example {
        id,
        input: Input::Reference {
            before: single_blanks(&sentence[..at.start]),
            after: single_blanks(&sentence[at.end..]),
            candidates: [first.to_owned(), other.to_owned()],
        },
        label: same(first).map(|first| Label::Class(usize::from(!first))),
        group: None,
    })
}

/// Returns the first occurrence of `word` as a whole word of `sentence`. Case is ignored only if there is no exact match.
fn find_word(sentence: &str, word: &str) -> Option<Range<usize>> {
    let alone = |sentence: &str, word: &str| {
        sentence.match_indices(word).map(|(start, _)| start..start + word.len()).find(|at| {
            let (before, after) = (sentence[..at.start].chars().next_back(), sentence[at.end..].chars().next());
            ![before, after].into_iter().flatten().any(char::is_alphanumeric)
        })
    };
    alone(sentence, word).or_else(|| alone(&sentence.to_ascii_lowercase(), &word.to_ascii_lowercase()))
}

/// Replaces each run of white space with one blank.
fn single_blanks(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars().map(|c| if c.is_whitespace() { ' ' } else { c }) {
        if c != ' ' || !out.ends_with(' ') {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pronoun_is_a_whole_word_as_written_else_in_any_case() {
        assert_eq!(find_word("the other man, he said", "he"), Some(15..17));
        assert_eq!(find_word("He said he had", "he"), Some(8..10));
        assert_eq!(find_word("It broke", "it"), Some(0..2));
        assert_eq!(find_word("Ann's sister", "it"), None);
        assert_eq!(find_word("naïve it, ü", "it"), Some(7..9));
    }

    #[test]
    fn consecutive_blanks_become_one() {
        assert_eq!(single_blanks("since  \t it "), "since it ");
    }
}

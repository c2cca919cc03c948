//! WSC273, the Winograd Schema Challenge (Levesque, Davis, Morgenstern 2012): which of two candidates does the pronoun mean?
//!
//! `wsc273.txt`, only a test set: four lines an example (the sentence with `[MASK]` for the pronoun, `[MASK]`, the two
//! candidates with a comma between, the right one), then a blank line. Lines may end in blanks, and `[MASK]` may stand
//! between two of them, which are made one. The right candidate always stands first in the file; here the two are put in the
//! order of the alphabet, so that neither a model that sees their order nor a tie between them is scored by that.

use std::path::Path;

use super::error::SetError;
use super::reference;
use super::scores::Metric;
use super::task::{Answer, Family, Form, Input, Label, Loaded, Split, Task};

/// 273 sentences.
pub static WSC273: Task = Task {
    name: "wsc273",
    title: "WSC273",
    family: Family::Commonsense,
    form: Form::Refer,
    answer: Answer::Choice { of: 2 },
    metric: Metric::Accuracy,
    also: &[],
    folder: "`wsc273.txt`",
    splits: &[Split::Test],
    read,
};

fn read(folder: &Path, _: Split) -> Result<Loaded, SetError> {
    let mut loaded = reference::read(&WSC273, &folder.join("wsc273.txt"))?;
    for example in &mut loaded.examples {
        let (Input::Reference { candidates: [a, b], .. }, Some(Label::Class(class))) = (&mut example.input, &mut example.label)
        else {
            continue;
        };
        if a.to_lowercase() > b.to_lowercase() {
            std::mem::swap(a, b);
            *class = 1 - *class;
        }
    }
    Ok(loaded)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{folder, message};
    use super::*;

    fn load(text: &str) -> (Input, Option<Label>) {
        let mut loaded = WSC273.load(folder(&[("wsc273.txt", text)]).path(), Split::Test).unwrap();
        let example = loaded.examples.remove(0);
        (example.input, example.label)
    }

    #[test]
    fn blanks_and_case_do_not_matter() {
        let text = "The mouse saw the owl since  [MASK]  squeaked. \n[MASK]\n The mouse , the Owl \n the mouse  \n \n";
        let input = Input::Reference {
            before: "The mouse saw the owl since ".into(),
            after: " squeaked.".into(),
            candidates: ["The mouse".into(), "the Owl".into()],
        };
        assert_eq!(load(text), (input, Some(Label::Class(0))));
    }

    #[test]
    fn the_order_of_candidates_in_the_file_tells_nothing() {
        let text = |a: &str, b: &str| format!("Tom told Ann that [MASK] won.\n[MASK]\n{a},{b}\nTom\n");
        assert_eq!(load(&text("Tom", "Ann")), load(&text("Ann", "Tom")));
        assert_eq!(load(&text("Tom", "Ann")).1, Some(Label::Class(1)));
    }

    #[test]
    fn there_is_only_a_test_set() {
        let found = message(&WSC273, &[], Split::Dev);
        assert_eq!(found, "WSC273 has no split `dev`. Choose one of: test");
    }
}

//! WSC273, the Winograd Schema Challenge (Levesque, Davis, Morgenstern 2012): which of two candidates a pronoun refers to.
//!
//! The file `wsc273.txt` is a test set: four lines per example (the sentence with `[MASK]` for the pronoun, `[MASK]`, the two
//! candidates separated by a comma, the correct one), then a blank line. Lines may end with blanks. `[MASK]` may have a blank on
//! each side; two blanks become one. The correct candidate is always first in the file; here the two are sorted alphabetically,
//! so that neither a model that sees their order nor a tie benefits from it.

use super::location::Location;
use super::reference;
use super::{Answer, Example, Family, Input, Label, Loaded, Metric, SetError, Split, Task, Transformation};

/// 273 sentences.
pub static WSC273: Task = Task {
    name: "wsc273",
    title: "WSC273",
    family: Family::Commonsense,
    transformation: Transformation::Refer,
    answer: Answer::Choice { of: 2 },
    metric: Metric::Accuracy,
    also: &[],
    folder: "`wsc273.txt`",
    splits: &[Split::Test],
    read,
};

fn read(folder: &Location<'_>, split: Split) -> Result<Loaded, SetError> {
    let mut loaded = reference::read(&WSC273, &folder.join("wsc273.txt"), split)?;
    for Example { input, label, .. } in &mut loaded.examples {
        if let Input::Reference { candidates: [a, b], .. } = input
            && a.to_lowercase() > b.to_lowercase()
        {
            std::mem::swap(a, b);
            *label = label.map(|label| Label::Class(1 - label.value() as usize));
        }
    }
    Ok(loaded)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{load, refused};
    use super::*;

    #[test]
    fn blanks_and_case_do_not_matter() {
        let text = "The mouse saw the owl since  [MASK]  squeaked. \n[MASK]\n The mouse , the Owl \n the mouse  \n \n";
        let expected = ["0: The mouse saw the owl since _ squeaked.|The mouse|the Owl = 0"];
        assert_eq!(load(&WSC273, &[("wsc273.txt", text)], Split::Test), expected);
    }

    #[test]
    fn the_order_of_candidates_does_not_matter() {
        for (candidates, answer, class) in
            [("Tom,Ann", "Tom", "1"), ("Ann,Tom", "Tom", "1"), ("Tom,Ann", "Ann", "0"), ("tom,Tom", "", "?")]
        {
            let text = format!("Tom told Ann that [MASK] won.\n[MASK]\n{candidates}\n{answer}\n");
            let shown = if answer.is_empty() { "tom|Tom" } else { "Ann|Tom" };
            let expected = [format!("0: Tom told Ann that _ won.|{shown} = {class}")];
            assert_eq!(load(&WSC273, &[("wsc273.txt", &text)], Split::Test), expected);
        }
    }

    #[test]
    fn there_is_only_a_test_set() {
        refused(&WSC273, &[], Split::Dev, "WSC273 has no split `dev`. Choose one of: test");
    }
}

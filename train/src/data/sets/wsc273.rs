//! WSC273, the Winograd Schema Challenge (Levesque, Davis, Morgenstern 2012): which of two candidates does the pronoun mean?
//!
//! `wsc273.txt`, only a test set: four lines an example (the sentence with `[MASK]` for the pronoun, `[MASK]`, the two
//! candidates with a comma between, the right one), then a blank line. Lines may end in blanks, and `[MASK]` may stand
//! between two of them, which are made one.

use std::path::Path;

use super::reference;
use super::{Answer, Family, Form, Loaded, SetError, Split, Task};
use crate::scores::Metric;

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
    reference::read(&WSC273, &folder.join("wsc273.txt"))
}

#[cfg(test)]
mod tests {
    use super::super::testing::folder;
    use super::super::{Input, Label};
    use super::*;

    #[test]
    fn blanks_and_case_do_not_matter() {
        let folder = folder(&[(
            "wsc273.txt",
            "The owl saw the mouse since  [MASK]  squeaked. \n[MASK]\n The owl , The mouse \n the mouse  \n \n",
        )]);
        let loaded = WSC273.load(folder.path(), Split::Test).unwrap();
        let input = Input::Reference {
            before: "The owl saw the mouse since ".into(),
            after: " squeaked.".into(),
            candidates: ["The owl".into(), "The mouse".into()],
        };
        assert_eq!((&loaded.examples[0].input, loaded.examples[0].label), (&input, Some(Label::Class(1))));
        let found = WSC273.load(folder.path(), Split::Dev).unwrap_err().to_string();
        assert_eq!(found, "WSC273 has no split `dev`. Choose one of: test");
    }
}

//! Inputs of examples, for tests.

use gradus_data::sets::Input;

pub(super) fn pair(a: &str, b: &str) -> Input {
    Input::Pair(a.into(), b.into())
}

pub(super) fn choices(document: &str, question: &str, answers: &[&str]) -> Input {
    let answers = answers.iter().map(|&a| a.into()).collect();
    Input::Choices { document: document.into(), question: question.into(), answers }
}

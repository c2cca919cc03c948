//! The fields of a `config.json`, read one by one.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::head::HeadConfig;

/// The fields of a `config.json`.
pub(super) type Fields = Map<String, Value>;

/// The field of the heads, which no dialect has.
pub(super) const HEADS: &str = "gradus_heads";
/// The field of one head, as unreleased versions wrote it.
pub(super) const BEFORE: &str = "gradus_head";

/// Whether the first output's matrix is the token embedding.
pub(super) const TIED: &str = "tie_word_embeddings";

/// Numbers that Python writes and JSON lacks.
pub(super) const NOT_FINITE: [&str; 3] = ["-Infinity", "Infinity", "NaN"];

/// Returns the first class in `architectures`; `None` if there is none.
pub(super) fn class(fields: &Fields) -> Option<&str> {
    given(fields, "architectures")?.as_array()?.first()?.as_str()
}

/// Returns whether `architectures` contains a class.
pub(super) fn is_class(fields: &Fields, class: &str) -> bool {
    fields.get("architectures").and_then(Value::as_array).is_some_and(|all| all.contains(&class.into()))
}

/// Returns the heads of a model: those of the field [`HEADS`], or else the head of a class of `transformers` (`is_theirs`), with
/// its labels if the file has them. `rows`: the number of rows of the classifier's weight, if known.
pub(super) fn heads_from_json(
    fields: &Fields,
    is_theirs: bool,
    rows: Option<usize>,
    theirs: impl FnOnce(usize) -> HeadConfig,
) -> Result<Vec<HeadConfig>, String> {
    if fields.contains_key(BEFORE) {
        return Err(format!("{BEFORE}: this file was written by an unreleased version of Gradus; fine-tune the model again"));
    }
    if let Some(heads) = fields.get(HEADS) {
        let heads: Vec<HeadConfig> = serde_json::from_value(heads.clone()).map_err(|e| format!("{HEADS}: {e}"))?;
        return if heads.is_empty() { Err(format!("{HEADS}: expected at least one head, found none")) } else { Ok(heads) };
    }
    let names = fields.get("id2label").and_then(Value::as_object);
    let number: Option<usize> = field(fields, "num_labels", None)?;
    let classes = number.or(names.map(Map::len)).or(rows).unwrap_or(2); // the default of `transformers`
    let name = |i: usize| names?.get(&i.to_string())?.as_str().map(str::to_owned);
    let labels: Vec<String> = (0..classes).map_while(name).collect();
    let all = labels.len() == classes && names.is_none_or(|names| names.len() == classes);
    let named = all && labels.iter().enumerate().any(|(i, label)| *label != unnamed(i));
    Ok(is_theirs.then(|| HeadConfig { labels: if named { labels } else { Vec::new() }, ..theirs(classes) }).into_iter().collect())
}

/// Returns the error of a class in `architectures` that is not read, where the weights have the names of another class.
pub(super) fn unread(class: &str, found: &str) -> String {
    format!(
        "architectures: {class} is not a class that Gradus reads, and the weights have the names of {found}; if the model computes what \
         {found} does, set architectures to [\"{found}\"]"
    )
}

/// Returns the error of a class in `architectures` with a tensor that is missing, where the weights are those of another class.
pub(super) fn contradicted(class: &str, missing: &str, found: &str) -> String {
    format!(
        "architectures: {class} needs {missing}, which is not among the weights: they are those of {found}; set architectures to \
         [\"{found}\"], or save the model with its head"
    )
}

/// Returns a field that is present; null counts as absent.
pub(super) fn given<'a>(fields: &'a Fields, name: &str) -> Option<&'a Value> {
    fields.get(name).filter(|value| !value.is_null())
}

pub(super) fn field<T: DeserializeOwned>(fields: &Fields, name: &str, default: T) -> Result<T, String> {
    given(fields, name).map_or(Ok(default), |value| value_of(name, value))
}

fn value_of<T: DeserializeOwned>(name: &str, value: &Value) -> Result<T, String> {
    T::deserialize(value).map_err(|e| wrong(name, value, &e))
}

/// Returns the error of a field with a value of another type.
pub(super) fn wrong(name: &str, value: &Value, error: &serde_json::Error) -> String {
    match value.as_str() {
        Some(number) if NOT_FINITE.contains(&number) => format!("{name}: expected a finite number, found {number}"),
        _ => format!("{name}: {error}"),
    }
}

/// Returns the name that `transformers` gives to a class without a name.
pub(super) fn unnamed(class: usize) -> String {
    format!("LABEL_{class}")
}

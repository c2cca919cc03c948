//! Identities of values.

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::hex;

/// Returns the SHA-256 of a value's canonical JSON: no white space, and the keys of objects sorted. So the order of fields has no
/// effect, and neither has a new field that is omitted at its default.
///
/// Panics if JSON cannot represent the value, such as a path that is not Unicode.
pub fn identity(value: &impl Serialize) -> String {
    let mut value = serde_json::to_value(value).expect("a value that JSON can represent");
    value.sort_all_objects();
    hex::encode(Sha256::digest(value.to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn canonical_json_has_one_order() {
        #[derive(Serialize)]
        struct Settings {
            steps: u64,
            #[serde(skip_serializing_if = "Option::is_none")]
            added: Option<u64>,
            rate: f64,
        }
        let settings = |added| Settings { steps: 3, added, rate: 0.5 };
        let found = identity(&settings(None));
        assert_eq!(found, hex::encode(Sha256::digest(r#"{"rate":0.5,"steps":3}"#)));
        assert_eq!(found, identity(&json!({ "steps": 3, "rate": 0.5 })));
        assert_ne!(found, identity(&settings(Some(0))));
    }
}

//! Hexadecimal encoding.

/// Encodes bytes in lower-case hexadecimal, the format of digests.
pub fn encode(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_byte_has_two_digits() {
        assert_eq!(super::encode([0, 9, 16, 255]), "000910ff");
    }
}

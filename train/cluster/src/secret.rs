//! The secret shared by the processes of a run, and the proof that a process knows it without revealing it.
//!
//! ```text
//! A → B   hello, with a nonce of A          HMAC(secret, role ‖ hello ‖ nonce of the verifier), with a different role in each
//! B → A   a nonce of B                      direction: no process can prove for another, nor replay an earlier proof
//! ```

use std::fmt;
use std::io::{self, Read};
use std::path::Path;

use gradus_io::disk;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// The minimum length in bytes; shorter secrets can be guessed.
const LEAST: usize = 16;
/// The maximum length in bytes; a longer file is probably the wrong one.
const MOST: usize = 4096;

/// The secret bytes shared by the processes of a run.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

/// The proof that a process knows the secret.
pub type Proof = [u8; 32];
/// A random number used only once.
pub type Nonce = [u8; 32];

impl Secret {
    /// Creates a random secret.
    ///
    /// # Errors
    /// Returns an error if the system provides no random numbers.
    pub fn random() -> io::Result<Self> {
        Ok(Secret(nonce()?.into()))
    }

    /// Reads the secret in a file, without white space at either end.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, or if its length is out of range.
    pub fn read(path: &Path) -> io::Result<Self> {
        let mut bytes = Vec::new();
        disk::open_to_read(path)?.take(MOST as u64 + 1).read_to_end(&mut bytes)?;
        let secret = bytes.trim_ascii();
        if (LEAST..=MOST).contains(&secret.len()) {
            return Ok(Secret(secret.into()));
        }
        let problem = format!("expected a secret of {LEAST} to {MOST} bytes, found {}", secret.len());
        Err(io::Error::new(io::ErrorKind::InvalidData, problem))
    }

    /// Returns the secret in hexadecimal digits, to be passed to a process on this machine.
    pub fn to_hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Parses the digits of [`to_hex`](Secret::to_hex). Returns `None` if they are invalid or too few.
    pub fn from_hex(digits: &str) -> Option<Self> {
        let pairs = digits.as_bytes().as_chunks::<2>().0.iter();
        let byte = |pair: &[u8; 2]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
        pairs.map(byte).collect::<Option<Vec<u8>>>().filter(|bytes| bytes.len() >= LEAST).map(Secret)
    }

    fn mac(&self, who: &str, hello: &[u8], nonce: &Nonce) -> Hmac<Sha256> {
        let mac = Hmac::new_from_slice(&self.0).expect("a key may have any length");
        mac.chain_update(who).chain_update([0]).chain_update(hello).chain_update(nonce)
    }

    /// Returns the proof, for the sender of `nonce`, that the side `who` sent `hello` and knows the secret.
    pub fn prove(&self, who: &str, hello: &[u8], nonce: &Nonce) -> Proof {
        self.mac(who, hello, nonce).finalize().into_bytes().into()
    }

    /// Returns whether a proof is valid, in constant time.
    pub fn is_proven(&self, proof: &Proof, who: &str, hello: &[u8], nonce: &Nonce) -> bool {
        self.mac(who, hello, nonce).verify_slice(proof).is_ok()
    }
}

/// Hides the secret.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Returns 32 random bytes.
///
/// # Errors
/// Returns an error if the system provides no random numbers.
pub fn nonce() -> io::Result<Nonce> {
    let mut nonce = Nonce::default();
    getrandom::fill(&mut nonce).map_err(io::Error::other)?;
    Ok(nonce)
}

/// Returns the SHA-256 digest of these parts, each preceded by its length.
pub fn digest<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_valid_only_for_its_secret_side_hello_and_nonce() {
        let (secret, other) = (Secret::random().unwrap(), Secret::random().unwrap());
        let (hello, nonce) = (b"hello".as_slice(), nonce().unwrap());
        let proof = secret.prove("a", hello, &nonce);
        assert!(secret.is_proven(&proof, "a", hello, &nonce));
        assert!(!other.is_proven(&proof, "a", hello, &nonce), "another secret");
        assert!(!secret.is_proven(&proof, "b", hello, &nonce), "the other side's");
        assert!(!secret.is_proven(&proof, "a", b"hallo", &nonce), "of another hello");
        assert!(!secret.is_proven(&proof, "a", hello, &[1; 32]), "of another time");
        assert_ne!(super::nonce().unwrap(), nonce);
    }

    #[test]
    fn debug_output_hides_the_secret_and_hex_round_trips() {
        let secret = Secret::random().unwrap();
        assert_eq!(format!("{secret:?}"), "Secret(…)");
        assert_eq!(Secret::from_hex(&secret.to_hex()), Some(secret));
        assert_eq!(["", "00", "zz00000000000000000000000000000000"].map(Secret::from_hex), [None, None, None]);
    }

    #[test]
    fn a_secret_is_read_from_a_file_within_length_limits() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        let read = |text: &[u8]| {
            std::fs::write(&path, text).unwrap();
            Secret::read(&path).map_err(|e| e.to_string())
        };
        assert_eq!(read(b" 0123456789abcdef\n"), Ok(Secret(b"0123456789abcdef".to_vec())));
        assert_eq!(read(b"0123456789abcde\n"), Err("expected a secret of 16 to 4096 bytes, found 15".into()));
        assert!(read(&[b'a'; 5000]).unwrap_err().contains("found 4097"));
        assert_eq!(Secret::read(&folder.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_digest_separates_its_parts() {
        let of = |parts: &[&[u8]]| digest(parts.iter().copied());
        assert_ne!(of(&[b"ab", b"c"]), of(&[b"a", b"bc"]));
        assert_eq!(of(&[b"ab"]), of(&[b"ab"]));
    }
}

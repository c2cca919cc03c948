//! A limit on the work that nested damage may cause.

/// Bytes of text that may still be looked at.
///
/// Each pass looks at all of a segment, and hostile text can be made to need as many passes as it has characters
/// ("ÂÂÂÂ©" loses one "Â" in each).
pub(super) struct Work(usize);

/// Passes that a segment of any length may have; short ones may have more.
const PASSES: usize = 64;
const SHORT: usize = 1 << 16;

impl Work {
    pub fn on(segment: &str) -> Work {
        Work((segment.len() * PASSES).max(SHORT))
    }

    /// Whether there is work left for a pass over `text`, which is taken.
    pub fn take(&mut self, text: &str) -> bool {
        match self.0.checked_sub(text.len().max(1)) {
            Some(left) => self.0 = left,
            None => return false,
        }
        true
    }
}

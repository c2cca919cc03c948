//! A limit on the work that nested damage may cause.

/// The number of bytes of text that may still be processed.
///
/// Each pass reads the whole segment, and hostile text can need as many passes as it has characters ("ÂÂÂÂ©" loses one "Â" in
/// each).
pub(super) struct Work(usize);

/// The number of passes that a segment of any length may have; short segments may have more.
const PASSES: usize = 64;
const SHORT: usize = 1 << 16;

impl Work {
    pub fn on(segment: &str) -> Work {
        Work((segment.len() * PASSES).max(SHORT))
    }

    /// Returns whether enough work is left for a pass over `text`, and subtracts it.
    pub fn take(&mut self, text: &str) -> bool {
        match self.0.checked_sub(text.len().max(1)) {
            Some(left) => self.0 = left,
            None => return false,
        }
        true
    }
}

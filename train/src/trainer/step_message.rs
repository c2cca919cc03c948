//! The data that the processes exchange with each step.

use gradus_collective::PeerError;
use gradus_tensor::Real;

/// The results of the shards of one process, or of all.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct StepMessage {
    /// The loss of each shard.
    pub losses: Vec<f64>,
    /// The marks of the shards that are checked.
    pub marks: Vec<f64>,
    /// The time of each process in the step before: its own work and its waiting, in seconds.
    pub times: Vec<[f64; 2]>,
    /// Whether the run should end after this step.
    pub stops: bool,
    /// Whether the run should be saved after this step.
    pub saves: bool,
    /// The digest of the parameters before the step; empty if they are not compared.
    pub digest: Vec<u8>,
}

impl StepMessage {
    /// Encodes each list of numbers as its length and its values, little-endian, followed by the other fields.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for list in [&self.losses, &self.marks] {
            bytes.extend((list.len() as u64).to_le_bytes());
            bytes.extend(list.iter().flat_map(|x| x.to_le_bytes()));
        }
        bytes.extend(self.times.first().copied().unwrap_or_default().map(f64::to_le_bytes).as_flattened());
        bytes.push(u8::from(self.stops) + 2 * u8::from(self.saves));
        bytes.extend(&self.digest);
        bytes
    }

    /// Decodes the bytes of process `process`.
    ///
    /// # Errors
    /// Returns an error if the bytes are malformed.
    pub fn from_bytes(bytes: &[u8], process: usize) -> Result<Self, PeerError> {
        let read = || {
            let (losses, rest) = list(bytes)?;
            let (marks, rest) = list(rest)?;
            let (times, rest) = rest.split_first_chunk::<16>()?;
            let times = numbers_from(times).as_chunks().0.into();
            let (&flags, digest) = rest.split_first()?;
            Some(StepMessage { losses, marks, times, stops: flags & 1 > 0, saves: flags & 2 > 0, digest: digest.into() })
        };
        let unfit = || PeerError::new(format!("process {process} sent {} bytes that are not a valid step message", bytes.len()));
        read().ok_or_else(unfit)
    }

    /// Merges the bytes of all processes, in their order.
    ///
    /// # Errors
    /// Returns an error if the parameters of a process differ from those of process 0 after `steps` steps, or if bytes are
    /// malformed.
    pub fn of_all(told: &[Vec<u8>], steps: u64) -> Result<Self, PeerError> {
        let mut all = StepMessage::default();
        for (process, bytes) in told.iter().enumerate() {
            let StepMessage { losses, marks, times, stops, saves, digest } = StepMessage::from_bytes(bytes, process)?;
            if process == 0 {
                all.digest = digest;
            } else if all.digest != digest {
                let cause = "a machine computes incorrectly or differently";
                let problem =
                    format!("after step {steps} the parameters of process {process} are not those of process 0: {cause}");
                return Err(PeerError::new(problem));
            }
            all.losses.extend(losses);
            all.marks.extend(marks);
            all.times.extend(times);
            all.stops |= stops;
            all.saves |= saves;
        }
        Ok(all)
    }
}

/// Encodes numbers as little-endian bytes, each in the size of its type.
pub(super) fn numbers_to<T: Real>(numbers: &[T]) -> Vec<u8> {
    let wide = |x: &T| x.to_f64();
    match size_of::<T>() {
        4 => numbers.iter().flat_map(|x| (wide(x) as f32).to_le_bytes()).collect(),
        _ => numbers.iter().flat_map(|x| wide(x).to_le_bytes()).collect(),
    }
}

/// Decodes the numbers of [`numbers_to`].
pub(super) fn numbers_from<T: Real>(bytes: &[u8]) -> Vec<T> {
    match size_of::<T>() {
        4 => bytes.as_chunks::<4>().0.iter().map(|&x| T::lit(f32::from_le_bytes(x).into())).collect(),
        _ => bytes.as_chunks::<8>().0.iter().map(|&x| T::lit(f64::from_le_bytes(x))).collect(),
    }
}

/// Decodes a list and returns the rest of the bytes.
fn list(bytes: &[u8]) -> Option<(Vec<f64>, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let (numbers, rest) = rest.split_at_checked(length.checked_mul(8)?)?;
    Some((numbers.as_chunks::<8>().0.iter().map(|&x| f64::from_le_bytes(x)).collect(), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> StepMessage {
        let (losses, marks) = (vec![1.5, f64::NEG_INFINITY], vec![-0.0]);
        StepMessage { losses, marks, times: vec![[2.0, 3.0]], stops: true, saves: false, digest: vec![7; 32] }
    }

    #[test]
    fn a_step_message_survives_serialization_and_cut_ones_are_rejected() {
        let bytes = message().to_bytes();
        assert_eq!(StepMessage::from_bytes(&bytes, 0), Ok(message()));
        let (times, saves) = (vec![[0.0; 2]], true);
        let little = StepMessage { times, saves, ..StepMessage::default() };
        assert_eq!(StepMessage::from_bytes(&little.to_bytes(), 0), Ok(little));
        let refused = |bytes: &[u8]| StepMessage::from_bytes(bytes, 4).unwrap_err().problem;
        for cut in [0, 7, 8, 23, 31, 39, 55] {
            assert_eq!(refused(&bytes[..cut]), format!("process 4 sent {cut} bytes that are not a valid step message"));
        }
        assert_eq!(
            refused(&[0xff; 90]),
            "process 4 sent 90 bytes that are not a valid step message",
            "a length beyond all bounds"
        );
    }

    #[test]
    fn messages_of_all_processes_are_combined() {
        let [one, two] = [false, true].map(|is| StepMessage { stops: is, saves: is, ..message() });
        let messages = [one.to_bytes(), two.to_bytes(), one.to_bytes()];
        let all = StepMessage::of_all(&messages, 3).unwrap();
        assert_eq!((all.losses.len(), all.marks.len(), all.stops, all.digest), (6, 3, true, vec![7; 32]));
        assert_eq!((all.saves, all.times), (true, vec![[2.0, 3.0]; 3]));
        let first = StepMessage::of_all(&messages[..1], 3).unwrap();
        assert!(!first.stops && !first.saves);
        let other = StepMessage { digest: vec![8; 32], ..message() }.to_bytes();
        let problem = StepMessage::of_all(&[one.to_bytes(), two.to_bytes(), other], 3).unwrap_err().problem;
        assert!(problem.starts_with("after step 3 the parameters of process 2 are not those of process 0"), "{problem}");
    }
}

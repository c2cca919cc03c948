//! The exchange of a trainer with those of the other processes.

use gradus_collective::PeerError;
use gradus_io::interrupt;
use gradus_model::{Model, Tree, checkpoint};
use gradus_report::metrics::ProcessTimes;
use gradus_tensor::{DeviceError, Real, Tensor};
use sha2::{Digest, Sha256};

use super::Trainer;
use super::step_message::StepMessage;

/// The number of steps between comparisons of the processes' parameters.
const COMPARED_EVERY: u64 = 100;

/// The data of all processes in a step's all-gather, besides the losses.
#[derive(Clone, Debug, Default)]
pub(super) struct StepFlags {
    pub stops: bool,
    pub saves: bool,
    pub times: Vec<[f64; 2]>,
}

impl<T: Real> Trainer<T> {
    /// All-gathers the losses and marks of the shards, in the order of processes. Compares the parameters every
    /// [`COMPARED_EVERY`] steps.
    pub(super) fn of_all_processes(&self, losses: &[Tensor<T>], marks: &[Tensor<T>]) -> Result<StepMessage, PeerError> {
        let numbers = |all: &[Tensor<T>]| all.iter().map(|x| x.item().to_f64()).collect();
        let compares = self.done > 0 && self.done.is_multiple_of(COMPARED_EVERY);
        let digest = if compares { self.digest()? } else { Vec::new() };
        let (losses, marks, times) = (numbers(losses), numbers(marks), vec![self.time]);
        let message = StepMessage { losses, marks, times, stops: interrupt::requested(), saves: self.asks, digest };
        StepMessage::of_all(&self.collective.all_gather(message.to_bytes()).wait()?, self.done)
    }

    fn digest(&self) -> Result<Vec<u8>, PeerError> {
        let params = self.params.cast::<T, f32>();
        let digest = digest(&params).map_err(|error| PeerError::new(error.to_string()))?;
        Ok(digest.to_vec())
    }

    /// Compares the parameters of all processes.
    ///
    /// # Errors
    /// Returns an error if the parameters of a process differ from those of process 0.
    pub fn compare(&self) -> Result<(), PeerError> {
        if self.collective.processes() > 1 {
            let message = StepMessage { digest: self.digest()?, ..StepMessage::default() };
            StepMessage::of_all(&self.collective.all_gather(message.to_bytes()).wait()?, self.done)?;
        }
        Ok(())
    }

    /// Requests that all processes save the run after the next step, or withdraws the request.
    pub fn ask_to_save(&mut self, saves: bool) {
        (self.asks, self.saves) = (saves, saves);
    }

    /// Returns whether the run should be saved after the steps made.
    pub fn saves(&self) -> bool {
        self.saves
    }

    /// Records the data of all processes.
    pub(super) fn record_flags(&mut self, told: StepFlags) {
        (self.stops, self.saves) = (told.stops, told.saves);
        self.times.resize(told.times.len(), ProcessTimes::default());
        let longest = told.times.iter().map(|[own, _]| *own).fold(0.0, f64::max);
        for (sum, [own, waited]) in self.times.iter_mut().zip(told.times) {
            let slowest = (longest - own).min(waited);
            *sum += ProcessTimes { own, slowest, wire: waited - slowest };
        }
    }

    /// Returns the breakdown of each process's time since the last call; empty for a single process.
    pub fn take_times(&mut self) -> Vec<ProcessTimes> {
        std::mem::take(&mut self.times)
    }

    /// Returns whether the run should end after the steps made. A request to one process ends it in all.
    pub fn stops(&self) -> bool {
        if self.collective.processes() > 1 { self.stops } else { interrupt::requested() }
    }
}

/// Returns the SHA-256 of all parameters: f32, little-endian, in the order of the model.
///
/// # Errors
/// Returns an error if the parameters' GPU fails.
pub fn digest(params: &Model<Tensor>) -> Result<[u8; 32], DeviceError> {
    let mut hash = Sha256::new();
    checkpoint::parameter_bytes(params, |bytes| hash.update(bytes))?;
    Ok(hash.finalize().into())
}

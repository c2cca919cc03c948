//! The first fault of a device.

use std::sync::{Arc, Mutex};

use super::DeviceError;
use super::gpu::lock;

/// The first fault of a device. A fault occurs some time after its command was submitted, and is kept until it is checked.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    name: Arc<str>,
    kept: Arc<Mutex<Option<DeviceError>>>,
}

impl Fault {
    /// Returns the fault of this device, which is recorded from now on.
    pub(super) fn watching(device: &wgpu::Device, name: &str) -> Self {
        let fault = Fault { name: name.into(), kept: Arc::default() };
        let it = fault.clone();
        device.on_uncaptured_error(Arc::new(move |error| {
            it.raise(|name| match error {
                wgpu::Error::OutOfMemory { .. } => {
                    DeviceError::Lost { name, reason: "no memory was left for its commands".into() }
                }
                error => DeviceError::Invalid { name, reason: error.to_string() },
            })
        }));
        let it = fault.clone();
        device.set_device_lost_callback(move |_, reason| it.raise(|name| DeviceError::Lost { name, reason: worded(&reason) }));
        fault
    }

    /// Records a fault. The first one is kept, except that a loss replaces an invalid command: commands to a lost device are
    /// rejected before its loss is reported.
    pub(super) fn raise(&self, error: impl FnOnce(String) -> DeviceError) {
        let (error, mut kept) = (error(self.name.to_string()), lock(&self.kept));
        let is_cause = matches!((&*kept, &error), (None, _) | (Some(DeviceError::Invalid { .. }), DeviceError::Lost { .. }));
        if is_cause {
            *kept = Some(error);
        }
    }

    pub(super) fn check(&self) -> Result<(), DeviceError> {
        lock(&self.kept).clone().map_or(Ok(()), Err)
    }
}

fn worded(reason: &str) -> String {
    if reason.is_empty() { "its driver gives no reason".into() } else { reason.into() }
}

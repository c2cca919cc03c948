//! Elements that are read back from a device.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use super::DeviceError;
use super::gpu::{Gpu, lock};
use super::memory::Buffer;

/// A read of elements from a device, [waited for](Reading::wait) if the thread may block, or awaited. In a browser the event loop
/// wakes the task when they arrive; a native executor polls without pause.
#[derive(Debug)]
#[must_use]
pub(crate) struct Reading {
    gpu: Arc<Gpu>,
    /// The buffer in which the elements arrive, and the number of its bytes that they take.
    staging: Option<(wgpu::Buffer, u64)>,
    arrival: Arc<Mutex<Arrival>>,
}

#[derive(Debug, Default)]
struct Arrival {
    result: Option<Result<(), wgpu::BufferAsyncError>>,
    waker: Option<Waker>,
}

impl Buffer {
    /// Starts to read the elements in `range`.
    pub(crate) fn read(&self, range: Range<usize>) -> Reading {
        let (gpu, arrival) = (self.gpu().clone(), Arc::<Mutex<Arrival>>::default());
        let staging = (!range.is_empty()).then(|| {
            let bytes = 4 * range.len() as u64;
            let staging = gpu.staging(bytes);
            gpu.copy_and_submit(self, 4 * range.start as u64, &staging, bytes);
            let arrived = arrival.clone();
            staging.slice(..bytes).map_async(wgpu::MapMode::Read, move |result| {
                let mut arrival = lock(&arrived);
                arrival.result = Some(result);
                if let Some(waker) = arrival.waker.take() {
                    waker.wake();
                }
            });
            (staging, bytes)
        });
        Reading { gpu, staging, arrival }
    }
}

impl Reading {
    /// Blocks until the elements have arrived.
    pub(crate) fn wait(self) -> Result<Vec<f32>, DeviceError> {
        if self.staging.is_some() {
            self.gpu.wait();
        }
        pollster::block_on(self)
    }

    fn elements(&self, staging: &wgpu::Buffer, bytes: u64) -> Result<Vec<f32>, DeviceError> {
        let raise = |reason: String| {
            self.gpu.fault.raise(|name| DeviceError::Lost { name, reason });
            self.gpu.check().expect_err("just raised")
        };
        let mapped = staging.slice(..bytes).get_mapped_range().map_err(|error| raise(error.to_string()))?;
        Ok(bytemuck::pod_collect_to_vec(&mapped))
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if let Some((staging, _)) = self.staging.take() {
            self.gpu.unstage(staging);
        }
    }
}

impl Future for Reading {
    type Output = Result<Vec<f32>, DeviceError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some((staging, bytes)) = &self.staging else {
            return Poll::Ready(self.gpu.check().map(|()| Vec::new()));
        };
        self.gpu.ask();
        let mut arrival = lock(&self.arrival);
        let Some(result) = arrival.result.take() else {
            arrival.waker = Some(context.waker().clone());
            if !cfg!(target_family = "wasm") {
                context.waker().wake_by_ref(); // natively nothing else wakes the task
            }
            return Poll::Pending;
        };
        drop(arrival);
        if let Err(error) = result {
            self.gpu.fault.raise(|name| DeviceError::Lost { name, reason: error.to_string() });
        }
        Poll::Ready(self.gpu.check().and_then(|()| self.elements(staging, *bytes)))
    }
}

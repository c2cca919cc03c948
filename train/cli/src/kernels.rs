//! Which kernels of a GPU were measured to be fastest, kept from one command to the next.
//!
//! A file per GPU in the user's cache directory, of the driver's version that it was measured with. Without it everything works, and
//! is measured again.

use std::collections::BTreeMap;
use std::path::PathBuf;

use gradus_io::files::write_json;
use gradus_tensor::Device;
use gradus_tensor::device::GpuInfo;
use serde::{Deserialize, Serialize};

use crate::common::cache;
use crate::output;

/// The contents of a file.
#[derive(Default, PartialEq, Serialize, Deserialize)]
struct Kept {
    driver: String,
    /// Of the program that measured: its kernels may be others than those of the next version.
    version: String,
    /// Names of kernels by kinds of products.
    kernels: BTreeMap<String, String>,
}

/// Lets a GPU use what it measured at another time.
pub fn recall(device: &Device) {
    if let Some(info) = device.info()
        && let Some(kept) = read(info)
    {
        device.remember(&kept.kernels);
    }
}

/// Lets a GPU measure. A program that renders on the CPU is not worth its time.
pub fn measure(device: &Device) {
    device.tune(device.info().is_some_and(|info| info.kind != GpuInfo::SOFTWARE));
}

/// Keeps what the open GPUs have measured. Where it cannot be written, it is measured again the next time.
pub fn keep() {
    for device in Device::opened() {
        let (Some(info), kernels) = (device.info(), device.choices()) else { continue };
        let known = read(info).unwrap_or_default().kernels;
        if kernels.iter().all(|(kind, kernel)| known.get(kind) == Some(kernel)) {
            continue;
        }
        let kernels = known.into_iter().chain(kernels).collect();
        let kept = Kept { driver: info.driver.clone(), version: env!("CARGO_PKG_VERSION").into(), kernels };
        let file = file(info);
        let made = file.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(|e| e.to_string());
        if let Err(why) = made.and_then(|()| write_json(&file, &kept).map_err(|e| e.to_string())) {
            output::say(&format!("note: the kernels measured on {} were not kept: {why}", info.name));
        }
    }
}

fn read(info: &GpuInfo) -> Option<Kept> {
    let kept: Kept = serde_json::from_slice(&std::fs::read(file(info)).ok()?).ok()?;
    (kept.driver == info.driver && kept.version == env!("CARGO_PKG_VERSION")).then_some(kept)
}

fn file(info: &GpuInfo) -> PathBuf {
    let name: String = info.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    cache(None).join("kernels").join(format!("{name}.json"))
}

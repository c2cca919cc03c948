//! The fastest kernels of each GPU, measured once and stored between commands.
//!
//! The user's cache directory has one file per GPU, valid for one version of its driver and of the program. Without a valid file,
//! the kernels are measured again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gradus_io::disk;
use gradus_io::files::write_json;
use gradus_tensor::Device;
use gradus_tensor::device::GpuInfo;
use serde::{Deserialize, Serialize};

use crate::cache::cache;
use crate::output;

/// The maximum size of a file in bytes: a line for each of a few thousand kernels.
const MOST: u64 = 1 << 20;
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The contents of a file.
#[derive(Default, PartialEq, Serialize, Deserialize)]
struct Kept {
    driver: String,
    /// The version of the program that measured the kernels; another version may have other kernels.
    version: String,
    /// The names of the fastest kernels, by kind of product.
    kernels: BTreeMap<String, String>,
}

impl Kept {
    /// Reads the kernels of a GPU from a folder. Returns `None` if there are none for this driver and program.
    fn read(folder: &Path, info: &GpuInfo) -> Option<Self> {
        let file = file(folder, info);
        // Other kinds of files are ignored: a pipe would block, and a device never ends.
        std::fs::metadata(&file).ok().filter(|it| it.is_file() && it.len() < MOST)?;
        let kept: Kept = serde_json::from_slice(&disk::read(&file).ok()?).ok()?;
        (kept.driver == info.driver && kept.version == VERSION).then_some(kept)
    }

    /// Adds kernels of a GPU to the stored ones, if any is new.
    fn add(folder: &Path, info: &GpuInfo, kernels: BTreeMap<String, String>) -> Result<(), String> {
        let known = Self::read(folder, info).unwrap_or_default().kernels;
        if kernels.iter().all(|(kind, kernel)| known.get(kind) == Some(kernel)) {
            return Ok(());
        }
        let kernels = known.into_iter().chain(kernels).collect();
        let kept = Kept { driver: info.driver.clone(), version: VERSION.into(), kernels };
        disk::make_folders(folder).map_err(|e| e.to_string())?;
        write_json(&file(folder, info), &kept).map_err(|e| e.to_string())
    }
}

fn file(folder: &Path, info: &GpuInfo) -> PathBuf {
    let name: String = info.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    folder.join(format!("{name}.json"))
}

fn folder() -> PathBuf {
    cache(None).join("kernels")
}

/// Loads the stored kernels of a GPU.
pub fn recall(device: &Device) {
    if let Some(info) = device.info()
        && let Some(kept) = Kept::read(&folder(), info)
    {
        device.remember(&kept.kernels);
    }
}

/// Enables the measurement of a GPU's kernels, except on a software renderer, where it takes longer than it saves.
pub fn measure(device: &Device) {
    device.tune(device.info().is_some_and(|info| info.kind != GpuInfo::SOFTWARE));
}

/// Stores the kernels that the open GPUs have measured. If that fails, they are measured again the next time.
pub fn keep() {
    for device in Device::opened() {
        let Some(info) = device.info() else { continue };
        if let Err(why) = Kept::add(&folder(), info, device.measured()) {
            output::note(&format!("the kernels measured on {} were not saved: {why}", info.name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(driver: &str) -> GpuInfo {
        GpuInfo { name: "Big (TM) 9000".into(), kind: "discrete", interface: "Vulkan", driver: driver.into(), memory: None }
    }

    #[test]
    fn kernels_are_kept_for_the_driver_that_they_were_measured_with() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("kernels");
        let kernels =
            |pairs: &[(&str, &str)]| pairs.iter().map(|&(a, b)| (a.to_owned(), b.to_owned())).collect::<BTreeMap<_, _>>();
        let known = |driver: &str| Kept::read(&folder, &gpu(driver)).map(|kept| kept.kernels);
        Kept::add(&folder, &gpu("1.0"), kernels(&[])).unwrap();
        assert!(!folder.exists(), "nothing to keep, nothing written");
        Kept::add(&folder, &gpu("1.0"), kernels(&[("wide", "a"), ("tall", "b")])).unwrap();
        Kept::add(&folder, &gpu("1.0"), kernels(&[("wide", "c")])).unwrap();
        assert_eq!(known("1.0"), Some(kernels(&[("tall", "b"), ("wide", "c")])));
        assert_eq!(known("1.1"), None, "another driver");
        std::fs::write(folder.join("Big--TM--9000.json"), "{").unwrap();
        assert_eq!(known("1.0"), None, "a damaged file");
        Kept::add(&folder, &gpu("1.1"), kernels(&[("wide", "d")])).unwrap();
        assert_eq!(known("1.1"), Some(kernels(&[("wide", "d")])));
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_in_place_of_the_file_does_not_block() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = file(dir.path(), &gpu("1.0"));
        assert!(std::process::Command::new("mkfifo").arg(pipe).status().unwrap().success());
        assert!(Kept::read(dir.path(), &gpu("1.0")).is_none());
    }
}

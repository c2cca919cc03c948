//! `gradus devices`.

use gradus_io::numbers::count;
use gradus_tensor::Device;
use gradus_tensor::device::{Arithmetic, GpuInfo};
use serde_json::{Value, json};

use crate::error::CliError;
use crate::output;

/// List the available devices, by the names that --device takes
///
/// The arithmetic of a GPU is measured. Where it differs from the CPU's, the last bits of results differ too. The memory is the
/// driver's figure; other programs may use part of it.
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(after_long_help = "Examples:\n  gradus devices\n  gradus devices --json")]
pub struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<(), CliError> {
    let gpus = Device::gpus();
    if gpus.is_empty()
        && let Err(why) = Device::open("gpu")
    {
        output::note(&format!("{why}"));
    }
    if args.json {
        let cpu = json!({ "device": Device::CPU.to_string() });
        let devices: Vec<Value> = std::iter::once(cpu).chain(gpus.iter().map(described)).collect();
        return output::json(&json!({ "devices": devices }));
    }
    output::line(&Device::CPU.to_string())?;
    for gpu in gpus {
        let GpuInfo { name, kind, interface, driver, memory } = &gpu;
        let measured = measured(&gpu).map_or_else(|why| why, |arithmetic| arithmetic.to_string());
        let memory = memory.map_or(String::new(), |bytes| format!("\n    {} MB of memory", count(bytes / 1_000_000)));
        output::line(&format!("gpu:{name}\n    {kind}, {interface}, {driver}{memory}\n    {measured}"))?;
    }
    Ok(())
}

/// Measures the rounding of a GPU. Returns the reason if the GPU cannot be opened.
fn measured(gpu: &GpuInfo) -> Result<Arithmetic, String> {
    let device = Device::open(&format!("gpu:{}", gpu.name)).map_err(|error| error.to_string())?;
    Ok(device.arithmetic().expect("a GPU's is measured when it is opened").clone())
}

fn described(gpu: &GpuInfo) -> Value {
    let GpuInfo { name, kind, interface, driver, memory } = gpu;
    let mut row = json!({ "device": format!("gpu:{name}"), "kind": kind, "interface": interface, "driver": driver });
    if let Some(bytes) = memory {
        row["memory_bytes"] = json!(bytes);
    }
    match measured(gpu) {
        Ok(Arithmetic { product_sum, fma, division_ulps, denormals }) => {
            row["rounds_product_sum"] = json!(product_sum.to_string());
            row["rounds_fma"] = json!(fma.to_string());
            row["division_ulps"] = json!(division_ulps);
            row["keeps_denormals"] = json!(denormals);
        }
        Err(why) => row["error"] = json!(why),
    }
    row
}

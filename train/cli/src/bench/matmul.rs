//! `gradus bench matmul`.

use gradus_bench::{Layout, Product, ProductRate, Workload, products};
use gradus_io::numbers::figure;
use gradus_io::progress::Job;
use gradus_tensor::device::GpuInfo;

use crate::common::{On, Talk, within};
use crate::error::CliError;
use crate::output;
use crate::progress::Display;

/// Time matrix products: squares, and those of a model forward and backward.
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Time matrix products: squares, and those of a training step of a workload; in f32, or with factors in bf16 (on a GPU: f16) \
        (--matmul-precision).\n\n\
        A layer y = x·w has three: forward y = x·w; input x̄ = ȳ·wᵀ; weights w̄ = xᵀ·ȳ. m, k and n are the sizes of (m, k)·(k, n); \
        the output's has at most 256 rows of logits at a time, and on a GPU as many as training holds there: up to 16 Mi logits, in \
        multiples of 128 rows, or 64 rows. ms is the fastest of the repetitions in 0.3 s; on a GPU that of \
        groups of them, each awaited to its end. gflops counts 2·m·k·n. gpu, with --json, has the shaders of the product once more \
        (dispatches, bytes bound, ms by the GPU's own clock; null where it has none).",
    after_long_help = "Examples:\n  \
        gradus bench matmul --threads 2\n  \
        gradus bench matmul --sizes 1024,4096 --device gpu --json\n  \
        gradus bench matmul --sizes 512 --workload gpt1 --device gpu --matmul-precision f16"
)]
pub struct Matmul {
    /// Sizes N of square products N × N × N [default: 512,1024,2048; to 8192 on a GPU; 128,256,512 on a software renderer]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    sizes: Option<Vec<usize>>,
    /// Workload whose products are also timed, as in `gradus bench train`.
    #[arg(long, value_parser = Workload::NAMES)]
    workload: Option<String>,
    #[command(flatten)]
    on: On,
    #[command(flatten)]
    talk: Talk,
}

pub fn run(args: &Matmul) -> Result<(), CliError> {
    args.talk.start()?;
    let sizes = args.sizes.as_deref().unwrap_or_default();
    sizes.iter().try_for_each(|&size| within("sizes", size, 1..=1 << 15, ""))?;
    let device = args.on.open_for_training()?;
    let sizes = if sizes.is_empty() { self::sizes(device.info().map(|gpu| gpu.kind)) } else { sizes };
    let named = |name: &str| Workload::named(name).expect("clap lets these names pass").on(device.clone());
    let workload = args.workload.as_deref().map(named);
    let squares = sizes.iter().map(|&size| Product::square(size));
    let all: Vec<Product> = squares.chain(workload.iter().flat_map(Product::of)).collect();
    let job = Job::new("multiplying", all.len() as u64, "products");
    let report = Display::choose(args.talk.quiet).during(job, |reach| Ok(products(&device, &all, reach)))?;
    if args.talk.json {
        return output::json(&report);
    }
    output::line(&format!("{:<14}{:<10}{:>8}{:>8}{:>8}{:>12}{:>12}", "product", "layout", "m", "k", "n", "ms", "GFLOP/s"))?;
    report.products.iter().try_for_each(|product| {
        let ProductRate { name, layout, m, k, n, ms, gflops, gpu: _ } = product;
        let layout = match layout {
            Layout::Forward => "forward",
            Layout::Input => "input",
            Layout::Weights => "weights",
        };
        output::line(&format!("{name:<14}{layout:<10}{m:>8}{k:>8}{n:>8}{:>12}{:>12}", figure(*ms), figure(*gflops)))
    })
}

/// Returns sizes that take about a second each on this kind of GPU, or on the CPU for `None`.
pub fn sizes(kind: Option<&str>) -> &'static [usize] {
    match kind {
        None => &[512, 1024, 2048],
        Some(GpuInfo::SOFTWARE) => &[128, 256, 512],
        Some(_) => &[512, 1024, 2048, 4096, 8192],
    }
}

//! Flags that several commands share.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Instant;

use clap::ArgMatches;
use clap::parser::ValueSource;
use gradus_data::sets::Task;
use gradus_io::files::quoted;
use gradus_io::interrupt;
use gradus_model::Model;
use gradus_tensor::device::{Bf16Path, MatmulPrecision};
use gradus_tensor::rng::Philox;
use gradus_tensor::{Device, DeviceError, Tensor};
use gradus_train::answers::evaluate::fills_masks;
use gradus_train::finetune::FinetuneManifest;
use gradus_train::hyperparameters::{RangeError, require};
use gradus_train::model_dir::ModelDir;
use gradus_train::run::Manifest;
use gradus_train::trainer::precision::{Precision, named};

use crate::error::CliError;
use crate::{kernels, output};

/// The maximum number of threads: more would take longer to start than they save.
const MOST_THREADS: usize = 1024;

/// The number of threads that compute.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Threads {
    /// Number of threads; by default one per core. Results do not depend on it.
    #[arg(long, value_name = "K")]
    threads: Option<usize>,
}

impl Threads {
    /// Starts the threads.
    pub fn start(self) -> Result<(), CliError> {
        let Some(threads) = self.threads else {
            // Rayon reads this variable when work is first shared.
            let asked = std::env::var("RAYON_NUM_THREADS").ok().and_then(|n| n.parse::<usize>().ok());
            let expected = format!("RAYON_NUM_THREADS is larger than {MOST_THREADS}");
            return if asked.is_some_and(|n| n > MOST_THREADS) { Err(CliError::Usage(expected)) } else { Ok(()) };
        };
        within("threads", threads, 1..=MOST_THREADS, "")?;
        rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build_global()
            .map_err(|source| CliError::Threads { threads, source })
    }
}

/// The device of a command, and its precision.
#[derive(Clone, Debug, clap::Args)]
pub struct On {
    /// Device to compute on: `cpu`; `gpu`, the first hardware GPU, discrete before integrated; or `gpu:NAME`, the one whose name
    /// contains NAME (`gradus devices` lists them). Devices round differently [default: cpu; a resumed run keeps its device]
    #[arg(long, value_name = "cpu|gpu[:NAME]")]
    device: Option<String>,
    /// Precision of the factors of matrix products; sums and stored tensors are in f32. bf16 is for the CPU: 8 significant bits and
    /// the range of f32. f16 is for a GPU: the loss is scaled by a power of two, so that small gradients do not become 0, and a
    /// number beyond 65,504 stops the run [default: f32; a resumed run or a replayed step keeps its precision]
    #[arg(long, value_name = "f32|f16|bf16", alias = "products")]
    matmul_precision: Option<MatmulPrecision>,
}

/// The precision of products in training on the CPU.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Products {
    /// Precision of the factors of matrix products in training, and in the evaluations during it; sums and stored tensors are in
    /// f32. Finished models are scored in f32
    #[arg(long, value_name = "f32|bf16", alias = "products", default_value_t)]
    matmul_precision: MatmulPrecision,
}

impl Products {
    /// Returns the precision. Warns if its products are slow on this CPU.
    pub fn chosen(self) -> MatmulPrecision {
        say_path(&Device::Cpu(self.matmul_precision));
        self.matmul_precision
    }
}

impl On {
    /// Opens the device, with the kernels that an earlier command measured to be fastest.
    pub fn open(&self) -> Result<Device, CliError> {
        let device = Device::open_with(self.named_or("cpu"), self.matmul_precision.unwrap_or_default())?;
        say_path(&device);
        kernels::recall(&device);
        Ok(device)
    }

    fn named_or<'a>(&'a self, device: &'a str) -> &'a str {
        self.device.as_deref().unwrap_or(device)
    }

    /// Returns an error for a device or a precision that has no f64, before anything is read.
    ///
    /// # Errors
    /// Returns [`DeviceError::NotF32`] for any device but the CPU, and [`DeviceError::NoProducts`] for rounded factors.
    pub fn takes_f64(&self) -> Result<(), CliError> {
        match self.matmul_precision.unwrap_or_default() {
            _ if self.named_or("cpu") != "cpu" => Err(DeviceError::NotF32("f64").into()),
            MatmulPrecision::F32 => Ok(()),
            precision => Err(DeviceError::NoProducts { precision, scalar: "f64" }.into()),
        }
    }

    /// Opens the device for long work: a GPU measures which of its kernels are fastest.
    pub fn open_for_training(&self) -> Result<Device, CliError> {
        let device = self.open()?;
        kernels::measure(&device);
        Ok(device)
    }

    /// Opens the device to continue a run or repeat a step, by default the device `before`, with the precision and kernels used
    /// before. A device without this precision computes in f32.
    pub fn open_for(&self, before: Option<&str>, precision: &Precision) -> Result<Device, CliError> {
        let name = self.named_or(before.unwrap_or("cpu"));
        if let Some(products) = self.matmul_precision.filter(|products| *products != precision.products) {
            let its = precision.products;
            return Err(CliError::Usage(format!(
                "--matmul-precision {products}: the saved run or step multiplies in {its}; leave --matmul-precision out"
            )));
        }
        let is_elsewhere = precision.products == if name == "cpu" { MatmulPrecision::F16 } else { MatmulPrecision::BF16 };
        let products = if is_elsewhere { MatmulPrecision::F32 } else { precision.products };
        let device = Device::open_with(name, products).map_err(|error| match before {
            Some(_) if self.device.is_none() => CliError::OfRun { error },
            _ => error.into(),
        })?;
        say_path(&device);
        if precision.is_full() {
            kernels::recall(&device);
        }
        device.remember(&precision.kernels);
        kernels::measure(&device);
        Ok(device)
    }

    /// Opens the device to continue a run that began on `before`, and warns if it is another device.
    pub fn open_again(&self, before: &Option<String>, precision: &Precision) -> Result<Device, CliError> {
        let device = self.open_for(before.as_deref(), precision)?;
        if named(&device) != *before {
            let before = before.as_deref().unwrap_or("cpu").escape_debug();
            let more = if device.matmul_precision() == precision.products {
                String::new()
            } else {
                format!(", with products in f32 instead of {},", precision.products)
            };
            output::say(&format!(
                "warning: this run began on {before}; on {device}{more} its results will differ in the last bits (without \
                 --device it continues on {before})"
            ));
        }
        Ok(device)
    }
}

/// Warns if products in bf16 are slow on this CPU, or not as fast as they could be.
fn say_path(device: &Device) {
    if *device != Device::Cpu(MatmulPrecision::BF16) {
        return;
    }
    let Bf16Path { instruction, is_native, refused } = Bf16Path::of_this_cpu();
    if let Some(why) = refused {
        output::say(&format!(
            "warning: AMX is not used: {why}; products in bf16 are computed by {instruction}, to the same bits"
        ));
    }
    if !is_native {
        let seconds = |device: &Device| {
            let [a, b] =
                [1, 2].map(|seed| Tensor::<f32>::normal([256, 256], 1.0, &mut Philox::new(seed)).to(device).expect("f32"));
            let time = |_| {
                let begin = Instant::now();
                drop(a.matmul(&b));
                begin.elapsed().as_secs_f64()
            };
            (0..5).map(time).fold(f64::INFINITY, f64::min)
        };
        let factor = seconds(device) / seconds(&Device::CPU);
        output::say(&format!(
            "warning: this CPU computes products in bf16 by {instruction}, which takes {factor:.1} times as long as in f32; the bits \
             are those of every other CPU"
        ));
    }
}

/// Returns the flag for this device, to be added to a command; empty for the CPU.
pub fn on(device: &Device) -> String {
    named(device).map_or(String::new(), |device| format!(" --device '{device}'"))
}

/// The output of a command, and its number of threads.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Talk {
    /// Print only the result, warnings and errors, without progress or notes
    #[arg(long)]
    pub quiet: bool,
    /// Print one JSON object as the last line
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub threads: Threads,
}

impl Talk {
    /// Starts the threads. With `--quiet`, suppresses progress and notes from here on.
    pub fn start(self) -> Result<(), CliError> {
        if self.quiet {
            output::be_quiet();
        }
        self.threads.start()
    }
}

/// Returns an error for a flag's number outside `range`. `what` describes the end of the range: `, the model's context`.
pub fn within<N: PartialOrd + Display>(
    flag: &'static str,
    found: N,
    range: RangeInclusive<N>,
    what: &str,
) -> Result<(), RangeError> {
    require(flag, &found, range.contains(&found), format!("a number from {} to {}{what}", range.start(), range.end()))
}

/// Opens the model of `--model`, and prints its path if it is in another directory, such as a run's `best`.
pub fn open_model(path: &Path) -> Result<ModelDir, CliError> {
    let dir = ModelDir::open(path)?;
    if dir.path() != path {
        output::aside(&format!("model: {}", dir.path().display()));
    }
    say_about(&dir);
    Ok(dir)
}

/// Prints a note if a model's files have no checksums, and notes on their deviations from the files that `transformers` saves.
pub fn say_about(dir: &ModelDir) {
    if !dir.has_checksums() {
        output::note(&format!("{} has no checksums.json; its files are not verified", dir.path().display()));
    }
    output::notes(&dir.notes());
}

/// Prints notes on the deviations of a model's files from those that `transformers` saves.
pub fn say_notes(model: &Path) {
    if let Ok(dir) = ModelDir::open(model) {
        output::notes(&dir.notes());
    }
}

/// Prints a note if a BERT has no layer before the output matrix, since its predictions may be meaningless.
pub fn say_if_headless<V>(model: &Model<V>) {
    let is_bert = model.config().transformer().is_some_and(|c| c.segments > 0);
    if is_bert && fills_masks(model) && model.outputs.0.iter().all(|output| output.transform.is_none()) {
        output::note(
            "this model has no layer before the output's matrix; if it was saved without its language model's head, these \
             predictions are meaningless",
        );
    }
}

/// Checks the flags of a resumed run: except for these flags of `A`, a resumed run reads everything from its directory.
///
/// # Errors
/// Returns an error that names the first other flag given, even at its default.
pub fn resumes_with<A: clap::Args>(allowed: &[&str], matches: &ArgMatches) -> Result<(), CliError> {
    match first_given::<A>(matches, |id| !allowed.contains(&id)) {
        None => Ok(()),
        Some(flag) => Err(CliError::Usage(format!(
            "--resume reads everything else from its directory: leave --{flag} out, or begin another run with --out"
        ))),
    }
}

/// Returns the first flag of `A` whose id is chosen and which is on the command line, even at its default.
pub fn first_given<A: clap::Args>(matches: &ArgMatches, is_chosen: impl Fn(&str) -> bool) -> Option<String> {
    let flags = A::augment_args(clap::Command::new("run"));
    let given = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
    let mut all = flags.get_arguments().filter(|arg| given(arg.get_id().as_str()) && is_chosen(arg.get_id().as_str()));
    all.next().and_then(clap::Arg::get_long).map(str::to_owned)
}

/// Returns an error if Ctrl-C stopped the work; it names the command that continues the work.
///
/// # Errors
/// Returns [`CliError::Interrupted`] if the work was stopped.
pub fn unless_interrupted(finished: bool, next: impl FnOnce() -> String) -> Result<(), CliError> {
    if finished || !interrupt::requested() { Ok(()) } else { Err(CliError::Interrupted { next: next() }) }
}

/// Warns if a model was fine-tuned on another task than this one, since heads of equal shape can answer either.
pub fn warn_of_another_task(model: &Path, task: &Task) {
    let run = [Some(model), model.parent()].into_iter().flatten().find_map(|dir| FinetuneManifest::read(dir).ok());
    if let Some(run) = run.filter(|run| run.task != task.name) {
        output::say(&format!("warning: this model was fine-tuned on {}, not on {}", run.task, task.name));
    }
}

/// Returns the command line as it was given.
pub fn command() -> String {
    // The number of a started process is not part of the user's command line.
    let mut args: Vec<_> = std::env::args_os().skip(1).collect();
    if let Some(at) = args.iter().position(|arg| arg == "--child") {
        args.drain(at..args.len().min(at + 2));
    }
    std::iter::once("gradus".to_owned()).chain(args.into_iter().map(quoted)).collect::<Vec<_>>().join(" ")
}

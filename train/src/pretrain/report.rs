//! The report of a pre-training.

use std::path::Path;

use gradus_io::checksums;
use gradus_io::files::quoted;
use gradus_io::numbers::count;
use gradus_report::{Compared, PretrainReport, Standing, metrics};
use serde_json::Value;

use super::{PretrainError, PretrainManifest, Stored};
use crate::run::{METRICS_FILE, Manifest, RunError};

/// The name of the report in a run's directory.
pub(super) const PAGE: &str = "report.html";

/// Writes `report.html` and the loss curve, `loss.svg`, of a run that is in progress (`lasts`) or has ended. `next` is the command
/// that continues it; `None`: `gradus pretrain --resume`. `parameters_sha256` is empty if the parameters are unknown or not final.
pub(super) fn write(run: &Stored, lasts: bool, next: Option<&str>, parameters_sha256: &str) -> Result<(), PretrainError> {
    let manifest = &run.manifest;
    let (step, of) = (run.trainer.done(), manifest.steps);
    let resume = || next.map_or_else(|| format!("gradus pretrain --resume {}", quoted(&run.dir)), str::to_owned);
    let standing = match lasts {
        _ if step == of => Standing::Finished,
        true => Standing::Lasts { step, of },
        false => Standing::Stopped { step, of, resume: resume() },
    };
    let (parameters, masked) = (manifest.settings.model.parameters(), !manifest.settings.view.is_next());
    let name = manifest.settings.system().map_or("a language model", |card| card.title);
    let mut configuration = Vec::new();
    flatten("", &serde_json::to_value(&manifest.settings).expect("plain values"), &mut configuration);
    let threads = rayon::current_num_threads();
    let machine = format!("{} {}, {threads} threads", std::env::consts::OS, std::env::consts::ARCH);
    let (title, lead) = match &manifest.corpus {
        Some(path) => {
            let corpus = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
            let asked = if masked {
                " Its loss is that of the tokens that it was asked for, most of which were hidden from it."
            } else {
                ""
            };
            let lead = format!(
                "A model of {} parameters ({name}), pre-trained from scratch on {corpus}.{asked}",
                count(parameters as u64)
            );
            (format!("Pre-training {name} on {corpus}"), lead)
        }
        None if masked => {
            let lead = "Stories told by a grammar with memory. The loss is that of the tokens that the model was asked for, most of which were hidden from it.";
            (format!("Pre-training {name} on the micro-world"), lead.into())
        }
        None => {
            let lead = "Stories told by a grammar with memory, whose exact probability is known: the limit is the smallest loss that any \
                        model can reach on them, and the distance to it is what this model still has to learn.";
            (format!("Pre-training {name} on the micro-world"), lead.into())
        }
    };
    let report = PretrainReport {
        standing,
        title,
        lead,
        records: metrics::read(&run.dir.join(METRICS_FILE)).map_err(RunError::from)?,
        masked,
        baselines: if masked { Vec::new() } else { run.source.baselines() },
        mark: (manifest.corpus.is_none() && !masked).then_some(0.10),
        parameters: parameters as u64,
        parameters_sha256: parameters_sha256.into(),
        configuration,
        command: manifest.command.clone(),
        seed: manifest.settings.seed,
        versions: vec![("gradus".into(), env!("CARGO_PKG_VERSION").into()), ("machine".into(), machine)],
    };
    Ok(report.write(&run.dir)?)
}

/// Reads the run in a directory for a comparison. The run may be in progress.
///
/// # Errors
/// Returns an error if the directory has no pre-training run, or a damaged one.
pub fn compared(dir: &Path) -> Result<Compared, PretrainError> {
    let manifest = PretrainManifest::read(dir).map_err(|error| match error {
        RunError::Resume { problem } => RunError::Compare { problem },
        other => other,
    })?;
    checksums::check(dir, &[METRICS_FILE]).map_err(RunError::from)?;
    let mut settings = Vec::new();
    flatten("", &serde_json::to_value(&manifest.settings).expect("plain values"), &mut settings);
    let corpus = manifest.corpus.map_or(manifest.world, |path| Some(path.display().to_string()));
    settings.extend(
        [("corpus", corpus), ("steps", Some(manifest.steps.to_string())), ("device", manifest.device)]
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?))),
    );
    Ok(Compared {
        name: dir.display().to_string(),
        data: manifest.digest,
        masked: !manifest.settings.view.is_next(),
        total_steps: manifest.steps,
        parameters: manifest.settings.model.parameters() as u64,
        settings,
        records: metrics::read(&dir.join(METRICS_FILE)).map_err(RunError::from)?,
    })
}

/// Appends every value to `out`, with its path: `model.width`.
fn flatten(path: &str, value: &Value, out: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            flatten(&path, value, out);
        }),
        Value::Null => {}
        Value::String(s) => out.push((path.into(), s.clone())),
        other => out.push((path.into(), other.to_string())),
    }
}

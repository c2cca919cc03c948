//! The report of a pre-training.

use gradus_report::{PretrainReport, metrics};
use serde_json::Value;

use super::{PretrainError, Stored};
use crate::run::{METRICS_FILE, RunError};

/// Writes `report.html` and the loss curve, `loss.svg`.
pub(super) fn write(run: &Stored, parameters_sha256: &str) -> Result<(), PretrainError> {
    let manifest = &run.manifest;
    let (parameters, masked) = (manifest.settings.model_config().parameters(), run.viewer.is_some());
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
            let lead = format!("A model of {parameters} parameters ({name}), pre-trained from scratch on {corpus}.{asked}");
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
        title,
        lead,
        records: metrics::read(&run.dir.join(METRICS_FILE)).map_err(RunError::from)?,
        masked,
        baselines: if masked { Vec::new() } else { run.source.baselines() },
        goal: (manifest.corpus.is_none() && !masked).then_some(0.10),
        parameters: parameters as u64,
        parameters_sha256: parameters_sha256.into(),
        configuration,
        command: manifest.command.clone(),
        seed: manifest.settings.seed,
        versions: vec![("gradus".into(), env!("CARGO_PKG_VERSION").into()), ("machine".into(), machine)],
    };
    report.loss_plot().write(&run.dir.join("loss.svg"))?;
    Ok(report.document().write(&run.dir.join("report.html"))?)
}

/// Every value by its path: `model.width`.
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

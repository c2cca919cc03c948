//! A run of several processes: process 0 owns the run's directory and leads, the others follow.
//!
//! ```text
//! process 0    the run's manifest, its tokenizer, the trainer's state                 →  all
//! all          version, arithmetic, digests of data and parameters                    ↔  all: differences are errors
//! all          a step, until it is the last or a process receives a request to stop
//! process 0    evaluates, logs and saves between steps; the others wait
//! ```

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use gradus_collective::{Collective, PeerError};
use gradus_io::numbers::count_of;
use gradus_io::{hex, interrupt};
use gradus_model::{Batch, ModelConfig};
use gradus_tensor::Device;
use gradus_tensor::device::MatmulPrecision;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Control, RunError};
use crate::trainer::precision::Precision;
use crate::trainer::{Recipe, TrainError, Trainer, digest};

/// The manifest of a run, in the form in which the other processes receive it.
pub trait SharedManifest: Serialize + DeserializeOwned {
    /// The command that begins such runs.
    const COMMAND: &'static str;
}

/// The first message of process 0.
#[derive(Serialize, Deserialize)]
struct Record<M> {
    command: String,
    ways: Ways,
    manifest: M,
    stop: u64,
    /// The names of files that follow.
    files: Vec<String>,
    /// Whether the trainer's state follows.
    has_state: bool,
}

/// The options of this session, which must be equal in all processes.
#[derive(Serialize, Deserialize)]
struct Ways {
    stop_at: Option<u64>,
    anomaly: bool,
    shard_moments: bool,
}

impl Ways {
    fn of(control: &Control<'_>) -> Self {
        Ways { stop_at: control.stop_at, anomaly: control.anomaly, shard_moments: control.shard_moments }
    }
}

/// A run, in the form in which the other processes receive it.
pub struct Begun<M> {
    /// The manifest.
    pub manifest: M,
    /// The step at which this session ends.
    pub stop: u64,
    /// The run's files, such as its tokenizer's.
    pub files: BTreeMap<String, Vec<u8>>,
    /// The trainer's state; `None` before the first step.
    state: Option<Vec<u8>>,
    /// The setting of the same name in [`Control`].
    shard_moments: bool,
}

/// The facts that must be equal in all processes.
#[derive(Serialize, Deserialize)]
struct Facts {
    version: String,
    arithmetic: String,
    data: String,
    parameters: String,
}

/// Sends the run to the other processes, as process 0; `data` is the digest of this process's data.
///
/// # Errors
/// Returns an error if a process is lost or differs, for example in its data.
pub fn share<M: SharedManifest>(
    manifest: &M,
    files: Vec<(&'static str, Vec<u8>)>,
    data: &str,
    trainer: &Trainer,
    control: &Control<'_>,
) -> Result<(), RunError> {
    let collective = &*control.collective;
    if collective.processes() == 1 {
        return Ok(());
    }
    let (stop, has_state) = (control.stop(trainer.recipe.steps), trainer.done() > 0);
    let names = files.iter().map(|(name, _)| (*name).into()).collect();
    let command = M::COMMAND.into();
    let record = Some(Record { command, ways: Ways::of(control), manifest, stop, files: names, has_state });
    collective.broadcast(serde_json::to_vec(&record).expect("plain values"))?;
    for (_, contents) in files {
        collective.broadcast(contents)?;
    }
    if has_state {
        collective.broadcast(trainer.state("")?)?;
    }
    agree(collective, data, trainer)
}

/// Informs the other processes that no further run follows.
///
/// # Errors
/// Returns an error if a process is lost.
pub fn end(collective: &dyn Collective<f32>) -> Result<(), RunError> {
    if collective.processes() > 1 {
        collective.broadcast(b"null".into())?;
    }
    Ok(())
}

impl<M: SharedManifest> Begun<M> {
    /// Receives the run from process 0; `None` if no further run follows.
    ///
    /// # Errors
    /// Returns an error if a process is lost, or if this one was started with another command or other options.
    pub fn hear(control: &Control<'_>) -> Result<Option<Self>, RunError> {
        let collective = &*control.collective;
        let text = collective.broadcast(Vec::new())?;
        let unfit = |e: serde_json::Error| PeerError::new(format!("process 0 sent an invalid run: {e}"));
        let record: Option<Record<Value>> = serde_json::from_slice(&text).map_err(unfit)?;
        let Some(Record { command, ways, manifest, stop, files, has_state }) = record else { return Ok(None) };
        if command != M::COMMAND {
            let problem = format!(
                "process 0 was started as `gradus {command}`, process {} as `gradus {}`",
                collective.process(),
                M::COMMAND
            );
            return Err(RunError::Differs(problem + "; give all the same command"));
        }
        same_settings(&Ways::of(control), &ways)?;
        let manifest: M = serde_json::from_value(manifest).map_err(unfit)?;
        let mut heard = BTreeMap::new();
        for name in files {
            heard.insert(name, collective.broadcast(Vec::new())?);
        }
        let state = if has_state { Some(collective.broadcast(Vec::new())?) } else { None };
        Ok(Some(Begun { manifest, stop, files: heard, state, shard_moments: ways.shard_moments }))
    }

    /// Returns the trainer, in the state that process 0 sent, or a fresh one, with products of the run's precision. `data` is the
    /// digest of this process's data.
    ///
    /// # Errors
    /// Returns an error if a process is lost or differs.
    pub fn trainer(
        &mut self,
        config: ModelConfig,
        recipe: Recipe,
        fresh: impl FnOnce(Recipe) -> Trainer,
        (data, precision): (&str, &Precision),
        collective: &Arc<dyn Collective<f32>>,
    ) -> Result<Trainer, RunError> {
        let mut trainer = match self.state.take() {
            Some(bytes) => Trainer::from_state(Path::new("the state of process 0"), &bytes, config, recipe)?.0,
            None => fresh(recipe),
        };
        trainer.place(&Device::Cpu(precision.products))?;
        trainer.collective = Arc::clone(collective);
        agree(&**collective, data, &trainer)?;
        if self.shard_moments {
            trainer.shard_moments()?;
        }
        Ok(trainer)
    }
}

/// Compares the facts that must be equal in all processes, once there is a shard for each process.
fn agree(collective: &dyn Collective<f32>, data: &str, trainer: &Trainer) -> Result<(), RunError> {
    let (shards, processes) = (trainer.recipe.shards, collective.processes());
    if shards < processes {
        let shards = count_of(shards, "shard");
        return Err(RunError::Disagree(format!(
            "expected at least one shard for each process, found {shards} for {processes} processes; start fewer processes"
        )));
    }
    let own = Facts {
        version: env!("CARGO_PKG_VERSION").into(),
        arithmetic: gradus_tensor::arithmetic().into(),
        data: data.into(),
        parameters: hex::encode(digest(&trainer.params)?),
    };
    let told = collective.all_gather(serde_json::to_vec(&own).expect("plain values")).wait()?;
    let unfit = RunError::Disagree;
    let read = |(process, bytes): (usize, &Vec<u8>)| {
        serde_json::from_slice::<Facts>(bytes)
            .map_err(|e| unfit(format!("process {process} sent an invalid description of itself: {e}")))
    };
    let all: Vec<Facts> = told.iter().enumerate().map(read).collect::<Result<_, _>>()?;
    for (process, its) in all.iter().enumerate() {
        for (what, its, first, remedy) in [
            ("version of gradus", &its.version, &all[0].version, "use one on all machines"),
            ("kind of arithmetic", &its.arithmetic, &all[0].arithmetic, "its CPU computes other bits: leave it out"),
            ("digest of its data", &its.data, &all[0].data, "give all processes the same files and models"),
            ("digest of parameters", &its.parameters, &all[0].parameters, "use one build of gradus on all machines"),
        ] {
            if its != first {
                let [its, first] = [its, first].map(|fact| short(fact));
                return Err(unfit(format!("process {process} has another {what} than process 0, {its} for {first}; {remedy}")));
            }
        }
    }
    Ok(())
}

/// Returns the beginning of a digest, which is enough to compare, or any other fact in full.
fn short(fact: &str) -> &str {
    if fact.len() == 64 { fact.get(..16).unwrap_or(fact) } else { fact }
}

/// Makes the steps of a run that process 0 leads.
///
/// # Errors
/// Returns an error if a process is lost or training has diverged.
pub fn follow(trainer: &mut Trainer, stop: u64, batch: impl Fn(u64) -> Batch) -> Result<(), RunError> {
    while trainer.done() < stop && !trainer.stops() {
        let batch = batch(trainer.done() + 1);
        trainer.step(&batch)?;
        trainer.alarms.take(); // process 0 raises the same alarms
        trainer.take_times();
        if trainer.saves() {
            trainer.gather_moments()?;
        }
    }
    if trainer.stops() {
        interrupt::request();
    }
    trainer.gather_moments()?;
    Ok(trainer.compare()?)
}

/// Compares the settings that a process was started with to those of process 0.
///
/// # Errors
/// Returns an error that names the first setting that differs.
pub fn same_settings(own: &impl Serialize, of_first: &impl Serialize) -> Result<(), RunError> {
    let [own, of_first] = [serde_json::to_value(own), serde_json::to_value(of_first)].map(Result::unwrap_or_default);
    difference("", &own, &of_first).map_or(Ok(()), |what| {
        Err(RunError::Differs(format!("it was started with other settings than process 0: {what}; give all the same flags")))
    })
}

/// Compares the precision of products that a process was started with to that of process 0.
///
/// # Errors
/// Returns an error that names both.
pub fn same_precision(device: &Device, of_first: &Precision) -> Result<(), RunError> {
    let flag = |products: MatmulPrecision| serde_json::json!({ "matmul_precision": products.to_string() });
    same_settings(&flag(device.matmul_precision()), &flag(of_first.products))
}

/// Returns the first difference between two values, with its name.
fn difference(place: &str, own: &Value, other: &Value) -> Option<String> {
    if let (Value::Object(own), Value::Object(other)) = (own, other) {
        let names = own.keys().chain(other.keys().filter(|name| !own.contains_key(*name)));
        let value = |of: &serde_json::Map<String, Value>, name: &str| of.get(name).cloned().unwrap_or_default();
        return names.into_iter().find_map(|name| difference(name, &value(own, name), &value(other, name)));
    }
    let told = |value: &Value| if value.is_null() { "not given".into() } else { value.to_string() };
    (own != other).then(|| format!("{place} is {}, in process 0 {}", told(own), told(other)))
}

/// Returns whether every process ends with this error at the same step, so that only process 0 reports it.
pub fn is_common(error: &RunError) -> bool {
    match error {
        RunError::Train(e) => !matches!(e, TrainError::Peer { .. } | TrainError::Device { .. }),
        RunError::Disagree(_) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use gradus_collective::{AdditionTree, AllGather, ParamRange, Reduction, SingleProcess, Sum};
    use gradus_model::Model;
    use gradus_model::check::tiny_gpt;
    use gradus_tensor::{Shape, Tensor};

    use super::*;

    /// A collective of two processes, of which the other sends prepared messages.
    #[derive(Debug)]
    struct Beside(fn(&mut Value));

    struct Both(Vec<Vec<u8>>);

    impl AllGather for Both {
        fn wait(self: Box<Self>) -> Result<Vec<Vec<u8>>, PeerError> {
            Ok(self.0)
        }
    }

    impl Collective<f32> for Beside {
        fn process(&self) -> usize {
            0
        }
        fn processes(&self) -> usize {
            2
        }
        fn shards(&self, tree: &AdditionTree) -> Result<Range<usize>, PeerError> {
            Collective::<f32>::shards(&SingleProcess, tree)
        }
        fn parts(&self, tree: &AdditionTree, shapes: &[Option<Shape>]) -> Result<Vec<Vec<ParamRange>>, PeerError> {
            Collective::<f32>::parts(&SingleProcess, tree, shapes)
        }
        fn sum(&self, tree: AdditionTree, shapes: Vec<Option<Shape>>, reduction: Reduction) -> Box<dyn Sum<f32> + '_> {
            SingleProcess.sum(tree, shapes, reduction)
        }
        fn all_gather(&self, bytes: Vec<u8>) -> Box<dyn AllGather + '_> {
            let mut other = serde_json::from_slice(&bytes).unwrap();
            self.0(&mut other);
            Box::new(Both(vec![bytes, serde_json::to_vec(&other).unwrap()]))
        }
        fn broadcast(&self, bytes: Vec<u8>) -> Result<Vec<u8>, PeerError> {
            Ok(bytes)
        }
        fn gather(&self, bytes: Vec<u8>) -> Result<Vec<Vec<u8>>, PeerError> {
            Ok(vec![bytes])
        }
    }

    fn trainer() -> Trainer {
        let params: Model<Tensor> = Model::init(&tiny_gpt(), 1);
        Trainer::new(Recipe::new(5, 2), params)
    }

    #[test]
    fn the_process_that_differs_is_named() {
        let result = |change| agree(&Beside(change), "ab", &trainer()).map_err(|e| e.to_string());
        assert_eq!(result(|_| {}), Ok(()));
        for (change, bytes) in [
            (
                (|other| other["version"] = "9.9".into()) as fn(&mut Value),
                "process 1 has another version of gradus than process 0, 9.9 for 0.1.0; use one on all machines",
            ),
            (|other| other["arithmetic"] = "none".into(), "process 1 has another kind of arithmetic than process 0, none for "),
            (|other| other["data"] = "cd".into(), "process 1 has another digest of its data than process 0, cd for ab; give all"),
            (|other| other["parameters"] = "ef".into(), "process 1 has another digest of parameters than process 0, ef for "),
            (|other| *other = Value::Null, "process 1 sent an invalid description of itself: "),
        ] {
            let found = result(change).unwrap_err();
            assert!(found.starts_with(bytes) && found.contains("no step was made"), "{found}");
        }
    }

    #[test]
    fn each_process_needs_a_shard() {
        let mut trainer = trainer();
        trainer.recipe.shards = 1;
        let error = agree(&Beside(|_| {}), "ab", &trainer).unwrap_err().to_string();
        assert!(
            error.starts_with(
                "expected at least one shard for each process, found 1 shard for 2 processes; start fewer processes"
            ),
            "{error}"
        );
    }

    #[test]
    fn the_first_setting_that_differs_is_named() {
        let of = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let result = |own, other| same_settings(&of(own), &of(other)).map_err(|e| e.to_string());
        let settings = r#"{"lr":0.1,"model":{"width":8,"layers":2}}"#;
        assert_eq!(result(settings, settings), Ok(()));
        let differs = |other, what: &str| {
            let found = result(settings, other).unwrap_err();
            assert!(found.starts_with(&format!("it was started with other settings than process 0: {what}; ")), "{found}");
        };
        differs(r#"{"lr":0.2,"model":{"width":8,"layers":2}}"#, "lr is 0.1, in process 0 0.2");
        differs(r#"{"lr":0.1,"model":{"width":8,"layers":3}}"#, "layers is 2, in process 0 3");
        differs(r#"{"lr":0.1,"model":{"width":8}}"#, "layers is 2, in process 0 not given");
        differs(r#"{"lr":0.1,"model":{"width":8,"layers":2},"mode":"spacy"}"#, r#"mode is not given, in process 0 "spacy""#);
    }

    #[test]
    fn errors_common_to_all_processes_are_recognized() {
        let of_all = RunError::Train(TrainError::Broken { name: "w".into() });
        let of_one = RunError::Train(TrainError::Peer { step: 1, error: PeerError::new("gone".into()) });
        assert!(is_common(&of_all) && !is_common(&of_one));
        assert!(is_common(&RunError::Disagree("x".into())) && !is_common(&RunError::Differs("x".into())));
        assert!(!is_common(&RunError::Peer(PeerError::new("gone".into()))));
    }
}

//! Tests of the pages of a run in progress.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use gradus_io::progress::{Job, Monitor, Progress, Silent};
use gradus_train::pretrain::{self, PretrainControl, PretrainOptions};
use gradus_train::run::Control;

/// A monitor that records each message and the contents of the pages at that time.
#[derive(Clone, Debug)]
struct Reader {
    run: PathBuf,
    seen: Arc<Mutex<Vec<[String; 3]>>>,
}

impl Monitor for Reader {
    fn begin(&self, _: Job) -> Box<dyn Progress> {
        Box::new(self.clone())
    }
    fn say(&self, _: &str) {}
}

impl Progress for Reader {
    fn reach(&mut self, _: u64) {}
    fn say(&mut self, words: &str) {
        let page = |name: &str| fs::read_to_string(self.run.join(name)).unwrap_or_default();
        self.seen.lock().unwrap().push([words.into(), page("report.html"), page("loss.svg")]);
    }
    fn warn(&mut self, words: &str) {
        panic!("{words}");
    }
}

/// The pages exist from the first step on, are rewritten with each evaluation, and reload themselves until the end.
#[test]
fn pages_are_rewritten_at_each_evaluation() {
    let dir = tempfile::tempdir().unwrap();
    let (corpus, run) = (dir.path().join("corpus.txt"), dir.path().join("run"));
    fs::write(&corpus, "the cat sat on the mat, and the dog sat on the cat. ".repeat(30)).unwrap();
    let sizes = "tokenizer = 'char'\nlayers = 1\nwidth = 8\nheads = 2\ncontext = 8\nbatch = 4\nsteps = 20\neval_every = 5";
    let settings = toml::from_str::<PretrainOptions>(sizes).unwrap().settle().unwrap();
    let reader = Reader { run: run.clone(), seen: Arc::default() };
    let control = PretrainControl::new(Control::new(&reader), dir.path().join("cache"));
    pretrain::begin(settings, Some(&corpus), &run, &control).unwrap();

    let seen = reader.seen.lock().unwrap();
    let named = seen.iter().filter(|[words, ..]| words.contains("report.html"));
    assert_eq!(named.count(), 1, "{seen:?}");
    let evaluated: Vec<_> = seen.iter().filter(|[words, ..]| words.contains("held-out loss")).collect();
    assert_eq!(evaluated.len(), 4);
    // The message precedes the rewriting of the page, which still shows the previous evaluation.
    for ([_, page, curve], step) in evaluated.into_iter().zip([0, 5, 10, 15]) {
        assert!(page.contains(&format!("<p>Step {step} of 20. ")) && page.contains("http-equiv=\"refresh\""), "{page}");
        assert!(curve.contains("location.reload()"));
    }
    let page = fs::read_to_string(run.join("report.html")).unwrap();
    assert!(!page.contains(" of 20. ") && !page.contains("http-equiv=\"refresh\"") && page.contains("SHA-256"));
    assert!(!fs::read_to_string(run.join("loss.svg")).unwrap().contains("<script"));
}

/// The page of a run that is a stage of a study gives the command that continues the study.
#[test]
fn a_stopped_page_gives_the_command_that_continues() {
    let dir = tempfile::tempdir().unwrap();
    let (corpus, run) = (dir.path().join("corpus.txt"), dir.path().join("run"));
    fs::write(&corpus, "the cat sat on the mat, and the dog sat on the cat. ".repeat(30)).unwrap();
    let sizes = "tokenizer = 'char'\nlayers = 1\nwidth = 8\nheads = 2\ncontext = 8\nbatch = 4\nsteps = 4";
    let settings = toml::from_str::<PretrainOptions>(sizes).unwrap().settle().unwrap();
    let next = Some("gradus reproduce --resume mini".to_owned());
    let control = Control { stop_at: Some(2), next, ..Control::new(&Silent) };
    let control = PretrainControl::new(control, dir.path().join("cache"));
    pretrain::begin(settings, Some(&corpus), &run, &control).unwrap();
    let page = fs::read_to_string(run.join("report.html")).unwrap();
    assert!(page.contains("Stopped at step 2 of 4; <code>gradus reproduce --resume mini</code> continues."), "{page}");
}

//! Test of `gradus audit step` in a real browser: its page opens, zooms by keyboard, finds a node by name, and shows the
//! library's numbers. Run by `.ci/browser`, since it needs Debian's chromium.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use gradus_audit::step::{Node, Opened, StepInputs, View};
use serde_json::{Value, json};

/// A browser controlled through a pipe (the DevTools protocol: JSON messages, each ended by a zero).
struct Browser {
    /// The directory of its pipes, its profile and the page.
    dir: tempfile::TempDir,
    process: Child,
    to: File,
    from: Receiver<Vec<u8>>,
    session: Option<String>,
    sent: u64,
}

/// The time limit for an answer.
const LONGEST: Duration = Duration::from_secs(60);

/// Receives the messages of a pipe on a separate thread, so that a missing answer is detected.
fn messages(pipe: File) -> Receiver<Vec<u8>> {
    let (send, messages) = channel();
    std::thread::spawn(move || {
        for message in BufReader::new(pipe).split(0).map_while(Result::ok) {
            if send.send(message).is_err() {
                break;
            }
        }
    });
    messages
}

impl Browser {
    /// Opens a browser on the page of a step.
    fn on(opened: &Opened) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (to, from) = (dir.path().join("to"), dir.path().join("from"));
        for pipe in [&to, &from] {
            assert!(Command::new("mkfifo").arg(pipe).status().expect("mkfifo").success());
        }
        // The protocol's pipe is file descriptors 3 and 4.
        let line = "exec chromium --headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking \
                    --disable-component-update --disable-sync --window-size=1400,1000 --user-data-dir=\"$3\" --remote-debugging-pipe about:blank \
                    3<\"$1\" 4>\"$2\" 2>/dev/null";
        let process = Command::new("sh").args(["-c", line, "sh"]).args([&to, &from, &dir.path().join("profile")]).spawn();
        let process = process.expect("a shell");
        let to = OpenOptions::new().write(true).open(to).expect("the pipe to it");
        let from = messages(File::open(from).expect("the pipe from it"));
        let mut browser = Browser { dir, process, to, from, session: None, sent: 0 };
        let target = browser.ask("Target.createTarget", json!({ "url": "about:blank" }));
        let target = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.ask("Target.attachToTarget", target)["sessionId"].as_str().expect("a session").to_owned();
        browser.session = Some(session);
        browser.show(opened);
        browser
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.sent += 1;
        let id = self.sent;
        let mut message = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.to.write_all(format!("{message}\0").as_bytes()).expect("chromium listens; is it installed?");
        loop {
            let mut answer = self.read();
            if answer["id"] == id {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].take();
            }
        }
    }

    fn read(&mut self) -> Value {
        let message = self.from.recv_timeout(LONGEST).expect("chromium answers within a minute");
        serde_json::from_slice(&message).expect("JSON")
    }

    fn show(&mut self, opened: &Opened) {
        let page = self.dir.path().join("page.html");
        std::fs::write(&page, opened.html()).expect("a file");
        self.ask("Page.navigate", json!({ "url": format!("file://{}", page.display()) }));
        let begun = Instant::now();
        while self.eval("document.documentElement?.dataset.ready ?? ''") != "yes" {
            assert!(begun.elapsed() < LONGEST, "the page's script did not finish");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn eval(&mut self, expression: &str) -> Value {
        let mut answer = self.ask("Runtime.evaluate", json!({ "expression": expression, "returnByValue": true }));
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].take()
    }

    fn text(&mut self, expression: &str) -> String {
        self.eval(expression).as_str().unwrap_or_else(|| panic!("{expression} is text")).to_owned()
    }

    fn press(&mut self, key: &str) {
        // The Enter key presses a button only if the event has a code.
        let (text, code) = if key == "Enter" { ("\r", 13) } else { (if key.len() == 1 { key } else { "" }, 0) };
        let down = json!({ "type": "keyDown", "key": key, "text": text, "windowsVirtualKeyCode": code });
        self.ask("Input.dispatchKeyEvent", down);
        self.ask("Input.dispatchKeyEvent", json!({ "type": "keyUp", "key": key }));
    }

    /// Types a name into the search field, using only the keyboard.
    fn find(&mut self, name: &str) {
        self.press("/");
        assert_eq!(self.text("document.activeElement.id"), "find");
        self.ask("Input.insertText", json!({ "text": name }));
        self.press("Enter");
    }

    fn chosen(&mut self) -> String {
        self.text("document.getElementById('chosen').textContent")
    }

    fn trail(&mut self) -> String {
        self.text("document.getElementById('trail').textContent")
    }

    /// Returns the texts of the elements that a selector finds.
    fn texts(&mut self, selector: &str) -> Vec<String> {
        self.texts_of(&format!("document.querySelectorAll('{selector}')"))
    }

    fn texts_of(&mut self, elements: &str) -> Vec<String> {
        let texts = self.eval(&format!("[...{elements}].map((element) => element.textContent)"));
        serde_json::from_value(texts).expect("texts")
    }

    fn boxes(&mut self) -> Vec<String> {
        self.texts("#map .box b")
    }

    /// Returns the numbers of the first table in the panel, slice by slice as it is shown.
    fn numbers(&mut self) -> Vec<f64> {
        let cells = self.texts_of("(document.querySelector('#tab .numbers')?.querySelectorAll('td') ?? [])").join(" ");
        cells.split_whitespace().map(|cell| cell.replace('−', "-").replace('∞', "inf").parse().expect("a number")).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns the first slice of a tensor.
fn first(view: &View) -> &[f64] {
    &view.slices[0].map.0
}

fn op<'a>(nodes: &'a [Node], scope: &str, op: &str) -> &'a Node {
    nodes.iter().find(|n| n.scope == scope && n.op == op).unwrap_or_else(|| panic!("{scope}.{op}"))
}

#[test]
#[expect(clippy::too_many_lines, reason = "one visit of the page, from place to place")]
fn the_page_opens_zooms_finds_and_shows_the_librarys_numbers() {
    let opened = Opened::of(StepInputs::by_hand(), "test").unwrap();
    let mut browser = Browser::on(&opened);
    assert_eq!(browser.eval("performance.getEntriesByType('resource').length"), 0, "nothing is loaded");
    assert_eq!(browser.boxes(), ["embed", "h0", "reshape", "lm"]);
    let loss = browser.text("document.querySelector('header').textContent");
    assert!(loss.contains(&format!("{:?} nats", opened.loss)), "{loss}");

    // Using only the keyboard: from the model to the block, its attention, the op, its softmax.
    browser.press("ArrowDown");
    assert_eq!(browser.chosen(), "h0");
    browser.press("Enter");
    assert_eq!(browser.trail(), "model▸ h0");
    assert_eq!(browser.boxes()[0], "attn");
    browser.press("Enter");
    assert_eq!(browser.boxes(), ["linear", "self_attention", "linear-2"]);
    browser.press("ArrowDown");
    browser.press("Enter");
    assert!(browser.boxes().contains(&"softmax".to_owned()));
    browser.find("h0.attn.self_attention.softmax.div");
    assert_eq!(browser.trail(), "model▸ h0▸ attn▸ self_attention▸ softmax");
    browser.press("1");
    let attention = op(&opened.nodes, "h0.attn", "self_attention");
    let inside = attention.inside.as_ref().unwrap();
    assert_eq!(browser.numbers(), first(&op(inside, "softmax", "div").value));
    // Escape leads back out again.
    for place in ["softmax", "self_attention", "attn", "h0"] {
        browser.press("Escape");
        assert!(browser.chosen().ends_with(place), "{place}");
    }

    // A node is found by its name; its value and its gradient are the library's to the last digit.
    for (name, node) in [
        ("h0.mlp.linear_gelu", op(&opened.nodes, "h0.mlp", "linear_gelu")),
        ("lm.linear_cross_entropy", op(&opened.nodes, "lm", "linear_cross_entropy")),
    ] {
        browser.find(name);
        assert_eq!(browser.chosen(), name);
        browser.press("1");
        assert_eq!(browser.numbers(), first(&node.value), "{name}");
        browser.press("2");
        assert_eq!(browser.numbers(), first(node.grad.as_ref().unwrap()), "{name}");
        browser.press("5");
        let value = browser.text("document.querySelector('#tab .facts dd').textContent");
        assert_eq!(value.parse(), Ok(node.proof.unwrap().value), "{name}");
    }

    // A parameter is shown beside the op that reads it; the columns of c_attn are labelled with their results.
    browser.find("h.0.attn.c_attn.weight");
    assert_eq!((browser.trail(), browser.chosen()), ("model▸ h0▸ attn".to_owned(), "h.0.attn.c_attn.weight".to_owned()));
    browser.press("1");
    assert_eq!(browser.texts("#tab thead th"), ["", "q0", "q1", "q2", "k0", "k1", "k2", "v0", "v1", "v2"]);

    // The gradient of the tied embedding is a sum of two terms, and each is shown.
    browser.find("tokens_embed.weight");
    browser.press("3");
    let from = ["1. from lm.linear_cross_entropy, by its input 1", "2. from embed.gather, by its input 0"];
    assert_eq!(browser.texts("#tab .summand h3"), from);
    let [a, b] = [0, 1].map(|i| first(opened.nodes[0].summands[i].view.as_ref().unwrap()));
    assert_eq!(browser.numbers(), a);
    let sum: Vec<f64> = a.iter().zip(b).map(|(a, b)| a + b).collect();
    assert_eq!(sum, first(opened.nodes[0].grad.as_ref().unwrap()));
    browser.press("4");
    let update = opened.nodes[0].update.as_ref().unwrap();
    assert_eq!(browser.numbers(), first(update.part("g").unwrap()));
    assert_eq!(browser.texts("#tab .tensor h3"), ["g", "m", "v", "Δθ", "θ after"]);
    assert_eq!(browser.text("document.querySelector('#tab .math').textContent"), opened.rule.lines.concat());

    // The colours depend on the browser's colour scheme.
    let ground = |browser: &mut Browser, scheme: &str| {
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        browser.ask("Emulation.setEmulatedMedia", features);
        browser.text("getComputedStyle(document.body).backgroundColor")
    };
    assert_ne!(ground(&mut browser, "light"), ground(&mut browser, "dark"));
}

/// Draws every place and every tab, and returns the faults: exceptions, headings without words, a wrong map.
const EVERYWHERE: &str = "(() => {
    const wrong = [];
    for (const place of places.values()) {
        go(place);
        if (chosen !== place) wrong.push(`${place.key} is not chosen`);
        for (const [name] of tabsOf(place)) {
            turn(name);
            for (const heading of document.querySelectorAll('#panel h3'))
                if (/^(input \\d+: )?$/.test(heading.textContent)) wrong.push(`${place.key}, ${name}: “${heading.textContent}”`);
            if (/undefined|NaN|\\[object/.test(document.getElementById('panel').textContent)) wrong.push(`${place.key}, ${name}`);
        }
        if (place.children.length) {
            enter(place);
            if (document.querySelectorAll('#map .box').length !== place.children.length) wrong.push(`${place.key}: boxes`);
        }
    }
    return [places.size, wrong.join('; ')];
})()";

#[test]
fn every_node_of_the_page_can_be_selected_and_read() {
    for step in [StepInputs::by_hand(), StepInputs::standard(1, |_| {}).unwrap()] {
        let found = Browser::on(&Opened::of(step, "test").unwrap()).eval(EVERYWHERE);
        assert!(found[0].as_u64() > Some(80), "{found}");
        assert_eq!(found[1], "");
    }
}

#[test]
fn keyboard_focus_is_kept() {
    let mut browser = Browser::on(&Opened::of(StepInputs::by_hand(), "test").unwrap());
    let focus = "document.activeElement.closest('[data-key]')?.dataset.key ?? document.activeElement.id";
    browser.find("h0.mlp.linear_gelu");
    assert_eq!(browser.text(focus), "h0.mlp.linear_gelu");
    for key in ["g", "2", "g"] {
        browser.press(key); // the pictures switch to gradients, another tab is shown, and back again
        assert_eq!(browser.text(focus), "h0.mlp.linear_gelu", "after {key}");
    }
    // On the tabs the arrow keys move from tab to tab and wrap around.
    browser.eval("document.querySelector('.tabs [aria-selected=true]').focus()");
    for (key, tab) in
        [("ArrowRight", "tab-from"), ("ArrowLeft", "tab-gradient"), ("ArrowLeft", "tab-value"), ("ArrowLeft", "tab-proof")]
    {
        browser.press(key);
        assert_eq!(browser.text(focus), tab);
    }
    assert_eq!(browser.chosen(), "h0.mlp.linear_gelu");
    // The pictures switch, and the selection stays; at the top Escape returns to the whole model.
    browser.find("h0.mlp");
    browser.press("Enter");
    assert_eq!(browser.chosen(), "h0.mlp");
    browser.press("g");
    assert_eq!(browser.chosen(), "h0.mlp");
    for place in ["h0.mlp", "h0", "Two tokens, by hand"] {
        browser.press("Escape");
        assert_eq!(browser.chosen(), place);
    }
    // A parameter's name on a box can be reached and pressed.
    browser.find("h0.attn.linear");
    browser.eval("document.querySelector('#map [data-key=\"h0.attn.linear\"] .chip').focus()");
    browser.press("Enter");
    assert!(browser.chosen().starts_with("h.0.attn.c_attn."), "{}", browser.chosen());
}

#[test]
fn large_tensors_are_summarized_with_a_note() {
    let opened = Opened::of(StepInputs::standard(1, |_| {}).unwrap(), "test").unwrap();
    let mut browser = Browser::on(&opened);
    browser.find("tokens_embed.weight");
    browser.press("1");
    let text = browser.text("document.getElementById('tab').textContent");
    assert!(text.contains("the picture has means of blocks, the table the first numbers of the tokens that are read"), "{text}");
    let slice = &opened.nodes[0].value.slices[0];
    assert_eq!(&browser.numbers(), &slice.corner.as_ref().unwrap().0);
    // Its rows are the rows of the tokens, labelled with their words.
    let named: Vec<String> = opened.tokens.rows.iter().map(|(row, word)| format!("{word} ({row})")).collect();
    assert_eq!(browser.texts("#tab .numbers tbody th"), named);
    assert_eq!(slice.rows, opened.tokens.rows.iter().map(|(row, _)| *row).collect::<Vec<_>>());
    browser.find("lm.linear_cross_entropy.matmul"); // the logits
    browser.press("1");
    let text = browser.text("document.getElementById('tab').textContent");
    assert!(text.contains("the picture has means of blocks, the table the corner"), "{text}");
    // A heat map of attention: one cell per pair of tokens, labelled with their words.
    browser.find("h1.attn.self_attention.softmax.div");
    browser.press("1");
    assert_eq!(browser.texts("#tab .labels span"), opened.tokens.inputs);
    assert_eq!(browser.text("document.querySelector('#tab option:last-of-type').textContent"), "sequence 0, head 3");
    assert_eq!(browser.eval("document.querySelector('#tab canvas').width"), json!(opened.tokens.inputs.len()));
}

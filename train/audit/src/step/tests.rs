use std::collections::{BTreeMap, BTreeSet};

use gradus_model::{ClassLoss, DropoutSeed, GradientMode, Tree};
use gradus_train::optim::OptimizerKind;

use super::*;

/// Returns the parameters of a step by name, as rows of numbers.
fn tables(step: &StepInputs) -> BTreeMap<String, Vec<Vec<f64>>> {
    let mut all = BTreeMap::new();
    step.trainer.params.as_ref().visit(|name, p| {
        let width = p.shape().last().copied().unwrap_or(1);
        all.insert(name.to_owned(), p.to_vec().chunks(width).map(<[f64]>::to_vec).collect());
    });
    all
}

/// Returns x·W + b of a row.
fn linear(x: &[f64], w: &[Vec<f64>], b: &[f64]) -> Vec<f64> {
    (0..b.len()).map(|j| x.iter().zip(w).map(|(x, row)| x * row[j]).sum::<f64>() + b[j]).collect()
}

fn norm(x: &[f64], gain: &[f64], bias: &[f64]) -> Vec<f64> {
    let n = x.len() as f64;
    let mean = x.iter().sum::<f64>() / n;
    let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
    (0..x.len()).map(|i| gain[i] * (x[i] - mean) / (variance + 1e-5).sqrt() + bias[i]).collect()
}

fn softmax(z: &[f64]) -> Vec<f64> {
    let sum: f64 = z.iter().map(|z| z.exp()).sum();
    z.iter().map(|z| z.exp() / sum).collect()
}

fn plus(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

/// Computes the loss with scalars only, as with pen and paper: without tensors or a tape.
fn by_pen(p: &BTreeMap<String, Vec<Vec<f64>>>) -> (f64, Vec<f64>) {
    let x: Vec<Vec<f64>> = (0..2).map(|t| plus(&p["tokens_embed.weight"][t], &p["positions_embed.weight"][t])).collect();
    let of = |name: &str| &p[&format!("h.0.{name}")];
    let qkv: Vec<Vec<f64>> = x.iter().map(|x| linear(x, of("attn.c_attn.weight"), &of("attn.c_attn.bias")[0])).collect();
    let score = |t: usize, s: usize| (0..3).map(|i| qkv[t][i] * qkv[s][3 + i]).sum::<f64>() / 3f64.sqrt();
    let probabilities = softmax(&[score(1, 0), score(1, 1)]); // the first token attends to itself only
    let attended = [qkv[0][6..].to_vec(), (6..9).map(|i| probabilities[0] * qkv[0][i] + probabilities[1] * qkv[1][i]).collect()];
    let mut loss = 0.0;
    for t in 0..2 {
        let a = linear(&attended[t], of("attn.c_proj.weight"), &of("attn.c_proj.bias")[0]);
        let n = norm(&plus(&x[t], &a), &of("ln_1.weight")[0], &of("ln_1.bias")[0]);
        let u = linear(&n, of("mlp.c_fc.weight"), &of("mlp.c_fc.bias")[0]);
        let gelu = |u: &f64| 0.5 * u * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (u + 0.044715 * u.powi(3))).tanh());
        let m = linear(&u.iter().map(gelu).collect::<Vec<_>>(), of("mlp.c_proj.weight"), &of("mlp.c_proj.bias")[0]);
        let h = norm(&plus(&n, &m), &of("ln_2.weight")[0], &of("ln_2.bias")[0]);
        let z: Vec<f64> = p["tokens_embed.weight"].iter().map(|row| row.iter().zip(&h).map(|(w, h)| w * h).sum()).collect();
        loss -= 0.5 * softmax(&z)[t + 1].ln();
    }
    (loss, probabilities)
}

/// Returns a node's numbers, if its tensor is shown whole.
fn numbers(view: &View) -> Vec<f64> {
    assert!(view.slices.iter().all(|s| s.corner.is_none()) && view.of == view.slices.len());
    view.slices.iter().flat_map(|s| s.map.0.clone()).collect()
}

#[test]
fn numbers_on_the_page_equal_those_computed_by_hand() {
    let step = StepInputs::by_hand();
    let tables = tables(&step);
    let opened = Opened::of(step, "test").unwrap();
    let (loss, probabilities) = by_pen(&tables);
    assert!((loss - opened.loss).abs() < 1e-14, "{loss} by pen, {} on the page", opened.loss);
    let attention = opened.nodes.iter().find(|n| n.op == "self_attention").unwrap();
    let softmax = attention.inside.as_ref().unwrap().iter().rfind(|n| n.scope == "softmax").unwrap();
    let shown = numbers(&softmax.value);
    assert_eq!((shown[0], shown[1]), (1.0, 0.0));
    assert!((shown[2] - probabilities[0]).abs() < 1e-15 && (shown[3] - probabilities[1]).abs() < 1e-15);
    // The gradient of each parameter equals the differences of that loss, one number moved at a time.
    for node in opened.nodes.iter().filter(|n| n.op == "leaf") {
        let gradient = numbers(node.grad.as_ref().unwrap());
        let columns = tables[&node.name][0].len();
        for (i, g) in gradient.iter().enumerate() {
            let at = |step: f64| {
                let mut moved = tables.clone();
                moved.get_mut(&node.name).unwrap()[i / columns][i % columns] += step;
                by_pen(&moved).0
            };
            let quotient = (at(1e-5) - at(-1e-5)) / 2e-5;
            assert!((g - quotient).abs() < 1e-8, "{}[{i}]: {g} on the page, {quotient} by pen", node.name);
        }
    }
}

#[test]
fn the_opened_step_equals_that_of_the_trainer() {
    let step = StepInputs::standard(2, |_| {}).unwrap();
    let (trainer, batch) = (step.trainer.clone(), step.batch.clone());
    assert_eq!(step.tokens.inputs.len(), batch.input.tokens.len());
    let opened = Opened::of(step, "test").unwrap();
    assert_eq!(opened.faults(), Vec::<String>::new());
    assert_eq!(opened.proved(), 204);
    let dropout = Some(DropoutSeed::new(2, StepInputs::STEPS + 1));
    let (loss, gradient) = trainer.params.gradient(&batch, dropout, GradientMode::Whole);
    let loss = loss.item();
    assert_eq!(opened.loss, loss);
    let mut after = trainer.clone();
    assert_eq!(after.step(&batch).unwrap().loss, loss);
    let mut leaves = opened.nodes.iter();
    let pairs = trainer.params.as_ref().zip(after.params.as_ref()).zip(gradient.as_ref());
    pairs.visit(|name, ((before, after), gradient)| {
        let node = leaves.next().unwrap();
        assert_eq!((node.op, &*node.name), ("leaf", name));
        let gradient = gradient.as_ref().unwrap();
        assert_eq!(node.grad.as_ref().unwrap().norm, View::of(gradient).norm, "{name}");
        let delta = node.update.as_ref().unwrap().part("Δθ").unwrap();
        assert_eq!(delta.norm, View::of(&after.zip(before, |a, b| a - b)).norm, "{name}");
        let tied = name == "tokens_embed.weight";
        assert_eq!(node.summands.len(), if tied { 2 } else { 1 }, "{name}");
    });
    // Every fused op can be opened.
    let fused: Vec<&str> = opened.nodes.iter().filter(|n| n.inside.is_some()).map(|n| n.op).collect();
    for op in ["gather", "self_attention", "linear", "layer_norm", "linear_gelu", "linear_cross_entropy"] {
        let primitive = !catalogue::pages().iter().find(|page| page.name == op).unwrap().fused;
        assert!(primitive || fused.contains(&op), "{op}");
    }
}

/// Every input of the step enters a digest: a change of a label or of a moment changes a digest.
#[test]
fn every_input_of_a_step_changes_a_digest() {
    let mut step = StepInputs::by_hand();
    let digests = |step: &StepInputs| [step.data_digest(), step.parameters_digest(), step.moments_digest()];
    let first = digests(&step);
    let classes =
        |right: [f64; 2]| ClassLoss { head: 0, slots: [1].into(), group: 1, targets: right.into(), weights: [1.0].into() };
    let (mut data, batch) = (vec![first[0].clone()], step.batch.clone());
    let one = || classes([1.0, 0.0]);
    for classes in [one(), classes([0.0, 1.0]), ClassLoss { slots: [0].into(), ..one() }, ClassLoss { head: 1, ..one() }] {
        step.batch = batch.clone().with_classes(classes);
        data.push(step.data_digest());
    }
    assert_eq!(data.iter().collect::<BTreeSet<_>>().len(), 5);
    step.batch = batch.clone();
    step.trainer.step(&batch).unwrap();
    let later = digests(&step);
    assert_eq!(first[0], later[0]);
    assert!(first[1] != later[1] && first[2] != later[2]);
}

#[test]
fn a_gradient_is_the_sum_of_the_summands_shown() {
    fn of(nodes: &[Node], seen: &mut usize) {
        for node in nodes.iter().filter(|node| node.summands.len() > 1) {
            let terms: Vec<Vec<f64>> = node.summands.iter().map(|s| numbers(s.view.as_ref().unwrap())).collect();
            let sums = (0..terms[0].len()).map(|i| terms[1..].iter().fold(terms[0][i], |sum, term| sum + term[i]));
            assert_eq!(sums.collect::<Vec<_>>(), numbers(node.grad.as_ref().unwrap()), "{}.{}", node.scope, node.op);
            *seen += 1;
        }
        nodes.iter().flat_map(|node| &node.inside).for_each(|inside| of(inside, seen));
    }
    let mut seen = 0;
    of(&Opened::of(StepInputs::by_hand(), "test").unwrap().nodes, &mut seen);
    assert_eq!(seen, 11);
}

#[test]
fn a_wrong_derivative_is_a_fault() {
    let mut opened = Opened::of(StepInputs::by_hand(), "test").unwrap();
    assert_eq!(opened.faults(), Vec::<String>::new());
    let norm = opened.nodes.iter_mut().find(|n| n.op == "layer_norm").unwrap();
    let inner = norm.inside.as_mut().unwrap().iter_mut().find(|n| n.proof.is_some()).unwrap();
    inner.proof = inner.proof.map(|p| Proof { error: 1e-3, ..p });
    let [fault] = &opened.faults()[..] else { panic!("one fault") };
    assert!(fault.starts_with("h0.ln_1.layer_norm.sum: "), "{fault}");
    assert!(fault.ends_with("error 1.0e-3, at most 1e-7 allowed"), "{fault}");
}

#[test]
fn a_detached_input_refers_to_its_source_node() {
    let opened = Opened::of(StepInputs::by_hand(), "test").unwrap();
    let inside = opened.nodes.iter().find_map(|n| n.inside.as_ref().filter(|_| n.op == "self_attention")).unwrap();
    let most = inside.iter().find(|n| n.op == "max").unwrap();
    assert!(most.grad.is_none());
    let uses: Vec<&str> = inside.iter().filter(|n| n.ins.iter().any(|x| x.detached == Some(most.id))).map(|n| n.op).collect();
    assert_eq!(uses, ["sub"]);
}

#[test]
fn text_is_escaped_on_the_page() {
    let mut step = StepInputs::by_hand();
    step.tokens.inputs[0] = "</script><b>{data}".into();
    let page = Opened::of(step, "gradus audit step --text '<i>'").unwrap().html();
    assert_eq!((page.matches("</script>").count(), page.matches("<b>").count(), page.matches("<i>").count()), (2, 0, 0));
    assert!(page.contains("&lt;/script&gt;&lt;b&gt;{data}"));
    let data = page.split_once("type=\"application/json\">").unwrap().1.split_once("</script>").unwrap().0;
    let read: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(read["tokens"]["inputs"][0], "</script><b>{data}");
}

/// Computes one element's update from θ̄ to Δθ by hand.
fn moved_by_pen(kind: OptimizerKind, n: &BTreeMap<&str, f64>, gradient: f64, theta: f64, m: f64, v: f64, decay: f64) -> [f64; 4] {
    let (rate, beta1, beta2) =
        (n["lr"] * n["s, the schedule's"], n.get("β₁").copied().unwrap_or(0.0), n.get("β₂").copied().unwrap_or(0.0));
    let g = n["c, by clipping"] * gradient + if kind == OptimizerKind::AdamL2 { decay * theta } else { 0.0 };
    if kind == OptimizerKind::Sgd {
        return [g, 0.0, 0.0, -rate * (g + decay * theta)];
    }
    let (m, v) = (beta1 * m + (1.0 - beta1) * g, beta2 * v + (1.0 - beta2) * g * g);
    let (c1, c2) = (1.0 - beta1.powf(n["t"]), 1.0 - beta2.powf(n["t"]));
    let adam = m / c1 / ((v / c2).sqrt() + n["ε"]);
    let delta = match kind {
        OptimizerKind::OpenAi => -rate * c2.sqrt() / c1 * (m / (v.sqrt() + n["ε"]) + decay * theta),
        OptimizerKind::Paper37 => -n["s, the schedule's"] * (n["lr"] * adam + decay * theta),
        OptimizerKind::AdamW => -rate * (adam + decay * theta),
        _ => -rate * adam,
    };
    [g, m, v, delta]
}

/// Checks every form at the first step, whose moments begin at 0, and at the second.
#[test]
fn updates_on_the_page_equal_those_computed_by_hand() {
    for kind in OptimizerKind::ALL {
        let mut step = StepInputs::by_hand();
        step.trainer.recipe.optimizer.name = kind;
        step.trainer.recipe.clip = Some(0.1); // below the norm, so that the clipping factor matters
        for t in 1..=2 {
            let opened = Opened::of(step.clone(), "test").unwrap();
            let n: BTreeMap<&str, f64> = opened.rule.numbers.iter().copied().collect();
            assert!(n["t"] == f64::from(t) && n["c, by clipping"] < 1.0);
            for node in opened.nodes.iter().filter(|n| n.op == "leaf") {
                let update = node.update.as_ref().unwrap();
                let part = |letter: &str| update.part(letter).map(numbers);
                let zeros = vec![0.0; numbers(&node.value).len()];
                let [m0, v0] = ["m before", "v before"].map(|name| part(name).unwrap_or(zeros.clone()));
                assert_eq!(part("m before").is_some(), kind.has_moments() && t > 1);
                let [g, m, v] = ["g", "m", "v"].map(|name| part(name).unwrap_or(zeros.clone()));
                let (theta, gradient) = (numbers(&node.value), numbers(node.grad.as_ref().unwrap()));
                let (delta, after) = (part("Δθ").unwrap(), part("θ after").unwrap());
                for i in 0..theta.len() {
                    let pen = moved_by_pen(kind, &n, gradient[i], theta[i], m0[i], v0[i], update.decay);
                    for (found, expected) in [g[i], m[i], v[i], delta[i]].into_iter().zip(pen) {
                        let near = 1e-13 * (expected.abs() + theta[i].abs()); // Δθ is a difference of stored numbers
                        assert!((found - expected).abs() <= near, "{kind}, {}[{i}]: {found}, {expected} by pen", node.name);
                    }
                    assert_eq!(after[i] - theta[i], delta[i]);
                }
            }
            let batch = step.batch.clone();
            step.trainer.step(&batch).unwrap();
        }
    }
}

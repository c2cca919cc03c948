//! A model of the time of a training step in several processes.
//!
//! ```text
//! a link carries      2(P − 1)/P · G   bytes each way: gradients to their sum, and the sum back   (G: bytes of the gradient)
//! during the last shard's backward pass, b seconds, all but E bytes travel     (E: the embeddings, complete only at its end)
//!
//! wire     w = 2(P − 1)/P · G/r                                                r: bytes per second each way
//! exposed  e = max(0, w·(G − E)/G − b) + w·E/G + h·d                           d: latency, h = 2⌈log₂ P⌉ + 1 hops in a row
//! copying  k = c · 2 · 2(P − 1)/P · G · (1 − e/(e + b))                        c: seconds of a core per byte, while it computes
//! step     t = own + k + e + update
//! ```
//!
//! For `gpt1`, 64 × 512 tokens a step, 350 tokens per second on each machine and links of 1 Gbit/s, the predicted speed-up is 3.4
//! on 4 machines (an efficiency of 85 %), 8.2 on 16 and 11.3 on 64, where the link is the bottleneck (NOTEBOOK.md).

/// A link between machines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// r: bytes per second each way.
    pub rate: f64,
    /// d: seconds from one machine to another.
    pub latency: f64,
    /// c: seconds of a core for each byte sent or received, over the cores of a process.
    pub copying: f64,
}

/// The work of a process in a step, without communication.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// G: bytes of the gradient.
    pub gradient: f64,
    /// E: bytes of the gradient that are complete only at the end of the backward pass.
    pub at_the_end: f64,
    /// Seconds of the process's forward and backward passes.
    pub own: f64,
    /// b: seconds of the backward pass of the process's last shard.
    pub last_backward: f64,
    /// Seconds of the optimizer.
    pub update: f64,
}

/// The predicted cost of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// t: seconds of the step.
    pub step: f64,
    /// e: seconds of the step that a process waits for other processes.
    pub waiting: f64,
    /// Bytes that a link carries each way.
    pub bytes: f64,
}

/// Returns the cost of a step in `processes` processes.
pub fn cost(work: &Work, link: &Link, processes: usize) -> Cost {
    let p = processes as f64;
    let Work { gradient, at_the_end, own, last_backward, update } = *work;
    let bytes = 2.0 * (p - 1.0) / p * gradient;
    let wire = bytes / link.rate;
    let end = at_the_end / gradient;
    let hops = if processes == 1 { 0.0 } else { 2.0 * p.log2().ceil() + 1.0 };
    let waiting = (wire * (1.0 - end) - last_backward).max(0.0) + wire * end + hops * link.latency;
    let beside = last_backward / (waiting + last_backward);
    let copying = link.copying * 2.0 * bytes * beside;
    Cost { step: own + copying + waiting + update, waiting, bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORK: Work = Work { gradient: 400.0, at_the_end: 100.0, own: 30.0, last_backward: 2.0, update: 1.0 };
    const LINK: Link = Link { rate: 100.0, latency: 0.0, copying: 0.0 };

    #[test]
    fn a_single_process_has_no_waiting_time() {
        assert_eq!(cost(&WORK, &LINK, 1), Cost { step: 31.0, waiting: 0.0, bytes: 0.0 });
    }

    #[test]
    fn communication_overlapped_with_backward_costs_no_waiting() {
        // 2·3/4·400 = 600 bytes take 6 s, 1.5 s of it after the backward pass; of the other 4.5 s, 2 s overlap with the pass.
        assert_eq!(cost(&WORK, &LINK, 4), Cost { step: 35.0, waiting: 4.0, bytes: 600.0 });
        let fast = Link { rate: 1e9, ..LINK };
        assert!(cost(&WORK, &fast, 4).waiting < 1e-6);
        let late = Link { latency: 0.1, ..fast };
        assert!((cost(&WORK, &late, 4).waiting - 0.5).abs() < 1e-6, "two levels up, two down, and the words");
        assert!((cost(&WORK, &late, 16).waiting - 0.9).abs() < 1e-6, "four up, four down, and the words");
        // The backward pass is a third of the time of backward and waiting: 400 of 1,200 bytes are copied during the pass.
        let slow = Link { copying: 0.001, ..LINK };
        assert!((cost(&WORK, &slow, 4).step - 35.0 - 0.4).abs() < 1e-9);
        let copied = Link { copying: 0.001, ..fast };
        assert!((cost(&WORK, &copied, 4).step - 31.0 - 1.2).abs() < 1e-3, "600 bytes sent and 600 received");
    }
}

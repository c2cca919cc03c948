//! The time of a training step over a link, measured, and predicted by [`gradus_cluster::cost`].
//!
//! ```text
//! link FILE I PRESET SEQUENCES SHARDS STEPS DELAY [BASE RATE]
//! ```
//!
//! FILE has the address of each process, one per line; I is the index of this process. A step has SEQUENCES windows of random
//! tokens per process, in SHARDS shards over all processes. Received data is read DELAY seconds after its arrival. Process 0
//! prints one line with medians over STEPS steps. BASE is the seconds of a step without the cost of a link, and RATE the link's
//! bytes per second; with both, the line also has the predicted time.
//! `link.sh` runs it on one machine, with and without a slow link between its processes.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gradus_cluster::cluster::Cluster;
use gradus_cluster::control::Limits;
use gradus_cluster::cost::{Link, Work, cost};
use gradus_cluster::rendezvous::{Hosts, Met, meet};
use gradus_cluster::secret::Secret;
use gradus_model::{Batch, Model, ModelConfig, Tree};
use gradus_tensor::Tensor;
use gradus_tensor::rng::Philox;
use gradus_train::trainer::{Recipe, Trainer};
use timely_communication::allocator::zero_copy::stream::Stream;

/// A connection that delivers received data after a delay.
struct Late {
    socket: TcpStream,
    delay: Duration,
    came: Option<Mutex<Came>>,
}

struct Came {
    from: Receiver<(Instant, Vec<u8>)>,
    now: VecDeque<u8>,
}

impl Late {
    fn new(socket: TcpStream, delay: Duration) -> Self {
        Late { socket, delay, came: None }
    }

    /// Starts a thread that receives data and records when it arrived.
    fn listen(&mut self) -> io::Result<()> {
        let (to, from) = sync_channel(4096);
        let mut socket = self.socket.try_clone()?;
        std::thread::spawn(move || {
            loop {
                let mut bytes = vec![0; 1 << 16];
                let n = socket.read(&mut bytes).unwrap_or(0);
                bytes.truncate(n);
                if to.send((Instant::now(), bytes)).is_err() || n == 0 {
                    return;
                }
            }
        });
        self.came = Some(Mutex::new(Came { from, now: VecDeque::new() }));
        Ok(())
    }
}

impl Read for Late {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.delay.is_zero() {
            return self.socket.read(into);
        }
        if self.came.is_none() {
            self.listen()?;
        }
        let came = self.came.as_mut().expect("it listens").get_mut().expect("nothing panics");
        if came.now.is_empty()
            && let Ok((at, bytes)) = came.from.recv()
        {
            std::thread::sleep((at + self.delay).saturating_duration_since(Instant::now()));
            came.now = bytes.into();
        }
        came.now.read(into)
    }
}

impl Write for Late {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

impl Stream for Late {
    fn try_clone(&self) -> io::Result<Self> {
        Ok(Late::new(self.socket.try_clone()?, self.delay))
    }
    fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.socket.set_nonblocking(nonblocking)
    }
    fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.socket.shutdown(how)
    }
}

/// Returns a batch of random tokens.
fn batch(config: &ModelConfig, sequences: usize) -> Batch {
    let (n, mut rng) = (sequences * config.sizes.context, Philox::new(1));
    let mut tokens = || (0..n).map(|_| rng.below(config.sizes.vocab as u64) as u32).collect::<Vec<_>>();
    Batch::next(sequences, tokens(), tokens(), vec![1.0 / n as f64; n])
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [file, me, preset, sequences, shards, steps, delay, more @ ..] = &args[..] else {
        return Err("link FILE I PRESET SEQUENCES SHARDS STEPS DELAY [BASE RATE]".into());
    };
    let addresses: Vec<String> = std::fs::read_to_string(file)?.lines().map(str::to_owned).collect();
    let (hosts, steps, delay) = (Hosts { addresses, me: me.parse()? }, steps.parse::<usize>()?, delay.parse()?);
    let processes = hosts.addresses.len();
    let vocab = match preset.as_str() {
        "tiny" => 2_000,
        "small" => 8_000,
        _ => 40_478,
    };
    let config = ModelConfig::preset(preset).ok_or("tiny, small or gpt1")?.with_vocab(vocab);
    let secret = Secret::from_hex(&"5e".repeat(16)).expect("16 bytes");
    let limits = Limits { silence: Duration::from_secs(60), step: Duration::from_secs(600), stuck: None };
    let Met { control, data, session } = meet(&hosts, &secret, Duration::from_secs(60))?;
    let late = data.into_iter().map(|socket| socket.map(|socket| Late::new(socket, Duration::from_secs_f64(delay))));
    let cluster = Arc::new(Cluster::over(hosts.me, control, late.collect(), session, limits)?);

    let params: Model<Tensor> = Model::init(&config, 1);
    let (mut gradient, mut at_the_end) = (0, 0);
    params.as_ref().visit(|name, p| {
        gradient += 4 * p.len();
        at_the_end += if name.contains("embed") { 4 * p.len() } else { 0 };
    });
    let recipe = Recipe { concurrent_shards: 1, ..Recipe::new(100_000, shards.parse()?) };
    let mut trainer = Trainer::new(recipe, params);
    trainer.collective = Arc::clone(&cluster) as _;
    let batch = batch(&config, sequences.parse::<usize>()? * processes);
    trainer.step(&batch)?;
    trainer.step(&batch)?;
    trainer.take_times();
    let (mut seconds, mut own, mut waits) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..steps {
        let begin = Instant::now();
        trainer.step(&batch)?;
        seconds.push(begin.elapsed().as_secs_f64());
        let times = trainer.take_times(); // of the previous step
        own.push(times.iter().map(|t| t.own).sum::<f64>() / processes as f64);
        waits.push(times.iter().map(|t| t.slowest + t.wire).sum::<f64>() / processes as f64);
    }
    if hosts.me == 0 {
        let [step, own, waits] = [seconds, own, waits].map(median);
        let mut json = format!(r#""preset":"{preset}","processes":{processes},"gradient":{gradient},"at_the_end":{at_the_end}"#);
        json += &format!(r#","step":{step:.4},"own":{own:.4},"waiting":{waits:.4}"#);
        if let [base, rate] = more {
            let (base, rate) = (base.parse::<f64>()?, rate.parse()?);
            // The backward pass takes twice as long as the forward pass.
            let last_backward = 2.0 / 3.0 * own / (shards.parse::<f64>()? / processes as f64);
            let work = Work { gradient: gradient as f64, at_the_end: at_the_end as f64, own: base, last_backward, update: 0.0 };
            let predicted = cost(&work, &Link { rate, latency: delay, copying: 0.0 }, processes);
            let (share, off) = (100.0 * (step - base) / step, 100.0 * (predicted.step / step - 1.0));
            json += &format!(r#","base":{base},"share_of_the_link":"{share:.1} %""#);
            json += &format!(r#","predicted":{:.4},"off_by":"{off:+.1} %""#, predicted.step);
        }
        println!("{{{json}}}");
    }
    trainer.compare()?;
    cluster.leave(None);
    Ok(())
}

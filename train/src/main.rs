//! The `gradus` program.
use clap::Parser;
#[derive(Parser)]
struct Cli { #[arg(long)] threads: Option<usize>, #[arg(long)] json: bool, #[command(flatten)] a: gradus_train::cli::pretrain::PretrainArgs }
fn main() {
    if std::env::args().len() == 1 { println!("{:?}", gradus_train::cli::pretrain::micro_world()); return; }
    let c = Cli::parse();
    if let Some(n) = c.threads { rayon::ThreadPoolBuilder::new().num_threads(n).build_global().unwrap(); }
    match c.a.run() { Ok(o) => println!("{}", serde_json::to_string(&o).unwrap()), Err(e) => { eprintln!("error: {e}"); std::process::exit(1) } }
}

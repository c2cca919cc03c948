//! The `gradus` program.

fn main() -> std::process::ExitCode {
    gradus_train::cli::main()
}

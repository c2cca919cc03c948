//! Temporary.
use std::io::{Read, Write};
fn main() {
    let arg = std::env::args().nth(1).unwrap_or_default();
    let english = gradus_text::spacy::English::new();
    if arg == "bench" {
        for path in std::env::args().skip(2) {
            let text = std::fs::read_to_string(&path).unwrap();
            let mut n = 0usize;
            let t = std::time::Instant::now();
            english.for_each_token(&text, |t| n += t.len().min(1));
            let s = t.elapsed().as_secs_f64();
            println!("{path} {} bytes {n} tokens {:.1} MB/s {s:.3} s", text.len(), text.len() as f64 / 1e6 / s);
        }
        return;
    }
    // texts separated by \0 on stdin; tokens separated by \u{1}, texts by \0
    let mut all = String::new();
    std::io::stdin().read_to_string(&mut all).unwrap();
    let mut out = String::with_capacity(all.len() * 2);
    for text in all.split('\0') {
        english.for_each_token(text, |t| { out.push_str(t); out.push('\u{1}'); });
        out.push('\0');
    }
    std::io::stdout().write_all(out.as_bytes()).unwrap();
}

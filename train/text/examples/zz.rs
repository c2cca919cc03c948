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
    if arg == "scale" {
        let kinds: Vec<(&str, Box<dyn Fn(usize) -> String>)> = vec![
            ("!", Box::new(|n| "!".repeat(n))),
            ("a", Box::new(|n| "a".repeat(n))),
            ("a.b.", Box::new(|n| "a.b.".repeat(n / 4))),
            ("a.a.a…", Box::new(|n| "a.".repeat(n / 2) + "com")),
            ("A.b", Box::new(|n| "b.A".repeat(n / 3))),
            ("digits", Box::new(|n| "7".repeat(n))),
            ("emoji", Box::new(|n| "👍".repeat(n / 4))),
            ("skin tones", Box::new(|n| "👍🏽".repeat(n / 8))),
            ("marks", Box::new(|n| "\u{301}".repeat(n / 2))),
            ("quotes", Box::new(|n| "\"".repeat(n))),
            ("“", Box::new(|n| "“".repeat(n / 3))),
            ("((( )))", Box::new(|n| "(".repeat(n / 2) + &")".repeat(n / 2))),
            (":):)", Box::new(|n| ":)".repeat(n / 2))),
            ("(:(:x", Box::new(|n| "x".to_owned() + &"(:".repeat(n / 2) + "x")),
            ("dots", Box::new(|n| ".".repeat(n))),
            ("dots!", Box::new(|n| "..!".repeat(n / 3))),
            ("a-", Box::new(|n| "a-".repeat(n / 2))),
            ("----", Box::new(|n| "a".to_owned() + &"-".repeat(n))),
            ("a@a", Box::new(|n| "a@".repeat(n / 2) + "b.C")),
            ("a.bc@", Box::new(|n| "a.bc@".repeat(n / 5))),
            ("http://", Box::new(|n| "http://".repeat(n / 7) + "b.C")),
            ("http://a.a", Box::new(|n| "http://".to_owned() + &"a.".repeat(n / 2) + "B")),
            ("1.2.3.4.", Box::new(|n| "1.2.3.4.".repeat(n / 8))),
            ("'s's", Box::new(|n| "'s".repeat(n / 2))),
            ("Mr.Mr.", Box::new(|n| "Mr.".repeat(n / 3))),
            ("/Mr./", Box::new(|n| "/Mr.".repeat(n / 4))),
            ("spaces", Box::new(|n| " ".repeat(n))),
            ("a b", Box::new(|n| "a ".repeat(n / 2))),
            (": ) :", Box::new(|n| ": ) ".repeat(n / 4))),
            ("every scalar", Box::new(|n| { let all: String = ('\0'..=char::MAX).filter(|c| !c.is_whitespace()).collect(); all.repeat((n / all.len()).max(1)) })),
        ];
        for (name, make) in kinds {
            print!("{name:14}");
            for n in [1_000_000, 10_000_000, 100_000_000] {
                let text = make(n);
                let mut count = 0usize;
                let t = std::time::Instant::now();
                english.for_each_token(&text, |_| count += 1);
                print!(" {:7.3} s {:11} tokens |", t.elapsed().as_secs_f64(), count);
            }
            println!();
        }
        for line in std::fs::read_to_string("/proc/self/status").unwrap().lines().filter(|l| l.starts_with("VmHWM")) { println!("{line}"); }
        return;
    }
    // texts separated by \0 on stdin; tokens separated by \u{1}, texts by \0
    let mut all = String::new();
    std::io::stdin().read_to_string(&mut all).unwrap();
    let mut out = String::with_capacity(all.len() * 2);
    for text in all.split('\0') {
        english.for_each_token(text, |t| {
            out.push_str(t);
            out.push('\u{1}');
        });
        out.push('\0');
    }
    std::io::stdout().write_all(out.as_bytes()).unwrap();
}

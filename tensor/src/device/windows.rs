//! Windows of buffers that are longer than a shader may bind.
//!
//! An adapter limits the bytes of one binding, to 128 MiB on many, and allows longer buffers. Such a buffer is bound in several
//! windows, which are consecutive ranges of the limit's length, and the text of the shader is rewritten so that each access finds
//! its window. Kernels are written without windows, and a buffer that fits into one binding has no overhead.
//!
//! ```text
//! @binding(2) var<storage, read> x: array<f32>;      @binding(2) var<storage, read> x_window_0: array<f32>;
//!                                                    @binding(3) var<storage, read> x_window_1: array<f32>;
//! … x[at + j] …                                      … x_get(at + j) …
//! y[i] = x[i] + 1;                                   y_put(i, x_get(i) + 1);
//! ```

use std::fmt::Write;

/// Returns the `text` of a shader, rewritten for buffers in these numbers of windows of `bytes` each. The buffers are in the
/// order of their bindings, from 1 on.
pub(super) fn rewritten(text: &str, windows: &[usize], bytes: u64) -> String {
    let mut text = without_comments(text);
    let mut declared = String::new();
    let mut binding = 1;
    for &windows in windows {
        let (declaration, buffer) = Declared::first(&text);
        text = text.replacen(&declaration, "", 1);
        buffer.declare(binding, windows, bytes, &mut declared);
        binding += windows;
        if windows > 1 {
            text = items(&text)
                .map(|item| if declares(item, buffer.name()) { item.into() } else { buffer.accesses(item) })
                .collect();
        }
    }
    declared + &text
}

/// The declaration of a buffer in a shader: access, name, and the type of an element.
struct Declared([String; 3]);

impl Declared {
    /// Returns the text of the first declaration, and the parsed declaration.
    fn first(text: &str) -> (String, Self) {
        let found = text.split_inclusive(';').find_map(|statement| {
            let declaration = &statement[statement.find("@group(0) @binding(")?..];
            let (_, rest) = declaration.split_once("var<storage, ")?;
            let (access, rest) = rest.split_once("> ")?;
            let (name, of) = rest.strip_suffix(">;")?.split_once(": array<")?;
            Some((declaration.to_owned(), Declared([access, name, of].map(Into::into))))
        });
        found.expect("a shader declares each buffer as `@group(0) @binding(N) var<storage, read> NAME: array<TYPE>;`")
    }

    fn name(&self) -> &str {
        &self.0[1]
    }

    /// Declares the windows of the buffer, from this binding on, and the functions that access an element in them.
    fn declare(&self, binding: usize, windows: usize, bytes: u64, out: &mut String) {
        let Declared([access, name, of]) = self;
        if windows == 1 {
            let _ = writeln!(out, "@group(0) @binding({binding}) var<storage, {access}> {name}: array<{of}>;");
            return;
        }
        let elements = bytes / size(of);
        for w in 0..windows {
            let _ = writeln!(out, "@group(0) @binding({}) var<storage, {access}> {name}_window_{w}: array<{of}>;", binding + w);
        }
        let each = |act: &dyn Fn(String) -> String| {
            let at = |w: usize| act(format!("{name}_window_{w}[i - {}u]", w as u64 * elements));
            let within = |w: usize| format!("    if i < {}u {{ {} }}\n", (w as u64 + 1) * elements, at(w));
            (0..windows - 1).map(within).chain([format!("    {}\n", at(windows - 1))]).collect::<String>()
        };
        let _ = write!(out, "fn {name}_get(i: u32) -> {of} {{\n{}}}\n", each(&|place| format!("return {place};")));
        if access == "read_write" {
            let _ = write!(out, "fn {name}_put(i: u32, to: {of}) {{\n{}}}\n", each(&|place| format!("{place} = to; return;")));
        }
    }

    /// Returns `text` with reads and writes of elements replaced by the functions.
    fn accesses(&self, text: &str) -> String {
        let name = self.name();
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = find_word(rest, name, |before, after| !before.ends_with('.') && after.starts_with('[')) {
            out += &rest[..at];
            let inner = &rest[at + name.len() + 1..];
            let (index, after) = inner.split_at(end(inner, ']'));
            let (index, after) = (self.accesses(index), &after[1..]);
            let Some((operator, value)) = assignment(after) else {
                let _ = write!(out, "{name}_get({index})");
                rest = after;
                continue;
            };
            let (value, after) = value.split_at(end(value, ';'));
            let value = self.accesses(value.trim());
            let _ = match operator {
                "" => write!(out, "{name}_put({index}, {value})"),
                _ => write!(out, "{name}_put({index}, {name}_get({index}) {operator} ({value}))"),
            };
            rest = after;
        }
        out + rest
    }
}

/// Returns the bytes of an element.
fn size(of: &str) -> u64 {
    match of {
        "f32" | "u32" => 4,
        "vec2f" => 8,
        "vec4f" => 16,
        _ => panic!("buffers have elements of type f32, u32, vec2f or vec4f, got {of}"),
    }
}

fn without_comments(text: &str) -> String {
    text.lines().flat_map(|line| [line.split("//").next().unwrap_or_default(), "\n"]).collect()
}

/// Returns the items of a text one by one: functions with their bodies, and the text between them.
fn items(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = rest.find('{').map_or(rest.len(), |open| open + 1 + end(&rest[open + 1..], '}') + 1);
        let (item, after) = rest.split_at(end);
        rest = after;
        (!item.is_empty()).then_some(item)
    })
}

/// Returns whether a function has a variable or an argument of this name, which hides the buffer.
fn declares(item: &str, name: &str) -> bool {
    let is_declared = |before: &str, after: &str| {
        ["let", "var", "const"].iter().any(|word| before.trim_end().ends_with(word)) || after.trim_start().starts_with(':')
    };
    item.contains("fn ") && find_word(item, name, is_declared).is_some()
}

/// Returns the position of `word` as a whole word, between texts that `wanted` accepts.
fn find_word(text: &str, word: &str, wanted: impl Fn(&str, &str) -> bool) -> Option<usize> {
    let of_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).map(|(at, _)| at).find(|&at| {
        let (before, after) = (&text[..at], &text[at + word.len()..]);
        !before.ends_with(of_word) && !after.starts_with(of_word) && wanted(before, after)
    })
}

/// Returns the position of the first `close` outside all brackets that are opened in the text.
fn end(text: &str, close: char) -> usize {
    let mut depth = 0;
    let found = text.char_indices().find(|&(_, c)| {
        let closes = depth == 0 && c == close;
        depth += i32::from("([{".contains(c)) - i32::from(")]}".contains(c));
        closes
    });
    found.unwrap_or_else(|| panic!("{close} is missing after {text:?}")).0
}

/// Returns the operator of an assignment that follows, empty for a plain `=`, and the text after it.
fn assignment(after: &str) -> Option<(&str, &str)> {
    let (operator, value) = after.trim_start().split_once('=')?;
    let assigns = ["", "+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"].contains(&operator) && !value.starts_with('=');
    assigns.then_some((operator, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHADER: &str = "\
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> y: array<vec4f>; // y[i] in a comment
@group(0) @binding(FIRST + 1) var<storage, read> xs: array<f32>;
@group(0) @binding(3) var<storage, read> at: array<u32>;
fn f(i: u32) -> f32 { return xs[at[i] + 1]; }
fn g(y: array<f32, 4>, v: vec3f) -> f32 { return y[0] + v.y; }
fn main() {
    y[at[i]] = vec4f(xs[i], xs[at[i]], s.xs[i], my_xs[0]);
    y[2] += vec4f(xs[3]);
    if xs[0] == y[0].x { y[i] = y[j]; }
}
";

    #[test]
    fn accesses_are_rewritten_to_the_windows_of_a_buffer() {
        let declared = "\
@group(0) @binding(1) var<storage, read_write> y_window_0: array<vec4f>;
@group(0) @binding(2) var<storage, read_write> y_window_1: array<vec4f>;
fn y_get(i: u32) -> vec4f {
    if i < 32u { return y_window_0[i - 0u]; }
    return y_window_1[i - 32u];
}
fn y_put(i: u32, to: vec4f) {
    if i < 32u { y_window_0[i - 0u] = to; return; }
    y_window_1[i - 32u] = to; return;
}
@group(0) @binding(3) var<storage, read> xs_window_0: array<f32>;
@group(0) @binding(4) var<storage, read> xs_window_1: array<f32>;
@group(0) @binding(5) var<storage, read> xs_window_2: array<f32>;
fn xs_get(i: u32) -> f32 {
    if i < 128u { return xs_window_0[i - 0u]; }
    if i < 256u { return xs_window_1[i - 128u]; }
    return xs_window_2[i - 256u];
}
@group(0) @binding(6) var<storage, read> at: array<u32>;
";
        let body = "\
fn f(i: u32) -> f32 { return xs_get(at[i] + 1); }
fn g(y: array<f32, 4>, v: vec3f) -> f32 { return y[0] + v.y; }
fn main() {
    y_put(at[i], vec4f(xs_get(i), xs_get(at[i]), s.xs[i], my_xs[0]));
    y_put(2, y_get(2) + (vec4f(xs_get(3))));
    if xs_get(0) == y_get(0).x { y_put(i, y_get(j)); }
}
";
        let lines = |text: &str| text.lines().filter(|line| !line.trim().is_empty()).map(Into::into).collect::<Vec<String>>();
        let uniform = "@group(0) @binding(0) var<uniform> p: Params;\n";
        assert_eq!(lines(&rewritten(SHADER, &[2, 3, 1], 512)), lines(&[declared, uniform, body].concat()));
    }

    #[test]
    #[should_panic(expected = "declares each buffer as `@group(0) @binding(N) var<storage, read> NAME: array<TYPE>;`")]
    fn an_undeclared_buffer_panics() {
        rewritten(SHADER, &[1, 1, 1, 2], 512);
    }
}

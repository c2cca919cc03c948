//! Text in HTML and XML.

/// Escapes a text for HTML, with text between backticks as `<code>`.
pub fn prose(text: &str) -> String {
    let escaped = escape(text);
    let mut parts = escaped.split('`');
    let mut out = String::with_capacity(escaped.len());
    out.extend(parts.next());
    while let Some(part) = parts.next() {
        match parts.next() {
            Some(after) => out.extend(["<code>", part, "</code>", after]),
            None => out.extend(["`", part]), // an unclosed backtick
        }
    }
    out
}

/// Escapes a text for HTML and XML. Control characters that neither allows become visible symbols.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(letter),
            '\0'..' ' => out.push(char::from_u32(0x2400 + letter as u32).unwrap_or('\u{fffd}')), // ␀, ␁, …
            '\u{7f}'..'\u{a0}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            _ => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_between_backticks_is_code() {
        assert_eq!(prose("run `a < b` and `c`."), "run <code>a &lt; b</code> and <code>c</code>.");
        assert_eq!(prose("`a`b`c"), "<code>a</code>b`c");
        assert_eq!(["", "plain", "`"].map(prose), ["", "plain", "`"]);
    }
}

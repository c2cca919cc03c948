//! Text in HTML and XML.

/// Text for HTML and XML: what would be markup, and control characters that neither allows, made visible.
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

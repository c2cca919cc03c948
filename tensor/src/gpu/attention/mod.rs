//! Attention in tiles: no score or probability leaves the workgroup that computes it.
//!
//! `forward.wgsl` computes the softmax over tiles. In the VJP, `vjp_rows.wgsl` reduces each query to two numbers.
//! `vjp_keys.wgsl`, `vjp_queries.wgsl` and `vjp_bias.wgsl` each recompute the tiles that their sums run over, so that one thread
//! computes each sum in one order. Their common code is in `tiles.wgsl` and `vjp_tile.wgsl`.

mod forward;
#[cfg(test)]
mod tests;
mod vjp;

use std::sync::Arc;

use super::{Array, word};
use crate::device::{Buffer, Gpu, Shader};
use crate::operands::{AttentionSpec, HeadLayout, Mask, fits};
use crate::shape::Shape;

/// The number of rows, and of columns, of a tile.
const TILE: usize = 32;

/// The operands of attention.
#[derive(Debug)]
pub(crate) struct Attention<'a> {
    spec: &'a AttentionSpec,
    q: Heads,
    k: Heads,
    v: Heads,
    /// The bias (B|1, H|1, Tq, Tk).
    bias: Option<Array>,
}

/// One of q, k, v, o and ō, (B, H, T, D), read through strides. The last axis is dense.
#[derive(Debug)]
struct Heads {
    buffer: Arc<Buffer>,
    place: HeadLayout,
    /// The number of elements in memory from the first one on.
    len: usize,
}

impl Heads {
    fn of(x: &Array) -> Self {
        let strides = &x.layout.strides;
        let place = HeadLayout { offset: x.layout.offset, strides: [strides[0], strides[1], strides[2]] };
        let last = |i: usize| (x.shape()[i] - 1) * if i == 3 { 1 } else { strides[i] };
        let len = if x.len() == 0 { 0 } else { 1 + (0..4).map(last).sum::<usize>() };
        Heads { buffer: x.buffer.clone(), place, len }
    }
}

impl<'a> Attention<'a> {
    /// Creates attention over separate q, k and v (B, H, T, D), whose last axis is dense.
    #[track_caller]
    pub fn new([q, k, v]: [&Array; 3], bias: Option<Array>, spec: &'a AttentionSpec) -> Self {
        let [q, k, v] = [q, k, v].map(Heads::of);
        Attention { spec, q, k, v, bias }.checked()
    }

    /// Creates attention over a packed, dense [q | k | v] (B, T, 3·H·D).
    #[track_caller]
    pub fn packed(x: &Array, spec: &'a AttentionSpec) -> Self {
        let part = |place: HeadLayout| Heads {
            buffer: x.buffer.clone(),
            place: HeadLayout { offset: x.layout.offset + place.offset, ..place },
            len: x.len().saturating_sub(place.offset),
        };
        let [q, k, v] = spec.places(true).map(part);
        Attention { spec, q, k, v, bias: None }.checked()
    }

    #[track_caller]
    fn checked(self) -> Self {
        let AttentionSpec { batch, heads, queries, keys, width, .. } = *self.spec;
        for (name, x, positions) in [("q", &self.q, queries), ("k", &self.k, keys), ("v", &self.v, keys)] {
            let inside = fits(x.place.strides, [batch, heads, positions], width, x.len);
            assert!(inside, "attention: {name} ({batch}, {heads}, {positions}, {width}) leaves its slice");
        }
        self.spec.check(self.bias.as_ref().map(|bias| ([bias.shape()[0], bias.shape()[1]], bias.len())));
        self
    }

    fn gpu(&self) -> &Arc<Gpu> {
        self.q.buffer.gpu()
    }

    /// Returns the lengths and the mask in the form that the shaders read: the number of keys of each sequence, then a bit for
    /// each query and key.
    fn sight(&self) -> Option<Buffer> {
        let spec = self.spec;
        let allowed: &[bool] = if let Mask::Allowed(allowed) = &spec.mask { allowed } else { &[] };
        if spec.lengths.is_none() && allowed.is_empty() {
            return None;
        }
        let bits = |some: &[bool]| some.iter().rev().fold(0, |bits, &bit| bits << 1 | u32::from(bit));
        let lengths = (0..spec.batch).map(|b| word(spec.length(b)));
        Some(self.gpu().send(&lengths.chain(allowed.chunks(32).map(bits)).collect::<Vec<_>>()))
    }

    /// Returns `Params` of tiles.wgsl, with the places of o, of ō and of the gradients.
    fn params(&self, [o, go]: [HeadLayout; 2], grads: [HeadLayout; 3]) -> Vec<u32> {
        let AttentionSpec { batch, heads, queries, keys, width, scale, .. } = *self.spec;
        let places = [self.q.place, self.k.place, self.v.place, o, go, grads[0], grads[1], grads[2]];
        let mut params: Vec<u32> = places.into_iter().flat_map(words).collect();
        let bias = self.bias.as_ref().map(|bias| bias.layout.expand(Shape::new(&[batch, heads, queries, keys])));
        let strides = bias.map_or([0; 4], |bias| [0, 1, 2, 3].map(|i| word(bias.strides[i])));
        let of_bias = [bias.map_or(0, |bias| word(bias.offset)), u32::from(bias.is_some())];
        let ahead = if self.spec.mask == Mask::Causal { keys - queries + 1 } else { keys };
        let sizes = [batch * heads, heads, queries, keys, width].map(word);
        params.extend(strides.into_iter().chain(of_bias).chain(sizes).chain([(scale as f32).to_bits(), word(ahead)]));
        let allowed = if let Mask::Allowed(allowed) = &self.spec.mask { allowed.len() } else { 0 };
        let of_mask = if allowed == queries * keys { 0 } else { queries * keys };
        let sight = [u32::from(self.spec.lengths.is_some()), u32::from(allowed > 0), word(batch), word(of_mask)];
        let dropout = self
            .spec
            .dropout
            .map_or([0; 6], |key| [key.row0 as u32, (key.row0 >> 32) as u32, key.key[0], key.key[1], key.site, key.threshold]);
        let kept_scale = self.spec.dropout.map_or(1.0, |key| key.scale() as f32);
        params.extend(sight.into_iter().chain(dropout).chain([kept_scale.to_bits(), f32::NEG_INFINITY.to_bits()]));
        params.extend(self.bias.as_ref().map_or([1, 1], |bias| [word(bias.shape()[0]), word(bias.shape()[1])]));
        params
    }

    /// Returns the shader of these texts, which reads q, k, v and, if `go` is not empty, ō.
    fn shader<const N: usize>(&self, name: &str, texts: [&'static str; N], go: &[&Heads]) -> Shader<'static> {
        let width = self.spec.width;
        let by_four = |n: &usize| n.is_multiple_of(4);
        let heads = [&[&self.q, &self.k, &self.v], go].concat();
        let aligned = |x: &&Heads| by_four(&x.place.offset) && x.place.strides.iter().all(by_four);
        let in_fours = by_four(&width) && heads.iter().all(aligned);
        let (element, read) = if in_fours { ("vec4f", READ_FOUR) } else { ("f32", READ_EACH) };
        let names = if go.is_empty() { &["q", "k", "v"][..] } else { &["q", "k", "v", "go"] };
        let chunks = width.div_ceil(TILE).max(1);
        Shader::new(format!("{name} of {chunks} chunks of {element}"), move || {
            let blocks = names.iter().map(|name| include_str!("block.wgsl").replace("READ", read).replace("NAME", name));
            let shared = concat!(include_str!("../philox.wgsl"), include_str!("tiles.wgsl"));
            let text = blocks.collect::<String>() + &[shared, &texts.concat()].concat().replace("ELEMENT", element);
            for_chunks(&text, chunks)
        })
    }
}

/// The code with which block.wgsl reads four elements: at once if every row begins at a multiple of four, otherwise one by one.
const READ_FOUR: &str = "return NAMEs[(at + column) / 4u];";
const READ_EACH: &str = "let columns = four_from(column);
    let i = at + min(columns, vec4u(p.width - 1u));
    return select(vec4f(), vec4f(NAMEs[i.x], NAMEs[i.y], NAMEs[i.z], NAMEs[i.w]), columns < vec4u(p.width));";

fn words(HeadLayout { offset, strides: [of_b, of_h, of_t] }: HeadLayout) -> [u32; 4] {
    [offset, of_b, of_h, of_t].map(word)
}

/// Returns the text for heads of this many chunks: the body of `for each CHUNK` is repeated for each chunk.
fn for_chunks(text: &str, chunks: usize) -> String {
    let mut out = format!("const CHUNKS = {chunks}u;\n");
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(indent) = line.strip_suffix("for each CHUNK {") else {
            out.extend([line, "\n"]);
            continue;
        };
        let end = format!("{indent}}}");
        let body: Vec<&str> = lines.by_ref().take_while(|line| *line != end).collect();
        for chunk in 0..chunks {
            let written = body.join("\n").replace("CHUNK", &format!("{chunk}u"));
            out.push_str(&format!("{indent}{{\n{written}\n{end}\n"));
        }
    }
    out
}

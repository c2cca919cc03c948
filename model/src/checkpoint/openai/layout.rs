//! The arrays of OpenAI's release: their order, and the offset of each in the flat vector that they form.

use std::collections::HashMap;
use std::path::Path;

use crate::checkpoint::CheckpointError;
use crate::config::Sizes;
use crate::model::ModelConfig;
use crate::param::Role;
use crate::transformer::Transformer;
use crate::transformer::{Embedding, TransformerConfig};
use crate::tree::Tree;

/// The number of arrays of a block.
const BLOCK: usize = 12;

/// The shapes of the arrays, in their order.
pub(super) type Shapes = Vec<Vec<usize>>;

/// Returns the arrays of a model: the names of Gradus's parameters, with two tables even for a joint one, and shapes.
pub(super) fn arrays(sizes: Sizes, config: &TransformerConfig) -> Vec<(String, Vec<usize>)> {
    let mut arrays = Vec::new();
    let separate = TransformerConfig { embedding: Embedding::Separate, ..*config };
    Transformer::declare(sizes, &separate).visit(|name, p| {
        // A convolution over one position, as in OpenAI's code, has one axis more than the equivalent product.
        let conv = (p.role == Role::Weight).then_some(1);
        arrays.push((name.to_owned(), conv.into_iter().chain(p.shape.iter().copied()).collect()));
    });
    arrays.swap(0, 1); // positions come first
    arrays
}

/// Returns the shapes of a model's arrays.
pub(super) fn shapes(sizes: Sizes, config: &TransformerConfig) -> Shapes {
    arrays(sizes, config).into_iter().map(|(_, shape)| shape).collect()
}

/// Returns the offset of each parameter in the flat vector.
pub(super) fn offsets(sizes: Sizes, config: &TransformerConfig) -> HashMap<String, usize> {
    let mut next = 0;
    let begins = arrays(sizes, config).into_iter().map(|(name, shape)| {
        let begin = next;
        next += shape.iter().product::<usize>();
        (name, begin)
    });
    begins.collect()
}

/// Returns the configuration that these shapes belong to: `known`, or the paper's except for its sizes and `heads`.
///
/// # Errors
/// Returns an error if no model has these shapes, or if `known` has others; `path` is their file.
pub(super) fn config(
    path: &Path,
    shapes: &Shapes,
    known: Option<(Sizes, TransformerConfig)>,
    heads: Option<usize>,
) -> Result<(Sizes, TransformerConfig), CheckpointError> {
    let other = |problem: String| CheckpointError::NotRelease { path: path.to_owned(), problem };
    let [positions, tokens, blocks @ ..] = &shapes[..] else {
        return Err(other(format!("expected the shapes of positions, tokens and blocks, found {}", shapes.len())));
    };
    let (&[context, width], &[vocab, _]) = (&positions[..], &tokens[..]) else {
        return Err(other(format!("expected two tables, [positions, d] and [tokens, d], found {positions:?} and {tokens:?}")));
    };
    if blocks.len() % BLOCK != 0 {
        return Err(other(format!("expected {BLOCK} arrays for each block after the two tables, found {}", blocks.len())));
    }
    let layers = blocks.len() / BLOCK;
    // Heads, activation and dropout are the paper's by default.
    let options = known.map(|(_, options)| options).unwrap_or_default();
    if known.is_none() && heads.is_none() && width % options.heads != 0 {
        let theirs = options.heads;
        return Err(other(format!(
            "a release does not contain the number of heads, and the paper's {theirs} do not divide width {width}: give --heads"
        )));
    }
    let sizes = Sizes { vocab, context, width };
    let config = TransformerConfig { layers, heads: heads.unwrap_or(options.heads), ..options };
    ModelConfig::new(sizes, config).check().map_err(|source| CheckpointError::Config { path: path.to_owned(), source })?;
    for (i, ((name, expected), found)) in arrays(sizes, &config).iter().zip(shapes).enumerate() {
        if expected != found {
            return Err(other(format!("array {i} (from 0), {name}: expected {expected:?}, found {found:?}")));
        }
    }
    let all = |(s, c): &(Sizes, TransformerConfig)| [s.vocab, s.context, s.width, c.layers];
    let config = (sizes, config);
    match known.map(|known| all(&known)).filter(|known| *known != all(&config)) {
        None => Ok(config),
        Some(known) => Err(other(format!(
            "tokens, positions, width and blocks are {:?} by these shapes, {known:?} by the config.json beside them",
            all(&config)
        ))),
    }
}

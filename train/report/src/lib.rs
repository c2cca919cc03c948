//! Reports, made from a run's records: one HTML file with everything in it, or a page of Markdown.
//!
//! | module | |
//! |-|-|
//! | [`metrics`] | what a run measured, as JSON lines |
//! | [`html`] | the pieces that a report is made of |
//! | [`svg`] | curves |
//! | [`tensorboard`] | event files for TensorBoard |
//! | [`markup`] | text in HTML and XML |

mod comparison;
mod document;
pub mod html;
mod markdown;
pub mod markup;
pub mod metrics;
mod pretrain;
mod scale;
pub mod svg;
pub mod tensorboard;

pub use comparison::{Compared, Comparison, Numbers};
pub use document::Document;
pub use html::{Block, Figure, Link, Part, Row};
pub use pretrain::{Baseline, PretrainReport, Standing};
pub use scale::{Axis, Scale};

//! Reports, rendered from a run's records as one self-contained HTML file or as a page of Markdown.
//!
//! | module | |
//! |-|-|
//! | [`metrics`] | the measurements of a run, as JSON lines |
//! | [`html`] | the building blocks of a report |
//! | [`svg`] | plots |
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
pub use html::{Block, DiagramBox, Figure, Link, Row};
pub use pretrain::{Baseline, PretrainReport, Standing};
pub use scale::{Axis, Scale};

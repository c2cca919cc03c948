//! Reports: one HTML file with everything in it, made from a run's records.
//!
//! | module | |
//! |-|-|
//! | [`metrics`] | what a run measured, as JSON lines |
//! | [`html`] | the pieces that a report is made of |
//! | [`svg`] | curves |
//! | [`markup`] | text in HTML and XML |

pub mod html;
pub mod markup;
pub mod metrics;
mod page;
mod pretrain;
mod scale;
pub mod svg;

pub use html::{Block, Figure, Link, Part, Row};
pub use page::Report;
pub use pretrain::{Baseline, PretrainReport};
pub use scale::{Axis, Scale};

//! A store of your own, held to the contract of every store.
//!
//! ```sh
//! cargo run -p custom-store    # one commit, one refusal, and what is kept
//! cargo test -p custom-store   # the contract suites and the crash tests, one test for each case
//! ```
//!
//! [`JsonStore`] keeps each session as one JSON text, as a document database would. It has no rules of
//! its own: `plan` judges a commit and says which rows to write. The store writes them to copies of
//! the documents and then puts all copies in their places at once, so that a commit happens whole or
//! not at all. A real store does the same in a transaction, keeps rows instead of whole documents, and
//! answers `list`, `pending` and `due` from an index.
//!
//! `docs/adding-a-store.md` is the guide that goes with it.

mod document;
mod file;
mod store;
mod streams;

pub use store::JsonStore;

/// The guide, whose code is compiled and whose tests are run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/adding-a-store.md")]
#[derive(Debug)]
pub struct Guide;

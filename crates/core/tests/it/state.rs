//! State tracking: what a change reports, how parallel changes merge, and that stored and streamed
//! changes always agree. Tables list what is reported; property tests compare with a plain model
//! and the `json-patch` crate.

// `cfg(test)` always holds here; it makes clippy allow helpers to unwrap as tests do.

#[cfg(test)]
mod draft;
#[cfg(test)]
mod json;
#[cfg(test)]
mod merge;
#[cfg(test)]
mod model;
#[cfg(test)]
mod pointer;
#[cfg(test)]
mod tables;
#[cfg(test)]
mod tracker;

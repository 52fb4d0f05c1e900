//! State tracking: what a change reports, what parallel changes come to, and that stored and
//! streamed changes always agree. Tables say what is reported; properties hold it together, against
//! a plain model and the `json-patch` crate.

// `cfg(test)` always holds here; it tells clippy that helpers may unwrap as tests do.

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

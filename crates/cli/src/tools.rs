//! Tools that need no Rust: services that are called over HTTP, and built-in ones.

mod above;
mod allowed;
mod answer;
mod builtin;
mod calculator;
mod client;
mod fetch;
mod http;
mod notes;
mod public_address;
mod tracked_body;
mod unsent;

pub use above::Above;
pub use allowed::{Allowed, BadEntry};
pub use builtin::Builtin;
pub use client::HttpClient;
pub use http::{BadUrl, HttpTool};

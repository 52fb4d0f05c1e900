//! Tools that need no Rust: services that are called over HTTP, and a few that are built in.

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
mod telling_body;
mod unsent;

pub use above::Above;
pub use allowed::{Allowed, BadEntry};
pub use builtin::Builtin;
pub use client::HttpClient;
pub use http::{BadUrl, HttpTool};

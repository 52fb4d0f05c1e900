//! The `helix` binary.
//!
//! Somebody who writes no Rust runs agents from a `helix.toml`, answers their questions, and looks
//! after what they have stored. This crate reads the file ([`config`]), makes everything in it
//! ([`setup`]), brings the tools that need no Rust ([`tools`]), and has one file per command. The
//! rules of runs, sessions and answers are those of the crates below it.

mod access;
mod args;
mod ask;
mod commands;
pub mod config;
mod date;
mod decided;
pub mod demo;
mod exit;
mod hosting;
mod live;
mod logging;
mod page;
mod prompt;
pub mod reference;
mod screen;
pub mod setup;
mod show;
mod signals;
mod table;
pub mod tools;
mod turn;
mod typed;
mod visible;

pub use args::main;
pub use exit::{Exit, UsageError};

//! The `helix` binary.
//!
//! With it an operator runs agents from a `helix.toml` without writing Rust, answers their
//! questions, and manages stored sessions. This crate reads the file ([`config`]), builds
//! everything in it ([`setup`]), has the tools that need no Rust ([`tools`]), and has one file per
//! command. The rules of runs, sessions and answers are in the crates below it.

mod access;
mod args;
mod ask;
mod budget_args;
mod commands;
pub mod config;
mod date;
mod decision;
pub mod demo;
mod exit;
mod hosting;
mod input;
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
mod visible;

pub use args::main;
pub use exit::{Exit, UsageError};

//! The macros of Helix Agents.
//!
//! A tool needs a name, a description, a schema, a check of its input and the code itself. All of
//! that is already in a documented async method, so `#[toolset]` reads it from there and writes the
//! rest. What it writes is what one would write by hand with `Tool::typed`: there is no second way
//! in which a tool works.
//!
//! Users depend on `helix-agents`, which re-exports this crate. Everything that is generated goes
//! through `::helix_agents::__private`, so it means the same in every crate, whatever names that
//! crate has of its own, and whether or not it depends on serde and schemars.
//!
//! A mistake is one error at the token that has to change. The impl block is emitted all the same,
//! so that one mistake does not make others appear.

mod builder;
mod code;
mod description;
mod duration;
mod errors;
mod exclusive;
mod expand;
mod input;
mod method;
mod options;
mod param_type;
mod params;
mod rule;
mod suggest;
mod toolset;

use proc_macro::TokenStream;

#[doc = include_str!("toolset.md")]
#[proc_macro_attribute]
pub fn toolset(options: TokenStream, item: TokenStream) -> TokenStream {
    toolset::toolset(&options.into(), &item.into()).into()
}

/// Marks a method of a [`macro@toolset`] as a tool. The options are listed there.
#[proc_macro_attribute]
pub fn tool(_options: TokenStream, item: TokenStream) -> TokenStream {
    toolset::tool_alone(&item.into()).into()
}

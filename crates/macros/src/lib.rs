//! The macros of Helix Agents.
//!
//! A tool needs a name, a description, a schema, a check of its input and the code itself. All of
//! that is already in a documented async method, so `#[toolset]` reads it from there and generates
//! the rest. The generated code uses `Tool::typed`, as code written by hand would.
//!
//! Users depend on `helix-agents`, which re-exports this crate. All generated paths go through
//! `::helix_agents::__private`, so they resolve the same in every crate, independently of that
//! crate's own names and of whether it depends on serde and schemars.
//!
//! A mistake gives one error, at the token that must change. The impl block is still emitted, so
//! that one mistake does not cause further errors.

mod builder;
mod code;
mod description;
mod duration;
mod errors;
mod exclusive;
#[expect(unreachable_pub, reason = "core, whose file it is, exports it")]
mod exclusive_options;
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
///
/// ```
/// use helix_agents::prelude::*;
///
/// struct Clock;
///
/// #[toolset]
/// impl Clock {
///     /// Tells the time.
///     #[tool(read_only)]
///     async fn now(&self) -> ToolResult<String> {
///         Ok("noon".to_owned())
///     }
/// }
/// ```
#[proc_macro_attribute]
pub fn tool(_options: TokenStream, item: TokenStream) -> TokenStream {
    toolset::tool_alone(&item.into()).into()
}

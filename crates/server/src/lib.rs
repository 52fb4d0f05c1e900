//! The HTTP server of Helix Agents: an axum [`Router`](axum::Router) over any runtime.
//!
//! A front end, an operator and another program all want the same few things of an agent: start it,
//! watch it, answer it, stop it, look at what it did. This crate offers them over HTTP for any
//! [`Runtime`](helix_agents_core::runtime::Runtime), as a router that goes wherever a user's own
//! routes are. It keeps nothing itself: everything is read from the store and written to it, so any
//! number of processes serve the same sessions, and a dropped connection stops nothing.
//!
//! It fails closed. Without somebody who says who a caller is, there is no server:
//!
//! ```
//! use helix_agents_server::{Tokens, router};
//! # use helix_agents_core::memory::MemoryStore;
//! # use helix_agents_runtime_local::LocalRuntime;
//! # let runtime = LocalRuntime::new(MemoryStore::new());
//!
//! let tokens = Tokens::new().token("a long random text", "alice")?;
//! let app: axum::Router = axum::Router::new().nest("/agents", router(runtime, tokens));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Server::builder`] takes limits, origins and rules of your own. [`serve`] runs such a router with the time limits that a server on a network needs, and ends open
//! streams when it is told to.

mod access;
mod auth;
mod body;
mod budget;
mod builder;
mod caller;
mod door;
mod error;
mod guard;
mod metrics;
mod openapi;
mod operation;
mod origin;
mod patient;
mod query;
mod quota;
mod request_id;
mod routes;
mod serve;
mod tokens;
mod view;

pub use access::{Access, Authorize};
pub use auth::{Authenticate, Principal, Refusal};
pub use builder::{Server, ServerBuilder, router};
pub use error::{ApiCode, ApiError, BuildError};
pub use metrics::RunMetrics;
pub use operation::Operation;
pub use serve::{Limits, ServeError, serve};
pub use tokens::{TokenError, Tokens};
pub use view::MessageView;

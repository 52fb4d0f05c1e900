//! The HTTP server of Helix Agents: an axum [`Router`](axum::Router) over any runtime.
//!
//! A front end, an operator and another program all need the same few operations of an agent: start
//! it, watch it, answer it, stop it, inspect it. This crate offers them over HTTP for any
//! [`Runtime`](helix_agents_core::runtime::Runtime), as a router that can be nested in an
//! application. It keeps no state of its own: everything is read from the store and written to it,
//! so any number of processes can serve the same sessions, and a dropped connection stops nothing.
//!
//! It fails closed: a server cannot be built without authentication, unless that is stated.
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
//! streams on request.

mod access;
mod auth;
mod body;
mod budget;
mod builder;
mod caller;
mod connection_limit;
mod error;
mod guard;
mod metrics;
mod openapi;
mod operation;
mod origin;
mod query;
mod quota;
mod request_id;
mod routes;
mod serve;
mod tokens;
mod view;
mod write_timeout;

pub use access::{Access, Authorize};
pub use auth::{Authenticate, Principal, Refusal};
pub use builder::{Server, ServerBuilder, router};
pub use error::{ApiCode, ApiError, BuildError};
pub use metrics::RunMetrics;
pub use operation::Operation;
pub use serve::{Limits, ServeError, serve};
pub use tokens::{TokenError, Tokens};
pub use view::MessageView;

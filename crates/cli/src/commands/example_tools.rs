//! `helix example-tools`: an example service for HTTP tools.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use axum::{Json, Router};
use clap::Args;
use helix_agents_server::{Limits, ServeError, serve};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::UsageError;
use crate::config::listen_address;
use crate::exit::Exit;
use crate::screen::Screen;
use crate::signals::Signals;

/// Serves example tools on this machine: `/lookup` and `/refund`.
#[derive(Debug, Args)]
pub(crate) struct ExampleTools {
    /// The address to listen on; port 0 picks a free one
    #[arg(long, value_name = "ADDR", value_parser = listen_address, default_value = "127.0.0.1:9100")]
    listen: SocketAddr,
}

/// The result of each refund by its `Idempotency-Key`: a call that is sent again gets the same
/// result, and no order is refunded twice.
type Done = Arc<Mutex<BTreeMap<String, Value>>>;

impl ExampleTools {
    pub(crate) async fn run(self) -> anyhow::Result<Exit> {
        if !self.listen.ip().is_loopback() {
            return Err(UsageError(format!(
                "the example tools have no authentication, so they listen on this machine only, not \
                 on {}; use 127.0.0.1",
                self.listen
            ))
            .into());
        }
        let listener = TcpListener::bind(self.listen).await;
        let listener = listener.map_err(|error| {
            let listen = self.listen;
            UsageError(format!(
                "cannot listen on {listen}: {error}; choose another with --listen"
            ))
        })?;
        let mut signals = Signals::listen()?;
        let address = listener
            .local_addr()
            .context("the listener has no address")?;
        Screen::of_process().print_line(format!("helix: example tools on http://{address}"))?;
        let routes = Router::new()
            .route("/lookup", post(lookup))
            .route("/refund", post(refund))
            .with_state(Done::default());
        let served = serve(listener, routes, Limits::default(), signals.next()).await;
        match served {
            Ok(()) | Err(ServeError::CutOff { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Exit::Done)
    }
}

async fn lookup(Json(call): Json<Value>) -> (StatusCode, Json<Value>) {
    show(&call, "looked up");
    match text(&call, "/arguments/order").as_str() {
        "42" => {
            let order = json!({ "order": "42", "paidCents": 1999, "status": "delivered" });
            (StatusCode::OK, Json(order))
        }
        order => {
            let refusal = format!("order {order:?} not found; this example has order \"42\"");
            (StatusCode::NOT_FOUND, Json(refusal.into()))
        }
    }
}

async fn refund(
    State(done): State<Done>,
    headers: HeaderMap,
    Json(call): Json<Value>,
) -> (StatusCode, Json<Value>) {
    let key = headers.get("idempotency-key");
    let key = key.and_then(|key| key.to_str().ok()).unwrap_or_default();
    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(before) = done.get(key) {
        show(&call, "was refunded before");
        return (StatusCode::OK, Json(before.clone()));
    }
    let cents = call
        .pointer("/arguments/cents")
        .cloned()
        .unwrap_or_default();
    let result = json!({ "order": text(&call, "/arguments/order"), "refundedCents": cents });
    done.insert(key.to_owned(), result.clone());
    show(&call, "refunded");
    (StatusCode::OK, Json(result))
}

fn text(call: &Value, pointer: &str) -> String {
    let text = call.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}

/// Prints a call on the terminal, unless the output is closed.
fn show(call: &Value, what: &str) {
    let arguments = call.pointer("/arguments").cloned().unwrap_or_default();
    let _ = Screen::of_process().print_line(format!("{what}: {arguments}"));
}

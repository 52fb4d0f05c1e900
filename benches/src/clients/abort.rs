//! The time from dropping a reply until its server sees the connection closed.

use std::net::TcpListener;
use std::time::Instant;

use futures_util::StreamExt;
use helix_agents_core::model::ModelEvent;
use helix_agents_models::Provider;

use super::server::answer_until_closed;
use super::{Question, model, reply};
use crate::measure::{Bound, Report, Target, fine, median};
use crate::sqlite::Outcome;

const ROUNDS: usize = 25;

/// Measures all providers. The slowest of all replies counts.
pub(super) fn run(report: &mut Report) {
    let mut slowest = 0.0_f64;
    let mut beside = Vec::new();
    for provider in Provider::ALL {
        match measure(provider) {
            Ok(times) => {
                slowest = times.iter().copied().fold(slowest, f64::max);
                beside.push(format!("{provider} {}", fine(median(times))));
            }
            Err(error) => report.broken(provider.name(), &error.to_string()),
        }
    }
    report.target(Target {
        what: "ms from dropping a reply to a closed connection",
        ours: slowest,
        bound: Bound::AtMost(100.0),
        tolerated: None,
        beside: format!("medians: {}", beside.join(", ")),
    });
}

/// Drops replies of which one delta has come. Returns the milliseconds until the server noticed, each.
fn measure(provider: Provider) -> Outcome<Vec<f64>> {
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let model = model(provider, listener.local_addr()?)?;
    let question = Question::new(1)?;
    let mut events = reply::events(provider, 2);
    // The reply never ends by itself.
    events.pop();
    (0..ROUNDS)
        .map(|_| {
            std::thread::scope(|scope| {
                let server = scope.spawn(|| {
                    answer_until_closed(&listener, &events)?;
                    Ok::<_, std::io::Error>(Instant::now())
                });
                let dropped = tokio.block_on(async {
                    let mut reply = question.stream(&model);
                    while let Some(event) = reply.next().await {
                        if matches!(event?, ModelEvent::Text(_)) {
                            break;
                        }
                    }
                    let dropped = Instant::now();
                    drop(reply);
                    Outcome::Ok(dropped)
                })?;
                let closed = server.join().map_err(|_| "the server failed")??;
                Ok(closed.saturating_duration_since(dropped).as_secs_f64() * 1e3)
            })
        })
        .collect()
}

//! Measures the stores on database servers: a durable step beside the same commits by hand, eight connections beside
//! one, deltas that another process reads, and how fast what is stored grows.
//!
//! Each group starts a private server of its own, with settings under which a commit is on the disk when it is
//! answered.

mod bytes;
mod connections;
mod deltas;
mod postgres;
mod redis;
mod step;

use std::future::Future;

use helix_agents_core::runtime::Backend;
use helix_agents_core::store::SessionStore;
use helix_agents_core::stream::StreamManager;
use tokio::runtime::Runtime;

use crate::measure::Report;
use crate::sqlite::Outcome;
use crate::step_rows::StepRows;

use self::postgres::Postgres;
use self::redis::Redis;

/// What the figures of a kind of server are called.
#[derive(Debug)]
pub(crate) struct Figures {
    step: &'static str,
    one_store: &'static str,
    eight_stores: &'static str,
    deltas: &'static str,
    bytes: &'static str,
}

/// A kind of server, the store on it, and the same by hand.
pub(crate) trait Kind: 'static {
    const NAME: &'static str;
    const FIGURES: Figures;
    /// A running server, which ends when this is dropped.
    type Server;
    type Store: SessionStore + StreamManager + Clone + Into<Backend> + 'static;
    type ByHand: ByHand;

    /// Starts a private server, and says its address.
    fn start() -> Outcome<(Self::Server, String)>;

    /// Opens the store that has this name on the server, with at most this many connections where it has a pool.
    fn open(
        url: &str,
        name: &str,
        connections: usize,
    ) -> impl Future<Output = Outcome<Self::Store>> + Send;

    /// The bytes of the store that has this name, by what they are for.
    fn bytes(url: &str, name: &str) -> impl Future<Output = Outcome<Vec<(String, f64)>>> + Send;
}

/// A loop by hand, with a connection and a session of its own.
pub(crate) trait ByHand: Sized + Send + Sync + 'static {
    fn open(url: &str, session: i64) -> impl Future<Output = Outcome<Self>> + Send;

    /// Makes the two commits of step `n`.
    fn step(&self, n: usize, rows: StepRows) -> impl Future<Output = Outcome<()>> + Send;

    /// Appends a batch of deltas, of which the last has this number.
    fn append(&self, last: usize, batch: &[String]) -> impl Future<Output = Outcome<()>> + Send;

    /// Waits for batches after the one whose last delta has this number.
    fn batches_after(
        &mut self,
        last: usize,
    ) -> impl Future<Output = Outcome<Vec<(usize, Vec<String>)>>> + Send;
}

type Part<K> = fn(&mut Report, &Server<K>) -> Outcome<()>;

/// A private server, and the runtime in which it is used.
pub(crate) struct Server<K: Kind> {
    url: String,
    host: Runtime,
    _server: K::Server,
}

/// The store on PostgreSQL.
pub(crate) fn postgres(report: &mut Report) {
    run::<Postgres>(report);
}

/// The store on Redis.
pub(crate) fn redis(report: &mut Report) {
    run::<Redis>(report);
}

/// The other process of the deltas.
pub(crate) fn read_deltas(arguments: &[String]) -> Outcome<()> {
    match arguments {
        [kind, rest @ ..] if kind == Postgres::NAME => deltas::read::<Postgres>(rest),
        [kind, rest @ ..] if kind == Redis::NAME => deltas::read::<Redis>(rest),
        _ => Err(format!("there is no such server: {arguments:?}").into()),
    }
}

/// Users run their agents on such a runtime.
fn host() -> Outcome<Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?)
}

fn run<K: Kind>(report: &mut Report) {
    let started = K::start().and_then(|(server, url)| {
        Ok(Server::<K> {
            url,
            host: host()?,
            _server: server,
        })
    });
    let server = match started {
        Ok(server) => server,
        Err(error) => return report.broken(K::NAME, &error.to_string()),
    };
    let parts: [(&str, Part<K>); 4] = [
        ("a durable step", step::measure),
        ("8 connections", connections::measure),
        ("deltas", deltas::measure),
        ("bytes", bytes::measure),
    ];
    for (name, part) in parts {
        if let Err(error) = part(report, &server) {
            report.broken(name, &error.to_string());
        }
    }
}

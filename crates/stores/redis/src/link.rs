//! A connection to one server, which is made again after it was lost.

use std::fmt;
use std::future::Future;
use std::io::ErrorKind::TimedOut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use redis::aio::{MultiplexedConnection, PubSub};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionInfo, ErrorKind, RedisError, RedisResult, Value,
};

use crate::failure::{is_demoted, is_lost};

/// How long nothing is asked of a server that did not answer in time. Everybody would wait as long again.
const REST: Duration = Duration::from_secs(1);

/// A connection to one server, shared by all operations.
///
/// It sends a command once. One whose answer was lost is never sent again here: only its caller knows whether it
/// may be repeated.
pub(crate) struct Link {
    client: Client,
    settings: AsyncConnectionConfig,
    patience: Duration,
    current: Mutex<Option<(u64, MultiplexedConnection)>>,
    connecting: tokio::sync::Mutex<()>,
    count: AtomicU64,
    /// How often connecting has failed.
    failed: AtomicU64,
    /// When the server last did not answer in time.
    silent: Mutex<Option<Instant>>,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("address", &self.address())
            .finish_non_exhaustive()
    }
}

impl Link {
    pub(crate) fn new(client: Client, connect: Duration, response: Duration) -> Self {
        let settings = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(connect))
            .set_response_timeout(Some(response));
        Self {
            client,
            settings,
            patience: connect,
            current: Mutex::new(None),
            connecting: tokio::sync::Mutex::new(()),
            count: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            silent: Mutex::new(None),
        }
    }

    /// The address without a password.
    pub(crate) fn address(&self) -> String {
        self.client.get_connection_info().addr().to_string()
    }

    /// How to connect.
    pub(crate) fn info(&self) -> &ConnectionInfo {
        self.client.get_connection_info()
    }

    fn known(&self) -> Option<(u64, MultiplexedConnection)> {
        let current = self.current.lock();
        current.unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn connection(&self) -> RedisResult<(u64, MultiplexedConnection)> {
        if let Some(known) = self.known() {
            return Ok(known);
        }
        let failed = self.failed.load(Ordering::Acquire);
        let _one_at_a_time = self.connecting.lock().await;
        if let Some(known) = self.known() {
            return Ok(known);
        }
        // Those who waited while another tried do not try one after another: a silent server would keep each of
        // them longer than the one before.
        if self.failed.load(Ordering::Acquire) != failed || self.rests() {
            let gone = (ErrorKind::Io, "the server could not be reached");
            return Err(RedisError::from(gone));
        }
        let settings = self.settings.clone();
        let connect = self
            .client
            .get_multiplexed_async_connection_with_config(&settings);
        let made = self.in_time(connect).await.inspect_err(|error| {
            self.failed.fetch_add(1, Ordering::Release);
            self.note(error);
        })?;
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        *current = Some((number, made.clone()));
        Ok((number, made))
    }

    /// The library limits parts of connecting only; names are looked up and handshakes made within this time, too.
    async fn in_time<T>(&self, connect: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
        let made = tokio::time::timeout(self.patience, connect).await;
        made.unwrap_or_else(|_| {
            let slow = std::io::Error::new(TimedOut, "the connection took too long");
            Err(RedisError::from(slow))
        })
    }

    /// Notes that the server did not answer in time, if that is the error. One that refuses does so at once.
    fn note(&self, error: &RedisError) {
        if error.is_timeout() {
            let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
            *silent = Some(Instant::now());
        }
    }

    /// Whether nothing is asked of the server now.
    fn rests(&self) -> bool {
        let silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        silent.is_some_and(|since| since.elapsed() < REST)
    }

    fn forget(&self, number: u64) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_some_and(|(known, _)| *known == number) {
            *current = None;
        }
    }

    /// Sends a command once.
    pub(crate) async fn send(&self, command: &Cmd) -> RedisResult<Value> {
        let (number, mut connection) = self.connection().await?;
        let answer = connection.send_packed_command(command).await;
        let answer = answer.and_then(Value::extract_error);
        if let Err(error) = &answer {
            self.note(error);
            if is_lost(error) || is_demoted(error) {
                self.forget(number);
            }
        }
        answer
    }

    /// Makes a connection of its own for messages that the server publishes.
    pub(crate) async fn listen(&self) -> RedisResult<PubSub> {
        self.in_time(self.client.get_async_pubsub()).await
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::time::Instant;

    use super::*;

    /// Those who wait for a connection while a server is silent are told together that there is none.
    #[test]
    fn a_silent_server_keeps_nobody_longer_than_the_first() {
        let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let url = format!("redis://{}", silent.local_addr().unwrap());
        let patience = Duration::from_millis(200);
        let link = Link::new(Client::open(url).unwrap(), patience, patience);
        let ping = redis::cmd("PING");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build();
        let begun = Instant::now();
        let answers = runtime.unwrap().block_on(futures_util::future::join_all(
            (0..32).map(|_| link.send(&ping)),
        ));
        assert!(
            answers
                .iter()
                .all(|answer| answer.as_ref().is_err_and(is_lost))
        );
        assert!(begun.elapsed() < patience * 8, "{:?}", begun.elapsed());
    }

    /// Answers each command on one connection: one that is no part of connecting with this.
    fn answer(connection: &mut TcpStream, with: &[u8]) {
        let mut buffer = [0; 1024];
        while let Ok(count @ 1..) = connection.read(&mut buffer) {
            let asked = buffer.get(..count).unwrap();
            let is_ours = asked.windows(4).any(|word| word == b"PING");
            let commands = asked.iter().filter(|byte| **byte == b'*').count();
            let answers = if is_ours {
                with.to_vec()
            } else {
                b"+OK\r\n".repeat(commands)
            };
            connection.write_all(&answers).unwrap();
        }
    }

    /// A fail-over may leave the connections to the server before open. Its address leads to the new one.
    #[test]
    fn a_server_that_takes_no_writes_any_more_is_connected_to_anew() {
        for code in ["READONLY", "MASTERDOWN"] {
            let server = TcpListener::bind(("127.0.0.1", 0)).unwrap();
            let url = format!("redis://{}", server.local_addr().unwrap());
            let demoted = format!("-{code} it takes no writes\r\n");
            std::thread::spawn(move || {
                let answers = [demoted.as_bytes(), b"+PONG\r\n"];
                let open: Vec<_> = answers
                    .into_iter()
                    .map(|with| {
                        let (mut connection, _) = server.accept().unwrap();
                        let with = with.to_vec();
                        std::thread::spawn(move || answer(&mut connection, &with))
                    })
                    .collect();
                open.into_iter().for_each(|one| one.join().unwrap());
            });
            let patience = Duration::from_secs(10);
            let link = Link::new(Client::open(url).unwrap(), patience, patience);
            let ping = redis::cmd("PING");
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .enable_all()
                .build()
                .unwrap();
            let refused = runtime.block_on(link.send(&ping)).unwrap_err();
            assert_eq!(refused.code(), Some(code));
            runtime.block_on(link.send(&ping)).unwrap();
        }
    }

    /// After a time-out nothing is asked for a while, and then again.
    #[test]
    fn a_silent_server_is_left_alone_for_a_while() {
        let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let url = format!("redis://{}", silent.local_addr().unwrap());
        let patience = Duration::from_millis(100);
        let link = Link::new(Client::open(url).unwrap(), patience, patience);
        let ping = redis::cmd("PING");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap();
        let first = runtime.block_on(link.send(&ping)).unwrap_err();
        assert!(first.is_timeout(), "{first}");
        for _ in 0..3 {
            let next = runtime.block_on(link.send(&ping)).unwrap_err();
            assert!(is_lost(&next) && !next.is_timeout(), "{next}");
        }
        *link.silent.lock().unwrap() = Instant::now().checked_sub(REST);
        let later = runtime.block_on(link.send(&ping)).unwrap_err();
        assert!(later.is_timeout(), "{later}");
    }
}

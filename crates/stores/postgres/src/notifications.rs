//! `LISTEN` and `NOTIFY`: processes tell each other what has changed. Nothing depends on it; see `poller`.
//!
//! `NOTIFY` takes a lock of the whole database when its transaction ends, so it is no part of a commit's transaction.
//! What has changed is gathered while a notification is under way, and sent with the next one.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::task::JoinHandle;
use tokio_postgres::types::Type;
use tokio_postgres::{AsyncMessage, Client};

use crate::address::{Address, RawConnection};
use crate::database::Param;
use crate::listeners::{Listeners, Topic};
use crate::told::Told;

/// The most topics in one notification, whose text may have 8000 bytes.
const TOPICS: usize = 400;
/// The pause before the next notification, in which changes are gathered.
const GATHERING: Duration = Duration::from_millis(2);
/// The pause before another attempt to connect.
const PAUSE: Duration = Duration::from_millis(500);

/// Notifications need not be durable. That is set for this one transaction: behind a pooler the session is used by
/// others, too.
const NOTIFY: &str = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)";

/// Where notifications are sent and received, and how long a server is waited for.
#[derive(Debug, Clone)]
pub(crate) struct Channel {
    pub(crate) address: Address,
    pub(crate) name: String,
    /// Until there is a connection.
    pub(crate) connecting: Duration,
    /// Until something is answered on it.
    pub(crate) answering: Duration,
}

/// Why there is no connection for notifications.
type Failure = Box<dyn std::error::Error + Send + Sync>;

impl Channel {
    async fn connect(&self) -> Result<(Client, RawConnection), Failure> {
        Ok(tokio::time::timeout(self.connecting, self.address.connect()).await??)
    }
}

/// Sends what has changed, until the store is gone.
pub(crate) async fn send(channel: Channel, told: Arc<Told>) {
    let mut sender: Option<Sender> = None;
    loop {
        let topics = told.take().await;
        let usable = sender.take().filter(|sender| !sender.client.is_closed());
        let usable = match usable {
            Some(sender) => Some(sender),
            None => Sender::connect(&channel).await,
        };
        let Some(open) = usable else {
            // Others notice the changes when they poll.
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let sending = open.notify(&channel.name, &topics);
        match tokio::time::timeout(channel.answering, sending).await {
            Ok(Ok(())) => sender = Some(open),
            Ok(Err(error)) => tracing::debug!(event = "postgres.not_notified", %error),
            Err(error) => tracing::debug!(event = "postgres.not_notified", %error),
        }
        tokio::time::sleep(GATHERING).await;
    }
}

/// A connection for notifications. Dropped, it is closed, even while an answer is outstanding.
struct Sender {
    client: Client,
    task: JoinHandle<()>,
}

impl Sender {
    async fn connect(channel: &Channel) -> Option<Self> {
        let (client, connection) = channel.connect().await.ok()?;
        let task = tokio::spawn(async move {
            // Whoever sends is told of errors.
            let _ = connection.await;
        });
        Some(Self { client, task })
    }

    async fn notify(&self, channel: &str, topics: &[Topic]) -> Result<(), tokio_postgres::Error> {
        for part in topics.chunks(TOPICS) {
            let words: Vec<String> = part.iter().map(Topic::to_string).collect();
            let payload = words.join(" ");
            let params: [Param<'_>; 2] = [(&channel, Type::TEXT), (&payload, Type::TEXT)];
            self.client.query_typed(NOTIFY, &params).await?;
        }
        Ok(())
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Wakes the listeners of what others have changed, from the first time that somebody listens until the store is
/// gone.
pub(crate) async fn receive(channel: Channel, listeners: Arc<Listeners>) {
    let mut is_known = false;
    loop {
        listeners.wait_for_any().await;
        match hear(&channel, &listeners).await {
            Ok(()) => is_known = false,
            Err(error) if is_known => tracing::debug!(event = "postgres.not_listening", %error),
            Err(error) => {
                is_known = true;
                let address = &channel.address;
                tracing::warn!(
                    event = "postgres.not_listening", %address, %error,
                    "changes by other processes are noticed by polling alone; check `listen_url`"
                );
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Listens until the connection ends. Fails if it never listened.
async fn hear(channel: &Channel, listeners: &Listeners) -> Result<(), Failure> {
    let (client, mut connection) = channel.connect().await?;
    let listen = format!("LISTEN \"{}\"", channel.name);
    let asking = client.batch_execute(&listen);
    let mut asked = pin!(tokio::time::timeout(channel.answering, asking));
    let mut listens = false;
    loop {
        let next = poll_fn(|context| connection.poll_message(context));
        let next = match listens {
            true => next.await,
            false => match select(next, asked.as_mut()).await {
                Either::Left((next, _)) => next,
                Either::Right((answer, _)) => {
                    answer??;
                    listens = true;
                    // What happened before was not heard.
                    listeners.ring_all();
                    continue;
                }
            },
        };
        match next {
            Some(Ok(AsyncMessage::Notification(told))) => {
                listeners.ring(Topic::parse(told.payload()));
            }
            Some(Ok(_)) => {}
            Some(Err(_)) | None if listens => return Ok(()),
            Some(Err(error)) => return Err(error.into()),
            None => return Err("the server closed the connection".into()),
        }
    }
}

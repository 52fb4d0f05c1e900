//! `LISTEN` and `NOTIFY`: processes tell each other what has changed. Nothing depends on it; see `poller`.
//!
//! `NOTIFY` takes a lock of the whole database when its transaction ends, so it is no part of a commit's transaction.
//! What has changed is gathered while a notification is under way, and sent with the next one.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;
use tokio_postgres::types::Type;
use tokio_postgres::{AsyncMessage, Client};

use crate::address::{Address, RawConnection};
use crate::database::Param;
use crate::listeners::{Listeners, Topic};

/// The most topics in one notification, whose text may have 8000 bytes.
const TOPICS: usize = 400;
/// The pause before the next notification, in which changes are gathered.
const GATHERING: Duration = Duration::from_millis(2);
/// The pause before another attempt to connect.
const PAUSE: Duration = Duration::from_millis(500);

/// Notifications need not be durable. That is set for this one transaction: behind a pooler the session is used by
/// others, too.
const NOTIFY: &str = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)";

/// Sends what has changed, until the store is gone. A server that does not answer within `patience` is given up.
pub(crate) async fn send(
    address: Address,
    channel: String,
    mut changes: UnboundedReceiver<Vec<Topic>>,
    patience: Duration,
) {
    let mut sender: Option<Sender> = None;
    while let Some(first) = changes.recv().await {
        let mut topics: BTreeSet<Topic> = first.into_iter().collect();
        while let Ok(more) = changes.try_recv() {
            topics.extend(more);
        }
        let usable = sender.take().filter(|sender| !sender.client.is_closed());
        let usable = match usable {
            Some(sender) => Some(sender),
            None => Sender::connect(&address).await,
        };
        let Some(open) = usable else {
            // Others notice the changes when they poll.
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let topics: Vec<Topic> = topics.into_iter().collect();
        let sending = open.notify(&channel, &topics);
        match tokio::time::timeout(patience, sending).await {
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
    async fn connect(address: &Address) -> Option<Self> {
        let (client, connection) = address.connect().await.ok()?;
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
pub(crate) async fn receive(address: Address, channel: String, listeners: Arc<Listeners>) {
    loop {
        listeners.wait_for_any().await;
        match address.connect().await {
            Ok((client, connection)) => hear(&client, connection, &channel, &listeners).await,
            Err(error) => tracing::debug!(event = "postgres.not_listening", %error),
        }
        // What happened meanwhile was not heard.
        listeners.ring_all();
        tokio::time::sleep(PAUSE).await;
    }
}

/// Listens until the connection ends.
async fn hear(
    client: &Client,
    mut connection: RawConnection,
    channel: &str,
    listeners: &Listeners,
) {
    let listen = format!("LISTEN \"{channel}\"");
    let mut asked = pin!(async {
        let listening = client.batch_execute(&listen).await;
        listeners.ring_all();
        listening
    });
    let mut is_asked = false;
    loop {
        let next = poll_fn(|context| connection.poll_message(context));
        let next = match is_asked {
            true => next.await,
            false => match select(next, asked.as_mut()).await {
                Either::Left((next, _)) => next,
                Either::Right((Ok(()), _)) => {
                    is_asked = true;
                    continue;
                }
                Either::Right((Err(_), _)) => return,
            },
        };
        match next {
            Some(Ok(AsyncMessage::Notification(told))) => {
                listeners.ring(Topic::parse(told.payload()));
            }
            Some(Ok(_)) => {}
            Some(Err(_)) | None => return,
        }
    }
}

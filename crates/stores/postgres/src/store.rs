//! [`PostgresStore`]: opening it, and what its clones share.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use helix_agents_core::SessionId;
use helix_agents_core::runtime::Backend;
use helix_agents_core::time::Timestamp;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::address::Address;
use crate::config::PostgresConfig;
use crate::database::Database;
use crate::error::{Error, Result};
use crate::given_up::GivenUp;
use crate::key_blocks::KeyBlocks;
use crate::listeners::{Listener, Listeners, Subject, Topic};
use crate::notifications::Channel;
use crate::operation_error::OperationError;
use crate::outbox::OutboxQueues;
use crate::remembered::Remembered;
use crate::schema::Schema;
use crate::server_clock::ServerClock;
use crate::told::Told;
use crate::turns::Turns;
use crate::{notifications, poller};

/// Sessions, streams and locks in a PostgreSQL database. Clones are the same store.
///
/// Every operation runs as a task on the tokio runtime in which the store was opened, and is finished even if its
/// caller is dropped.
///
/// ```no_run
/// use helix_agents_core::store::SessionStore;
/// use helix_agents_store_postgres::PostgresStore;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let store = PostgresStore::connect("postgres://helix@localhost/agents").await?;
/// println!("{} sessions", store.list(&Default::default()).await?.total);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct PostgresStore {
    inner: Arc<Inner>,
    /// Ends the tasks of the store with the last clone.
    _tasks: Arc<Tasks>,
}

/// What the operations of a store share.
pub(crate) struct Inner {
    pub(crate) config: PostgresConfig,
    pub(crate) database: Arc<Database>,
    pub(crate) clock: ServerClock,
    pub(crate) remembered: Remembered,
    pub(crate) turns: Turns,
    pub(crate) keys: KeyBlocks,
    pub(crate) given_up: GivenUp,
    /// What is asked of the outbox, and what is to be removed from it; `None` if there is none.
    pub(crate) outbox: Option<OutboxQueues>,
    listeners: Arc<Listeners>,
    /// Changes to tell to other processes; `None` if they are not told.
    told: Option<Arc<Told>>,
    address: Address,
    runtime: Handle,
}

/// The tasks of a store.
struct Tasks {
    running: Mutex<Vec<JoinHandle<()>>>,
    database: Arc<Database>,
}

impl Drop for Tasks {
    fn drop(&mut self) {
        let running = self.running.get_mut();
        let running = running.unwrap_or_else(PoisonError::into_inner);
        running.iter().for_each(JoinHandle::abort);
        self.database.close();
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore")
            .field("address", &self.inner.address)
            .field("schema", &self.inner.database.schema)
            .finish_non_exhaustive()
    }
}

impl From<PostgresStore> for Backend {
    fn from(store: PostgresStore) -> Self {
        Self::new(store.clone())
            .retained_by(store.clone())
            .checked_by(store)
    }
}

impl PostgresStore {
    /// Opens the database that a URL names, `postgres://user:password@host:port/database`, and brings its schema up
    /// to date.
    ///
    /// # Errors
    /// [`Error`] describes the problem with the URL, the server or the schema. It comes within five seconds.
    pub async fn connect(url: &str) -> Result<Self> {
        Self::connect_with(url, PostgresConfig::new()).await
    }

    /// Opens a database with this configuration.
    ///
    /// # Errors
    /// As [`PostgresStore::connect`].
    pub async fn connect_with(url: &str, config: PostgresConfig) -> Result<Self> {
        let runtime = Handle::try_current().map_err(|_| Error::NoRuntime)?;
        let schema = Schema::new(&config.schema)?;
        let address = Address::parse(url, config.connect_timeout)?;
        let listening = match &config.listen_url {
            Some(url) => Address::parse(url, config.connect_timeout)?,
            None => address.clone(),
        };
        // The timer needs the runtime, whoever polls this.
        let opening = runtime.spawn(prepare(address.clone(), schema.clone(), config.clone()));
        opening
            .await
            .map_err(|error| unreachable(&address, error))??;
        let database = Arc::new(Database::new(&address, schema, &config)?);
        let listeners = Arc::new(Listeners::default());
        let mut running = vec![runtime.spawn(poller::poll(
            Arc::clone(&database),
            Arc::clone(&listeners),
            config.poll_interval,
        ))];
        let told = config.notifies.then(|| {
            let told = Arc::new(Told::default());
            let channel = Channel {
                address: listening,
                name: database.schema.channel(),
                connecting: config.connect_timeout,
                answering: config.response_timeout,
            };
            let sending = notifications::send(channel.clone(), Arc::clone(&told));
            running.push(runtime.spawn(sending));
            let receiving = notifications::receive(channel, Arc::clone(&listeners));
            running.push(runtime.spawn(receiving));
            told
        });
        let outbox = config.outbox.then(|| {
            let (queues, reading, removing) = OutboxQueues::new(&database);
            running.extend([runtime.spawn(reading), runtime.spawn(removing)]);
            queues
        });
        let tasks = Tasks {
            running: Mutex::new(running),
            database: Arc::clone(&database),
        };
        let inner = Inner {
            remembered: Remembered::new(config.remembered),
            config,
            database,
            clock: ServerClock::default(),
            turns: Turns::default(),
            keys: KeyBlocks::default(),
            given_up: GivenUp::default(),
            outbox,
            listeners,
            told,
            address,
            runtime,
        };
        Ok(Self {
            inner: Arc::new(inner),
            _tasks: Arc::new(tasks),
        })
    }

    /// Runs an operation as a task of the store.
    pub(crate) async fn run<T, F>(
        &self,
        work: impl FnOnce(Arc<Inner>) -> F,
    ) -> Result<T, OperationError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, OperationError>> + Send + 'static,
    {
        let task = self.inner.runtime.spawn(work(Arc::clone(&self.inner)));
        task.await.unwrap_or_else(|error| {
            let reason = format!("the operation did not end; report this as a defect: {error}");
            Err(OperationError::internal(reason))
        })
    }

    pub(crate) fn config(&self) -> &PostgresConfig {
        &self.inner.config
    }

    /// Adds a listener for changes by this process or another.
    pub(crate) fn listen(&self, subject: Subject, session: &SessionId) -> Listener {
        self.inner.listeners.listen(subject, session)
    }
}

impl Inner {
    /// Wakes those who wait for these changes, here and in other processes.
    pub(crate) fn tell(&self, topics: Vec<Topic>) {
        if topics.is_empty() {
            return;
        }
        self.listeners.ring(topics.iter().copied());
        if let Some(told) = &self.told {
            told.add(topics);
        }
    }

    /// The time by which leases and due work are judged, read now if it is not known.
    pub(crate) async fn now(&self) -> Result<Timestamp, OperationError> {
        if let Some(clock) = &self.config.clock {
            return Ok(clock.now());
        }
        if let Some(now) = self.clock.now() {
            return Ok(now);
        }
        let asked = Instant::now();
        let rows = self.database.read("SELECT @now_ms()", &[]).await?;
        let now = rows.first().map(|row| row.try_get(0)).transpose()?;
        let now = now.ok_or_else(|| OperationError::internal("the database has no time"))?;
        self.clock.measured(asked, now);
        Ok(crate::convert::time(now))
    }
}

/// Connects, and brings the schema up to date.
async fn prepare(address: Address, schema: Schema, config: PostgresConfig) -> Result<()> {
    let opening = async {
        let (mut client, connection) = address.connect().await.map_err(|error| {
            let is_denied = error
                .code()
                .is_some_and(|code| code.code().starts_with("28") || code.code() == "3D000");
            if !is_denied {
                return unreachable(&address, error);
            }
            Error::Denied {
                address: address.to_string(),
                source: Box::new(error),
            }
        })?;
        tokio::spawn(connection);
        let (migrate, outbox) = (config.migrate, config.outbox);
        schema.prepare(&mut client, migrate, outbox).await
    };
    let ended = tokio::time::timeout(config.connect_timeout, opening).await;
    ended.unwrap_or_else(|elapsed| Err(unreachable(&address, elapsed)))
}

fn unreachable(address: &Address, source: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Unreachable {
        address: address.to_string(),
        source: Box::new(source),
    }
}

//! The connections to the database, and how statements are sent.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{
    Manager, ManagerConfig, Object, Pool, PoolConfig, QueueMode, RecyclingMethod, Runtime, Timeouts,
};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::address::Address;
use crate::config::PostgresConfig;
use crate::error::{Error, Result};
use crate::operation_error::OperationError;
use crate::schema::Schema;

/// A parameter of a statement, with its type.
pub(crate) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// The connections to a database.
pub(crate) struct Database {
    pool: Pool,
    pub(crate) schema: Schema,
    prepares: bool,
    response_timeout: Duration,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database")
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}

impl Database {
    pub(crate) fn new(address: &Address, schema: Schema, config: &PostgresConfig) -> Result<Self> {
        let recycling_method = RecyclingMethod::Fast;
        let manager = Manager::from_config(
            address.config.clone(),
            address.tls.clone(),
            ManagerConfig { recycling_method },
        );
        let mut settings = PoolConfig::new(config.connections);
        // The connection that was used last has everything in its caches.
        settings.queue_mode = QueueMode::Lifo;
        let patience = Some(config.connect_timeout);
        settings.timeouts = Timeouts {
            wait: patience,
            create: patience,
            recycle: patience,
        };
        let builder = Pool::builder(manager).config(settings);
        let pool = builder.runtime(Runtime::Tokio1).build();
        let pool = pool.map_err(|error| Error::Unreachable {
            address: address.to_string(),
            source: Box::new(error),
        })?;
        Ok(Self {
            pool,
            schema,
            prepares: config.prepares,
            response_timeout: config.response_timeout,
        })
    }

    /// Closes the connections that nobody uses.
    pub(crate) fn close(&self) {
        self.pool.close();
    }

    /// Sends one statement that reads. If the connection turns out to be lost, another is tried once.
    pub(crate) async fn read(
        &self,
        text: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, OperationError> {
        match self.write(text, params).await {
            Err(error) if error.is_of_connection() => self.write(text, params).await,
            done => done,
        }
    }

    /// Sends one statement, once: when it fails, it may have been carried out.
    pub(crate) async fn write(
        &self,
        text: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, OperationError> {
        let client = self.pool.get().await?;
        let sql = self.schema.sql(text);
        let answer = self.answered(self.send(&client, &sql, params)).await;
        if matches!(answer, Err(OperationError::Silent(_))) {
            // What was asked may still be answered: the connection is of no use to others.
            drop(Object::take(client));
        }
        answer
    }

    /// Waits for an answer as long as one may take: a server that hangs, or a network that loses everything, must not
    /// keep whoever asks, and those who wait for them.
    async fn answered<T, E: Into<OperationError>>(
        &self,
        asking: impl Future<Output = Result<T, E>>,
    ) -> Result<T, OperationError> {
        match tokio::time::timeout(self.response_timeout, asking).await {
            Ok(answer) => answer.map_err(Into::into),
            Err(_) => Err(OperationError::Silent(self.response_timeout)),
        }
    }

    async fn send(
        &self,
        client: &Object,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, OperationError> {
        if !self.prepares {
            return Ok(client.query_typed(sql, params).await?);
        }
        let types: Vec<Type> = params.iter().map(|(_, kind)| kind.clone()).collect();
        let statement = client.prepare_typed_cached(sql, &types).await?;
        let values: Vec<&(dyn ToSql + Sync)> = params.iter().map(|(value, _)| *value).collect();
        Ok(client.query(&statement, &values).await?)
    }

    /// Begins a transaction that reads several times as of one instant.
    pub(crate) async fn snapshot(self: &Arc<Self>) -> Result<Transaction, OperationError> {
        let level = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        match self.begin(level).await {
            Err(error) if error.is_of_connection() => self.begin(level).await,
            begun => begun,
        }
    }

    /// Begins a transaction that writes.
    pub(crate) async fn transaction(self: &Arc<Self>) -> Result<Transaction, OperationError> {
        // Other processes wait for the locks of one that stands still, and for no longer than this. `LOCAL`, because
        // others use the session behind a pooler.
        let begin = "BEGIN ISOLATION LEVEL READ COMMITTED; \
             SET LOCAL idle_in_transaction_session_timeout = '5s'; SET LOCAL lock_timeout = '5s'";
        self.begin(begin).await
    }

    async fn begin(self: &Arc<Self>, begin: &str) -> Result<Transaction, OperationError> {
        // From here on it is closed if it does not end as it should.
        let transaction = Transaction {
            client: Some(self.pool.get().await?),
            database: Arc::clone(self),
        };
        transaction.execute(begin).await?;
        Ok(transaction)
    }
}

/// A transaction of several statements. Dropped before its end it is undone, and its connection is closed.
#[derive(Debug)]
pub(crate) struct Transaction {
    client: Option<Object>,
    database: Arc<Database>,
}

impl Transaction {
    pub(crate) async fn rows(
        &self,
        text: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, OperationError> {
        let sql = self.database.schema.sql(text);
        let sending = self.database.send(self.client()?, &sql, params);
        self.database.answered(sending).await
    }

    fn client(&self) -> Result<&Object, OperationError> {
        let client = self.client.as_ref();
        client.ok_or_else(|| OperationError::internal("the transaction is over"))
    }

    /// Sends statements without parameters that answer nothing.
    async fn execute(&self, sql: &str) -> Result<(), OperationError> {
        let executing = self.client()?.batch_execute(sql);
        self.database.answered(executing).await
    }

    /// Makes what was written durable.
    pub(crate) async fn commit(mut self) -> Result<(), OperationError> {
        self.execute("COMMIT").await?;
        // Now the connection can be used again.
        drop(self.client.take());
        Ok(())
    }

    /// Undoes what was written.
    pub(crate) async fn undo(mut self) -> Result<(), OperationError> {
        self.execute("ROLLBACK").await?;
        drop(self.client.take());
        Ok(())
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            drop(Object::take(client));
        }
    }
}

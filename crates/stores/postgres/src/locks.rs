//! [`LockManager`]: the table `lock`. One statement each.

use std::time::Duration;

use async_trait::async_trait;
use helix_agents_core::lock::{Lock, LockManager};
use helix_agents_core::store::StoreError;
use helix_agents_core::time::Timestamp;
use tokio_postgres::types::Type;

use crate::convert;
use crate::store::PostgresStore;

#[async_trait]
impl LockManager for PostgresStore {
    async fn acquire(
        &self,
        key: &str,
        holder: &str,
        now: Timestamp,
        ttl: Duration,
    ) -> Result<Option<Lock>, StoreError> {
        let (key, holder) = (key.to_owned(), holder.to_owned());
        let acquired = self.run(async move |on| {
            let until = now.saturating_add(ttl);
            let rows = on
                .database
                .write(
                    "INSERT INTO @lock AS l VALUES ($1, $2, 1, $3) \
                     ON CONFLICT (key) DO UPDATE \
                     SET holder = excluded.holder, token = l.token + 1, until = excluded.until \
                     WHERE l.holder = excluded.holder OR l.until <= $4 RETURNING token",
                    &[
                        (&key.as_bytes(), Type::BYTEA),
                        (&holder.as_bytes(), Type::BYTEA),
                        (&convert::millis(until), Type::INT8),
                        (&convert::millis(now), Type::INT8),
                    ],
                )
                .await?;
            let token: Option<i64> = rows.first().map(|row| row.try_get(0)).transpose()?;
            Ok(token.map(|token| Lock {
                key,
                holder,
                token: convert::unsigned(token),
                until,
            }))
        });
        Ok(acquired.await?)
    }

    async fn renew(
        &self,
        lock: &Lock,
        now: Timestamp,
        ttl: Duration,
    ) -> Result<Option<Lock>, StoreError> {
        let lock = lock.clone();
        let renewed = self.run(async move |on| {
            let until = now.saturating_add(ttl);
            let rows = on
                .database
                .write(
                    "UPDATE @lock SET until = $3 WHERE key = $1 AND token = $2 AND until > 0 \
                     RETURNING token",
                    &[
                        (&lock.key.as_bytes(), Type::BYTEA),
                        (&convert::signed(lock.token), Type::INT8),
                        (&convert::millis(until), Type::INT8),
                    ],
                )
                .await?;
            Ok((!rows.is_empty()).then_some(Lock { until, ..lock }))
        });
        Ok(renewed.await?)
    }

    /// The row stays, so that tokens keep growing.
    async fn release(&self, lock: &Lock) -> Result<bool, StoreError> {
        let lock = lock.clone();
        let released = self.run(async move |on| {
            let rows = on
                .database
                .write(
                    "UPDATE @lock SET until = 0 WHERE key = $1 AND token = $2 AND until > 0 \
                     RETURNING token",
                    &[
                        (&lock.key.as_bytes(), Type::BYTEA),
                        (&convert::signed(lock.token), Type::INT8),
                    ],
                )
                .await?;
            Ok(!rows.is_empty())
        });
        Ok(released.await?)
    }
}

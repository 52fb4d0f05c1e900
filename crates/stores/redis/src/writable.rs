//! [`CheckWritable`]: checks whether the servers can be written to.

use async_trait::async_trait;
use futures_util::future::try_join_all;
use helix_agents_core::store::{CheckWritable, StoreError};

use crate::script::{Transaction, words};
use crate::store::RedisStore;
use crate::stream_store::RedisStreams;

#[async_trait]
impl CheckWritable for RedisStore {
    /// Writes a field in every shard and removes it. The server refuses it as it would refuse a commit.
    async fn check_writable(&self) -> Result<(), StoreError> {
        let checks = self.keys().shards().map(|shard| {
            let mut transaction = Transaction::new(shard);
            let meta = self.keys().meta(shard);
            transaction.set(&meta, "probe", " ");
            transaction.command(words!["HDEL", meta, "probe"]);
            self.write(transaction)
        });
        try_join_all(checks).await?;
        Ok(())
    }
}

#[async_trait]
impl CheckWritable for RedisStreams {
    /// As [`RedisStore`] does.
    async fn check_writable(&self) -> Result<(), StoreError> {
        self.0.check_writable().await
    }
}

//! The schema: its migrations, and the names of its tables in statements.

use tokio_postgres::Client;

use crate::error::{Error, Result};

/// The migrations, the first one first. A database of version n has the first n.
const MIGRATIONS: [&str; 1] = [include_str!("schema/v1.sql")];

/// The newest version of the schema.
fn known() -> u32 {
    u32::try_from(MIGRATIONS.len()).unwrap_or(u32::MAX)
}

/// The lock that a process holds while it migrates any schema of the database.
const LOCK: &str = "SELECT pg_advisory_xact_lock(7165064744911531110)";

/// The table that is there once the chunks of a schema go to an outbox.
const MARK: &str = "streams_elsewhere";

/// The most characters of a name. PostgreSQL cuts longer names than 63.
const MAX_NAME: usize = 40;

/// The name of the schema in which the tables are.
#[derive(Debug, Clone)]
pub(crate) struct Schema {
    name: String,
    /// The quoted name and a dot.
    prefix: String,
}

impl Schema {
    pub(crate) fn new(name: &str) -> Result<Self> {
        let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(is_allowed) {
            let schema = name.to_owned();
            return Err(Error::BadSchema { schema });
        }
        Ok(Self {
            prefix: format!("\"{name}\"."),
            name: name.to_owned(),
        })
    }

    /// The channel on which processes tell each other of changes in this schema.
    pub(crate) fn channel(&self) -> String {
        format!("helix_{}", self.name)
    }

    /// A statement, in which `@` stands for the schema.
    pub(crate) fn sql(&self, text: &str) -> String {
        text.replace('@', &self.prefix)
    }

    fn failed(&self, source: tokio_postgres::Error) -> Error {
        Error::Schema {
            schema: self.name.clone(),
            source: Box::new(source),
        }
    }

    /// Brings the schema up to date, or checks that it is, and that its streams are where they are to be.
    pub(crate) async fn prepare(
        &self,
        client: &mut Client,
        migrate: bool,
        outbox: bool,
    ) -> Result<()> {
        self.bring_up_to_date(client, migrate).await?;
        if self.has_table(client, MARK).await? == outbox {
            return Ok(());
        }
        if !outbox {
            return Err(Error::StreamsElsewhere {
                schema: self.name.clone(),
            });
        }
        let failed = |error| self.failed(error);
        let transaction = client.transaction().await.map_err(failed)?;
        transaction.batch_execute(LOCK).await.map_err(failed)?;
        let mark = self.sql(&format!("CREATE TABLE IF NOT EXISTS @{MARK} ()"));
        transaction.batch_execute(&mark).await.map_err(failed)?;
        transaction.commit().await.map_err(failed)
    }

    async fn bring_up_to_date(&self, client: &mut Client, migrate: bool) -> Result<()> {
        let found = self.version(client).await?;
        if found == known() {
            return Ok(());
        }
        let schema = || self.name.clone();
        if found > known() {
            return Err(Error::SchemaTooNew {
                schema: schema(),
                found,
                known: known(),
            });
        }
        if !migrate {
            return Err(Error::SchemaTooOld {
                schema: schema(),
                found,
                known: known(),
            });
        }
        self.migrate(client).await
    }

    async fn has_table(&self, client: &Client, table: &str) -> Result<bool> {
        // Read as a table, and not looked up by its name: that might be answered from a cache.
        let listed = format!(
            "SELECT tablename FROM pg_catalog.pg_tables \
             WHERE schemaname = '{}' AND tablename = '{table}'",
            self.name
        );
        let found = client.simple_query(&listed).await;
        Ok(first(&found.map_err(|error| self.failed(error))?).is_some())
    }

    /// The version of the schema; 0 if there is none.
    async fn version(&self, client: &Client) -> Result<u32> {
        if !self.has_table(client, "schema_version").await? {
            return Ok(0);
        }
        let sql = self.sql("SELECT max(version) FROM @schema_version");
        let found = client.simple_query(&sql).await;
        let found = found.map_err(|error| self.failed(error))?;
        let version = first(&found).and_then(|version| version.parse().ok());
        Ok(version.unwrap_or(0))
    }

    /// Makes the migrations that are missing, in one transaction. One process does it at a time.
    async fn migrate(&self, client: &mut Client) -> Result<()> {
        let failed = |error| self.failed(error);
        let transaction = client.transaction().await.map_err(failed)?;
        transaction.batch_execute(LOCK).await.map_err(failed)?;
        // Another process may have been faster.
        let found = self.version(transaction.client()).await?;
        let mut batch = self.sql(&format!(
            "CREATE SCHEMA IF NOT EXISTS \"{}\"; \
             CREATE TABLE IF NOT EXISTS @schema_version (version integer PRIMARY KEY);",
            self.name
        ));
        for (version, migration) in (1..).zip(MIGRATIONS) {
            if version > found {
                batch.push_str(&self.sql(migration));
                let record = format!("INSERT INTO @schema_version VALUES ({version});");
                batch.push_str(&self.sql(&record));
            }
        }
        transaction.batch_execute(&batch).await.map_err(failed)?;
        transaction.commit().await.map_err(failed)
    }
}

/// The first value of the first row.
fn first(found: &[tokio_postgres::SimpleQueryMessage]) -> Option<&str> {
    found.iter().find_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_has_a_name_that_needs_no_care() {
        let schema = Schema::new("Helix_2").unwrap();
        let sql = schema.sql("SELECT 1 FROM @session");
        assert_eq!(sql, "SELECT 1 FROM \"Helix_2\".session");
        for name in ["", "a b", "a\"b", "é", &"n".repeat(41)] {
            assert!(Schema::new(name).is_err(), "{name}");
        }
    }
}

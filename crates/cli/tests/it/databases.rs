//! The stores that several processes can share, each test with a place of its own in them.

use std::sync::atomic::{AtomicU64, Ordering};

use helix_agents_test_servers::{POSTGRES, REDIS, shared};

/// A kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Database {
    Sqlite,
    Postgres,
    Redis,
    /// Sessions in PostgreSQL, their streams on Redis.
    Mixed,
}

impl Database {
    pub(crate) const ALL: [Self; 4] = [Self::Sqlite, Self::Postgres, Self::Redis, Self::Mixed];

    /// Returns the sections of a configuration that name a place which no other test uses; `None` if its server is
    /// missing and the test is to be skipped.
    pub(crate) fn sections(self) -> Option<String> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let micros = now.unwrap().as_micros();
        let own = format!("cli_{}_{micros}_{count}", std::process::id());
        let postgres =
            |url| format!("[store]\nurl = \"{url}\"\nschema = \"{own}\"\nconnections = 4\n");
        let redis = |url| format!("url = \"{url}\"\nprefix = \"{own}\"\ndurability = \"memory\"\n");
        Some(match self {
            Self::Sqlite => "[store]\nurl = \"sqlite:helix.db\"\n".to_owned(),
            Self::Postgres => postgres(shared(POSTGRES)?),
            Self::Redis => format!("[store]\n{}", redis(shared(REDIS)?)),
            Self::Mixed => format!(
                "{}[stream]\n{}",
                postgres(shared(POSTGRES)?),
                redis(shared(REDIS)?)
            ),
        })
    }
}

/// Makes a test of each of these functions on each kind of store.
macro_rules! on_each_store {
    ($($test:ident)+) => {
        mod sqlite {
            crate::databases::tests!(Sqlite: $($test)+);
        }
        mod postgres {
            crate::databases::tests!(Postgres: $($test)+);
        }
        mod redis {
            crate::databases::tests!(Redis: $($test)+);
        }
        mod mixed {
            crate::databases::tests!(Mixed: $($test)+);
        }
    };
}
pub(crate) use on_each_store;

macro_rules! tests {
    ($database:ident: $($test:ident)+) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $test() {
            if let Some(store) = crate::databases::Database::$database.sections() {
                super::$test(&store).await;
            }
        }
    )+};
}
pub(crate) use tests;

//! Closing and reopening a backend, for the cases about durability.

use std::fmt;
use std::sync::Arc;

use futures_util::future::LocalBoxFuture;

use super::Subject;

type Open = dyn Fn() -> LocalBoxFuture<'static, Subject> + Send + Sync;

/// Whether a backend is durable, as its author declares.
#[derive(Clone, Default)]
pub(super) enum Durability {
    /// Not declared. The cases about durability fail, and name the two ways to declare it.
    #[default]
    Undeclared,
    /// Nothing outlives the backend. The cases about durability are skipped.
    None,
    /// Durable: the function opens the stored data.
    Reopened(Arc<Open>),
}

impl fmt::Debug for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Undeclared => "Undeclared",
            Self::None => "None",
            Self::Reopened(_) => "Reopened",
        })
    }
}

impl Subject {
    /// Declares that the backend is durable, and how it is opened.
    ///
    /// The cases about durability call `open` several times, and drop the returned store before
    /// they call it again. Nothing else opens that place meanwhile, so a database that only one
    /// process can open passes them, provided that the place is not the one of this subject. The
    /// place is empty at the first call.
    ///
    /// ```
    /// # use helix_agents_core::memory::MemoryStore;
    /// use helix_agents_testkit::contract::Subject;
    ///
    /// # let database = MemoryStore::new();
    /// # let open = move |_: &str| { let store = database.clone(); async move { store } };
    /// let subject = Subject::from(MemoryStore::new())
    ///     .reopened_by(async move || open("folder/again.db").await);
    /// ```
    #[must_use]
    pub fn reopened_by<S: Into<Self>>(
        mut self,
        open: impl AsyncFn() -> S + Send + Sync + 'static,
    ) -> Self {
        let open = Arc::new(open);
        self.durability = Durability::Reopened(Arc::new(move || {
            let open = Arc::clone(&open);
            Box::pin(async move { open().await.into() })
        }));
        self
    }

    /// Declares that nothing outlives the backend, as in memory. The cases about durability are
    /// reported as skipped.
    #[must_use]
    pub fn not_durable(mut self) -> Self {
        self.durability = Durability::None;
        self
    }

    /// Opens the backend's data, with the clock of this subject. `None` if the backend is not
    /// durable.
    ///
    /// # Panics
    /// When the author of the backend did not declare whether it is durable.
    #[expect(clippy::print_stderr, reason = "a skipped case is reported")]
    pub(super) fn reopening(&self) -> Option<impl AsyncFn() -> Self> {
        let open = match &self.durability {
            Durability::Reopened(open) => Arc::clone(open),
            Durability::None => {
                eprintln!("skipped: the store is declared not durable");
                return None;
            }
            Durability::Undeclared => panic!(
                "nobody said whether this store is durable; give `store_contract!` a `Subject` \
                 with `reopened_by`, or with `not_durable` if it keeps nothing"
            ),
        };
        Some(async move || {
            let opened = open().await;
            opened
                .living_by(Arc::clone(&self.clock))
                .run_by(self.runner.clone())
        })
    }
}

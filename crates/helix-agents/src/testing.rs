//! The test kit, for tests of your own agents: everything of `helix-agents-testkit`, and [`TestRuntime`].
//!
//! ```
//! use helix_agents::prelude::*;
//! use helix_agents::testing::{CrashTest, MockModel, TestRuntime};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Error> {
//! let support = Agent::builder("support").model("anthropic/claude-sonnet-4-5").build()?;
//!
//! let model = MockModel::new().says("Refunded.");
//! let run = TestRuntime::new().execute(&support.with_model(model), "broken").await?;
//! assert_eq!(run.output().await?, "Refunded.");
//! // Kills the process at every point, and compares what is left.
//! CrashTest::of(&support).assert_survives().await;
//! # Ok(())
//! # }
//! ```

use std::sync::Arc;

use async_trait::async_trait;
use helix_agents_core::AgentRegistry;
use helix_agents_core::entries::{ExecuteRequest, ResumeRequest, Submitted, ToolAnswer};
use helix_agents_core::id::IdSource;
use helix_agents_core::memory::MemoryStore;
use helix_agents_core::runtime::{Backend, RunOptions, Runtime, RuntimeError, StartedRun};
use helix_agents_core::session::RunRecord;
use helix_agents_core::time::Clock;
use helix_agents_runtime_local::LocalRuntime;
pub use helix_agents_testkit::crash::{CrashReport, CrashTest, Scenario};
pub use helix_agents_testkit::*;

/// A runtime for tests: a [`LocalRuntime`] whose sessions are in memory and gone with it. It recovers
/// nothing by itself.
///
/// ```
/// use helix_agents::prelude::*;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Error> {
/// let agent = Agent::builder("support").model(MockModel::new().says("Refunded.")).build()?;
/// let run = TestRuntime::new().execute(&agent, "Order 42 arrived broken.").await?;
/// assert_eq!(run.output().await?, "Refunded.");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct TestRuntime {
    runtime: LocalRuntime,
}

impl TestRuntime {
    /// A runtime without sessions.
    #[must_use]
    pub fn new() -> Self {
        let builder = LocalRuntime::builder(MemoryStore::new());
        Self {
            runtime: builder.recovery(false).build(),
        }
    }
}

impl Default for TestRuntime {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Runtime for TestRuntime {
    fn shared(&self) -> Arc<dyn Runtime> {
        self.runtime.shared()
    }

    fn backend(&self) -> &Backend {
        self.runtime.backend()
    }

    fn agents(&self) -> &Arc<AgentRegistry> {
        self.runtime.agents()
    }

    fn clock(&self) -> &Arc<dyn Clock> {
        self.runtime.clock()
    }

    fn ids(&self) -> &Arc<dyn IdSource> {
        self.runtime.ids()
    }

    async fn start(
        &self,
        request: ExecuteRequest,
        options: RunOptions,
    ) -> Result<StartedRun, RuntimeError> {
        self.runtime.start(request, options).await
    }

    async fn resume_session(
        &self,
        request: ResumeRequest,
        options: RunOptions,
    ) -> Result<StartedRun, RuntimeError> {
        self.runtime.resume_session(request, options).await
    }

    async fn submit_answer(&self, answer: ToolAnswer) -> Result<Submitted, RuntimeError> {
        self.runtime.submit_answer(answer).await
    }

    async fn ended(&self, run: &StartedRun) -> Result<RunRecord, RuntimeError> {
        self.runtime.ended(run).await
    }
}

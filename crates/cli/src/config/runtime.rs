//! `[runtime]`: how runs are performed.

use std::time::Duration;

use helix_agents_core::entries::DoubleTexting;
use helix_agents_core::perform::STOP_GRACE;
use helix_agents_core::stream::DELTA_WINDOW;

use super::suggest::remedy;
use super::{At, ConfigError, Section};

/// The configuration of the runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuntimeConfig {
    /// How a new message is handled while a run is running.
    pub double_texting: DoubleTexting,
    /// Whether runs with a lapsed lease are taken over at start.
    pub recover_on_start: bool,
    /// The duration of a lease, after which the run of a dead process is taken over.
    pub lease: Duration,
    /// Whether the last answer, or a passed deadline, resumes the session automatically.
    pub auto_continue: bool,
    /// How long a tool may take to end after its run was asked to stop.
    pub stop_grace: Duration,
    /// How long after its last turn began a session is removed; `None` keeps it.
    pub expire_after: Option<Duration>,
    /// How long the deltas of a turn are kept after its end.
    pub keep_deltas: Duration,
}

impl Default for RuntimeConfig {
    fn default() -> Self {
        Self {
            double_texting: DoubleTexting::Interrupt,
            recover_on_start: true,
            lease: Duration::from_millis(10_000),
            auto_continue: true,
            stop_grace: STOP_GRACE,
            expire_after: None,
            keep_deltas: DELTA_WINDOW,
        }
    }
}

const ENGINES: [&str; 3] = ["local", "temporal", "dbos"];
pub(super) fn read(section: Option<Section<'_>>) -> Result<RuntimeConfig, ConfigError> {
    let mut runtime = RuntimeConfig::default();
    let Some(section) = section else {
        return Ok(runtime);
    };
    if let Some(At { value, at }) = section.text("engine")? {
        match value.as_str() {
            "local" => {}
            "temporal" | "dbos" => {
                let message = format!("the engine `{value}` is not supported yet; use `local`");
                return Err(section.error(&at, message));
            }
            _ => {
                let remedy = remedy(&value, ENGINES);
                return Err(section.error(&at, format!("unknown engine `{value}`; {remedy}")));
            }
        }
    }
    if let Some(At { value, at }) = section.text("double_texting")? {
        let mut rules = DoubleTexting::ALL.into_iter();
        let found = rules.find(|rule| rule.as_str() == value);
        runtime.double_texting = found.ok_or_else(|| {
            let remedy = remedy(&value, DoubleTexting::ALL.map(DoubleTexting::as_str));
            let message = format!("`double_texting` cannot be `{value}`; {remedy}");
            section.error(&at, message)
        })?;
    }
    if let Some(flag) = section.flag("recover_on_start")? {
        runtime.recover_on_start = flag.value;
    }
    if let Some(millis) = section.count("lease_ms", 100)? {
        runtime.lease = Duration::from_millis(millis.value);
    }
    if let Some(flag) = section.flag("auto_continue")? {
        runtime.auto_continue = flag.value;
    }
    if let Some(millis) = section.count("stop_grace_ms", 0)? {
        runtime.stop_grace = Duration::from_millis(millis.value);
    }
    if let Some(millis) = section.count("expire_after_ms", 1000)? {
        runtime.expire_after = Some(Duration::from_millis(millis.value));
    }
    if let Some(millis) = section.count("keep_deltas_ms", 0)? {
        runtime.keep_deltas = Duration::from_millis(millis.value);
    }
    engine_section(
        section.section("temporal")?,
        &["address", "namespace", "task_queue"],
    )?;
    engine_section(section.section("dbos")?, &["url"])?;
    section.finish()?;
    Ok(runtime)
}

/// Checks the table of an engine that is not in use.
fn engine_section(section: Option<Section<'_>>, keys: &[&'static str]) -> Result<(), ConfigError> {
    let Some(section) = section else {
        return Ok(());
    };
    for key in keys {
        section.text(key)?;
    }
    section.finish()
}

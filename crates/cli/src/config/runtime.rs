//! `[runtime]`: how runs are performed.

use std::time::Duration;

use super::suggest::remedy;
use super::{At, ConfigError, Section};

/// How runs are performed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuntimeConfig {
    /// What a new message does while a run goes on.
    pub double_texting: DoubleTexting,
    /// Whether runs whose lease lapsed are picked up at the start.
    pub recover_on_start: bool,
    /// How long a run is left alone after its process was last heard of.
    pub lease: Duration,
    /// Whether the last answer, or a passed deadline, continues the run by itself.
    pub auto_continue: bool,
}

impl Default for RuntimeConfig {
    fn default() -> Self {
        Self {
            double_texting: DoubleTexting::Reject,
            recover_on_start: true,
            lease: Duration::from_millis(10_000),
            auto_continue: true,
        }
    }
}

/// What a new message does while a run goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DoubleTexting {
    /// The run is stopped, and keeps what it has.
    Interrupt,
    /// The message is refused.
    Reject,
    /// The message waits for the end of the run.
    Queue,
    /// The run is undone.
    Rollback,
}

const ENGINES: [&str; 3] = ["local", "temporal", "dbos"];
const TEXTINGS: [(&str, DoubleTexting); 4] = [
    ("interrupt", DoubleTexting::Interrupt),
    ("reject", DoubleTexting::Reject),
    ("queue", DoubleTexting::Queue),
    ("rollback", DoubleTexting::Rollback),
];

pub(super) fn read(section: Option<Section<'_>>) -> Result<RuntimeConfig, ConfigError> {
    let mut runtime = RuntimeConfig::default();
    let Some(section) = section else {
        return Ok(runtime);
    };
    if let Some(At { value, at }) = section.text("engine")? {
        match value.as_str() {
            "local" => {}
            "temporal" | "dbos" => {
                let message = format!("the engine `{value}` is not built yet; use `local`");
                return Err(section.error(&at, message));
            }
            _ => {
                let remedy = remedy(&value, ENGINES);
                return Err(section.error(&at, format!("there is no engine `{value}`; {remedy}")));
            }
        }
    }
    if let Some(At { value, at }) = section.text("double_texting")? {
        let found = TEXTINGS.iter().find(|(name, _)| *name == value);
        let (_, texting) = found.ok_or_else(|| {
            let remedy = remedy(&value, TEXTINGS.map(|(name, _)| name));
            let message = format!("`double_texting` cannot be `{value}`; {remedy}");
            section.error(&at, message)
        })?;
        if *texting != DoubleTexting::Reject {
            let message = format!(
                "`double_texting = \"{value}\"` is not built yet; write \"reject\", or leave it out, \
                 which is the same for now"
            );
            return Err(section.error(&at, message));
        }
        runtime.double_texting = *texting;
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
    engine_section(
        section.section("temporal")?,
        &["address", "namespace", "task_queue"],
    )?;
    engine_section(section.section("dbos")?, &["url"])?;
    section.finish()?;
    Ok(runtime)
}

/// Checks the table of an engine that is not chosen.
fn engine_section(section: Option<Section<'_>>, keys: &[&'static str]) -> Result<(), ConfigError> {
    let Some(section) = section else {
        return Ok(());
    };
    for key in keys {
        section.text(key)?;
    }
    section.finish()
}

//! `helix init`: a configuration to begin with.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use sha2::{Digest, Sha256};

use crate::UsageError;
use crate::exit::Exit;
use crate::screen::{Look, Screen};

const CONFIG: &str = include_str!("../../init/helix.toml");
const SCRIPT: &str = include_str!("../../init/script.json");

/// Writes a `helix.toml` with an agent, two tools and a token, and the script of its model.
#[derive(Debug, Args)]
pub(crate) struct Init {
    /// The folder; made when it is not there
    #[arg(default_value = ".")]
    folder: PathBuf,
}

impl Init {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let token = token()?;
        let digest = hex(&Sha256::digest(token.as_bytes()));
        let config = CONFIG.replace("TOKEN_SHA256", &digest);
        let files = [("helix.toml", config.as_str()), ("script.json", SCRIPT)];
        let paths = files.map(|(name, _)| self.folder.join(name));
        // All or nothing: what somebody wrote is not replaced.
        if let Some(there) = paths.iter().find(|path| path.exists()) {
            return Err(UsageError(format!(
                "{} is there already and stays as it is; remove it, or name another folder: \
                 `helix init FOLDER`",
                there.display()
            ))
            .into());
        }
        std::fs::create_dir_all(&self.folder).map_err(|error| cannot(&self.folder, &error))?;
        for ((_, text), path) in files.iter().zip(&paths) {
            write_new(path, text).map_err(|error| cannot(path, &error))?;
        }
        let screen = Screen::here();
        let [config, script] = paths.each_ref().map(|path| path.display());
        screen.say(format!("wrote {config} and {script}"))?;
        let shown = "the token of the user `me`, which is shown this once:";
        screen.say(format!("{shown} {}", screen.on_out(Look::Bold, &token)))?;
        let go_to = match self.folder.as_path() {
            here if here == Path::new(".") => String::new(),
            folder => format!("cd {} && ", folder.display()),
        };
        screen.say(format!(
            "next: {go_to}helix run helper \"What is the sum?\""
        ))?;
        Ok(Exit::Done)
    }
}

fn write_new(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(text.as_bytes())
}

fn cannot(path: &Path, error: &std::io::Error) -> UsageError {
    UsageError(format!("{} cannot be written: {error}", path.display()))
}

/// A token that nobody guesses.
fn token() -> anyhow::Result<String> {
    let mut bytes = [0; 32];
    let random = rustls::crypto::ring::default_provider().secure_random;
    let filled = random.fill(&mut bytes);
    filled.map_err(|_| anyhow::anyhow!("this machine gives no random numbers"))?;
    Ok(format!("hx_{}", hex(&bytes)))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

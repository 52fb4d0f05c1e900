//! `helix init`: writes a starter configuration.

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
    /// The folder, which is created if it does not exist
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
        // All or nothing: existing files are not replaced.
        if let Some(there) = paths.iter().find(|path| path.exists()) {
            return Err(UsageError(format!(
                "{} already exists and is not replaced; remove it, or name another folder: \
                 `helix init FOLDER`",
                there.display()
            ))
            .into());
        }
        std::fs::create_dir_all(&self.folder).map_err(|error| write_error(&self.folder, &error))?;
        for ((_, text), path) in files.iter().zip(&paths) {
            write_new(path, text).map_err(|error| write_error(path, &error))?;
        }
        let screen = Screen::of_process();
        let [config, script] = paths.each_ref().map(|path| path.display());
        screen.print_line(format!("wrote {config} and {script}"))?;
        let shown = "the token of the user `me`, which is shown only once:";
        screen.print_line(format!("{shown} {}", screen.on_out(Look::Bold, &token)))?;
        let go_to = match self.folder.as_path() {
            here if here == Path::new(".") => String::new(),
            folder => format!("cd {} && ", folder.display()),
        };
        screen.print_line(format!(
            "next: {go_to}helix run helper \"What is the sum?\""
        ))?;
        Ok(Exit::Done)
    }
}

fn write_new(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(text.as_bytes())
}

fn write_error(path: &Path, error: &std::io::Error) -> UsageError {
    UsageError(format!("{} cannot be written: {error}", path.display()))
}

/// Generates a random token.
fn token() -> anyhow::Result<String> {
    let mut bytes = [0; 32];
    let random = rustls::crypto::ring::default_provider().secure_random;
    let filled = random.fill(&mut bytes);
    filled.map_err(|_| anyhow::anyhow!("this machine provides no random numbers"))?;
    Ok(format!("hx_{}", hex(&bytes)))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

//! A program that starts, asks one question and ends: `cold SIDE ADDRESS`.
//!
//! It is a program of its own, because the memory that it takes is mostly its code: in the one with all
//! benchmarks, the code that it uses is spread among code that it does not use.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use helix_agents_core::memory::MemoryStore;
use helix_agents_core::runtime::{Backend, RuntimeExt};
use helix_agents_runtime_local::LocalRuntime;
use helix_agents_store_sqlite::SqliteStore;
use tokio::runtime::Builder;

use crate::exit_code;
use crate::http_loops::{USER, bare, raw_lean};
use crate::http_model::HttpModel;
use crate::http_side::{peak_kib, says};
use crate::openai::Client;
use crate::sqlite::{Folder, Outcome};
use crate::steps::adder;

/// The program `cold`. Whoever starts it measures its time; it prints the peak of its memory.
#[must_use]
pub fn cold() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    exit_code(&run(&arguments))
}

fn run(arguments: &[String]) -> Outcome<()> {
    let [side, address] = arguments else {
        return Err("it needs the name of its side and the address of the server".into());
    };
    if side != "nothing" {
        ask(side, address.parse()?)?;
    }
    println!("0 {}", peak_kib()?);
    Ok(())
}

fn ask(side: &str, server: SocketAddr) -> Outcome<()> {
    let client = Arc::new(Client::new(server));
    let host = Builder::new_multi_thread().enable_all().build()?;
    host.block_on(async {
        let text = match side {
            "raw-lean" => raw_lean(&client, "text").await?,
            "bare" => bare(&client, "text").await?,
            "ours" => framework(MemoryStore::new(), client).await?,
            "ours on SQLite" => {
                let folder = Folder::new("cold")?;
                let store = SqliteStore::open(folder.file("helix.db")).await?;
                framework(store, client).await?
            }
            _ => return Err(format!("there is no side {side:?}").into()),
        };
        says("Done.", &text)
    })
}

async fn framework(store: impl Into<Backend>, client: Arc<Client>) -> Outcome<String> {
    let runtime = LocalRuntime::builder(store).build();
    let agent = adder(Arc::new(HttpModel {
        client,
        name: "text".to_owned(),
    }))?;
    Ok(runtime.execute(&agent, USER).await?.output().await?)
}

#[cfg(test)]
mod tests {
    use helix_agents_mock_llm::MockLlm;

    use super::*;

    #[test]
    fn every_side_gets_its_reply() {
        let server = MockLlm::spawn().unwrap();
        for side in ["raw-lean", "bare", "ours", "ours on SQLite"] {
            ask(side, server.address()).unwrap();
        }
        assert!(ask("another", server.address()).is_err());
    }
}

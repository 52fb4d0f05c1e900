//! `helix migrate`: brings the store's schema up to date.

use clap::Args;
use serde_json::json;

use crate::exit::Exit;
use crate::screen::Screen;
use crate::setup::{Opening, Place};

/// Brings the store's schema up to date. An empty store is set up automatically.
#[derive(Debug, Args)]
pub(crate) struct Migrate {
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

impl Migrate {
    pub(crate) async fn run(self) -> anyhow::Result<Exit> {
        let plan = self.place.read()?;
        let store = plan.store.clone();
        plan.open_as(Opening::Migrate).await?;
        let screen = Screen::of_process();
        if self.json {
            screen.json(&json!({ "store": store.to_string(), "upToDate": true }))?;
        } else {
            screen.print_line(format!("the store {store} is up to date"))?;
        }
        Ok(Exit::Done)
    }
}

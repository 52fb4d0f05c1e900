//! A store of your own, held to the contract of every store.
//!
//! ```sh
//! cargo run -p custom-store    # one commit, one refusal, and what is kept
//! cargo test -p custom-store   # every case of the contract suites, each a test of its own
//! ```
//!
//! [`JsonStore`] keeps each session as one JSON text in a map, as a document database would. It has
//! no rules of its own: `plan` judges a commit and says which rows to write. The store writes them
//! to copies of the documents and then puts all copies in their places at once, so that a commit
//! happens whole or not at all. A real store does the same in a transaction, keeps rows instead of
//! whole documents, and answers `list`, `pending` and `due` from an index.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

mod document;
mod store;
mod streams;

use helix_agents::core::SessionId;
use helix_agents::core::message::UserMessage;
use helix_agents::core::store::{Change, Commit, NewSession, Precondition, SessionStore, Sessions};
use helix_agents::core::time::{Clock, Timestamp};
use helix_agents_testkit::{VirtualClock, block_on};

use store::JsonStore;

fn main() -> anyhow::Result<()> {
    block_on(run())
}

async fn run() -> anyhow::Result<()> {
    let store = JsonStore::default();
    let clock = VirtualClock::new(Timestamp::from_millis(1_700_000_000_000));
    let id = SessionId::new("order-42")?;

    // Every named operation works on any store.
    let sessions = Sessions::new(&store, &clock);
    sessions
        .create_session(&id, NewSession::of("support"))
        .await?;

    // They are all made of this one write.
    let hello = Commit::new(id.clone(), clock.now())
        .when(Precondition::MessageCount(0))
        .then(Change::AppendUser(UserMessage::new("It arrived broken.")))
        .then(Change::RaiseFence);
    let receipt = store.commit(hello.clone()).await?;
    println!("committed: {:?}", receipt.sessions);
    if let Err(refusal) = store.commit(hello).await {
        println!("refused the second time: {refusal}");
    }
    println!("kept:\n{store}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use helix_agents_testkit::contract::Subject;

    use super::JsonStore;

    helix_agents_testkit::store_contract!(async || {
        Subject::from(JsonStore::default()).not_durable()
    });
    helix_agents_testkit::stream_contract!(async || JsonStore::default());
}

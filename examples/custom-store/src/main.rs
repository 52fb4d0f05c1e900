//! Makes one commit, has one refused, and prints what the store keeps.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use custom_store::JsonStore;
use helix_agents::core::SessionId;
use helix_agents::core::message::UserMessage;
use helix_agents::core::store::{Change, Commit, NewSession, Precondition, SessionStore, Sessions};
use helix_agents::core::time::{Clock, Timestamp};
use helix_agents_testkit::{VirtualClock, block_on};

fn main() -> anyhow::Result<()> {
    block_on(run())
}

async fn run() -> anyhow::Result<()> {
    let store = JsonStore::new();
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

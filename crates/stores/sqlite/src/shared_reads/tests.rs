//! One read for all callers that ask for it before it begins.

use std::cell::Cell;
use std::fs;

use futures_util::future::{join, join_all};
use helix_agents_core::SessionId;
use helix_agents_core::stream::{Sequence, StreamManager};
use helix_agents_testkit::block_on;

use super::*;
use crate::operation_error::catch_panic;
use crate::store::SqliteStore;

type Reads = SharedReads<&'static str, i64>;

fn lead(reads: &Reads) -> Leading<&'static str, i64> {
    match reads.ask(&"it") {
        Turn::Lead(leading) => leading,
        Turn::Follow(_) => panic!("somebody else reads it"),
    }
}

fn follow(reads: &Reads) -> ResultFuture<Option<i64>> {
    match reads.ask(&"it") {
        Turn::Follow(answer) => answer,
        Turn::Lead(_) => panic!("nobody reads it"),
    }
}

fn connection() -> Connection {
    Connection::open_in_memory().unwrap()
}

#[test]
fn who_asks_before_a_read_begins_shares_its_answer() {
    let reads = Reads::default();
    let leading = lead(&reads);
    let followers = (follow(&reads), follow(&reads));
    assert!(matches!(reads.ask(&"other"), Turn::Lead(_)));
    let count = Cell::new(0);
    let read = leading.sharing(|_| {
        count.set(count.get() + 1);
        Ok(7)
    });
    assert!(matches!(read(&connection()), Ok(7)));
    let told = block_on(join(followers.0, followers.1));
    assert!(matches!(told, (Ok(Some(7)), Ok(Some(7)))));
    assert_eq!(count.get(), 1);
}

#[test]
fn a_request_after_a_read_began_gets_another_read() {
    let reads = Reads::default();
    let second = Cell::new(None);
    let read = lead(&reads).sharing(|_| {
        second.set(Some((lead(&reads), follow(&reads))));
        Ok(7)
    });
    assert!(matches!(read(&connection()), Ok(7)));
    drop(read);
    let (leading, follower) = second.take().unwrap();
    let read = leading.sharing(|_| Ok(8));
    assert!(matches!(read(&connection()), Ok(8)));
    assert!(matches!(block_on(follower), Ok(Some(8))));
}

#[test]
fn who_waits_for_a_read_that_is_given_up_or_fails_asks_again() {
    let reads = Reads::default();
    let leading = lead(&reads);
    let follower = follow(&reads);
    drop(leading);
    assert!(matches!(block_on(follower), Ok(None)));

    let leading = lead(&reads);
    let follower = follow(&reads);
    let read = leading.sharing(|_| Err(OperationError::internal("it failed")));
    assert!(read(&connection()).is_err());
    assert!(matches!(block_on(follower), Ok(None)));

    let leading = lead(&reads);
    let follower = follow(&reads);
    let read = leading.sharing(|_| panic!("on purpose"));
    assert!(catch_panic(|| read(&connection())).is_err());
    assert!(matches!(block_on(follower), Ok(None)));
    lead(&reads);
}

#[test]
fn many_readers_of_a_stream_cost_a_store_one_read() {
    let folder = format!("helix-shared-reads-{}", std::process::id());
    let folder = std::env::temp_dir().join(folder);
    fs::create_dir_all(&folder).unwrap();
    block_on(async {
        let store = SqliteStore::open(folder.join("helix.db")).await.unwrap();
        let root = SessionId::new("s").unwrap();
        let readers = store.readers().unwrap();
        readers.hold();
        let infos = join_all((0..20).map(|_| store.info(&root)));
        let chunks =
            join_all((0..20).map(|_| StreamManager::read(&store, &root, Sequence::START, 9)));
        let release = async {
            assert_eq!(readers.queued(), 2);
            readers.release();
        };
        let ((infos, chunks), ()) = join(join(infos, chunks), release).await;
        assert!(infos.iter().all(|info| matches!(info, Ok(None))));
        assert!(chunks.iter().all(|read| read.as_ref().unwrap().is_empty()));
    });
    let _ = fs::remove_dir_all(&folder);
}

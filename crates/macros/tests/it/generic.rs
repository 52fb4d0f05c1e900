//! Tests of generic toolsets.

use std::fmt::Debug;
use std::marker::PhantomData;

use helix_agents::__private::schemars::JsonSchema;
use helix_agents::__private::serde::de::DeserializeOwned;
use helix_agents::core::tool::Reconciled;
use helix_agents::{ToolResult, toolset};
use serde_json::json;

use crate::support::{asks, block_on, call, context, tool};

trait Db {
    type Key;

    fn find(&self, key: &Self::Key) -> Option<String>;
}

struct Numbered;

impl Db for Numbered {
    type Key = u64;

    fn find(&self, key: &u64) -> Option<String> {
        (*key == 42).then(|| "a vase".to_owned())
    }
}

struct Store<D, T, const N: usize> {
    db: D,
    stock: PhantomData<fn() -> T>,
}

#[toolset]
impl<D: Db + Send + Sync + 'static, T, const N: usize> Store<D, T, N>
where
    D::Key: DeserializeOwned + JsonSchema + Send + Sync + 'static,
    T: DeserializeOwned + JsonSchema + Debug + Send + Sync + 'static,
{
    /// Find something.
    #[tool(reconcile = Self::found)]
    async fn find(&self, key: D::Key) -> ToolResult<Option<String>> {
        Ok(self.db.find(&key))
    }

    async fn found(&self, key: D::Key) -> ToolResult<Reconciled<Option<String>>> {
        Ok(Reconciled::Done(self.db.find(&key)))
    }

    /// Keep something.
    #[tool(approval_if = |a| a.things.len() > N)]
    async fn keep(&self, things: Vec<T>) -> ToolResult<String> {
        Ok(format!("{things:?}"))
    }
}

fn store() -> Store<Numbered, bool, 2> {
    Store {
        db: Numbered,
        stock: PhantomData,
    }
}

#[test]
fn the_schema_is_that_of_the_concrete_types() {
    assert_eq!(
        tool(store(), "find").spec().input.json(),
        &json!({
            "type": "object",
            "properties": {"key": {"type": "integer", "format": "uint64", "minimum": 0}},
            "required": ["key"],
            "additionalProperties": false,
        })
    );
}

#[test]
fn tools_of_a_generic_toolset_run() {
    let find = tool(store(), "find");
    assert_eq!(call(&find, json!({"key": 42})), Ok(json!("a vase")));
    let found = find
        .reconciler()
        .unwrap()
        .reconcile(json!({"key": 1}), context());
    assert_eq!(block_on(found).unwrap(), Reconciled::Done(json!(null)));

    let keep = tool(store(), "keep");
    assert_eq!(
        call(&keep, json!({"things": [true, false]})),
        Ok(json!("[true, false]"))
    );
    assert!(!asks(&keep, &json!({"things": [true, false]})));
    assert!(asks(&keep, &json!({"things": [true, false, true]})));
}

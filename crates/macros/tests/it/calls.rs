//! Tests of the arguments that reach the method and of the results that come back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use helix_agents::core::tool::Reconciled;
use helix_agents::{ToolCx, ToolError, ToolResult, toolset};
use serde_json::{Value, json};

use crate::support::{block_on, call, context, give_way, tool};

#[derive(Clone, Default)]
struct Shop {
    ran: Arc<AtomicU32>,
}

#[toolset]
impl Shop {
    /// Order things.
    #[tool]
    async fn order(
        &self,
        item: String,
        cx: &ToolCx,
        mut pieces: u8,
        note: Option<String>,
    ) -> ToolResult<Value> {
        self.ran.fetch_add(1, Ordering::Relaxed);
        give_way().await;
        pieces += 1;
        Ok(json!([item, pieces, note, cx.call_id().as_str()]))
    }

    /// Parameters with names that generated code might use.
    #[tool]
    async fn names(&self, this: u8, cx: u8, input: u8, arguments: u8, tools: u8) -> ToolResult<u8> {
        Ok(this + cx + input + arguments + tools)
    }

    /// Fails with a text for the model.
    #[tool]
    async fn refuse(&self) -> ToolResult<()> {
        Err(ToolError::tell_model("not today"))
    }

    /// Fails with an error of another crate.
    #[tool]
    async fn stumble(&self, number: String) -> ToolResult<u8> {
        Ok(number.parse::<u8>()?)
    }

    /// Charge a card.
    #[tool(reconcile = Self::charged)]
    async fn charge(&self, card: String, cx: &ToolCx, cents: u32) -> ToolResult<String> {
        Ok(format!("{card} {cents} {}", cx.call_id()))
    }

    async fn charged(
        &self,
        card: String,
        cx: &ToolCx,
        cents: u32,
    ) -> ToolResult<Reconciled<String>> {
        give_way().await;
        match cents {
            0 => Ok(Reconciled::NotDone),
            1 => Err(ToolError::tell_model("the bank is unreachable")),
            _ => Ok(Reconciled::Done(format!(
                "found {card} {cents} {}",
                cx.call_id()
            ))),
        }
    }
}

/// proves: AGT-02
#[test]
fn arguments_reach_the_parameters_of_their_names() {
    let order = tool(Shop::default(), "order");
    let full = json!({"pieces": 2, "note": "blue", "item": "vase"});
    assert_eq!(call(&order, full), Ok(json!(["vase", 3, "blue", "call"])));
    let short = json!({"pieces": 2, "item": "vase"});
    assert_eq!(call(&order, short), Ok(json!(["vase", 3, null, "call"])));
}

#[test]
fn a_parameter_may_have_any_name() {
    let names = tool(Shop::default(), "names");
    let arguments = json!({"this": 1, "cx": 2, "input": 4, "arguments": 8, "tools": 16});
    assert_eq!(call(&names, arguments), Ok(json!(31)));
}

/// proves: AGT-02
#[test]
fn bad_arguments_never_reach_the_method() {
    let shop = Shop::default();
    let order = tool(shop.clone(), "order");
    let bad = [
        (json!({"item": "vase"}), "\"pieces\" is a required property"),
        (json!({"item": "vase", "pieces": "two"}), "at `/pieces`"),
        (json!({"item": "vase", "pieces": 1000}), "at `/pieces`"),
        (
            json!({"item": "vase", "pieces": 2, "colour": "red"}),
            "'colour' was unexpected",
        ),
        (json!(["vase", 2]), "is not of type \"object\""),
    ];
    for (arguments, why) in bad {
        let told = call(&order, arguments.clone()).unwrap_err();
        assert!(told.contains(why), "{arguments}: {told}");
    }
    assert_eq!(shop.ran.load(Ordering::Relaxed), 0);
}

#[test]
fn the_toolset_is_shared_by_calls_and_tools() {
    let shop = Shop::default();
    let order = tool(shop.clone(), "order");
    for _ in 0..3 {
        call(&order, json!({"item": "vase", "pieces": 1})).unwrap();
    }
    assert_eq!(shop.ran.load(Ordering::Relaxed), 3);
}

#[test]
fn errors_keep_the_text_that_the_tool_chose() {
    assert_eq!(
        call(&tool(Shop::default(), "refuse"), json!({})),
        Err("not today".to_owned())
    );
    let stumbled = call(&tool(Shop::default(), "stumble"), json!({"number": "x"}));
    assert_eq!(stumbled, Err("The tool failed.".to_owned()));
}

#[test]
fn reconcile_gets_the_parameters_of_the_tool() {
    let charge = tool(Shop::default(), "charge");
    let reconcile = |cents: u32| {
        let arguments = json!({"card": "visa", "cents": cents});
        let outcome = charge.reconciler().unwrap().reconcile(arguments, context());
        block_on(outcome).map_err(|error| error.model_text().to_owned())
    };
    assert_eq!(
        reconcile(5),
        Ok(Reconciled::Done(json!("found visa 5 call")))
    );
    assert_eq!(reconcile(0), Ok(Reconciled::NotDone));
    assert_eq!(reconcile(1), Err("the bank is unreachable".to_owned()));
}

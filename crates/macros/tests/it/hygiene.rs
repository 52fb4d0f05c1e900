//! Tests that generated code is unaffected by user items that shadow the prelude.

use crate::support::{asks, call, tool};

/// A module that shadows every name of the prelude. That it compiles is most of the test.
mod shadowed {
    #![expect(
        dead_code,
        unused_macros,
        reason = "the names are here to be in the way"
    )]

    pub(super) struct Arc;
    pub(super) struct Box;
    pub(super) struct Duration;
    pub(super) struct Option;
    pub(super) struct PhantomData;
    pub(super) struct Result;
    pub(super) struct String;
    pub(super) struct Tool;
    pub(super) struct ToolResult;
    pub(super) struct Value;
    pub(super) struct Vec;
    pub(super) struct Ok;
    pub(super) struct Err;
    pub(super) struct Some;
    pub(super) struct None;
    pub(super) trait Clone {}
    pub(super) trait Default {}
    pub(super) trait Deserialize {}
    pub(super) trait From {}
    pub(super) trait Fn {}
    pub(super) trait Into {}
    pub(super) trait IntoTools {}
    pub(super) trait IntoVerdict {}
    pub(super) trait JsonSchema {}
    pub(super) trait Send {}
    pub(super) trait Sync {}
    pub(super) mod core {}
    pub(super) mod helix_agents {}
    pub(super) mod schemars {}
    pub(super) mod serde {}
    pub(super) mod serde_json {}
    pub(super) mod std {}

    use ::helix_agents::ToolCx as Context;

    macro_rules! concat {
        ($($any:tt)*) => {
            compile_error!("not this one")
        };
    }

    pub(super) struct Shop {
        pub(super) limit: u64,
    }

    /// A user type with a name that generated code might use.
    #[derive(
        ::helix_agents::__private::serde::Deserialize,
        ::helix_agents::__private::schemars::JsonSchema,
    )]
    #[serde(crate = "::helix_agents::__private::serde")]
    #[schemars(crate = "::helix_agents::__private::schemars")]
    pub(super) struct Input(u64);

    #[::helix_agents::toolset]
    impl Shop {
        /// Refund part of an order.
        #[::helix_agents::tool(
            approval_if = |a, _| a.cents.0 > self.limit,
            idempotent,
            timeout = "30s",
            reconcile = Self::refunded
        )]
        async fn refund(
            &self,
            cx: &::helix_agents::ToolCx,
            cents: Input,
            /// The reason for the refund.
            reason: ::std::option::Option<::std::string::String>,
        ) -> ::helix_agents::ToolResult<u64> {
            let _: (&Context, _) = (cx, reason);
            ::std::result::Result::Ok(cents.0)
        }

        async fn refunded(
            &self,
            _cx: &Context,
            cents: Input,
            _reason: ::std::option::Option<::std::string::String>,
        ) -> ::helix_agents::ToolResult<::helix_agents::Reconciled<u64>> {
            ::std::result::Result::Ok(::helix_agents::Reconciled::Done(cents.0))
        }

        #[doc = "Ask which."]
        #[doc = include_str!("described.md")]
        #[tool(client, deadline = "10m")]
        async fn pick(&self, of: ::std::vec::Vec<u64>) -> ::helix_agents::ToolResult<u64>;
    }
}

#[test]
fn user_names_do_not_change_generated_code() {
    let refund = tool(shadowed::Shop { limit: 10 }, "refund");
    let arguments = serde_json::json!({"cents": 11});
    assert!(asks(&refund, &arguments));
    assert_eq!(call(&refund, arguments), Ok(serde_json::json!(11)));
    let pick = tool(shadowed::Shop { limit: 10 }, "pick");
    assert_eq!(
        pick.spec().description,
        "Ask which.\nFrom a file.\n\nTwo paragraphs."
    );
}

/// Captures of `macro_rules` arrive in an invisible group.
macro_rules! shop {
    ($shop:ident, $name:literal, $doc:literal, $time:expr, $input:ty, $cx:ty, $rule:expr) => {
        struct $shop {
            limit: u64,
        }

        #[helix_agents::toolset]
        impl $shop {
            #[doc = $doc]
            #[tool(name = $name, timeout = $time, approval_if = $rule)]
            async fn sell(&self, cx: $cx, cents: $input) -> helix_agents::ToolResult<String> {
                Ok(format!("{} {cents}", cx.call_id()))
            }

            #[doc = $doc]
            #[tool(approval_if = |a| a.cents > self.limit)]
            async fn buy(&self, cents: $input) -> helix_agents::ToolResult<$input> {
                Ok(cents)
            }
        }
    };
}

shop!(
    Kiosk,
    "trade",
    "Sell it.",
    "30s",
    u64,
    &helix_agents::ToolCx,
    |a| a.cents > 10
);

#[test]
fn a_toolset_may_come_from_a_macro() {
    let trade = tool(Kiosk { limit: 5 }, "trade");
    let spec = trade.spec();
    assert_eq!(spec.description, "Sell it.");
    assert_eq!(
        spec.options.timeout,
        Some(std::time::Duration::from_secs(30))
    );
    assert_eq!(
        call(&trade, serde_json::json!({"cents": 9})),
        Ok(serde_json::json!("call 9"))
    );
    assert!(!asks(&trade, &serde_json::json!({"cents": 9})));
    assert!(asks(
        &tool(Kiosk { limit: 5 }, "buy"),
        &serde_json::json!({"cents": 9})
    ));
}

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use helix_agents_core::agent::{
    AgentContext, AgentRegistry, DEFAULT_MAX_COMPLETION_RETRIES, ModelRef, ResolveError,
};
use helix_agents_core::error::{Coded, ErrorCode};
use helix_agents_core::hooks::{AgentHooks, AgentStart, HookCx, HookResult};
use helix_agents_core::model::ModelConfig;
use helix_agents_core::step::{FINISH_TOOL, StepResult, StopCause, StopReason, stop_cause};
use helix_agents_core::tool::{
    ApprovalMode, ExecutedBy, OnUnknown, Reconciled, ToolEvent, ToolEvents,
};
use helix_agents_core::{
    Agent, CallId, DefinitionError, RunId, SessionId, Tool, ToolCx, ToolError, ToolResult,
};
use helix_agents_testkit::block_on;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::make::text_step;

#[derive(Debug, Deserialize, JsonSchema)]
struct Sum {
    /// The first number.
    a: i64,
    /// The second number.
    b: i64,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct Resolution {
    summary: String,
}

fn add() -> helix_agents_core::tool::ToolBuilder {
    Tool::typed("add", "Adds two numbers.", async |sum: Sum, _cx: ToolCx| {
        Ok(sum.a + sum.b)
    })
}

fn noop(name: &str) -> helix_agents_core::tool::ToolBuilder {
    let schema = json!({"type": "object"});
    Tool::raw(
        name,
        "Does nothing.",
        schema,
        async |_: Value, _: ToolCx| Ok(Value::Null),
    )
}

fn cx() -> ToolCx {
    cx_builder().build()
}

fn cx_builder() -> helix_agents_core::tool::ToolCxBuilder {
    ToolCx::builder(
        SessionId::new("s1").unwrap(),
        RunId::new("r1").unwrap(),
        CallId::new("c1").unwrap(),
    )
}

struct NoHooks;
impl AgentHooks for NoHooks {}

/// proves: AGT-01
#[test]
fn an_agent_returns_every_setting_it_was_built_with() {
    #[derive(Serialize)]
    struct State {
        notes: Vec<String>,
    }
    let mut config = ModelConfig::default();
    config.temperature = Some(0.5);
    let agent = Agent::builder("support")
        .description("Answers customers.")
        .model("scripted/support")
        .model_config(config.clone())
        .system_prompt("Be kind.")
        .tools(add())
        .tools([noop("b"), noop("c")])
        .output::<Resolution>()
        .max_steps(8)
        .max_completion_retries(1)
        .stop_when(|result| matches!(result, StepResult::Text(step) if step.content() == "DONE"))
        .hooks(NoHooks)
        .initial_state(State { notes: vec![] })
        .build()
        .unwrap();
    assert_eq!(agent.name(), "support");
    assert_eq!(agent.description(), "Answers customers.");
    assert!(matches!(agent.model(), ModelRef::Named(name) if name == "scripted/support"));
    assert_eq!(agent.model_config(), &config);
    assert_eq!(agent.system_prompt().resolve(&Value::Null), "Be kind.");
    let names: Vec<_> = agent.tools().iter().map(Tool::name).collect();
    assert_eq!(names, ["add", "b", "c"]);
    assert!(agent.tool("b").is_some() && agent.tool("nope").is_none());
    assert_eq!(agent.max_completion_retries(), 1);
    assert_eq!(agent.hooks().len(), 1);
    assert_eq!(**agent.initial_state(), json!({"notes": []}));
    let stop = agent.stop_config();
    let done = text_step("DONE", StopReason::ToolUse);
    assert_eq!(stop_cause(&done, 8, stop), Some(StopCause::StopWhen));
    let other = text_step("more", StopReason::ToolUse);
    assert_eq!(stop_cause(&other, 8, stop), Some(StopCause::MaxSteps));

    let shown: Vec<_> = agent
        .effective_tools()
        .iter()
        .map(|tool| tool.name.as_str())
        .collect();
    assert_eq!(shown, ["add", "b", "c", FINISH_TOOL]);
    let output = agent.output_schema().unwrap().json();
    let expected = json!({
        "type": "object", "required": ["summary"], "properties": {"summary": {"type": "string"}},
    });
    assert_eq!(*output, expected);
    assert_eq!(agent.erase().name(), agent.clone().name());
}

#[test]
fn an_agent_that_sets_nothing_has_the_defaults() {
    let agent = Agent::builder("plain")
        .model("scripted/plain")
        .build()
        .unwrap();
    assert_eq!(agent.stop_config().max_steps, Some(50));
    assert_eq!(
        agent.max_completion_retries(),
        DEFAULT_MAX_COMPLETION_RETRIES
    );
    assert_eq!(agent.effective_tools(), []);
    assert_eq!(agent.output_schema(), None);
    assert_eq!(**agent.initial_state(), json!({}));
    let unlimited = Agent::builder("plain")
        .model("m")
        .max_steps(None)
        .build()
        .unwrap();
    assert_eq!(unlimited.stop_config().max_steps, None);
}

/// proves: AGT-02
#[test]
fn a_typed_tool_has_its_schema_from_its_type_and_runs() {
    let tool = add().read_only().build().unwrap();
    let spec = tool.spec();
    assert_eq!(
        (spec.name.as_str(), spec.description.as_str()),
        ("add", "Adds two numbers.")
    );
    let expected = json!({
        "type": "object",
        "required": ["a", "b"],
        "properties": {
            "a": {"type": "integer", "format": "int64", "description": "The first number."},
            "b": {"type": "integer", "format": "int64", "description": "The second number."},
        },
    });
    assert_eq!(*spec.input.json(), expected);
    assert!(spec.options.read_only);
    assert_eq!(
        block_on(tool.call(json!({"a": 1, "b": 2}), cx())).unwrap(),
        json!(3)
    );
}

/// Bad arguments never reach the tool; the model gets an error that says what to correct.
///
/// proves: AGT-02
#[test]
fn input_is_validated_before_the_tool_runs() {
    let runs = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&runs);
    let tool = Tool::typed("add", "Adds.", move |sum: Sum, _cx: ToolCx| {
        counter.fetch_add(1, Ordering::SeqCst);
        async move { Ok(sum.a + sum.b) }
    })
    .build()
    .unwrap();
    let cases = [
        (
            json!({"a": 1}),
            r#"at the top level: "b" is a required property"#,
        ),
        (
            json!({"a": 1, "b": "two"}),
            r#"at `/b`: "two" is not of type "integer""#,
        ),
        (
            json!([1, 2]),
            r#"at the top level: [1,2] is not of type "object""#,
        ),
        (
            json!("{\"a\": 1,"),
            "the arguments are a text (EOF while parsing a value at line 1 column 8); send one JSON object",
        ),
    ];
    for (arguments, reason) in cases {
        let error = block_on(tool.call(arguments, cx())).unwrap_err();
        assert!(!error.is_fatal());
        assert_eq!(
            error.model_text(),
            format!(
                "the arguments of add are not valid: {reason}. Correct them and call add again."
            )
        );
    }
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    // A type can be narrower than its schema: JSON has numbers that `i64` has not.
    let error = block_on(tool.call(json!({"a": 1, "b": u64::MAX}), cx())).unwrap_err();
    assert!(
        error
            .model_text()
            .starts_with("the arguments of add are not valid"),
        "{error}"
    );
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

#[test]
fn a_huge_bad_value_does_not_flood_the_model() {
    let tool = add().build().unwrap();
    let errors = tool.input_errors(&json!({"a": "x".repeat(100_000), "b": 1}));
    assert_eq!(errors.len(), 1);
    assert_eq!(errors, [r#"at `/a`: value is not of type "integer""#]);
    let schema = json!({"type": "object", "additionalProperties": {"type": "integer"}});
    let many = Tool::client_raw("many", "Takes numbers.", schema)
        .build()
        .unwrap();
    let values: serde_json::Map<_, _> = (0..50).map(|n| (format!("k{n}"), json!("x"))).collect();
    let errors = many.input_errors(&Value::Object(values));
    assert_eq!(errors.len(), 9);
    assert_eq!(errors[8], "and 42 more");
}

/// proves: AGT-06
#[test]
fn options_that_exclude_each_other_are_refused() {
    let client = || Tool::client::<Sum>("pick", "Picks.");
    let second = Duration::from_secs(1);
    let cases = [
        (client().finish_with().build(), "client", "finish_with"),
        (client().approval().build(), "client", "approval"),
        (
            client()
                .approval_if(async |_: Value, _: ToolCx| Ok(true))
                .build(),
            "client",
            "approval",
        ),
        (
            noop("x").approval().finish_with().build(),
            "approval",
            "finish_with",
        ),
        (
            noop("x")
                .approval()
                .approval_if(async |_: Value, _: ToolCx| Ok(false))
                .build(),
            "approval",
            "approval_if",
        ),
        (client().timeout(second).build(), "client", "timeout"),
        (client().idempotent().build(), "client", "idempotent"),
        (
            client().on_unknown(OnUnknown::Pause).build(),
            "client",
            "on_unknown",
        ),
        (
            client()
                .reconcile(async |_: Value, _: ToolCx| Ok(Reconciled::NotDone))
                .build(),
            "client",
            "reconcile",
        ),
    ];
    for (built, expected_first, expected_second) in cases {
        let error = built.unwrap_err();
        assert_eq!(error.code(), ErrorCode::DefinitionInvalid);
        match error {
            DefinitionError::ExclusiveOptions {
                first,
                second,
                remedy,
                ..
            } => {
                assert_eq!((first, second), (expected_first, expected_second));
                assert!(remedy.len() > 20, "{remedy}");
            }
            other => panic!("{other}"),
        }
    }
    let alone = noop("x").deadline(second).build().unwrap_err();
    assert_eq!(
        alone.to_string(),
        "tool x: `deadline` has no effect on a call nobody is asked about; use `timeout` to limit how long the call itself may take"
    );
    let pauses = noop("x").deadline(second).on_unknown(OnUnknown::Pause);
    assert_eq!(
        pauses.build().unwrap().spec().options.deadline,
        Some(second)
    );
    let tells = noop("x").deadline(second).on_unknown(OnUnknown::TellModel);
    assert!(tells.build().is_err());
    let fine = client().deadline(second).build().unwrap();
    assert_eq!(fine.spec().executed_by, ExecutedBy::Client);
    let gated = noop("x")
        .approval()
        .deadline(second)
        .timeout(second)
        .build()
        .unwrap();
    assert_eq!(gated.spec().options.approval, ApprovalMode::Always);
}

/// Each invalid definition is a typed error that says what to do.
#[test]
fn invalid_definitions_are_refused_with_a_remedy() {
    let agent = |name: &str| Agent::builder(name).model("m");
    let keys_that_are_pairs = std::collections::BTreeMap::from([((1, 2), "x")]);
    let schema = |json: Value| {
        Tool::client_raw("pick", "Picks.", json)
            .build()
            .unwrap_err()
    };
    let cases: Vec<(DefinitionError, &str)> = vec![
        (
            agent("a")
                .tools([noop("x"), noop("y"), noop("x")])
                .build()
                .unwrap_err(),
            "agent a has two tools named x; rename one of them",
        ),
        (
            noop("x").approval().finish_with().build().unwrap_err(),
            "tool x: `approval` and `finish_with` exclude each other; ask about the tool that has the effect, and finish with another one",
        ),
        (
            schema(json!({"type": "array"})),
            "the schema of the input of tool pick describes type \"array\", not an object; write {\"type\": \"object\", \"properties\": {...}} or wrap the value in a struct",
        ),
        (
            schema(json!({"properties": {}})),
            "the schema of the input of tool pick describes no type, not an object; write {\"type\": \"object\", \"properties\": {...}} or wrap the value in a struct",
        ),
        (
            agent("a").output::<Vec<u8>>().build().unwrap_err(),
            "the schema of the output of agent a describes type \"array\", not an object; write {\"type\": \"object\", \"properties\": {...}} or wrap the value in a struct",
        ),
        (
            agent("a")
                .initial_state(keys_that_are_pairs)
                .build()
                .unwrap_err(),
            "the initial state of agent a cannot be used",
        ),
        (
            agent("a").initial_state(f64::NAN).build().unwrap_err(),
            "the initial state of agent a cannot be used",
        ),
        (
            agent("a").initial_state([1, 2]).build().unwrap_err(),
            "the initial state of agent a cannot be used",
        ),
        (
            agent("my agent").build().unwrap_err(),
            "an agent cannot be named \"my agent\"; use 1 to 64 letters, digits, `_` or `-`, beginning with a letter",
        ),
        (
            noop("").build().unwrap_err(),
            "a tool cannot be named \"\"; use 1 to 64 letters, digits, `_` or `-`, beginning with a letter",
        ),
        (
            noop("subagent__x").build().unwrap_err(),
            "a tool cannot be named \"subagent__x\": names like `subagent__` are the framework's own; choose another",
        ),
        (
            noop(FINISH_TOOL).build().unwrap_err(),
            "a tool cannot be named \"__finish__\": names like `__finish__` are the framework's own; choose another",
        ),
        (
            Agent::builder("a").build().unwrap_err(),
            "agent a has no model; name one with `.model(\"provider/model\")`",
        ),
        (
            agent("a").max_steps(0).build().unwrap_err(),
            "agent a: `max_steps` is 0, so it could never answer; use at least 1",
        ),
    ];
    for (error, expected) in cases {
        assert_eq!(error.to_string(), expected);
        assert_eq!(error.code(), ErrorCode::DefinitionInvalid);
    }
    let invalid = schema(json!({"type": "object", "properties": {"a": {"type": "text"}}}));
    let message = invalid.to_string();
    assert!(
        message.starts_with(
            "the schema of the input of tool pick is not valid at `/properties/a/type`"
        ),
        "{message}"
    );
}

#[test]
fn approval_is_asked_for_always_by_rule_and_when_the_rule_fails() {
    let above = |limit: i64| {
        noop("pay").approval_if(move |arguments: Value, _: ToolCx| async move {
            match arguments.get("cents").and_then(Value::as_i64) {
                Some(cents) => Ok(cents > limit),
                None => Err(ToolError::tell_model("no cents")),
            }
        })
    };
    let asks = |tool: &Tool, arguments: Value| block_on(tool.needs_approval(&arguments, &cx()));
    let free = noop("free").build().unwrap();
    let gated = noop("gated").approval().build().unwrap();
    let ruled = above(100).build().unwrap();
    assert!(!asks(&free, json!({})));
    assert!(asks(&gated, json!({})));
    assert!(!asks(&ruled, json!({"cents": 100})));
    assert!(asks(&ruled, json!({"cents": 101})));
    let careless = noop("careless").approval_if(async |_: Value, _: ToolCx| panic!("oops"));
    let careless = careless.build().unwrap();
    assert!(asks(&careless, json!({})), "a rule that panics means: ask");
    assert!(
        asks(&ruled, json!({"cents": "many"})),
        "a rule that fails means: ask"
    );
}

#[test]
fn a_tool_error_goes_to_the_model_or_ends_the_run() {
    let fails = |error: fn() -> ToolError| {
        let schema = json!({"type": "object"});
        let tool = Tool::raw(
            "t",
            "Fails.",
            schema,
            move |_: Value, _: ToolCx| async move { Err::<Value, _>(error()) },
        );
        block_on(tool.build().unwrap().call(json!({}), cx())).unwrap_err()
    };
    let any = fails(|| "x".parse::<u8>().map(|_| ()).unwrap_err().into());
    assert_eq!(
        any.model_text(),
        "The tool failed.",
        "the detail is not the model's business"
    );
    assert_eq!(
        any.to_string(),
        "the tool failed: invalid digit found in string"
    );
    let chosen = fails(|| ToolError::tell_model("order ids look like `42`"));
    assert_eq!(
        (chosen.model_text(), chosen.is_fatal()),
        ("order ids look like `42`", false)
    );
    let boxed = fails(|| ToolError::failed("a text, or a box"));
    assert_eq!(boxed.model_text(), "The tool failed.");
    assert_eq!(boxed.to_string(), "the tool failed: a text, or a box");
    let fatal = fails(|| ToolError::fatal("the vault is gone"));
    assert_eq!(
        (fatal.model_text(), fatal.is_fatal()),
        ("The tool failed.", true)
    );
}

#[derive(Default)]
struct Recorder(std::sync::Mutex<Vec<ToolEvent>>);

impl ToolEvents for Recorder {
    fn emit(&self, _call: &CallId, event: ToolEvent) {
        self.0.lock().unwrap().push(event);
    }
}

#[test]
fn a_tool_reads_and_writes_the_state_and_emits_events() {
    #[derive(Serialize, Deserialize)]
    struct Notes {
        notes: Vec<String>,
    }
    let events = Arc::new(Recorder::default());
    let base = Arc::new(json!({"notes": ["a"], "count": 1}));
    let state = helix_agents_core::shared_state::SharedState::new(base).unwrap();
    let cx = cx_builder()
        .state(state.clone())
        .events(events.clone())
        .step(3)
        .build();
    let act = || -> ToolResult<usize> {
        // A type that knows only a part of the state drops the rest: serde's own rule. A draft does not.
        cx.edit_state(|draft| {
            draft.push("/notes", "b")?;
            draft.increment("/count", 2)
        })?;
        cx.emit("progress", json!({"percent": 50}))?;
        Ok(cx.get_state::<Notes>()?.notes.len())
    };
    assert_eq!(act().unwrap(), 2);
    assert_eq!(
        *state.get().unwrap(),
        json!({"notes": ["a", "b"], "count": 3})
    );
    assert_eq!(state.writes().unwrap().len(), 2);
    let seen = serde_json::to_value(
        events
            .0
            .lock()
            .unwrap()
            .iter()
            .map(|event| match event {
                ToolEvent::StatePatch(patches) => json!(patches),
                ToolEvent::Custom { name, data } => json!([name, data]),
                other => json!(format!("{other:?}")),
            })
            .collect::<Vec<_>>(),
    )
    .unwrap();
    let expected = json!([
        [
            {"op": "add", "path": "/notes/-", "value": "b"},
            {"op": "replace", "path": "/count", "value": 3},
        ],
        ["progress", {"percent": 50}],
    ]);
    assert_eq!(seen, expected);
    assert_eq!(cx.step(), 3);
    assert_eq!(cx.idempotency_key().len(), 64);
}

/// A state change that accesses the state is told to use its draft; it does not hang.
#[test]
fn accessing_the_state_inside_a_change_is_an_error() {
    let cx = cx();
    let outer = cx.clone();
    let error = cx
        .edit_state(|draft| {
            let state = outer.state().get()?;
            draft.set("/copy", &*state)
        })
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the tool failed: the state is being changed by the code that asks for it; use the draft it was given"
    );
    cx.update_state(|state: &mut serde_json::Map<String, Value>| {
        state.insert("after".to_owned(), json!(1));
    })
    .unwrap();
    assert_eq!(*cx.state().get().unwrap(), json!({"after": 1}));
}

#[test]
fn an_abort_wakes_all_waiting_tasks() {
    let handle = helix_agents_core::abort::AbortHandle::new();
    let cx = cx_builder().abort(handle.signal()).build();
    assert!(!cx.abort_signal().is_aborted());
    let waiting = cx.abort_signal().aborted();
    let dropped = cx.abort_signal().aborted();
    drop(dropped);
    std::thread::scope(|scope| {
        scope.spawn(|| block_on(waiting));
        handle.abort();
    });
    assert!(cx.abort_signal().is_aborted());
    block_on(cx.abort_signal().aborted());
}

#[test]
fn hooks_do_nothing_by_default() {
    struct Counting(AtomicUsize);
    #[async_trait::async_trait]
    impl AgentHooks for Counting {
        async fn on_agent_start(&self, payload: &AgentStart<'_>, cx: &HookCx) -> HookResult {
            self.0.fetch_add(payload.input.len(), Ordering::SeqCst);
            cx.edit_state(|draft| draft.increment("/starts", 1))?;
            Ok(())
        }
    }
    let hooks = Counting(AtomicUsize::new(0));
    let state = helix_agents_core::shared_state::SharedState::default();
    let cx = HookCx::builder(SessionId::new("s").unwrap(), RunId::new("r").unwrap())
        .state(state.clone())
        .build();
    let said = [helix_agents_core::message::UserMessage::new("hi")];
    block_on(hooks.on_agent_start(&AgentStart::new(&said, &json!({})), &cx)).unwrap();
    assert_eq!(hooks.0.load(Ordering::SeqCst), 1);
    assert_eq!(*state.get().unwrap(), json!({"starts": 1}));
}

fn plain(name: &str, description: &str) -> Agent {
    Agent::builder(name)
        .model("m")
        .description(description)
        .build()
        .unwrap()
}

fn context() -> AgentContext {
    AgentContext::new(SessionId::new("s7").unwrap())
}

/// proves: AGT-05
#[test]
fn the_registry_finds_agents_by_name() {
    let registry = AgentRegistry::new();
    registry.register(&plain("b", "first")).unwrap();
    registry.register(&plain("a", "other")).unwrap();
    let taken = registry.register(&plain("b", "second")).unwrap_err();
    assert_eq!(
        taken.to_string(),
        "another agent named \"b\" is registered; build an agent once and share its clones, give this \
         one another name, or put it in the other's place with `AgentRegistry::replace`"
    );
    let description = |name| {
        registry
            .resolve(name, &context())
            .unwrap()
            .description()
            .to_owned()
    };
    assert_eq!(description("b"), "first");
    let kept = plain("k", "kept");
    registry.keep(&kept).unwrap();
    registry.keep(&kept).unwrap();
    assert!(registry.keep(&plain("k", "another")).is_err());
    assert_eq!(description("k"), "kept");
    registry.keep_or_spoil(&plain("k", "another"));
    let twice = registry.resolve("k", &context()).unwrap_err();
    assert_eq!(twice.code(), ErrorCode::DefinitionInvalid);
    assert!(registry.unregister("k"));
    assert!(registry.replace(&plain("b", "second")));
    assert!(!registry.replace(&plain("c", "new")));
    assert_eq!(description("b"), "second");
    assert_eq!(registry.names(), ["a", "b", "c"]);

    assert!(registry.unregister("b"));
    assert!(!registry.unregister("b"));
    assert!(!registry.has("b"));
    let error = registry.resolve("b", &context()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "there is no agent named \"b\"; register it, or use one of: a, c"
    );
    assert_eq!(error.code(), ErrorCode::AgentNotFound);
    registry.clear();
    assert_eq!(registry.names(), [""; 0]);
}

/// proves: AGT-05
#[test]
fn a_factory_makes_the_agent_for_its_session() {
    let registry = AgentRegistry::new();
    registry
        .register_factory("tenant", |context| {
            Agent::builder("tenant")
                .model("m")
                .description(context.session_id.as_str())
                .build()
        })
        .unwrap();
    registry
        .register_factory("broken", |_| Agent::builder("broken").build())
        .unwrap();
    registry
        .register_factory("liar", |_| Ok(plain("other", "")))
        .unwrap();
    assert!(registry.get("tenant").is_none(), "only `resolve` makes one");
    assert_eq!(
        registry
            .resolve("tenant", &context())
            .unwrap()
            .description(),
        "s7"
    );
    let broken = registry.resolve("broken", &context()).unwrap_err();
    assert!(matches!(broken, ResolveError::Factory { .. }));
    let liar = registry.resolve("liar", &context()).unwrap_err();
    assert_eq!(
        liar.to_string(),
        "the factory of agent liar made one named other; give both one name"
    );
}

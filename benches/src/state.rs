//! A draft op costs the same whatever the size of the state, and patches come from the ops alone.

use std::sync::Arc;

use helix_agents_core::state::{ArrayMode, Draft, Pointer, StateOp, StepWrites, to_rfc6902};
use serde_json::{Map, Value, json};

use crate::measure::{Report, Subject};

/// A state of about this many bytes: records of 100 bytes under their keys, a list, a counter.
fn state(bytes: usize) -> Arc<Value> {
    let record =
        |n: usize| json!({ "name": format!("record {n:08}"), "note": "x".repeat(50), "n": n });
    let records: Map<String, Value> = (0..bytes / 200)
        .map(|n| (format!("key{n:08}"), record(n)))
        .collect();
    let notes: Vec<Value> = (0..bytes / 200).map(record).collect();
    Arc::new(json!({ "records": records, "notes": notes, "count": 0, "title": "t" }))
}

type Op = (&'static str, fn(&mut Draft));

/// The operations that are measured, each on a draft of its own, as the tools of a step would do.
const OPS: [Op; 4] = [
    ("set", |draft| drop(draft.set("/title", "new"))),
    ("push", |draft| drop(draft.push("/notes", 1))),
    ("increment", |draft| drop(draft.increment("/count", 1))),
    ("set in a record", |draft| {
        drop(draft.set("/records/key00000002/n", 7));
    }),
];

pub(crate) fn run(report: &mut Report) {
    let [small, large] = [state(1_000), state(1_000_000)];
    for (name, op) in OPS {
        let subject = |state: &Arc<Value>| {
            let state = Arc::clone(state);
            move || {
                let mut draft = Draft::new(Arc::clone(&state), ArrayMode::Delta);
                op(&mut draft);
                draft.writes().len()
            }
        };
        report.compare(
            Subject::new(&format!("{name}, 1 KB"), subject(&small)),
            Subject::new(&format!("{name}, 1 MB"), subject(&large)),
            2.0,
        );
    }
    let writes: StepWrites = (0..50).flat_map(ops).collect();
    report.compare(
        Subject::new("200 ops to RFC 6902, 1 KB", || {
            to_rfc6902(&writes, &small).map(|patch| patch.len())
        }),
        Subject::new("200 ops to RFC 6902, 1 MB", || {
            to_rfc6902(&writes, &large).map(|patch| patch.len())
        }),
        2.0,
    );
}

fn ops(n: u32) -> [StateOp; 4] {
    let path = |key: String| Pointer::root().join(&key);
    [
        StateOp::Append {
            path: path("notes".to_owned()),
            value: json!(n),
        },
        StateOp::Replace {
            path: path(format!("title{n}")),
            value: json!(n),
        },
        StateOp::Increment {
            path: path("count".to_owned()),
            by: 1.into(),
        },
        StateOp::Replace {
            path: path("title".to_owned()),
            value: json!(n),
        },
    ]
}

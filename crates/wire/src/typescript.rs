//! The TypeScript types of the front-end package are made from these types, and held to them.

use std::fmt::Write as _;

use ts_rs::{Config, TS};

use crate::data::{Kept, SubagentTool, declared};
use crate::{
    DataChunk, DataPart, FinishReason, PendingView, Snapshot, SnapshotError, SnapshotStatus,
    ToolApproval, ToolState, UiChunk, UiMessage, UiMessages, UiPart, UiRole,
};

const PATH: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../packages/ai-sdk/src/generated.ts"
);

const HEAD: &str = "\
// Made from crates/wire by `HELIX_WRITE_TYPES=1 cargo test -p helix-agents-wire typescript`. Do not edit.

/** Any JSON value. */
export type JsonValue = unknown;

/** A change of a document: an operation of RFC 6902. */
export type PatchOperation = { op: 'add' | 'remove' | 'replace'; path: string; value?: unknown };
";

/// One comment per line, and no spaces at the ends of lines.
fn tidy(declaration: &str) -> String {
    let text = declaration.replace("Record<symbol, never>", "Record<string, never>");
    let text = text
        .replace("/**\n * ", "  /** ")
        .replace("\n */\n", " */\n  ");
    let lines: Vec<_> = text.lines().map(str::trim_end).collect();
    lines.join("\n")
}

fn generated() -> String {
    let config = Config::new().with_large_int("number");
    let mut text = HEAD.to_owned();
    let mut declare = |declaration: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\nexport {}", tidy(&declaration));
    };
    declare(UiChunk::decl(&config));
    declare(DataChunk::decl(&config));
    declare(FinishReason::decl(&config));
    declare(UiMessage::decl(&config));
    declare(UiRole::decl(&config));
    declare(UiPart::decl(&config));
    declare(DataPart::decl(&config));
    declare(ToolState::decl(&config));
    declare(ToolApproval::decl(&config));
    declare(UiMessages::decl(&config));
    declare(Snapshot::decl(&config));
    declare(SnapshotStatus::decl(&config));
    declare(SnapshotError::decl(&config));
    declare(PendingView::decl(&config));
    declare(SubagentTool::decl(&config));
    let all = declared(&config);
    for (_, _, _, declaration) in &all {
        declare(declaration.clone());
    }
    for (kept, title, about) in [
        (Kept::InMessage, "KeptData", "that stay in the message"),
        (
            Kept::Transient,
            "TransientData",
            "that only `onData` is told",
        ),
    ] {
        let _ = writeln!(
            text,
            "\n/** Our data {about}, by the name after `data-`. */\nexport type {title} = {{"
        );
        for (name, _, of, _) in all.iter().filter(|one| one.1 == kept) {
            let _ = writeln!(text, "  '{name}': {of};");
        }
        let more = match kept {
            Kept::InMessage => "  'output': unknown;\n};",
            Kept::Transient => "  'pending': Array<PendingView>;\n};",
        };
        let _ = writeln!(text, "{more}");
    }
    text
}

/// proves in part: RCT-01
#[test]
fn the_types_of_the_front_end_package_are_these() {
    let now = generated();
    if std::env::var_os("HELIX_WRITE_TYPES").is_some() {
        std::fs::write(PATH, &now).unwrap();
    }
    let kept = std::fs::read_to_string(PATH).unwrap_or_default();
    let remedy =
        "run this test with HELIX_WRITE_TYPES=1, and commit packages/ai-sdk/src/generated.ts";
    assert!(kept == now, "the types have changed: {remedy}");
}

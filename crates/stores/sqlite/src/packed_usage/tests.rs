use serde_json::json;

use super::*;

/// Rows that were written stay readable: these texts are never changed, only joined by others when
/// the version is raised.
const FIRST: &str = concat!(
    r#"[["c1:0",1,3,5,1,"add",true,8],["c2:0","other",3,5,1,"add",false,9],"#,
    r#"["u1",1,3,5,0,"a/b",10,20],["u2",1,3,5,0,"a/b",10,20,null,4],"#,
    r#"{"id":"u3","runId":"r1","step":3,"timestamp":5,"kind":"custom","name":"x","quantity":1.5}]"#
);

const SECOND: &str = concat!(
    r#"[2,1,3,1794807463519,[1,"c1:0","add",8],[0,"~18Q1cBIR8kkWW2","a/b",10,20],"#,
    r#"{"id":"u3","runId":"r1","step":3,"timestamp":1794807463519,"kind":"custom","name":"x","quantity":1.5},"#,
    r#"{"id":"c2:0","runId":"other","step":3,"timestamp":1794807463519,"kind":"tool","name":"new","success":false,"durationMs":9},"#,
    r#"4,[1,"c3:0",0,9,0],[0,"u4",1,10,20,null,4],[1,"c4:0","new",0],[1,"c5:0",2,0],-7,[1,"c6:0",0,0]]"#
);

const TIME: u64 = 1_794_807_463_519;

fn run_of(number: RunNumber) -> Result<RunId, OperationError> {
    Ok(match number {
        RunNumber::Number(number) => RunId::new(format!("r{number}")).unwrap(),
        RunNumber::Id(id) => id,
    })
}

fn entry(id: &str, run: &str, (step, time): (u32, u64), kind: &Value) -> UsageEntry {
    let mut entry = json!({ "id": id, "runId": run, "step": step, "timestamp": time });
    let fields = entry.as_object_mut().unwrap();
    fields.extend(kind.as_object().unwrap().clone());
    serde_json::from_value(entry).unwrap()
}

fn tool(name: &str, success: bool, duration: u64) -> Value {
    json!({ "kind": "tool", "name": name, "success": success, "durationMs": duration })
}

fn model(reasoning: Option<u64>) -> Value {
    let mut tokens = TokenUsage::new(10, 20);
    tokens.reasoning = reasoning;
    json!({ "kind": "tokens", "model": "a/b", "tokens": tokens })
}

fn custom() -> Value {
    json!({ "kind": "custom", "name": "x", "quantity": 1.5 })
}

#[test]
fn rows_of_the_first_format_are_read() {
    let at = (3, 5);
    let expected = [
        entry("c1:0", "r1", at, &tool("add", true, 8)),
        entry("c2:0", "other", at, &tool("add", false, 9)),
        entry("u1", "r1", at, &model(None)),
        entry("u2", "r1", at, &model(Some(4))),
        entry("u3", "r1", at, &custom()),
    ];
    assert_eq!(unpack(FIRST, run_of).unwrap(), expected);
}

#[test]
fn rows_of_the_second_format_are_read_and_written_unchanged() {
    let (at, next) = ((3, TIME), (4, TIME + 4));
    let before = [
        entry("c1:0", "r1", at, &tool("add", true, 8)),
        entry(
            "usage-01a1e2dc7e617486a0672d26c8bef820",
            "r1",
            at,
            &model(None),
        ),
        entry("u3", "r1", at, &custom()),
        entry("c2:0", "other", at, &tool("new", false, 9)),
    ];
    let after = [
        entry("c3:0", "r1", next, &tool("add", false, 9)),
        entry("u4", "r1", next, &model(Some(4))),
        entry("c4:0", "r1", next, &tool("new", true, 0)),
    ];
    let same = [entry("c5:0", "r1", next, &tool("new", true, 0))];
    let later = [entry("c6:0", "r1", (4, TIME + 11), &tool("add", true, 0))];
    let mut row = PackedUsage::new(&RunNumber::Number(1), &before[0], &before).unwrap();
    for entries in [&after[..], &same, &later] {
        assert!(row.extend(entries).unwrap());
    }
    assert_eq!((row.text().as_str(), row.count()), (SECOND, 9));
    let all = before.into_iter().chain(after).chain(same).chain(later);
    let expected: Vec<_> = all.collect();
    assert_eq!(unpack(SECOND, run_of).unwrap(), expected);
}

#[test]
fn a_row_takes_only_its_step_and_the_next_until_it_is_full() {
    let one = |run: &str, step: u32, time: u64| [entry("u", run, (step, time), &model(None))];
    let first = one("r1", 3, TIME);
    let mut row = PackedUsage::new(&RunNumber::Number(1), &first[0], &first).unwrap();
    let text = row.text();
    for other in [
        one("r2", 4, TIME),
        one("r1", 2, TIME),
        one("r1", 5, TIME),
        one("r1", 4, TIME - 1),
        one("r1", 4, u64::MAX),
    ] {
        assert!(!row.extend(&other).unwrap());
    }
    assert_eq!(row.text(), text);
    let taken = (4..).take_while(|step| row.extend(&one("r1", *step, TIME)).unwrap());
    let taken = taken.count();
    assert_eq!(row.count(), taken + 1);
    assert!((FULL..FULL + 100).contains(&row.text().len()), "{taken}");
}

#[test]
fn a_broken_row_is_not_read() {
    for broken in [
        SECOND.replacen("[2,", "[3,", 1),
        SECOND.replacen("[1,", "[7,", 1),
        SECOND.replacen("\"c3:0\",0", "\"c3:0\",5", 1),
        SECOND.replacen("~18Q", "~!8Q", 1),
        SECOND.replacen(",4,[", ",4.5,[", 1),
        FIRST.replacen(",5,1,", ",5,7,", 1),
    ] {
        assert!(unpack(&broken, run_of).is_err(), "{broken}");
    }
}

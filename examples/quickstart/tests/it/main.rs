//! The example prints what its documentation promises.

use std::process::Command;

const OUTPUT: &str = r#"customer: Order 42 arrived broken.
agent: I am sorry. Let me look at the order.
  -> find_order({"order_id":"42"})
  <- {"item":"a teapot","paid_cents":4900}
agent: It was paid in full, so I would refund all of it.
  (paused: nothing runs, all is stored)

may it refund({"cents":4900,"order_id":"42"})?
  yes, says this program; you would ask somebody

  -> refund({"cents":4900,"order_id":"42"})
  <- "refunded 4900 cents of order 42"
agent: The money is on its way.

result: refunded 4900 cents of order 42
refunded: 4900 cents
used: 710 tokens in, 83 out, 2 tool calls
"#;

#[test]
fn the_example_pauses_is_answered_and_resumes() {
    let temporary = tempfile::tempdir().unwrap();
    let mut example = Command::new(env!("CARGO_BIN_EXE_quickstart"));
    let run = example.env("TMPDIR", temporary.path()).output().unwrap();
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{errors}");
    assert_eq!(String::from_utf8_lossy(&run.stdout), OUTPUT);
    let left = std::fs::read_dir(temporary.path()).unwrap().count();
    assert_eq!(left, 0, "its folder is removed");
}

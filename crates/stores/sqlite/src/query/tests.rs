//! Every query uses an index, as its query plan shows.

use helix_agents_core::session::SessionStatus;
use helix_agents_core::time::Timestamp;

use super::*;
use crate::config::SqliteConfig;
use crate::connection;

/// The steps of the query plan of a statement.
fn steps(conn: &Connection, sql: &str, values: usize) -> Vec<String> {
    let mut statement = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let values = vec![SqlValue::Integer(0); values];
    let steps = statement.query_map(params_from_iter(values), |row| row.get(3));
    steps.unwrap().map(Result::unwrap).collect()
}

/// Whether a step sorts rows, or scans a whole table.
fn is_slow(step: &str) -> bool {
    let scans = step.starts_with("SCAN ") && !step.contains(" USING ");
    scans || step.contains("TEMP B-TREE")
}

fn queries() -> Vec<SessionQuery> {
    let any = SessionQuery::default;
    let mut all = vec![any()];
    // Each filter alone and with each of those before it.
    let filters: [fn(&mut SessionQuery); 8] = [
        |query| query.user_id = Some("u".parse().unwrap()),
        |query| query.agent_type = Some("a".to_owned()),
        |query| query.status = vec![SessionStatus::Active],
        |query| query.status = vec![SessionStatus::Active, SessionStatus::Failed],
        |query| query.parent = ParentFilter::Of("p".parse().unwrap()),
        |query| query.parent = ParentFilter::Roots,
        |query| query.tags = vec!["t".to_owned(), "u".to_owned()],
        |query| query.metadata = [("k".to_owned(), "v".to_owned())].into(),
    ];
    for filter in filters {
        for mut query in all.clone() {
            filter(&mut query);
            all.push(query);
        }
    }
    let bounded = all.iter().cloned().map(|mut query| {
        query.from = Some(Timestamp::from_millis(1));
        query.to = Some(Timestamp::from_millis(2));
        query
    });
    let bounded: Vec<_> = bounded.collect();
    all.extend(bounded);
    all
}

/// proves: SES-13
#[test]
fn every_list_comes_out_of_an_index_in_its_order() {
    let conn = connection::memory(&SqliteConfig::new()).unwrap();
    for query in queries() {
        let source = source(&query).unwrap();
        let (sql, values) = (source.filter.sql(), source.filter.values.len());
        let (from, order) = (source.from, source.order);
        let list = format!("SELECT header FROM {from}{sql} ORDER BY {order} LIMIT 1");
        let count = format!("SELECT count(*) FROM {}{sql}", source.count_from);
        for sql in [list, count] {
            let steps = steps(&conn, &sql, values);
            assert!(!steps.iter().any(|step| is_slow(step)), "{sql}\n{steps:#?}");
        }
    }
}

#[test]
fn pending_calls_come_out_of_an_index() {
    let conn = connection::memory(&SqliteConfig::new()).unwrap();
    for (sql, values) in [
        (
            "SELECT data FROM pending WHERE open = 1 ORDER BY created, name, call",
            0,
        ),
        (
            "SELECT data FROM pending WHERE open = 1 AND user = ? ORDER BY created, name, call",
            1,
        ),
        (
            "SELECT data FROM pending WHERE open = 1 AND root = ? ORDER BY created, name, call",
            1,
        ),
    ] {
        let steps = steps(&conn, sql, values);
        let slow: Vec<_> = steps.iter().filter(|step| is_slow(step)).collect();
        assert!(slow.is_empty(), "{sql}\n{steps:#?}");
    }
}

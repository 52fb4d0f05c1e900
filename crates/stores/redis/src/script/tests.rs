use super::*;

fn shown(transaction: Transaction) -> String {
    let arguments = transaction.arguments().0.into_iter();
    let words: Vec<_> = arguments
        .map(|word| String::from_utf8(word).unwrap())
        .collect();
    words.join(" ")
}

#[test]
fn what_is_added_to_a_key_is_one_command() {
    let mut transaction = Transaction::new(Shard(0));
    transaction.set("documents", "a", "1");
    transaction.command(words!["ZADD", "runs", "NX", "7", "r"]);
    transaction.set("documents", "b", "2");
    for entry in ["x", "y"] {
        transaction.command(words!["RPUSH", "usage", entry]);
    }
    for (score, member) in [("8", "c"), ("9", "d")] {
        transaction.command(words!["ZADD", "checkpoints", score, member]);
    }
    assert_eq!(
        shown(transaction),
        " 0 6 HSET documents a 1 b 2 5 ZADD runs NX 7 r 4 RPUSH usage x y 6 ZADD checkpoints 8 c 9 d"
    );
}

#[test]
fn what_stands_between_two_commands_keeps_them_apart() {
    let between: [fn(&mut Transaction); 4] = [
        |transaction| transaction.command(words!["HDEL", "k", "a"]),
        |transaction| transaction.command(words!["UNLINK", "other", "k"]),
        |transaction| transaction.note_end("k", 1, "root"),
        |transaction| transaction.append("k", 1, "c", "[]".to_owned()),
    ];
    for add in between {
        let mut transaction = Transaction::new(Shard(0));
        transaction.set("k", "a", "1");
        add(&mut transaction);
        transaction.set("k", "a", "2");
        let text = shown(transaction);
        assert_eq!(text.matches("4 HSET k a").count(), 2, "{text}");
    }
    let mut transaction = Transaction::new(Shard(0));
    transaction.command(words!["ZADD", "k", "1", "a"]);
    transaction.command(words!["ZADD", "k", "NX", "2", "b"]);
    transaction.command(words!["ZADD", "k", "3", "c"]);
    assert_eq!(
        shown(transaction),
        " 0 4 ZADD k 1 a 5 ZADD k NX 2 b 4 ZADD k 3 c"
    );
}

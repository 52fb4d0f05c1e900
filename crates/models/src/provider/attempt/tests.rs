use tokio::sync::mpsc;

use super::*;

#[tokio::test]
async fn what_a_task_sends_as_soon_as_it_can_is_at_hand() {
    let (sender, mut receiver) = mpsc::channel(1);
    // As a connection: it has one piece under way, and waits until that is taken.
    let sending = tokio::spawn(async move {
        for piece in 0..5 {
            sender.send(piece).await.unwrap();
        }
        sender
    });
    let mut pieces = vec![receiver.recv().await.unwrap()];
    while let Some(piece) = at_hand(receiver.recv()).await {
        pieces.extend(piece);
    }
    assert_eq!(pieces, [0, 1, 2, 3, 4]);
    drop(sending.await.unwrap());
    assert_eq!(receiver.recv().await, None);
}

#[tokio::test]
async fn events_are_given_one_by_one_and_then_the_error() {
    let text = |text: &str| ModelEvent::Text(text.to_owned());
    let broken = || ModelError::new(ModelErrorKind::Transport, "broken");
    let batches = [
        Ok(VecDeque::from([text("a"), text("b")])),
        Ok(VecDeque::from([text("c")])),
        Err(broken()),
    ];
    let events = Events {
        ready: VecDeque::new(),
        batches: Box::pin(stream::iter(batches)),
    };
    let given: Vec<_> = futures_util::StreamExt::collect(events).await;
    let given: Vec<_> = given
        .into_iter()
        .map(|one| one.map_err(|error| error.kind))
        .collect();
    let expected = [
        Ok(text("a")),
        Ok(text("b")),
        Ok(text("c")),
        Err(ModelErrorKind::Transport),
    ];
    assert_eq!(given, expected);
}

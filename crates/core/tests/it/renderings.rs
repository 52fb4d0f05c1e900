use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use helix_agents_core::Transcript;
use helix_agents_core::message::{Message, UserMessage};
use helix_agents_core::model::{MessageFormat, ModelError, ModelErrorKind};
use helix_agents_core::transcript::PairedStep;
use proptest::prelude::*;

use crate::make::{calling, result};

/// One letter a message, with its role, and a sign in front of it. Counts what it renders.
#[derive(Debug, Clone)]
struct Letters {
    sign: char,
    rendered: Arc<AtomicUsize>,
}

impl Letters {
    fn new(sign: char) -> Self {
        Self {
            sign,
            rendered: Arc::default(),
        }
    }

    /// How many messages were rendered since the last time somebody asked.
    fn count(&self) -> usize {
        self.rendered.swap(0, Ordering::SeqCst)
    }
}

impl PartialEq for Letters {
    fn eq(&self, other: &Self) -> bool {
        self.sign == other.sign
    }
}

impl MessageFormat for Letters {
    fn render(
        &self,
        message: &Message,
        previous: Option<&Message>,
        out: &mut Vec<u8>,
    ) -> Result<(), ModelError> {
        self.rendered.fetch_add(1, Ordering::SeqCst);
        assert!(out.is_empty(), "the bytes of others are not in reach");
        let joined = matches!(
            (previous, message),
            (Some(Message::Tool(_)), Message::Tool(_))
        );
        if !joined {
            out.extend(self.sign.to_string().as_bytes());
        }
        match message {
            Message::User(user) if user.content == "!" => {
                out.extend(b"half");
                return Err(ModelError::new(
                    ModelErrorKind::Invalid,
                    "not in this format",
                ));
            }
            Message::User(user) => out.extend(user.content.as_bytes()),
            Message::Assistant(reply) => {
                out.extend(reply.tool_calls().flat_map(|call| call.id.as_str().bytes()));
            }
            Message::Tool(result) => out.extend(result.tool_call_id.as_str().bytes()),
            _ => {}
        }
        Ok(())
    }
}

fn rendered(history: &Transcript, format: &impl MessageFormat) -> String {
    let mut body = b"[".to_vec();
    history.render_into(format, &mut body).unwrap();
    String::from_utf8(body).unwrap().split_off(1)
}

fn say(history: &mut Transcript, text: &str) {
    history.push_user(UserMessage::new(text));
}

fn step(history: &mut Transcript, ids: &[&str]) {
    let step = PairedStep::new(calling(ids), ids.iter().map(|id| result(id))).unwrap();
    history.push_step(step).unwrap();
}

#[test]
fn a_message_is_rendered_once_and_not_again_for_every_request() {
    let format = Letters::new('-');
    let mut history = Transcript::new();
    assert_eq!(rendered(&history, &format), "");
    say(&mut history, "a");
    assert_eq!(rendered(&history, &format), "-a");
    step(&mut history, &["x", "y"]);
    assert_eq!(
        (rendered(&history, &format), format.count()),
        ("-a-xy-xy".into(), 4)
    );
    assert_eq!(
        (rendered(&history.clone(), &format), format.count()),
        ("-a-xy-xy".into(), 0)
    );
    say(&mut history, "b");
    assert_eq!(
        (rendered(&history, &format), format.count()),
        ("-a-xy-xy-b".into(), 1)
    );
}

#[test]
fn a_rewound_conversation_is_rendered_as_it_is_then() {
    let format = Letters::new('-');
    let mut history = Transcript::new();
    say(&mut history, "a");
    step(&mut history, &["x", "y"]);
    say(&mut history, "b");
    let before = history.clone();
    assert_eq!(rendered(&history, &format), "-a-xy-xy-b");
    format.count();
    history.truncate(3);
    assert_eq!(
        (rendered(&history, &format), format.count()),
        ("-a".into(), 0)
    );
    say(&mut history, "c");
    assert_eq!(rendered(&history, &format), "-a-c");
    assert_eq!(rendered(&before, &format), "-a-xy-xy-b");
}

#[test]
fn two_branches_of_a_conversation_do_not_share_what_differs() {
    let format = Letters::new('-');
    let mut one = Transcript::new();
    say(&mut one, "a");
    let mut other = one.clone();
    say(&mut one, "b");
    say(&mut other, "c");
    assert_eq!(rendered(&one, &format), "-a-b");
    assert_eq!(rendered(&other, &format), "-a-c");
    say(&mut other, "d");
    say(&mut one, "e");
    assert_eq!(rendered(&other, &format), "-a-c-d");
    assert_eq!(rendered(&one, &format), "-a-b-e");
}

#[test]
fn a_healed_history_is_rendered_with_what_was_added() {
    let (history, healed) = Transcript::load([
        Message::User(UserMessage::new("a")),
        Message::Assistant(calling(&["x", "y"])),
        Message::Tool(result("y")),
    ]);
    assert_eq!(healed.len(), 1);
    assert_eq!(rendered(&history, &Letters::new('-')), "-a-xy-xy");
}

#[test]
fn equal_formats_share_what_is_rendered_and_others_do_not() {
    #[derive(Debug, Clone, PartialEq)]
    struct Count;
    impl MessageFormat for Count {
        fn render(
            &self,
            _: &Message,
            _: Option<&Message>,
            out: &mut Vec<u8>,
        ) -> Result<(), ModelError> {
            out.push(b'1');
            Ok(())
        }
    }

    let formats = ['-', '+', '*'].map(Letters::new);
    let [minus, plus, star] = &formats;
    let same = Letters::new('-');
    let mut history = Transcript::new();
    say(&mut history, "a");
    assert_eq!(rendered(&history, minus), "-a");
    assert_eq!((rendered(&history, &same), same.count()), ("-a".into(), 0));
    assert_eq!(rendered(&history, plus), "+a");
    assert_eq!(rendered(&history, &Count), "1");
    say(&mut history, "b");
    for (format, expected) in [(minus, "-a-b"), (plus, "+a+b"), (star, "*a*b")] {
        assert_eq!(rendered(&history, format), expected);
    }
    assert_eq!(rendered(&history, &Count), "11");
}

#[test]
fn a_model_and_its_stand_in_take_turns_without_rendering_again() {
    let [one, other] = ['-', '+'].map(Letters::new);
    let mut history = Transcript::new();
    for text in ["a", "b", "c"] {
        say(&mut history, text);
        rendered(&history, &one);
        rendered(&history, &other);
        assert_eq!((one.count(), other.count()), (1, 1), "{text}");
    }
}

/// A format holds on to what is dropped with it: nothing is left when nobody has the conversation.
#[test]
fn bytes_are_kept_as_long_as_somebody_has_the_conversation() {
    let format = Letters::new('-');
    let mut history = Transcript::new();
    say(&mut history, "a");
    rendered(&history, &format);
    assert_eq!(Arc::strong_count(&format.rendered), 2);
    drop(history);
    assert_eq!(Arc::strong_count(&format.rendered), 1);
}

#[test]
fn a_message_that_cannot_be_rendered_leaves_nothing_behind() {
    let format = Letters::new('-');
    let mut history = Transcript::new();
    say(&mut history, "a");
    let good = history.clone();
    say(&mut history, "!");
    for _ in 0..2 {
        let mut body = b"[".to_vec();
        let error = history.render_into(&format, &mut body).unwrap_err();
        assert_eq!(
            (error.kind, body.as_slice()),
            (ModelErrorKind::Invalid, &b"["[..])
        );
    }
    assert_eq!(rendered(&good, &format), "-a");
}

#[test]
fn a_format_may_render_the_conversation_that_it_is_asked_for() {
    static HISTORY: OnceLock<Transcript> = OnceLock::new();

    #[derive(Clone, PartialEq)]
    struct Nested(Letters);
    impl MessageFormat for Nested {
        fn render(
            &self,
            message: &Message,
            previous: Option<&Message>,
            out: &mut Vec<u8>,
        ) -> Result<(), ModelError> {
            out.extend(rendered(HISTORY.get().unwrap(), &self.0).into_bytes());
            out.push(b'/');
            let mut piece = Vec::new();
            self.0.render(message, previous, &mut piece)?;
            out.append(&mut piece);
            Ok(())
        }
    }

    let mut history = Transcript::new();
    say(&mut history, "a");
    let history = HISTORY.get_or_init(|| history);
    assert_eq!(rendered(history, &Nested(Letters::new('-'))), "-a/-a");
}

#[test]
fn runs_that_render_at_once_get_the_same_bytes() {
    let format = Letters::new('-');
    let mut history = Transcript::new();
    for round in 0..50 {
        say(&mut history, "a");
        step(&mut history, &[&format!("x{round}")]);
        let expected = rendered_apart(&history);
        let start = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    start.wait();
                    assert_eq!(rendered(&history, &format), expected);
                });
            }
        });
    }
}

/// What a format gives that was never used before.
fn rendered_apart(history: &Transcript) -> String {
    let (fresh, healed) = Transcript::load(history.iter().cloned());
    assert_eq!(healed, []);
    rendered(&fresh, &Letters::new('-'))
}

proptest! {
    /// Whatever is appended, cut off and rendered in between by whichever clone.
    #[test]
    fn every_clone_is_rendered_as_if_it_were_alone(
        moves in prop::collection::vec((0usize..4, 0usize..5, 0usize..8), 1..40),
    ) {
        let formats = ['-', '+', '*'].map(Letters::new);
        let mut clones = vec![Transcript::new()];
        for (at, (what, which, count)) in moves.into_iter().enumerate() {
            let which = which % clones.len();
            let name = format!("m{at}.");
            match what {
                0 => say(&mut clones[which], &name),
                1 => step(&mut clones[which], &[&name, &format!("{name}b.")]),
                2 => clones[which].truncate(count),
                _ => {
                    let clone = clones[which].clone();
                    clones.push(clone);
                }
            }
            let history = &clones[which];
            let minus = rendered(history, &formats[0]);
            prop_assert_eq!(&minus, &rendered_apart(history));
            let again = rendered(history, &formats[count % 3]);
            prop_assert_eq!(again.replace(['+', '*'], "-"), minus);
        }
    }
}

//! Tests of building a server: authentication, tokens and origins.

use axum::http::request::Parts;
use helix_agents_core::memory::MemoryStore;
use helix_agents_server::{
    BuildError, Operation, Principal, Refusal, Server, TokenError, Tokens, router,
};
use std::sync::{Arc, Mutex};
use tower::ServiceExt;

use crate::kit::{ALICE, Answer, Outside, Place, builder, request, runtime, tokens};

/// proves: SRV-03
#[tokio::test]
async fn a_server_without_authentication_is_built_only_if_that_is_stated() {
    let runtime = runtime(MemoryStore::new(), &Outside::new());
    let bare = Server::builder(Arc::new(runtime.clone()));
    assert_eq!(bare.build().unwrap_err(), BuildError::NoAuthentication);
    let both = builder(&runtime).authenticate(tokens());
    let both = both.allow_unauthenticated().build();
    assert_eq!(both.unwrap_err(), BuildError::BothWays);
    assert!(builder(&runtime).allow_unauthenticated().build().is_ok());
    assert!(builder(&runtime).authenticate(tokens()).build().is_ok());
}

/// proves: SRV-03
#[tokio::test]
async fn the_hooks_see_every_operation_once() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let runtime = runtime(MemoryStore::new(), &Outside::new());
    let (who, may) = (Arc::clone(&seen), Arc::clone(&seen));
    let server = builder(&runtime)
        .authenticate(move |_: &Parts, operation: Operation| {
            who.lock().unwrap().push(format!("who {operation}"));
            Ok(Principal::anonymous().admin())
        })
        .authorize(
            move |_: &Principal, access: &helix_agents_server::Access<'_>| {
                may.lock()
                    .unwrap()
                    .push(format!("may {}", access.operation));
                Ok(())
            },
        )
        .build()
        .unwrap();
    let place = Place {
        app: server.router(),
        outside: Outside::new(),
        runtime,
    };
    place.ended("hello").await;
    seen.lock().unwrap().clear();
    // Deleting is last, so that every other operation finds the session.
    let last = |operation: &&Operation| **operation == Operation::DeleteSession;
    let (deletes, others): (Vec<&Operation>, Vec<_>) = Operation::ALL.iter().partition(last);
    for operation in others.into_iter().chain(deletes) {
        crate::access::call(&place, ALICE, *operation, "s").await;
        let calls = std::mem::take(&mut *seen.lock().unwrap());
        assert_eq!(
            calls,
            [format!("who {operation}"), format!("may {operation}")]
        );
    }
}

#[tokio::test]
async fn a_refusal_of_a_hook_becomes_its_response() {
    let refusals = [
        (
            Refusal::Unauthenticated("no".into()),
            401,
            "UNAUTHENTICATED",
        ),
        (Refusal::Forbidden("no".into()), 403, "FORBIDDEN"),
        (Refusal::RateLimited("slowly".into()), 429, "RATE_LIMITED"),
    ];
    for (refusal, status, code) in refusals {
        let runtime = runtime(MemoryStore::new(), &Outside::new());
        let refuses = refusal.clone();
        let hook = move |_: &Parts, _: Operation| Err(refuses.clone());
        let by_name = builder(&runtime).authenticate(hook).build().unwrap();
        let hook = move |_: &Principal, _: &helix_agents_server::Access<'_>| Err(refusal.clone());
        let by_right = builder(&runtime).authenticate(tokens()).authorize(hook);
        for server in [by_name, by_right.build().unwrap()] {
            let asked = request(ALICE, "GET", "/sessions", None);
            let answer = Answer::of(server.router().oneshot(asked).await.unwrap()).await;
            answer.is(status, code);
        }
    }
}

#[test]
fn unsafe_tokens_are_refused() {
    let user = || "alice".to_owned();
    let empty = Tokens::new().token("", "alice");
    assert_eq!(empty.unwrap_err(), TokenError::Empty { user: user() });
    for blank in [" ", "\n", "\t \r\n"] {
        let blank = Tokens::new().token(blank, "alice");
        assert_eq!(blank.unwrap_err(), TokenError::Empty { user: user() });
    }
    for broken in ["a\nb", "a\u{7f}b", "schlüssel"] {
        let broken = Tokens::new().token(broken, "alice");
        assert_eq!(
            broken.unwrap_err(),
            TokenError::NotSendable { user: user() }
        );
    }
    let digest = Tokens::new().sha256("abc", "alice");
    assert_eq!(digest.unwrap_err(), TokenError::NotADigest { user: user() });
    assert!(Tokens::new().token("t", "no such id!").is_err());
    let twice = Tokens::new().token("t", "alice").unwrap();
    assert_eq!(
        twice.token("t", "bob").unwrap_err().to_string(),
        "the tokens of users alice and bob are the same; give each a token of its own"
    );
}

/// The shortest server: its tokens are in the environment.
#[tokio::test]
async fn the_routes_of_a_runtime_know_the_tokens_of_the_environment() {
    let vars = |vars: &[(&str, &str)]| {
        let vars = vars.iter();
        Tokens::from_vars(vars.map(|(name, token)| ((*name).to_owned(), (*token).to_owned())))
    };
    let none = vars(&[("PATH", "/bin"), ("HELIX_TOKENS", "x")]).unwrap_err();
    assert_eq!(none, TokenError::NoneInEnvironment);
    assert!(none.to_string().contains("HELIX_TOKEN_ALICE"), "{none}");
    let user = "alice".to_owned();
    let blank = vars(&[("HELIX_TOKEN_ALICE", " ")]).unwrap_err();
    assert_eq!(blank, TokenError::Empty { user });

    let tokens = vars(&[("HELIX_TOKEN_ALICE", "alice's token"), ("PATH", "/bin")]);
    let runtime = runtime(MemoryStore::new(), &Outside::new());
    let routes = router(runtime, tokens.unwrap());
    let app = axum::Router::new().nest("/agents", routes);
    let asked = request(ALICE, "GET", "/agents/sessions", None);
    let answer = app.clone().oneshot(asked).await.unwrap();
    Answer::of(answer).await.ok();
    let stranger = request(Some("somebody's token"), "GET", "/agents/sessions", None);
    let answer = app.oneshot(stranger).await.unwrap();
    assert_eq!(answer.status(), axum::http::StatusCode::UNAUTHORIZED);
}

/// A token from a file ends with a line break, which no header can carry.
#[tokio::test]
async fn white_space_around_a_token_is_not_part_of_it() {
    let runtime = runtime(MemoryStore::new(), &Outside::new());
    let tokens = Tokens::new().token(" alice's token\n", "alice");
    let server = builder(&runtime).authenticate(tokens.unwrap());
    let asked = request(ALICE, "GET", "/sessions", None);
    let router = server.build().unwrap().router();
    let answer = Answer::of(router.oneshot(asked).await.unwrap()).await;
    answer.ok();
}

#[tokio::test]
async fn a_token_can_be_given_by_its_digest() {
    // The SHA-256 of `alice's token`.
    let hex = sha256_hex("alice's token");
    let tokens = Tokens::new().sha256(&hex, "alice").unwrap();
    let runtime = runtime(MemoryStore::new(), &Outside::new());
    let server = builder(&runtime).authenticate(tokens).build().unwrap();
    let asked = request(ALICE, "GET", "/sessions", None);
    let answer = Answer::of(server.router().oneshot(asked).await.unwrap()).await;
    answer.ok();
}

fn sha256_hex(text: &str) -> String {
    use sha2::Digest;
    let digest = sha2::Sha256::digest(text.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn an_origin_with_a_path_is_refused() {
    let runtime = runtime(MemoryStore::new(), &Outside::new());
    for origin in ["https://example.com/", "example.com", "https://a/b", "null"] {
        let built = builder(&runtime)
            .authenticate(tokens())
            .cors_origin(origin)
            .build();
        let origin = origin.to_owned();
        assert_eq!(built.unwrap_err(), BuildError::NotAnOrigin { origin });
    }
}

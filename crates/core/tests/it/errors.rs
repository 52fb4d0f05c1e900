use std::collections::HashSet;
use std::time::Duration;

use helix_agents_core::error::Category;
use helix_agents_core::model::{ModelError, ModelErrorKind};
use helix_agents_core::{Coded, ErrorCode, ErrorRecord};

#[test]
fn every_code_has_its_own_name_and_a_sentence_for_users() {
    let names: HashSet<_> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(names.len(), ErrorCode::ALL.len());
    for code in ErrorCode::ALL {
        let sentence = code.user_message();
        assert!(sentence.ends_with('.'), "{code}: {sentence}");
        let json = serde_json::to_value(code).unwrap();
        assert_eq!(json, code.as_str());
        assert_eq!(serde_json::from_value::<ErrorCode>(json).unwrap(), *code);
    }
}

#[test]
fn a_model_error_keeps_its_detail_from_users() {
    let error = ModelError::new(ModelErrorKind::RateLimited, "429 from key sk-secret")
        .retry_after(Duration::from_millis(10));
    assert_eq!(error.retry_after, Some(Duration::from_millis(10)));
    let record = error.to_record();
    let mut expected = ErrorRecord::new(
        ErrorCode::ProviderRateLimited,
        "the model call failed (RateLimited): 429 from key sk-secret",
    );
    assert_eq!(record, expected);
    assert_eq!(record.category, Category::Provider);
    assert!(record.retryable);
    assert!(!record.message.contains("secret"));

    let own = error.with_user_message("Our search service is closed on Sundays.");
    expected.message = "Our search service is closed on Sundays.".to_owned();
    assert_eq!(own.to_record(), expected);
}

#[test]
fn only_what_may_succeed_later_is_retryable() {
    let retryable: Vec<_> = [
        ModelErrorKind::RateLimited,
        ModelErrorKind::Overloaded,
        ModelErrorKind::ContextLength,
        ModelErrorKind::ContentFilter,
        ModelErrorKind::Refusal,
        ModelErrorKind::Auth,
        ModelErrorKind::Invalid,
        ModelErrorKind::Transport,
    ]
    .into_iter()
    .filter(|kind| ModelError::new(*kind, "").is_retryable())
    .collect();
    let expected = [
        ModelErrorKind::RateLimited,
        ModelErrorKind::Overloaded,
        ModelErrorKind::Transport,
    ];
    assert_eq!(retryable, expected);
}

#[test]
fn the_causes_of_an_error_are_part_of_its_detail() {
    let cause = std::io::Error::other("connection reset");
    let error = ModelError::new(ModelErrorKind::Transport, "reading the stream").caused_by(cause);
    assert_eq!(
        error.to_record().detail,
        "the model call failed (Transport): reading the stream: connection reset"
    );
}

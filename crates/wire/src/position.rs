//! Where a client wants its stream to go on.

use helix_agents_core::stream::Sequence;

use crate::FrontendError;

/// The position that a client names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResumePosition {
    /// The last position that it has.
    pub after: Option<Sequence>,
    /// The assistant message that it continues.
    pub existing_message_id: Option<String>,
}

/// Reads the position from the headers of a request: `Last-Event-ID`, `X-Resume-From-Sequence` or `X-Resume-At`, and
/// `X-Existing-Message-Id`. The furthest position counts: a browser adds its own header to those that were set before.
///
/// ```
/// use helix_agents_wire::extract_resume_position;
///
/// let position = extract_resume_position(|name| (name == "last-event-id").then_some("41"))?;
/// assert_eq!(position.after, Some(41.into()));
/// # Ok::<(), helix_agents_wire::FrontendError>(())
/// ```
///
/// # Errors
/// [`FrontendError::Validation`] if a position is not a whole number.
pub fn extract_resume_position<'a>(
    header: impl Fn(&str) -> Option<&'a str>,
) -> Result<ResumePosition, FrontendError> {
    let mut after = None;
    for name in ["last-event-id", "x-resume-from-sequence", "x-resume-at"] {
        let Some(text) = header(name).map(str::trim).filter(|text| !text.is_empty()) else {
            continue;
        };
        let number = text.parse().map_err(|_| {
            FrontendError::Validation(format!(
                "{name} is {text:?}, which is not a whole number; send the last `id:`"
            ))
        })?;
        after = after.max(Some(Sequence(number)));
    }
    let existing = header("x-existing-message-id").filter(|id| !id.is_empty());
    Ok(ResumePosition {
        after,
        existing_message_id: existing.map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// proves in part: CHT-09
    #[test]
    fn the_furthest_position_of_the_three_headers_counts() {
        let headers = |name: &str| match name {
            "last-event-id" => Some("12"),
            "x-resume-from-sequence" => Some(" 30 "),
            "x-resume-at" => Some(""),
            "x-existing-message-id" => Some("msg-1"),
            _ => None,
        };
        let position = extract_resume_position(headers).unwrap();
        assert_eq!(position.after, Some(Sequence(30)));
        assert_eq!(position.existing_message_id.as_deref(), Some("msg-1"));
        assert_eq!(
            extract_resume_position(|_| None).unwrap(),
            ResumePosition::default()
        );
        let bad = extract_resume_position(|_| Some("-1")).unwrap_err();
        assert!(bad.to_string().contains("whole number"), "{bad}");
    }
}

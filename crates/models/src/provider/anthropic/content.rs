//! The content of user messages.

use helix_agents_core::message::{FilePart, UserMessage};
use helix_agents_core::model::ModelError;
use serde::Serialize;

use super::messages::NOTHING;
use crate::provider::body::write;
use crate::provider::files::{FileSource, text_of, unsupported};

/// A block of a user message.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
    Text {
        text: &'a str,
    },
    Image {
        source: Source<'a>,
    },
    Document {
        source: Source<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<&'a str>,
    },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Source<'a> {
    Url { url: &'a str },
    Base64 { media_type: &'a str, data: &'a str },
    Text { media_type: &'a str, data: &'a str },
}

impl<'a> Source<'a> {
    fn of(source: &'a FileSource<'a>, media_type: &'a str) -> Self {
        match source {
            FileSource::Url(url) => Self::Url { url },
            FileSource::Base64(data) => Self::Base64 { media_type, data },
        }
    }
}

/// Writes the blocks of a user message: its files, and then its text.
pub(super) fn write_user(user: &UserMessage, out: &mut Vec<u8>) -> Result<(), ModelError> {
    for (at, file) in user.files.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write_file(file, out)?;
    }
    let is_blank = user.content.trim().is_empty();
    if is_blank && !user.files.is_empty() {
        return Ok(());
    }
    if !user.files.is_empty() {
        out.push(b',');
    }
    let text = if is_blank { NOTHING } else { &user.content };
    write(out, &Block::Text { text })
}

fn write_file(file: &FilePart, out: &mut Vec<u8>) -> Result<(), ModelError> {
    let source = FileSource::of(file);
    let media_type = match file.media_type.as_str() {
        "image/jpg" => "image/jpeg",
        other => other,
    };
    let title = file.filename.as_deref();
    let is_here = matches!(source, FileSource::Base64(_));
    if media_type.starts_with("image/") {
        let is_taken = matches!(
            media_type,
            "image/jpeg" | "image/png" | "image/gif" | "image/webp"
        );
        if is_here && !is_taken {
            let remedy = "send a JPEG, PNG, GIF or WebP";
            return Err(unsupported("anthropic", file, remedy));
        }
        let source = Source::of(&source, media_type);
        return write(out, &Block::Image { source });
    }
    if media_type == "application/pdf" {
        let source = Source::of(&source, media_type);
        return write(out, &Block::Document { source, title });
    }
    let Some(text) = text_of(file) else {
        let remedy = "send an image, a PDF, or the content of a text";
        return Err(unsupported("anthropic", file, remedy));
    };
    let source = Source::Text {
        media_type: "text/plain",
        data: if text.trim().is_empty() {
            NOTHING
        } else {
            &text
        },
    };
    write(out, &Block::Document { source, title })
}

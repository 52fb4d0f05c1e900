//! The studio, which `helix dev` serves at `/`: a chat with every agent, and an inbox of what waits for a
//! person. Its source is `packages/studio`; what is built from it is checked in and embedded here.

use axum::Router;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::routing::{MethodRouter, get};

/// Nothing is loaded from other sites, and no other page may frame this one: a user who clicks
/// "Approve" must see what is approved.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The page. It names the files below, and shows the view that its address says.
const PAGE: &[u8] = include_bytes!("../studio/index.html");

/// The other files. A hash in the name of each changes with its content.
const FILES: &[(&str, &[u8])] = &include!("../studio/files.rs");

/// The addresses of the views.
const VIEWS: [&str; 3] = ["/", "/inbox", "/s/{session}"];

/// Another version of the program has another page.
const ASK_AGAIN: &str = "no-cache";
const KEEP: &str = "public, max-age=31536000, immutable";

/// Returns the routes of the page.
pub(crate) fn routes() -> Router {
    let views = VIEWS.into_iter().fold(Router::new(), |routes, view| {
        routes.route(view, file("text/html; charset=utf-8", ASK_AGAIN, PAGE))
    });
    FILES.iter().fold(views, |routes, (name, content)| {
        routes.route(&format!("/studio/{name}"), file(kind(name), KEEP, content))
    })
}

fn kind(name: &str) -> &'static str {
    match name.rsplit_once('.') {
        Some((_, "js")) => "text/javascript; charset=utf-8",
        Some((_, "css")) => "text/css; charset=utf-8",
        Some((_, "svg")) => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

fn file(kind: &'static str, cache: &'static str, content: &'static [u8]) -> MethodRouter {
    let headers: [(HeaderName, &str); 5] = [
        (CONTENT_TYPE, kind),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, cache),
    ];
    get(async move || (headers, content))
}

//! The web page of `helix dev`: a chat over the agent routes.

use axum::Router;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::routing::{MethodRouter, get};

/// Nothing is loaded from other sites, and no other page may frame this one: a user who clicks
/// "Approve" must see what is approved.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Returns the routes of the page.
pub(crate) fn routes() -> Router {
    let html = include_str!("../page/index.html");
    let script = include_str!("../page/page.js");
    let visible = include_str!("../page/visible.js");
    let style = include_str!("../page/page.css");
    Router::new()
        .route("/", file("text/html; charset=utf-8", html))
        .route("/page.js", file("text/javascript; charset=utf-8", script))
        .route(
            "/visible.js",
            file("text/javascript; charset=utf-8", visible),
        )
        .route("/page.css", file("text/css; charset=utf-8", style))
}

fn file(kind: &'static str, text: &'static str) -> MethodRouter {
    let headers: [(HeaderName, &str); 5] = [
        (CONTENT_TYPE, kind),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        // Another version of the program has another page.
        (CACHE_CONTROL, "no-cache"),
    ];
    get(async move || (headers, text))
}

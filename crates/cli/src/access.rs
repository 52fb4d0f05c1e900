//! The tokens of a server, from the configuration.

use helix_agents_server::Tokens;

use crate::UsageError;
use crate::config::{ConfigError, TokenConfig, TokenSecret};
use crate::setup::Plan;

/// Returns the configured tokens; `None` if requests without a token are allowed.
///
/// # Errors
/// [`ConfigError`] with the line of the token that cannot be used, and when no client could use the
/// server.
pub(crate) fn tokens(plan: &Plan) -> anyhow::Result<Option<Tokens>> {
    let config = &plan.config.server;
    if config.allow_unauthenticated {
        return Ok(None);
    }
    if config.tokens.is_empty() {
        let message = "the server has no authentication: [[server.tokens]] is missing; add a token, or \
                       write `allow_unauthenticated = true` in [server] if every client that can reach it \
                       may use it";
        return Err(wrong(plan, None, message.to_owned()));
    }
    let mut tokens = Tokens::new();
    for token in &config.tokens {
        let added = match &token.secret {
            TokenSecret::Sha256(hex) => tokens.sha256(hex, &token.user),
            TokenSecret::Env(name) => {
                let secret = secret(name, &token.user);
                let secret = secret.map_err(|why| wrong(plan, Some(token), why))?;
                tokens.token(&secret, &token.user)
            }
        };
        tokens = added.map_err(|error| wrong(plan, Some(token), error.to_string()))?;
        if token.admin {
            tokens = tokens.admin();
        }
    }
    Ok(Some(tokens))
}

/// Reads the token of a user from the environment.
fn secret(name: &str, user: &str) -> Result<String, String> {
    let why = match std::env::var(name) {
        Ok(secret) if !secret.trim().is_empty() => return Ok(secret),
        Ok(_) => "is empty; put a long random text into it",
        Err(std::env::VarError::NotPresent) => "is not set; set it",
        Err(_) => "is not text; put a long random text into it",
    };
    Err(format!(
        "the token of user {user} is in the environment variable {name}, which {why}, or give the \
         sha256 of the token instead"
    ))
}

fn wrong(plan: &Plan, token: Option<&TokenConfig>, message: String) -> anyhow::Error {
    let Some(file) = &plan.file else {
        return UsageError(message).into();
    };
    let mut error = ConfigError::of_file(file, message);
    error.line = token.map(|token| token.line);
    error.into()
}

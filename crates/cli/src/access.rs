//! Who may use a server, as the configuration says it.

use helix_agents_server::BearerTokens;
use sha2::{Digest, Sha256};

use crate::UsageError;
use crate::config::{ConfigError, TokenConfig, TokenSecret};
use crate::setup::Plan;

/// The tokens that the configuration names; none where everybody may use the server.
///
/// # Errors
/// [`ConfigError`] with the line of the token that cannot be used, and when nobody could use the
/// server.
pub(crate) fn tokens(plan: &Plan) -> anyhow::Result<Option<BearerTokens>> {
    let config = &plan.config.server;
    if config.allow_unauthenticated {
        return Ok(None);
    }
    if config.tokens.is_empty() {
        let message = "nobody could use the server: there is no [[server.tokens]]; add a token, or \
                       say `allow_unauthenticated = true` in [server] if everybody who can reach it \
                       may use it";
        return Err(wrong(plan, None, message.to_owned()));
    }
    let mut tokens = BearerTokens::new();
    let mut seen: Vec<(String, &TokenConfig)> = Vec::new();
    for token in &config.tokens {
        let digest = digest(token).map_err(|why| wrong(plan, Some(token), why))?;
        if let Some((_, other)) = seen.iter().find(|(known, _)| *known == digest) {
            let message = format!(
                "the tokens of users {} and {} are the same; give each a token of its own",
                other.user, token.user
            );
            return Err(wrong(plan, Some(token), message));
        }
        let added = tokens.sha256(&digest, &token.user);
        tokens = added.map_err(|error| wrong(plan, Some(token), error.to_string()))?;
        if token.admin {
            tokens = tokens.admin();
        }
        seen.push((digest, token));
    }
    Ok(Some(tokens))
}

/// The SHA-256 of a token, in hexadecimal digits.
fn digest(token: &TokenConfig) -> Result<String, String> {
    let name = match &token.secret {
        TokenSecret::Sha256(hex) => return Ok(hex.clone()),
        TokenSecret::Env(name) => name,
    };
    let why = match std::env::var(name) {
        Ok(secret) if !secret.is_empty() => {
            let bytes = Sha256::digest(secret.as_bytes());
            return Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect());
        }
        Ok(_) => "is empty; put a long random text into it",
        Err(std::env::VarError::NotPresent) => "is not set; set it",
        Err(_) => "is not text; put a long random text into it",
    };
    let user = &token.user;
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

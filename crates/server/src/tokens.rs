//! Authentication with bearer tokens.

use async_trait::async_trait;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use helix_agents_core::{Coded, Error, ErrorCode, IdError, UserId};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::{Authenticate, Operation, Principal, Refusal};

/// How variables are named that hold tokens.
const PREFIX: &str = "HELIX_TOKEN_";

/// Why something is not a token.
///
/// ```
/// use helix_agents_server::{TokenError, Tokens};
///
/// let refused = Tokens::new().token("", "alice").unwrap_err();
/// assert!(matches!(refused, TokenError::Empty { .. }));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The token is empty, which would let every caller in.
    #[error("the token of user {user} is empty; give it a long random text")]
    Empty {
        /// The user of the token.
        user: String,
    },
    /// The token contains a character that a header cannot carry.
    #[error(
        "the token of user {user} has a line break or another character that a header cannot carry; use \
         letters, digits and `-._~+/=`"
    )]
    NotSendable {
        /// The user of the token.
        user: String,
    },
    /// The digest is not a SHA-256 in hexadecimal.
    #[error(
        "the sha256 of user {user} is not 64 hexadecimal characters; write the digest of the token"
    )]
    NotADigest {
        /// The user of the token.
        user: String,
    },
    /// The same token was given twice, to one or two users.
    #[error("the tokens of users {one} and {other} are the same; give each a token of its own")]
    Twice {
        /// The user who already has the token.
        one: String,
        /// The user to whom it was given again.
        other: String,
    },
    /// The environment has no tokens.
    #[error(
        "the environment has no tokens; set {PREFIX}ALICE to a long random text to let user `alice` in"
    )]
    NoneInEnvironment,
    /// The user is not one.
    #[error(transparent)]
    User(#[from] IdError),
}

impl Coded for TokenError {
    fn code(&self) -> ErrorCode {
        ErrorCode::ValidationError
    }
}

impl From<TokenError> for Error {
    fn from(error: TokenError) -> Self {
        Self::new(error)
    }
}

/// Bearer tokens and whose they are. Only their SHA-256 is kept.
///
/// Probes need no token; every other operation needs a known one.
///
/// ```
/// use helix_agents_server::Tokens;
///
/// let tokens = Tokens::new().token("a long random text", "alice")?.token("another one", "bob")?;
/// assert!(!tokens.is_empty());
/// # Ok::<(), helix_agents_server::TokenError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Tokens {
    known: Vec<KnownToken>,
}

#[derive(Debug, Clone)]
struct KnownToken {
    sha256: [u8; 32],
    principal: Principal,
}

impl Tokens {
    /// Creates an empty set of tokens, which refuses every request.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The tokens of the environment: `HELIX_TOKEN_ALICE` holds the token of the user `alice`.
    ///
    /// # Errors
    /// [`TokenError::NoneInEnvironment`] when there is none, and as [`Tokens::token`].
    pub fn from_env() -> Result<Self, TokenError> {
        let all = std::env::vars_os();
        Self::from_vars(all.filter_map(|(name, token)| {
            Some((name.into_string().ok()?, token.into_string().ok()?))
        }))
    }

    /// The tokens of these variables, named as [`Tokens::from_env`] has them.
    ///
    /// # Errors
    /// As [`Tokens::from_env`].
    pub fn from_vars(vars: impl IntoIterator<Item = (String, String)>) -> Result<Self, TokenError> {
        let mut tokens = Self::new();
        for (name, token) in vars {
            if let Some(user) = name.strip_prefix(PREFIX) {
                tokens = tokens.token(&token, &user.to_lowercase())?;
            }
        }
        match tokens.is_empty() {
            true => Err(TokenError::NoneInEnvironment),
            false => Ok(tokens),
        }
    }

    /// Adds the token of a user. White space around it, like the line break at the end of a file, is
    /// not part of it.
    ///
    /// # Errors
    /// A [`TokenError`] for an empty token, one that a header cannot carry, one that is already
    /// known, or a user name that is not a valid id.
    pub fn token(self, token: &str, user: &str) -> Result<Self, TokenError> {
        let token = token.trim();
        if token.is_empty() {
            let user = user.to_owned();
            return Err(TokenError::Empty { user });
        }
        if !token
            .bytes()
            .all(|byte| byte == b' ' || byte.is_ascii_graphic())
        {
            let user = user.to_owned();
            return Err(TokenError::NotSendable { user });
        }
        self.with(Sha256::digest(token.as_bytes()).into(), user)
    }

    /// Adds a token by its SHA-256, in hexadecimal.
    ///
    /// # Errors
    /// A [`TokenError`] for a text that is not a digest, a token that is already known, or a user
    /// name that is not a valid id.
    pub fn sha256(self, hex: &str, user: &str) -> Result<Self, TokenError> {
        let digest = unhex(hex).ok_or_else(|| TokenError::NotADigest {
            user: user.to_owned(),
        })?;
        self.with(digest, user)
    }

    /// Makes the user who was added last an administrator, who sees all sessions.
    #[must_use]
    pub fn admin(mut self) -> Self {
        if let Some(last) = self.known.last_mut() {
            last.principal.admin = true;
        }
        self
    }

    /// Whether there are no tokens.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    fn with(mut self, sha256: [u8; 32], user: &str) -> Result<Self, TokenError> {
        let principal = Principal::user(UserId::new(user)?);
        if let Some(known) = self.known.iter().find(|known| known.sha256 == sha256) {
            let one = known.principal.user.as_ref();
            return Err(TokenError::Twice {
                one: one.map(ToString::to_string).unwrap_or_default(),
                other: user.to_owned(),
            });
        }
        self.known.push(KnownToken { sha256, principal });
        Ok(self)
    }

    /// Returns the owner of a token. The time it takes does not depend on the owner.
    fn owner_of(&self, token: &str) -> Option<&Principal> {
        let digest: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let mut found = None;
        for known in &self.known {
            if bool::from(known.sha256.ct_eq(&digest)) {
                found = Some(&known.principal);
            }
        }
        found
    }
}

#[async_trait]
impl Authenticate for Tokens {
    async fn authenticate(
        &self,
        request: &Parts,
        operation: Operation,
    ) -> Result<Principal, Refusal> {
        if operation.is_probe() {
            return Ok(Principal::anonymous());
        }
        let refuse = |why: &str| Err(Refusal::Unauthenticated(why.to_owned()));
        let mut headers = request.headers.get_all(AUTHORIZATION).iter();
        let Some(header) = headers.next() else {
            return refuse(
                "the request has no token; send the header `Authorization: Bearer TOKEN`",
            );
        };
        let token = header.to_str().ok().and_then(|text| {
            let (scheme, token) = text.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        match token.and_then(|token| self.owner_of(token)) {
            Some(principal) if headers.next().is_none() => Ok(principal.clone()),
            _ => refuse("unknown token; check it, and that it is sent once"),
        }
    }
}

fn unhex(hex: &str) -> Option<[u8; 32]> {
    if hex.len() != 64 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

//! `[server]`: the address, limits and tokens of the server.

use std::net::SocketAddr;

use super::{At, ConfigError, Section};

/// The default address to listen on.
const LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8787);
/// The default maximum size of a request body.
const MAX_BODY_BYTES: u64 = 4 * 1024 * 1024;
/// The default maximum number of connections, in total and per address.
const MAX_CONNECTIONS: u64 = 8192;
const MAX_CONNECTIONS_PER_ADDRESS: u64 = 512;
/// The default maximum of running runs per user, and of starts per minute.
const MAX_RUNS_PER_USER: u64 = 256;
const MAX_STARTS_PER_MINUTE: u64 = 1200;

/// The configuration of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerConfig {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// Whether requests without a token are allowed.
    pub allow_unauthenticated: bool,
    /// The maximum size of a request body.
    pub max_body_bytes: u64,
    /// The maximum number of connections.
    pub max_connections: u64,
    /// The maximum number of connections from one address; 0 means no separate limit.
    pub max_connections_per_address: u64,
    /// The maximum number of running runs per user.
    pub max_runs_per_user: u64,
    /// The maximum number of runs that one user starts per minute.
    pub max_starts_per_minute: u64,
    /// The origins of web pages that may use the server.
    pub cors_origins: Vec<String>,
    /// The host names that a server without authentication accepts, besides local ones.
    pub hosts: Vec<String>,
    /// The tokens of the users.
    pub tokens: Vec<TokenConfig>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: LISTEN,
            allow_unauthenticated: false,
            max_body_bytes: MAX_BODY_BYTES,
            max_connections: MAX_CONNECTIONS,
            max_connections_per_address: MAX_CONNECTIONS_PER_ADDRESS,
            max_runs_per_user: MAX_RUNS_PER_USER,
            max_starts_per_minute: MAX_STARTS_PER_MINUTE,
            cors_origins: Vec::new(),
            hosts: Vec::new(),
            tokens: Vec::new(),
        }
    }
}

/// A bearer token and its user.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenConfig {
    /// How the token is recognised.
    pub secret: TokenSecret,
    /// The user, who owns the sessions created with the token.
    pub user: String,
    /// Whether the user sees all sessions.
    pub admin: bool,
    /// The line of the token in the file.
    pub line: usize,
}

/// How a token is recognised.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenSecret {
    /// The token is in this environment variable.
    Env(String),
    /// The SHA-256 of the token, in hexadecimal digits.
    Sha256(String),
}

pub(super) fn read(section: Option<Section<'_>>) -> Result<ServerConfig, ConfigError> {
    let mut server = ServerConfig::default();
    let Some(section) = section else {
        return Ok(server);
    };
    if let Some(At { value, at }) = section.text("listen")? {
        server.listen = listen_address(&value).map_err(|error| section.error(&at, error))?;
    }
    if let Some(flag) = section.flag("allow_unauthenticated")? {
        server.allow_unauthenticated = flag.value;
    }
    if let Some(bytes) = section.count("max_body_bytes", 1)? {
        server.max_body_bytes = bytes.value;
    }
    if let Some(most) = section.count("max_connections", 1)? {
        server.max_connections = most.value;
    }
    if let Some(most) = section.count("max_connections_per_address", 0)? {
        server.max_connections_per_address = most.value;
    }
    if let Some(most) = section.count("max_runs_per_user", 1)? {
        server.max_runs_per_user = most.value;
    }
    if let Some(most) = section.count("max_starts_per_minute", 1)? {
        server.max_starts_per_minute = most.value;
    }
    for At { value, at } in section.texts("cors_origins")? {
        if !(value.starts_with("http://") || value.starts_with("https://")) || value.ends_with('/')
        {
            let remedy = "write it like \"https://example.com\", without a slash at the end";
            return Err(section.error(&at, format!("`{value}` is not an origin; {remedy}")));
        }
        server.cors_origins.push(value);
    }
    for At { value, at } in section.texts("hosts")? {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if value.is_empty() || !value.bytes().all(is_name) {
            let remedy = "write a name like \"helix.example.com\", without a scheme or a port";
            return Err(section.error(&at, format!("`{value}` is not a host name; {remedy}")));
        }
        server.hosts.push(value);
    }
    for token in section.list("tokens")? {
        let read = read_token(&token)?;
        let mut others = server.tokens.iter();
        if let Some(other) = others.find(|other| other.secret == read.secret) {
            let message = format!(
                "the tokens of users {} and {} are the same; give each a token of its own",
                other.user, read.user
            );
            return Err(token.error(&token.at, message));
        }
        server.tokens.push(read);
    }
    section.finish()?;
    if server.allow_unauthenticated && !server.tokens.is_empty() {
        let at = section.place("allow_unauthenticated");
        let message = "`allow_unauthenticated` and [[server.tokens]] exclude each other; keep the \
                       tokens, or allow requests without one";
        return Err(section.error(&at.unwrap_or_else(|| section.at.clone()), message));
    }
    Ok(server)
}

/// Parses an address to listen on; `localhost` is this machine.
///
/// # Errors
/// A message that says what to write instead.
pub(crate) fn listen_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let port = text
        .rsplit_once(':')
        .filter(|(host, _)| host.eq_ignore_ascii_case("localhost"));
    match port.and_then(|(_, port)| port.parse().ok()) {
        Some(port) => Ok(SocketAddr::new(LISTEN.ip(), port)),
        None => Err(format!(
            "`{text}` is not an address to listen on; write one with a port, like \"127.0.0.1:8787\""
        )),
    }
}

fn read_token(section: &Section<'_>) -> Result<TokenConfig, ConfigError> {
    let (env, sha256) = (section.text("env")?, section.text("sha256")?);
    let secret = match (env, sha256) {
        (Some(env), None) => TokenSecret::Env(env.value),
        (None, Some(At { value, at })) => {
            if value.len() != 64 || !value.chars().all(|c| c.is_ascii_hexdigit()) {
                let remedy = "write the 64 hexadecimal digits of the token's SHA-256";
                return Err(section.error(&at, format!("`sha256` is not a hash; {remedy}")));
            }
            TokenSecret::Sha256(value.to_ascii_lowercase())
        }
        (Some(_), Some(At { at, .. })) => {
            let message = "`env` and `sha256` of a token exclude each other; keep one of them";
            return Err(section.error(&at, message));
        }
        (None, None) => {
            return Err(section.wrong(
                "has no token; write `env = \"VARIABLE\"` or `sha256 = \"<hex of the token>\"`",
            ));
        }
    };
    let user = section.required("user", "\"NAME\"")?;
    if let Err(error) = helix_agents_core::UserId::new(&user.value) {
        return Err(section.error(&user.at, format!("`user` cannot be used: {error}")));
    }
    let admin = section.flag("admin")?.is_some_and(|admin| admin.value);
    section.finish()?;
    Ok(TokenConfig {
        secret,
        user: user.value,
        admin,
        line: section.line(),
    })
}

//! `[server]`: who may talk to it, and where.

use std::net::SocketAddr;

use super::{At, ConfigError, Section};

/// Where the server listens when nothing is said.
const LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8787);
/// The largest request body when nothing is said.
const MAX_BODY_BYTES: u64 = 4 * 1024 * 1024;
/// How many connections there may be when nothing is said, in all and from one address.
const MAX_CONNECTIONS: u64 = 8192;
const MAX_CONNECTIONS_PER_ADDRESS: u64 = 512;
/// How many runs of one user go on at once, and are started in a minute, when nothing is said.
const MAX_RUNS_PER_USER: u64 = 256;
const MAX_STARTS_PER_MINUTE: u64 = 1200;

/// Who may talk to the server, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerConfig {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Whether everybody may use it.
    pub allow_unauthenticated: bool,
    /// The largest request body.
    pub max_body_bytes: u64,
    /// How many connections there may be at once.
    pub max_connections: u64,
    /// How many of them may come from one address; 0: as many as there may be.
    pub max_connections_per_address: u64,
    /// How many runs of one user go on at once.
    pub max_runs_per_user: u64,
    /// How many runs one user starts in a minute.
    pub max_starts_per_minute: u64,
    /// Web pages that may use it.
    pub cors_origins: Vec<String>,
    /// Host names under which it answers without authentication, besides local ones.
    pub hosts: Vec<String>,
    /// Who may use it.
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

/// A bearer token and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenConfig {
    /// How the token is recognised.
    pub secret: TokenSecret,
    /// Who owns the sessions that are made with it.
    pub user: String,
    /// Whether it sees all sessions.
    pub admin: bool,
    /// The line of the file where it stands.
    pub line: usize,
}

/// How a token is recognised.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenSecret {
    /// It is in this environment variable.
    Env(String),
    /// This is the SHA-256 of it, in hexadecimal digits.
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
                       tokens, or let everybody in";
        return Err(section.error(&at.unwrap_or_else(|| section.at.clone()), message));
    }
    Ok(server)
}

/// An address to listen on; `localhost` is this machine.
///
/// # Errors
/// What to write instead.
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

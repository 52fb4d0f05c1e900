//! The address of a database: a URL, and how connections to it are made.

use std::time::Duration;

use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, Connection, Socket};

use crate::error::{Error, Result};
use crate::tls::{self, MakeTls, Verification};

/// A connection, before its task is started.
pub(crate) type RawConnection = Connection<Socket, <MakeTls as MakeTlsConnect<Socket>>::Stream>;

/// How long what was sent may stay unacknowledged before a connection counts as lost.
const UNACKNOWLEDGED: Duration = Duration::from_secs(15);

/// How long a connection may be silent before it is checked whether its other side is still there.
const QUIET: Duration = Duration::from_secs(10);

/// The pause between two such checks.
const BETWEEN_CHECKS: Duration = Duration::from_secs(5);

/// Where a database is, and how connections to it are made.
#[derive(Clone)]
pub(crate) struct Address {
    pub(crate) config: Config,
    pub(crate) tls: MakeTls,
}

impl Address {
    /// Reads a URL. Beside the parameters of libpq that tokio-postgres knows it takes `sslmode=verify-ca`,
    /// `sslmode=verify-full` and `sslrootcert`.
    pub(crate) fn parse(url: &str, timeout: Duration) -> Result<Self> {
        if !["postgres://", "postgresql://"]
            .iter()
            .any(|scheme| url.starts_with(scheme))
        {
            let reason = "it does not begin with `postgres://`".to_owned();
            return Err(Error::BadUrl { reason });
        }
        let (rest, mode, roots) = without_tls(url);
        let mut config: Config = rest.parse().map_err(|error: tokio_postgres::Error| {
            let source = std::error::Error::source(&error);
            let reason = source.map_or_else(|| error.to_string(), ToString::to_string);
            Error::BadUrl { reason }
        })?;
        let verification = match mode.as_deref() {
            None | Some("prefer" | "require" | "disable") if roots.is_none() => Verification::None,
            None | Some("prefer" | "require" | "disable" | "verify-ca" | "verify-full") => {
                Verification::Full
            }
            Some(other) => {
                let reason = format!("`sslmode={other}` is not known");
                return Err(Error::BadUrl { reason });
            }
        };
        let hosts = config.get_hosts();
        let is_local = !hosts.is_empty() && hosts.iter().all(is_socket);
        config.ssl_mode(match mode.as_deref() {
            // Nobody listens on a unix socket.
            _ if is_local => SslMode::Disable,
            Some("disable") => SslMode::Disable,
            Some("require" | "verify-ca" | "verify-full") => SslMode::Require,
            // A certificate that is verified only if there is one protects from nothing.
            _ if verification == Verification::Full => SslMode::Require,
            _ => SslMode::Prefer,
        });
        if config.get_application_name().is_none() {
            config.application_name("helix-agents");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(timeout);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(UNACKNOWLEDGED);
        }
        if !rest.contains("keepalives_idle=") {
            config.keepalives_idle(QUIET);
        }
        if config.get_keepalives_interval().is_none() {
            config.keepalives_interval(BETWEEN_CHECKS);
        }
        let tls = MakeTls::new(tls::config(verification, roots.as_deref())?);
        Ok(Self { config, tls })
    }

    /// Makes a connection. The caller starts its task.
    pub(crate) async fn connect(&self) -> Result<(Client, RawConnection), tokio_postgres::Error> {
        self.config.connect(self.tls.clone()).await
    }
}

/// The host, the port and the database, for people.
impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ports = self.config.get_ports();
        for (index, host) in self.config.get_hosts().iter().enumerate() {
            let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
            let comma = if index > 0 { ", " } else { "" };
            match host {
                Host::Tcp(name) => write!(f, "{comma}{name}:{port}")?,
                #[cfg(unix)]
                Host::Unix(path) => write!(f, "{comma}{}:{port}", path.display())?,
            }
        }
        match self.config.get_dbname() {
            Some(name) => write!(f, "/{name}"),
            None => Ok(()),
        }
    }
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Address({self})")
    }
}

fn is_socket(host: &Host) -> bool {
    !matches!(host, Host::Tcp(_))
}

/// Takes the parameters `sslmode` and `sslrootcert` out of a URL.
fn without_tls(url: &str) -> (String, Option<String>, Option<String>) {
    let Some((base, query)) = url.split_once('?') else {
        return (url.to_owned(), None, None);
    };
    let (mut mode, mut roots, mut rest) = (None, None, Vec::new());
    for part in query.split('&') {
        match part.split_once('=') {
            Some(("sslmode", value)) => mode = Some(value.to_owned()),
            Some(("sslrootcert", value)) => roots = Some(value.replace("%2F", "/")),
            _ => rest.push(part),
        }
    }
    let url = match rest.is_empty() {
        true => base.to_owned(),
        false => format!("{base}?{}", rest.join("&")),
    };
    (url, mode, roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Address> {
        Address::parse(url, Duration::from_secs(1))
    }

    #[test]
    fn an_address_is_shown_without_user_and_password() {
        let address = parse("postgres://helix:secret@db.example:6543/agents?sslmode=disable");
        let address = address.unwrap();
        assert_eq!(address.to_string(), "db.example:6543/agents");
        assert_eq!(format!("{address:?}"), "Address(db.example:6543/agents)");
        assert_eq!(address.config.get_ssl_mode(), SslMode::Disable);
    }

    #[test]
    fn the_modes_of_tls_are_those_of_libpq() {
        let mode = |url| parse(url).unwrap().config.get_ssl_mode();
        assert_eq!(mode("postgres://h/d"), SslMode::Prefer);
        assert_eq!(mode("postgres://h/d?sslmode=prefer"), SslMode::Prefer);
        assert_eq!(mode("postgres://h/d?sslmode=require"), SslMode::Require);
        let address = parse("postgres:///d?host=/run/pg&sslmode=disable&port=1&user=u").unwrap();
        assert_eq!(address.to_string(), "/run/pg:1/d");
    }

    /// Otherwise a server, or whoever answers in its place, would be believed that it has no TLS.
    #[test]
    fn certificates_to_verify_with_make_tls_a_must() {
        // A file without a certificate is one that trusts nobody.
        let roots = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let mode = |rest: &str| {
            let url = format!("postgres://h/d?sslrootcert={roots}{rest}");
            parse(&url).unwrap().config.get_ssl_mode()
        };
        assert_eq!(mode(""), SslMode::Require);
        assert_eq!(mode("&sslmode=prefer"), SslMode::Require);
        assert_eq!(mode("&sslmode=require"), SslMode::Require);
        assert_eq!(mode("&sslmode=disable"), SslMode::Disable);
    }

    #[test]
    fn a_wrong_url_is_refused_without_repeating_it() {
        for url in [
            "mysql://u:secret@h/d",
            "postgres://u:secret@h:port/d",
            "postgres://u:secret@h/d?sslmode=secret2",
            "postgres://u:secret@h/d?nonsense=1",
            "",
        ] {
            let error = parse(url).unwrap_err();
            assert!(matches!(error, Error::BadUrl { .. }), "{error:?}");
            assert!(!format!("{error}{error:?}").contains("secret@"), "{error}");
        }
    }

    #[test]
    fn certificates_that_are_not_there_are_named() {
        let error = parse("postgres://h/d?sslmode=verify-full&sslrootcert=/missing.pem");
        let error = error.unwrap_err();
        assert!(matches!(error, Error::Certificates { .. }), "{error:?}");
        assert!(error.to_string().contains("/missing.pem"), "{error}");
    }
}

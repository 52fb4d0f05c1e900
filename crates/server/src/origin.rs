//! Protects servers without authentication from web pages of other sites.
//!
//! A page can make a browser send requests to a server on the same machine, and with a host name
//! that resolves to 127.0.0.1 it can even read the responses. Such requests carry the page's own
//! host name, so a server without authentication accepts only host names that no page of another
//! site can have.

use std::net::{Ipv4Addr, Ipv6Addr};

use axum::http::header::{HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::uri::Authority;

use crate::ApiError;

/// The hosts and origins that are accepted.
#[derive(Debug, Clone, Default)]
pub(crate) struct OriginCheck {
    /// Host names besides local ones and addresses.
    pub(crate) hosts: Vec<String>,
    /// Origins of other pages that are allowed.
    pub(crate) origins: Vec<String>,
}

impl OriginCheck {
    pub(crate) fn check(&self, request: &Parts) -> Result<(), ApiError> {
        let given = |name| {
            let mut all = request.headers.get_all(name).iter();
            match (all.next(), all.next()) {
                (None, _) => Ok(None),
                (Some(one), None) => one.to_str().map(Some).map_err(drop),
                (Some(_), Some(_)) => Err(()),
            }
        };
        let host = given(HOST).map_err(|()| refused_host("which cannot be read"))?;
        let host = host.or_else(|| request.uri.authority().map(Authority::as_str));
        let host = host.ok_or_else(|| refused_host("which is missing"))?;
        if !self.takes_host(host) {
            return Err(refused_host(host));
        }
        let origin = given(ORIGIN).map_err(|()| refused_origin("which cannot be read"))?;
        match origin {
            Some(origin) if !self.takes_origin(origin, host) => Err(refused_origin(origin)),
            _ => Ok(()),
        }
    }

    fn takes_host(&self, host: &str) -> bool {
        let Ok(authority) = host.parse::<Authority>() else {
            return false;
        };
        if host.contains('@') {
            return false;
        }
        let name = authority.host().to_ascii_lowercase();
        let address = name.trim_start_matches('[').trim_end_matches(']');
        // A page of another site has a host name, so an address is always safe.
        address.parse::<Ipv4Addr>().is_ok()
            || address.parse::<Ipv6Addr>().is_ok()
            || name == "localhost"
            || name.ends_with(".localhost")
            || self.hosts.contains(&name)
    }

    /// Accepts the server's own pages and the listed origins.
    fn takes_origin(&self, origin: &str, host: &str) -> bool {
        let own = origin.split_once("://").map(|(_, authority)| authority);
        own.is_some_and(|own| own.eq_ignore_ascii_case(host))
            || self.origins.iter().any(|known| known == origin)
    }
}

fn refused_host(host: &str) -> ApiError {
    ApiError::forbidden(format!(
        "this server has no authentication and refuses the host {host:?}; reach it by \
         its address or as localhost, or list the host"
    ))
}

fn refused_origin(origin: &str) -> ApiError {
    ApiError::forbidden(format!(
        "this server has no authentication and refuses pages of {origin:?}; list the \
         origin if its pages may use it"
    ))
}

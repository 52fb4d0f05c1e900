//! TLS, with the modes of libpq.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::{Error, Result};

/// Whether the certificate of a server is verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verification {
    /// It is not: the connection is encrypted, as libpq does it with `prefer` and `require`.
    None,
    /// It is verified, with the name of the server.
    Full,
}

/// The configuration of TLS. `roots` is a file with the certificates that are trusted instead of those of the system.
pub(crate) fn config(verification: Verification, roots: Option<&str>) -> Result<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let failed = |reason: String| Error::Certificates { reason };
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(error.to_string()))?;
    if verification == Verification::None {
        let verifier = Arc::new(Unverified(provider));
        let builder = builder.dangerous();
        let builder = builder.with_custom_certificate_verifier(verifier);
        return Ok(builder.with_no_client_auth());
    }
    let Some(path) = roots else {
        let builder = builder.with_platform_verifier();
        let builder = builder.map_err(|error| failed(error.to_string()))?;
        return Ok(builder.with_no_client_auth());
    };
    let unreadable = |error: String| failed(format!("{path}: {error}"));
    let found = CertificateDer::pem_file_iter(path).map_err(|error| unreadable(error.to_string()));
    let mut trusted = RootCertStore::empty();
    for certificate in found? {
        let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
        let added = trusted.add(certificate);
        added.map_err(|error| unreadable(error.to_string()))?;
    }
    let builder = builder.with_root_certificates(trusted);
    Ok(builder.with_no_client_auth())
}

/// Makes TLS connections.
#[derive(Clone)]
pub(crate) struct MakeTls(MakeRustlsConnect);

impl MakeTls {
    pub(crate) fn new(config: ClientConfig) -> Self {
        Self(MakeRustlsConnect::new(config))
    }
}

impl<S> MakeTlsConnect<S> for MakeTls
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = <MakeRustlsConnect as MakeTlsConnect<S>>::Stream;
    type TlsConnect = <MakeRustlsConnect as MakeTlsConnect<S>>::TlsConnect;
    type Error = <MakeRustlsConnect as MakeTlsConnect<S>>::Error;

    fn make_tls_connect(&mut self, host: &str) -> Result<Self::TlsConnect, Self::Error> {
        // A unix socket has no host. It is asked for a connector, too, and never uses it.
        let host = if host.is_empty() { "localhost" } else { host };
        MakeTlsConnect::<S>::make_tls_connect(&mut self.0, host)
    }
}

/// Accepts every certificate. Signatures of the handshake are checked.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

//! Certificates of untrusted authorities, for servers on loopback.

use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{ConfigBuilder, RootCertStore, ServerConfig, WantsVerifier};

const BROKEN: &str = "a certificate for tests can be made";

/// TLS server that requires client certificates, with a client identity that it accepts.
pub struct MutualTlsServer {
    pub acceptor: TlsAcceptor,
    /// Certificate of the authority, as PEM.
    pub authority: String,
    /// Client certificate that the server accepts, as PEM.
    pub client_cert: String,
    /// Private key of the client certificate, as PEM.
    pub client_key: String,
}

/// Creates a TLS server for this host that accepts only clients with a certificate of its authority.
pub fn mutual_tls_server(host: &str) -> MutualTlsServer {
    let (issuer, authority) = create_authority();
    let key = rcgen::KeyPair::generate().expect(BROKEN);
    let client = rcgen::CertificateParams::new(vec!["client".to_owned()]).expect(BROKEN);
    let client_cert = client.signed_by(&key, &issuer).expect(BROKEN).pem();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).expect(BROKEN)).expect(BROKEN);
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().expect(BROKEN);
    let config = server_config_builder().with_client_cert_verifier(verifier);
    let (leaf, leaf_key) = issue_leaf(host, false, &issuer);
    let config = config.with_single_cert(vec![leaf], leaf_key).expect(BROKEN);
    let acceptor = TlsAcceptor::from(Arc::new(config));
    MutualTlsServer { acceptor, authority, client_cert, client_key: key.serialize_pem() }
}

/// Creates an untrusted authority and returns it with its certificate as PEM.
fn create_authority() -> (rcgen::Issuer<'static, rcgen::KeyPair>, String) {
    let mut authority = rcgen::CertificateParams::new(vec![]).expect(BROKEN);
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().expect(BROKEN);
    let pem = authority.self_signed(&key).expect(BROKEN).pem();
    (rcgen::Issuer::new(authority, key), pem)
}

fn issue_leaf(
    host: &str,
    expired: bool,
    issuer: &rcgen::Issuer<'static, rcgen::KeyPair>,
) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
    let key = rcgen::KeyPair::generate().expect(BROKEN);
    let mut leaf = rcgen::CertificateParams::new(vec![host.to_owned()]).expect(BROKEN);
    if expired {
        leaf.not_after = rcgen::date_time_ymd(2020, 1, 1);
    }
    let leaf = leaf.signed_by(&key, issuer).expect(BROKEN);
    (leaf.der().clone(), PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der())))
}

fn server_config_builder() -> ConfigBuilder<ServerConfig, WantsVerifier> {
    ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect(BROKEN)
}

/// Creates a TLS server for this host with a certificate of its own authority, expired or not, that offers these
/// protocols. Returns it with the authority's certificate as PEM.
pub fn tls_server(host: &str, expired: bool, protocols: &[&str]) -> (TlsAcceptor, String) {
    let (issuer, pem) = create_authority();
    let (leaf, key) = issue_leaf(host, expired, &issuer);
    let mut config = server_config_builder().with_no_client_auth().with_single_cert(vec![leaf], key).expect(BROKEN);
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    (TlsAcceptor::from(Arc::new(config)), pem)
}

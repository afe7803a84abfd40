//! Certificates that nobody has heard of, for servers on loopback.

use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

const BROKEN: &str = "a certificate for tests can be made";

/// A TLS end with a certificate of its own authority for this host, run out or not, that offers these protocols; and the
/// authority as a PEM text.
pub fn certified(host: &str, expired: bool, protocols: &[&str]) -> (TlsAcceptor, String) {
    let mut authority = rcgen::CertificateParams::new(vec![]).expect(BROKEN);
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority_key = rcgen::KeyPair::generate().expect(BROKEN);
    let pem = authority.self_signed(&authority_key).expect(BROKEN).pem();
    let issuer = rcgen::Issuer::new(authority, authority_key);
    let key = rcgen::KeyPair::generate().expect(BROKEN);
    let mut leaf = rcgen::CertificateParams::new(vec![host.to_owned()]).expect(BROKEN);
    if expired {
        leaf.not_after = rcgen::date_time_ymd(2020, 1, 1);
    }
    let leaf = leaf.signed_by(&key, &issuer).expect(BROKEN);
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect(BROKEN)
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], key)
        .expect(BROKEN);
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    (TlsAcceptor::from(Arc::new(config)), pem)
}

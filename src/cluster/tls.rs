//! TLS between coordinators and workers: certificates, and who has to show one.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tiledb_engine::ResultExt;
use tonic::transport::{Certificate, ClientTlsConfig, Identity, ServerTlsConfig};
use url::{Host, Url};
use zeroize::Zeroizing;

use crate::{Error, Result};

/// A handshake that isn't done within this time fails.
const HANDSHAKE_TIME: Duration = Duration::from_secs(3);
/// A file of certificates, or of a key, is no longer than this.
const LONGEST_FILE: u64 = 1 << 20;

/// The certificates of a process of a cluster, and of the authority that it believes.
///
/// A worker with an authority asks those who reach it for a certificate of that authority, unless they show a token.
#[derive(Clone, Default)]
pub struct ClusterTls {
    /// What this process shows: its certificate, with those between it and the authority, and its private key.
    identity: Option<Identity>,
    /// The certificates that vouch for others; without them, those that the system believes.
    authority: Option<Certificate>,
}

impl fmt::Debug for ClusterTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterTls")
            .field("has_identity", &self.identity.is_some())
            .field("has_authority", &self.authority.is_some())
            .finish()
    }
}

impl ClusterTls {
    /// Shows a certificate, whose chain and private key are PEM.
    ///
    /// # Errors
    /// The texts hold no certificate, or no private key.
    pub fn with_identity(self, certificates: &[u8], key: &[u8]) -> Result<Self> {
        check_certificates(certificates)?;
        PrivateKeyDer::from_pem_slice(key)
            .map_err(|_| Error::invalid("no private key in PEM was found"))?;
        Ok(Self {
            identity: Some(Identity::from_pem(certificates, key)),
            ..self
        })
    }

    /// Believes the certificates of an authority, in PEM, and no others.
    ///
    /// # Errors
    /// The text holds no certificate.
    pub fn with_authority(self, certificates: &[u8]) -> Result<Self> {
        check_certificates(certificates)?;
        Ok(Self {
            authority: Some(Certificate::from_pem(certificates)),
            ..self
        })
    }

    /// As [`with_identity`](Self::with_identity), from files.
    ///
    /// # Errors
    /// A file can't be read, or holds no certificate or key. No error repeats what a file holds.
    pub fn with_identity_files(self, certificates: &Path, key: &Path) -> Result<Self> {
        let chain = read(certificates)?;
        check_certificates(&chain).context("file", || certificates.display())?;
        let secret = read(key)?;
        self.with_identity(&chain, &secret)
            .context("file", || key.display())
    }

    /// As [`with_authority`](Self::with_authority), from a file.
    ///
    /// # Errors
    /// The file can't be read, or holds no certificate.
    pub fn with_authority_file(self, certificates: &Path) -> Result<Self> {
        self.with_authority(&read(certificates)?)
            .context("file", || certificates.display())
    }

    /// Whether this process shows a certificate.
    pub(super) fn has_identity(&self) -> bool {
        self.identity.is_some()
    }

    /// Whether others need a certificate of the authority, if they have no token.
    pub(super) fn has_authority(&self) -> bool {
        self.authority.is_some()
    }

    /// How a worker is reached.
    pub(super) fn of_client(&self, worker: &Url) -> ClientTlsConfig {
        use_a_provider();
        let mut config = ClientTlsConfig::new().timeout(HANDSHAKE_TIME);
        config = match &self.authority {
            Some(authority) => config.ca_certificate(authority.clone()),
            None => config.with_native_roots(),
        };
        if let Some(identity) = &self.identity {
            config = config.identity(identity.clone());
        }
        match worker.host() {
            // A URL has brackets around such an address, and a certificate has none.
            Some(Host::Ipv6(address)) => config.domain_name(address.to_string()),
            _ => config,
        }
    }

    /// How a worker listens; with a token, others need no certificate.
    ///
    /// # Errors
    /// The worker has no certificate to show.
    pub(super) fn of_worker(&self, has_token: bool) -> Result<ServerTlsConfig> {
        use_a_provider();
        let Some(identity) = &self.identity else {
            return Err(Error::invalid(
                "a worker with TLS needs a certificate and its key: give it --tls-cert and --tls-key",
            ));
        };
        let mut config = ServerTlsConfig::new()
            .identity(identity.clone())
            .timeout(HANDSHAKE_TIME);
        if let Some(authority) = &self.authority {
            config = config
                .client_ca_root(authority.clone())
                .client_auth_optional(has_token);
        }
        Ok(config)
    }
}

/// The transport takes the provider of cryptography that the process has. If a program has chosen one, that one stays.
fn use_a_provider() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

fn check_certificates(text: &[u8]) -> Result<()> {
    let mut count = 0;
    for certificate in CertificateDer::pem_slice_iter(text) {
        certificate.map_err(|_| Error::invalid("a certificate isn't well-formed PEM"))?;
        count += 1;
    }
    if count == 0 {
        return Err(Error::invalid("no certificate in PEM was found"));
    }
    Ok(())
}

fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>> {
    let unreadable = |e: std::io::Error| {
        Error::invalid(format!("the file {} can't be read", path.display())).with_source(e)
    };
    let bytes = std::fs::metadata(path).map_err(unreadable)?.len();
    if bytes > LONGEST_FILE {
        return Err(Error::invalid(format!(
            "the file {} has {bytes} bytes, more than a certificate or a key has",
            path.display()
        )));
    }
    std::fs::read(path).map(Zeroizing::new).map_err(unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_without_certificates_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pem");
        let tls = ClusterTls::default;
        assert!(tls().with_authority_file(&path).is_err());
        for (text, expected) in [
            ("", "no certificate"),
            ("secret of nobody", "no certificate"),
            (
                "-----BEGIN CERTIFICATE-----\n!secret!\n-----END CERTIFICATE-----\n",
                "well-formed",
            ),
        ] {
            std::fs::write(&path, text).unwrap();
            for error in [
                tls().with_authority_file(&path),
                tls().with_identity_files(&path, &path),
            ] {
                let error = error.unwrap_err().to_string();
                assert!(error.contains(expected), "{error}");
                assert!(error.contains("a.pem"), "{error}");
                assert!(!error.contains("secret"), "{error}");
            }
        }
        assert!(tls().of_worker(true).is_err());
    }
}

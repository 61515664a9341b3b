//! TLS with a certificate that is reloaded when its files change, so that it can be renewed without a restart.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, RwLock},
    time::Duration,
};

use base::{fault::shortened, private_file};
use tokio::{net::TcpStream, time::sleep};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::{CryptoProvider, aws_lc_rs},
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
        server::{ClientHello, ResolvesServerCert},
        sign::CertifiedKey,
    },
    server::TlsStream,
};

/// How often the files are checked.
fn look_every() -> Duration {
    shortened(Duration::from_secs(2), Duration::from_millis(200))
}
/// HTTP/2 before HTTP/1.1 (RFC 7301).
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum TlsFailure {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file does not have the required content.
    #[error("{} must hold {wanted} in PEM", path.display())]
    Contents {
        /// The file.
        path: PathBuf,
        /// The required content.
        wanted: &'static str,
    },
    /// The certificate and the key do not match, or are of an unknown kind.
    #[error("the certificate and the private key do not fit together")]
    Pair(#[source] tokio_rustls::rustls::Error),
}

/// A certificate with its private key, from two files.
#[derive(Clone)]
pub struct Certificate {
    files: Arc<Files>,
    current: Arc<Current>,
    acceptor: TlsAcceptor,
}

struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

/// The certificate and key for new connections.
#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl std::fmt::Debug for Certificate {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Certificate").field("file", &self.files.certificate).finish_non_exhaustive()
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.read().ok().map(|pair| pair.clone())
    }
}

impl Certificate {
    /// Reads a certificate with its chain and its private key, both in PEM.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, TlsFailure> {
        let files = Files { certificate: certificate.to_owned(), key: key.to_owned() };
        let provider = Arc::new(aws_lc_rs::default_provider());
        let pair = files.pair(&files.read()?, &provider)?;
        let current = Arc::new(Current(RwLock::new(Arc::new(pair))));
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(TlsFailure::Pair)?;
        let mut config = config.with_no_client_auth().with_cert_resolver(current.clone());
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        Ok(Self { files: Arc::new(files), current, acceptor: TlsAcceptor::from(Arc::new(config)) })
    }

    /// Watches the files for ever. An unusable pair is reported once, and the previous one stays.
    pub async fn keep_current(self) {
        let provider = aws_lc_rs::default_provider();
        let mut last = self.files.read().ok();
        loop {
            sleep(look_every()).await;
            let Ok(read) = self.files.read() else { continue };
            if last.as_ref() == Some(&read) {
                continue;
            }
            match self.files.pair(&read, &provider) {
                Ok(pair) => {
                    if let Ok(mut current) = self.current.0.write() {
                        *current = Arc::new(pair);
                    }
                    tracing::info!(file = %self.files.certificate.display(), "the certificate was read again");
                }
                // One file is replaced before the other.
                Err(failure) => {
                    let error = base::explain::explain(&failure);
                    tracing::warn!(error, "the new certificate is not used, the previous one is");
                }
            }
            last = Some(read);
        }
    }

    /// Performs the handshake with a client.
    pub(crate) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.acceptor.accept(stream).await
    }
}

impl Files {
    fn read(&self) -> Result<[Vec<u8>; 2], TlsFailure> {
        let failure = |path: &PathBuf, source| TlsFailure::File { path: path.clone(), source };
        let certificate = fs::read(&self.certificate).map_err(|source| failure(&self.certificate, source))?;
        let key = private_file::read(&self.key).map_err(|source| failure(&self.key, source))?;
        Ok([certificate, key])
    }

    fn pair(&self, [certificate, key]: &[Vec<u8>; 2], provider: &CryptoProvider) -> Result<CertifiedKey, TlsFailure> {
        let bad = |path: &PathBuf, wanted| TlsFailure::Contents { path: path.clone(), wanted };
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
        let chain = chain.ok().filter(|chain| !chain.is_empty());
        let chain = chain.ok_or_else(|| bad(&self.certificate, "a certificate with its chain"))?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| bad(&self.key, "a private key"))?;
        CertifiedKey::from_der(chain, key, provider).map_err(TlsFailure::Pair)
    }
}

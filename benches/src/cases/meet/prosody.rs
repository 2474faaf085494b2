//! Prosody MUC rooms: a join is a TLS connection, SASL, a bound resource and presence in a room.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};
use tenure_testkit::Process;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsConnector, rustls};

use super::server::SERVER;
use crate::cases::Bench;

/// SASL PLAIN credentials: `bench`, `secret`.
const PLAIN: &str = "AGJlbmNoAHNlY3JldA==";
const STREAM: &str = "<?xml version='1.0'?><stream:stream to='localhost' version='1.0' xmlns='jabber:client' \
                      xmlns:stream='http://etherx.jabber.org/streams'>";

/// A server on the same core as Tenure, with only the modules that a join needs.
pub(super) struct Prosody {
    process: Process,
    address: SocketAddr,
    tls: TlsConnector,
    _folder: tempfile::TempDir,
}

impl Prosody {
    pub(super) fn start(bench: &Bench<'_>) -> Result<Self> {
        let folder = bench.folder("prosody")?;
        let port = tenure_testkit::free_port()?;
        let dir = folder.path();
        certificate(dir)?;
        let accounts = dir.join("data/localhost/accounts");
        fs::create_dir_all(&accounts)?;
        fs::write(accounts.join("bench.dat"), "return { [\"password\"] = \"secret\"; };\n")?;
        let here = dir.display();
        fs::write(
            dir.join("prosody.cfg.lua"),
            format!(
                r#"
run_as_root = true
daemonize = false
pidfile = "{here}/pid"
data_path = "{here}/data"
log = {{ {{ levels = {{ min = "info" }}, to = "console" }} }}
interfaces = {{ "127.0.0.1" }}
c2s_ports = {{}}
s2s_ports = {{}}
http_ports = {{}}
https_ports = {{}}
c2s_direct_tls_ports = {{ {port} }}
c2s_direct_tls_ssl = {{ key = "{here}/key.pem"; certificate = "{here}/cert.pem" }}
ssl = {{ key = "{here}/key.pem"; certificate = "{here}/cert.pem" }}
authentication = "internal_plain"
modules_enabled = {{ "saslauth"; "tls" }}
modules_disabled = {{ "s2s"; "offline" }}
VirtualHost "localhost"
Component "rooms.localhost" "muc"
    muc_room_locking = false
"#
            ),
        )?;
        let mut command = Command::new("taskset");
        command.args(["-c", SERVER, "prosody", "-F", "--config"]).arg(dir.join("prosody.cfg.lua"));
        command.current_dir(dir).stderr(fs::File::create(dir.join("log"))?);
        let process = Process::spawn(command).context("prosody: apt-get install prosody")?;
        process.wait_for_line(
            |line| line.contains("Activated service") && line.contains("c2s"),
            Duration::from_secs(30),
        )?;
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(dir.join("cert.pem"))?)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        // A full handshake for each client: resumed TLS sessions would belong to returning clients.
        config.resumption = rustls::client::Resumption::disabled();
        let tls = TlsConnector::from(Arc::new(config));
        Ok(Self { process, address: (Ipv4Addr::LOCALHOST, port).into(), tls, _folder: folder })
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Joins a room as a new occupant.
    pub(super) fn join(
        &self,
        round: usize,
        who: usize,
        room: usize,
    ) -> impl Future<Output = Result<Person>> + Send + 'static {
        let (tls, address) = (self.tls.clone(), self.address);
        async move {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let stream = tls.connect(ServerName::try_from("localhost")?, stream).await?;
            let mut person = Person { stream, heard: String::new() };
            person.exchange(STREAM, "</stream:features>").await?;
            let auth =
                format!("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{PLAIN}</auth>");
            person.exchange(&auth, "<success").await?;
            person.exchange(STREAM, "</stream:features>").await?;
            let bind = format!(
                "<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><resource>r{round}-{who}\
                 </resource></bind></iq>"
            );
            person.exchange(&bind, "</iq>").await?;
            let presence = format!(
                "<presence to='room{round}-{room}@rooms.localhost/p{who}'>\
                 <x xmlns='http://jabber.org/protocol/muc'/></presence>"
            );
            person.exchange(&presence, "code='110'").await?;
            Ok(person)
        }
    }
}

/// An occupant of a room.
pub(super) struct Person {
    stream: TlsStream<TcpStream>,
    heard: String,
}

impl Person {
    /// Sends a stanza and waits until the response contains `until`.
    async fn exchange(&mut self, stanza: &str, until: &str) -> Result<()> {
        self.heard.clear();
        self.stream.write_all(stanza.as_bytes()).await?;
        self.stream.flush().await?;
        let mut piece = [0; 8_192];
        while !self.heard.contains(until) {
            let n = self.stream.read(&mut piece).await?;
            if n == 0 || self.heard.contains("<failure") || self.heard.len() > 1 << 20 {
                bail!("no {until} but {}", self.heard);
            }
            self.heard.push_str(&String::from_utf8_lossy(&piece[..n]));
        }
        Ok(())
    }
}

fn certificate(dir: &std::path::Path) -> Result<()> {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"])
        .args(["-keyout", "key.pem", "-out", "cert.pem", "-days", "13", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE"])
        .current_dir(dir)
        .output()
        .context("openssl")?;
    ensure!(made.status.success(), "openssl: {}", String::from_utf8_lossy(&made.stderr));
    Ok(())
}

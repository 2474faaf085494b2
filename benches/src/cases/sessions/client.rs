//! A minimal HTTP client: one connection, one request after the other.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::server::TOKEN;

pub(super) struct Client {
    stream: TcpStream,
    address: SocketAddr,
    bytes: Vec<u8>,
}

impl Client {
    pub(super) async fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, address, bytes: vec![0; 8_192] })
    }

    /// Sends an intent to watch a channel and waits for its acceptance.
    pub(super) async fn send_intent(&mut self, channel: u64) -> Result<()> {
        let body =
            format!("{{\"serviceRef\":\"1:0:1:{channel:X}:1:1:C00000:0:0:0:\",\"profileID\":\"high\"}}");
        let request = format!(
            "POST /api/v3/intents HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {TOKEN}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        self.stream.write_all(request.as_bytes()).await?;
        let mut have = 0;
        loop {
            let count = self.stream.read(&mut self.bytes[have..]).await?;
            ensure!(count > 0, "connection closed, or response larger than the buffer");
            have += count;
            let text = String::from_utf8_lossy(&self.bytes[..have]);
            let Some((head, rest)) = text.split_once("\r\n\r\n") else { continue };
            let length = head.to_ascii_lowercase();
            let length = length
                .lines()
                .find_map(|line| line.strip_prefix("content-length:"))
                .context("response without content-length")?;
            if rest.len() >= length.trim().parse()? {
                ensure!(head.starts_with("HTTP/1.1 202"), "{text}");
                return Ok(());
            }
        }
    }
}

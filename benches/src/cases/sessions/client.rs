//! A client that costs little: one connection, one request after the other.

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

    /// Wishes to watch a channel.
    pub(super) async fn wish(&mut self, channel: u64) -> Result<()> {
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
            ensure!(count > 0, "the server went away, or answers more than it should");
            have += count;
            let text = String::from_utf8_lossy(&self.bytes[..have]);
            let Some((head, rest)) = text.split_once("\r\n\r\n") else { continue };
            let length = head.to_ascii_lowercase();
            let length =
                length.lines().find_map(|line| line.strip_prefix("content-length:")).context("no length")?;
            if rest.len() >= length.trim().parse()? {
                ensure!(head.starts_with("HTTP/1.1 202"), "{text}");
                return Ok(());
            }
        }
    }
}

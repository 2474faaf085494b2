//! A TCP connection that records its activity.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;

use super::activity::Activity;

/// The socket, its activity, and its slot among the connections, which it keeps while it is open, also after an upgrade
/// took it away from the server.
#[derive(Debug)]
pub(super) struct Io {
    stream: TcpStream,
    activity: Arc<Activity>,
    _slot: OwnedSemaphorePermit,
    _count: Count,
}

/// Counts open connections in a gauge.
#[derive(Debug)]
struct Count;

impl Count {
    fn new() -> Self {
        metrics::gauge!("tenure_http_connections").increment(1.0);
        Self
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        metrics::gauge!("tenure_http_connections").decrement(1.0);
    }
}

impl Io {
    pub(super) fn new(stream: TcpStream, activity: Arc<Activity>, slot: OwnedSemaphorePermit) -> Self {
        Self { stream, activity, _slot: slot, _count: Count::new() }
    }

    fn record_write(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        self.activity.wrote(written.is_pending());
        written
    }
}

impl AsyncRead for Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let bytes = buffer.filled().get(before..).unwrap_or_default();
        if !bytes.is_empty() {
            self.activity.record_read(bytes);
        }
        read
    }
}

impl AsyncWrite for Io {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.record_write(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.record_write(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

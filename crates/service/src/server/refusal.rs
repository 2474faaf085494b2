//! The response to clients over the connection limit.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::clock;
use crate::code::Code;
use crate::problem::{PROBLEM_JSON, Problem};

/// How long a refused client may take to read the response.
const TIMEOUT: Duration = Duration::from_secs(1);
/// How much of its request is read. Closing before that would reset the connection, and the response could get lost.
const MAX_BYTES: u64 = 64 * 1_024;

/// Responds 503 without parsing the request.
pub(super) async fn refuse(mut stream: TcpStream) {
    let problem = Problem::new(Code::UNAVAILABLE, "the server has reached its connection limit; try again");
    let body = problem.with("retryAfterSeconds", 1).body().to_string();
    let response = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: {PROBLEM_JSON}\r\ncontent-length: {}\r\n\
         retry-after: 1\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let exchange = async {
        stream.write_all(response.as_bytes()).await?;
        stream.shutdown().await?;
        tokio::io::copy(&mut (&mut stream).take(MAX_BYTES), &mut tokio::io::sink()).await
    };
    // The client may have closed the connection already.
    let _ = clock::within(TIMEOUT, exchange).await;
}

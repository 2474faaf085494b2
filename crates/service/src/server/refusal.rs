//! Telling a client that there is no place for it.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::clock;
use crate::code::Code;
use crate::problem::{PROBLEM_JSON, Problem};

/// How long a refused client may take to read why.
const PATIENCE: Duration = Duration::from_secs(1);
/// What it may still send meanwhile. Closing before it is read would reset the connection and could take the
/// answer with it.
const MOST_BYTES: u64 = 64 * 1_024;

/// Answers 503 to whatever the client asks, without speaking HTTP to it.
pub(super) async fn refuse(mut stream: TcpStream) {
    let problem =
        Problem::new(Code::UNAVAILABLE, "the server has all the connections it may have; try again");
    let body = problem.with("retryAfterSeconds", 1).body().to_string();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: {PROBLEM_JSON}\r\ncontent-length: {}\r\n\
         retry-after: 1\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let talk = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await?;
        tokio::io::copy(&mut (&mut stream).take(MOST_BYTES), &mut tokio::io::sink()).await
    };
    // The client may be gone; that is as good.
    let _ = clock::within(PATIENCE, talk).await;
}

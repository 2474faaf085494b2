//! What a client without a token can make the server do.

use futures_util::{StreamExt, stream};

use crate::server::{LIMIT, Server, within};

/// The head of a gRPC message of 8 MiB, whose body never comes.
const LARGE_MESSAGE: [u8; 5] = [0, 0, 0x80, 0, 0];

#[tokio::test]
async fn a_call_without_a_token_is_refused_before_its_message_is_read() {
    let server = Server::start().await;
    let http2 = reqwest::Client::builder().http2_prior_knowledge().build().unwrap();
    for call in ["Records/Commit", "Leases/Acquire", "Leases/KeepAlive"] {
        for token in [None, Some("guess")] {
            let head = stream::iter([Ok::<_, std::io::Error>(LARGE_MESSAGE.to_vec())]);
            let body = reqwest::Body::wrap_stream(head.chain(stream::pending()));
            let mut request = http2
                .post(format!("http://{}/tenure.lease.v1.{call}", server.address))
                .header("content-type", "application/grpc")
                .header("te", "trailers")
                .body(body);
            if let Some(token) = token {
                request = request.bearer_auth(token);
            }
            let reply = within(LIMIT, request.send()).await.unwrap();
            assert_eq!(reply.headers()["grpc-status"], "16", "{call} {token:?}");
        }
    }
}

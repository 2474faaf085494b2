//! Connections on which the server sends messages by itself (RESP3).

use std::convert::Infallible;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client as RedisClient, ProtocolVersion, PushInfo, RedisError};

use super::client::Client;
use super::connection::CONNECT_TIMEOUT;

/// Opens one. `receive` runs in the task that reads from the network, so no other task has to be woken.
pub(super) async fn open(
    client: &Client,
    receive: impl Fn(PushInfo) + Send + Sync + 'static,
) -> Result<MultiplexedConnection, RedisError> {
    let info = client.options.client.get_connection_info().clone();
    let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT_TIMEOUT))
        .set_response_timeout(Some(client.options.op_timeout))
        .set_push_sender(move |push| {
            receive(push);
            Ok::<(), Infallible>(())
        });
    RedisClient::open(info.set_redis_settings(settings))?
        .get_multiplexed_async_connection_with_config(&config)
        .await
}

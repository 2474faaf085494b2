//! Connections on which the server speaks first.

use std::convert::Infallible;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ProtocolVersion, PushInfo, RedisError};

use super::link::CONNECT;
use super::wire::Wire;

/// Opens one. What the server says on it is heard where it is read from the network: nobody has to be woken for it.
pub(super) async fn open(
    wire: &Wire,
    hear: impl Fn(PushInfo) + Send + Sync + 'static,
) -> Result<MultiplexedConnection, RedisError> {
    let info = wire.options.client.get_connection_info().clone();
    let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    let client = Client::open(info.set_redis_settings(settings))?;
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT))
        .set_response_timeout(Some(wire.options.op_timeout))
        .set_push_sender(move |push| {
            hear(push);
            Ok::<(), Infallible>(())
        });
    client.get_multiplexed_async_connection_with_config(&config).await
}

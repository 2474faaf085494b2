//! `Store::open` on the URL of a server.

use tenure_client::ClientOptions;
use tenure_lease::{Error, Op};
use tenure_store::{OpenOptions, Store};

use crate::client::key;
use crate::server::{ADMIN, Server};

#[tokio::test]
async fn a_store_is_opened_by_the_url_of_a_server() {
    let server = Server::start().await;
    let options = OpenOptions { remote: ClientOptions::default().token(ADMIN) };
    let store = Store::open_with(&format!("tenure://{}", server.address), options).await.unwrap();
    let put = Op::Put { key: key("r"), value: b"1"[..].into(), ttl: None };
    store.commit(&[put]).await.unwrap();
    assert_eq!(&*server.store.get(&key("r")).await.unwrap().unwrap().value, b"1");
    assert_eq!(store.capabilities().engine, server.store.capabilities().engine);
}

#[tokio::test]
async fn a_server_that_requires_a_token_refuses_to_open_without_one() {
    let server = Server::start().await;
    let error = Store::open(&format!("tenure://{}", server.address)).await.unwrap_err();
    assert!(matches!(error, Error::Invalid { what: "token", .. }), "{error}");
}

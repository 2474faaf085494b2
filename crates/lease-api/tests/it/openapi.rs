//! The description of the service.

use std::sync::Arc;

use serde_json::Value;
use tenure_lease_api::Options;
use tenure_store::Local;

fn description() -> Value {
    let (_, api) = tenure_lease_api::http(Arc::new(Local::memory()), Options::default());
    serde_json::to_value(api).unwrap()
}

#[tokio::test]
async fn every_path_of_the_contract_is_described() {
    let api = description();
    assert!(api["openapi"].as_str().unwrap().starts_with("3.1"));
    for (path, method) in [
        ("/v1/leases/acquire", "post"),
        ("/v1/leases/renew", "post"),
        ("/v1/leases/release", "post"),
        ("/v1/leases/transfer", "post"),
        ("/v1/leases/revoke", "post"),
        ("/v1/leases", "get"),
        ("/v1/leases/one", "get"),
        ("/v1/leases/history", "get"),
        ("/v1/leases/watch", "get"),
        ("/v1/records", "put"),
        ("/v1/records", "get"),
    ] {
        let operation = &api["paths"][path][method];
        assert!(operation["operationId"].is_string(), "{method} {path}");
        assert!(operation["responses"]["200"].is_object(), "{method} {path}");
        assert!(operation["responses"]["401"].is_object(), "{method} {path}");
    }
    assert_eq!(api["components"]["securitySchemes"]["bearer"]["scheme"], "bearer");
    assert_eq!(api["security"][0]["bearer"], serde_json::json!([]));
}

#[tokio::test]
async fn every_reference_resolves() {
    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str));
                map.values().for_each(|value| references(value, found));
            }
            Value::Array(list) => list.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    let api = description();
    let mut found = Vec::new();
    references(&api, &mut found);
    assert!(!found.is_empty());
    for reference in found {
        assert!(api.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
    }
}

//! The OpenAPI description.

use serde_json::Value;

fn description() -> Value {
    serde_json::to_value(tenure_session_api::openapi()).unwrap()
}

#[test]
fn every_route_is_described() {
    let api = description();
    for (path, method, status) in [
        ("/api/v3/intents", "post", "202"),
        ("/api/v3/sessions", "get", "200"),
        ("/api/v3/sessions/{id}", "get", "410"),
        ("/api/v3/sessions/{id}/heartbeat", "post", "410"),
        ("/api/v3/sessions/{id}/events", "get", "200"),
        ("/api/v3/sessions/{id}/hls/{file}", "get", "410"),
        ("/api/v3/channels", "get", "200"),
    ] {
        let operation = &api["paths"][path][method];
        for status in [status, "400", "401", "403", "503"] {
            assert!(operation["responses"][status].is_object(), "{method} {path} {status}");
        }
    }
    assert_eq!(api["paths"].as_object().unwrap().len(), 7);
    assert_eq!(api["components"]["securitySchemes"]["bearer"]["scheme"], "bearer");
    let intent = &api["components"]["schemas"]["IntentBody"];
    assert_eq!(intent["additionalProperties"], false);
    assert!(
        intent["properties"]["profileID"].is_object() && intent["properties"]["idempotencyKey"].is_object()
    );
}

#[test]
fn every_schema_reference_resolves() {
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

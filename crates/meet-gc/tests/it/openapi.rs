//! The OpenAPI description of the routes.

use serde_json::Value;

use crate::test_gc::TestGc;

#[tokio::test]
async fn every_route_documents_its_errors() {
    let test_gc = TestGc::new().await;
    let api: Value = serde_json::to_value(tenure_meet_gc::routes(&test_gc.first().gc).1).unwrap();
    let table = [
        ("/api/v1/meetings", "post", "201"),
        ("/api/v1/meetings/{code}", "get", "200"),
        ("/api/v1/meetings/{code}/guest-token", "post", "200"),
        ("/api/v1/meetings/{id}/settings", "patch", "200"),
        ("/api/v1/meetings/{id}/unreachable", "post", "200"),
        ("/api/v1/me", "get", "200"),
    ];
    for (path, method, good) in table {
        let responses = &api["paths"][path][method]["responses"];
        assert!(responses[good].is_object(), "{path}");
        for status in ["400", "401", "403", "404", "409", "413", "415", "429", "503"] {
            let body = &responses[status]["content"]["application/json"]["schema"]["$ref"];
            assert_eq!(body, "#/components/schemas/ErrorBody", "{path} {status}");
        }
    }
    assert_eq!(api["paths"].as_object().unwrap().len(), table.len());
    for schema in ["CreateMeeting", "GuestRequest", "Change", "ReportBody"] {
        assert_eq!(api["components"]["schemas"][schema]["additionalProperties"], false, "{schema}");
    }
}

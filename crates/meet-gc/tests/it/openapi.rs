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
    let for_operators = [
        ("/api/v1/admin/nodes", "get"),
        ("/api/v1/admin/moves", "get"),
        ("/api/v1/admin/meetings", "get"),
        ("/api/v1/admin/meetings/{id}", "get"),
        ("/api/v1/admin/meetings/{id}/move", "post"),
        ("/api/v1/admin/meetings/{id}/end", "post"),
        ("/api/v1/admin/controllers/{id}/drain", "post"),
        ("/api/v1/admin/controllers/{id}/undrain", "post"),
    ];
    for (path, method) in for_operators {
        let responses = &api["paths"][path][method]["responses"];
        assert!(responses["200"].is_object(), "{path}");
        let forbidden = responses["403"]["content"].as_object().unwrap();
        assert_eq!(forbidden.keys().collect::<Vec<_>>(), ["application/problem+json"], "{path}");
    }
    for (path, method, good) in table {
        let responses = &api["paths"][path][method]["responses"];
        assert!(responses[good].is_object(), "{path}");
        for status in ["400", "401", "403", "404", "409", "413", "415", "429", "503"] {
            let body = &responses[status]["content"]["application/json"]["schema"]["$ref"];
            assert_eq!(body, "#/components/schemas/ErrorBody", "{path} {status}");
        }
    }
    assert_eq!(api["paths"].as_object().unwrap().len(), table.len() + for_operators.len());
    for schema in ["CreateMeeting", "GuestRequest", "Change", "ReportBody", "MoveRequest", "DrainRequest"] {
        assert_eq!(api["components"]["schemas"][schema]["additionalProperties"], false, "{schema}");
    }
}

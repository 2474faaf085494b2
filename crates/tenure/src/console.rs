//! The console's files, inside the binary.

use std::borrow::Cow;
use std::sync::Arc;

use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tenure_service::{Code, Problem};

#[derive(rust_embed::RustEmbed)]
#[folder = "$CARGO_MANIFEST_DIR/../../web/console"]
struct Files;

/// The content security policy of pages: they connect only to their own server, and play media received from it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     media-src 'self' blob:; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'";

/// The policy of the meeting page, which also connects to the controller and the media handlers of the meeting, and runs
/// workers. Its one Trusted Types policy accepts only the files of those workers.
const MEET_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     media-src 'self' blob:; connect-src 'self' https:; worker-src 'self'; base-uri 'none'; form-action 'self'; \
     frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types meet";
const MEET: &str = "meet.html";
/// A worker is held to the policy of its own file.
const MEET_WORKERS: [&str; 2] = ["mediaworker.js", "meetworker.js"];

/// The frame of all pages, and the line of a page that it replaces.
const SHELL: &str = "shell.html";
const SHELL_MARK: &str = "<!-- shell -->";

/// `/` and the files beside it. The navigation links to `pages`, by the names of their services.
pub(crate) fn routes(pages: Vec<&'static str>) -> Router {
    let pages: Arc<[&'static str]> = pages.into();
    let serve = move |name: &str| file(name, &pages);
    let [index, start, meeting, other] = std::array::from_fn(|_| serve.clone());
    Router::new()
        .route("/", get(async move || index("index.html")))
        // The page of meetings reads the code of one from its own address.
        .route("/meet", get(async move || start(MEET)))
        .route("/meet/{code}", get(async move || meeting(MEET)))
        .route("/{file}", get(async move |Path(name): Path<String>| other(&name)))
}

fn file(name: &str, pages: &[&str]) -> Response {
    let policy = if name == MEET || MEET_WORKERS.contains(&name) { MEET_POLICY } else { POLICY };
    let Some(found) = Files::get(name) else {
        return Problem::new(Code::NOT_FOUND, "no such page").into_response();
    };
    let kind = HeaderValue::from_str(found.metadata.mimetype())
        .unwrap_or(HeaderValue::from_static("application/octet-stream"));
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy)),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        // A new binary brings new files under the same names.
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (header::REFERRER_POLICY, HeaderValue::from_static("same-origin")),
    ];
    (StatusCode::OK, headers, with_shell(name, found.data, pages)).into_response()
}

/// A page with the frame in it. Other files stay as they are.
fn with_shell(name: &str, data: Cow<'static, [u8]>, pages: &[&str]) -> Cow<'static, [u8]> {
    if !name.ends_with(".html") || name == SHELL {
        return data;
    }
    let Some(shell) = Files::get(SHELL) else { return data };
    let page = String::from_utf8_lossy(&data);
    page.replacen(SHELL_MARK, &navigation(&String::from_utf8_lossy(&shell.data), pages), 1)
        .into_bytes()
        .into()
}

/// The frame without the links of services that do not run here. A link is one line.
fn navigation(shell: &str, pages: &[&str]) -> String {
    let runs = |line: &&str| {
        let service = line.split_once("data-service=\"").and_then(|(_, rest)| rest.split_once('"'));
        service.is_none_or(|(name, _)| pages.contains(&name))
    };
    shell.lines().filter(runs).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(name: &str, pages: &[&str]) -> String {
        let found = Files::get(name).unwrap();
        String::from_utf8(with_shell(name, found.data, pages).into_owned()).unwrap()
    }

    #[test]
    fn every_page_has_the_frame_with_the_links_of_the_services_that_run() {
        let all = ["lease", "poll", "control", "sessions", "meet"];
        for name in ["index.html", "tv.html", "control.html", "operations.html", MEET] {
            let with_all = page(name, &all);
            assert!(!with_all.contains(SHELL_MARK), "{name}");
            for service in all {
                assert!(with_all.contains(&format!("data-service=\"{service}\"")), "{name}: {service}");
            }
            let some = page(name, &["lease", "meet"]);
            assert_eq!(
                some.matches("data-service=").count(),
                3,
                "{name}: leases, meetings and their operations"
            );
            assert!(some.contains("href=\"/meet\"") && !some.contains("/tv.html"), "{name}");
        }
    }

    #[test]
    fn other_files_stay_as_they_are() {
        let found = Files::get("shell.js").unwrap();
        assert_eq!(page("shell.js", &[]).as_bytes(), &found.data[..]);
    }
}

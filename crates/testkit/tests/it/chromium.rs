//! The browser.

use std::fs;

use serde_json::json;
use tenure_testkit::{Chromium, ColourScheme, PageErrorKind, wait};

use crate::LIMIT;

/// The processes of a group that have not ended.
fn alive(group: u32) -> usize {
    let lives = |stat: String| {
        let fields: Vec<&str> =
            stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap_or_default();
        fields.len() > 2 && fields[0] != "Z" && fields[2] == group.to_string()
    };
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes.filter(|process| fs::read_to_string(process.path().join("stat")).is_ok_and(lives)).count()
}

#[test]
fn a_page_is_clicked_typed_into_and_asked() {
    let chromium = Chromium::start().unwrap();
    let page = chromium
        .open("data:text/html,<input id=name><button onclick='this.textContent=document.getElementById(`name`).value'>?")
        .unwrap();
    page.fill("#name", "Ada").unwrap();
    page.press("!").unwrap();
    page.click("button").unwrap();
    page.wait_for("document.querySelector('button').textContent === 'Ada!'", LIMIT).unwrap();
    assert_eq!(page.evaluate("Promise.resolve({ a: [1, 'x'] })").unwrap(), json!({"a": [1, "x"]}));
    assert!(page.evaluate("missing.field").unwrap_err().to_string().contains("missing is not defined"));
    page.screen(390, 700, 1.0, true).unwrap();
    assert_eq!(page.evaluate("screen.width").unwrap(), 390);
    page.colour_scheme(ColourScheme::Dark).unwrap();
    assert_eq!(page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches").unwrap(), true);
    assert!(page.screenshot().unwrap().starts_with(b"\x89PNG"));
    page.close().unwrap();
}

#[test]
fn what_a_page_complains_about_is_collected() {
    let chromium = Chromium::start().unwrap();
    let policy = "<meta http-equiv=content-security-policy content=\"style-src 'none'\">";
    let page = chromium.open(&format!("data:text/html,{policy}<p style='color:red'>")).unwrap();
    page.evaluate("console.error('no', 7); setTimeout(() => missing.field); 0").unwrap();
    page.evaluate("new Promise((done) => setTimeout(done))").unwrap();
    let seen = page.errors();
    let has = |kind, words: &str| seen.iter().any(|one| one.kind == kind && one.text.contains(words));
    assert!(has(PageErrorKind::Console, "error: no 7"), "{seen:?}");
    assert!(has(PageErrorKind::Exception, "missing is not defined"), "{seen:?}");
    assert!(has(PageErrorKind::Browser, "style-src"), "{seen:?}");
    assert!(page.expect_no_errors(|_| true).is_err());
    page.expect_no_errors(|_| false).unwrap();
}

#[test]
fn persons_share_nothing_and_tabs_share_storage() {
    let chromium = Chromium::start().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("page.html");
    fs::write(&file, "<title>page</title>").unwrap();
    let url = format!("file://{}", file.display());
    let (first, second, other) =
        (chromium.open(&url).unwrap(), chromium.open(&url).unwrap(), chromium.open_apart(&url).unwrap());
    first.evaluate("localStorage.setItem('who', 'me')").unwrap();
    second.wait_for("localStorage.getItem('who') === 'me'", LIMIT).unwrap();
    assert_eq!(other.evaluate("localStorage.getItem('who')").unwrap(), json!(null));
}

#[test]
fn a_dropped_browser_leaves_no_process() {
    let chromium = Chromium::start().unwrap();
    let page = chromium.open("about:blank").unwrap();
    let group = chromium.pid();
    assert!(alive(group) > 1, "a browser is more than one process");
    drop(chromium);
    wait::until("all processes are gone", LIMIT, || alive(group) == 0).unwrap();
    assert!(page.evaluate("1").is_err());
}

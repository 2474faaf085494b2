//! A headless Chromium for one test.

mod keys;
mod link;
mod page;
mod page_error;

use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;
use tempfile::TempDir;

use crate::child::Child;
use crate::lines::Lines;
use crate::wait;
use link::Link;

pub use page::{ColourScheme, Page};
pub use page_error::{PageError, PageErrorKind};

const PROGRAM: &str = "chromium";
const MISSING: &str = "chromium not found: apt-get install chromium (cargo xtask test does it)";

/// Start-up timeout. Long, because a browser loads a hundred megabytes, perhaps on a loaded machine with a cold cache.
const START_LIMIT: Duration = Duration::from_secs(60);

/// How long remaining processes of a killed browser may still write files.
const SWEEP_LIMIT: Duration = Duration::from_secs(5);

/// The prefix of the line with the DevTools address.
const ADDRESS: &str = "DevTools listening on ";

/// No sandbox, because tests run as root in containers and load only pages of this repository. Background network
/// traffic and the throttling of background pages are disabled.
const FLAGS: &[&str] = &[
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-proxy-server",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--disable-breakpad",
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
    "--lang=en-US",
    "--password-store=basic",
    "--remote-debugging-port=0",
];

/// The options of a [`Chromium`].
#[derive(Clone)]
pub struct ChromiumBuilder {
    program: PathBuf,
    window: (u32, u32),
    camera: bool,
}

/// A fake camera and microphone that need no permission: a green image with a clock, and beeps.
const CAMERA: &[&str] =
    &["--use-fake-device-for-media-stream=fps=10,device-count=2", "--use-fake-ui-for-media-stream"];

impl ChromiumBuilder {
    /// Adds fake cameras and microphones.
    pub fn camera(mut self) -> Self {
        self.camera = true;
        self
    }

    /// The size of its windows, in pixels; 1200 × 800 by default.
    pub fn window(mut self, width: u32, height: u32) -> Self {
        self.window = (width, height);
        self
    }

    /// Starts the browser and waits until it accepts commands.
    pub fn start(self) -> Result<Chromium> {
        let profile = tempfile::Builder::new()
            .prefix("testkit-chromium-")
            .tempdir()
            .context("cannot create a directory for chromium")?;
        let (child, lines) = self.spawn(profile.path())?;
        let mut chromium = Chromium { child, profile: Some(profile), link: None };
        let line = lines
            .wait_for(|line| line.starts_with(ADDRESS), START_LIMIT)
            .context("chromium printed no DevTools address")?;
        let address = line.trim_start_matches(ADDRESS).trim();
        chromium.link = Some(Arc::new(Link::open(address)?));
        Ok(chromium)
    }

    fn spawn(&self, profile: &Path) -> Result<(Child, Arc<Lines>)> {
        let (width, height) = self.window;
        let mut command = Command::new(&self.program);
        command.args(FLAGS).arg(format!("--window-size={width},{height}"));
        command.args(CAMERA.iter().filter(|_| self.camera));
        command.arg(format!("--user-data-dir={}", profile.display())).arg("about:blank");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        // In its own process group: a browser has many processes, and all of them are killed.
        command.process_group(0);
        let (child, stderr) = Child::spawn_with(&mut command, MISSING, |child| child.stderr.take())?;
        let stderr = stderr.context("chromium has no standard error")?;
        let lines = Arc::new(Lines::default());
        let filled = Arc::clone(&lines);
        // The thread ends with the pipe and is not joined.
        thread::Builder::new()
            .name(format!("stderr-{}", child.pid()))
            .spawn(move || filled.fill(stderr))
            .context("cannot start the output thread")?;
        Ok((child, lines))
    }
}

/// A running headless Chromium with a fresh profile. Dropping it kills all its processes.
///
/// Its methods block and work in any test: the connection to the browser has its own thread.
pub struct Chromium {
    child: Child,
    profile: Option<TempDir>,
    link: Option<Arc<Link>>,
}

impl Chromium {
    /// Starts a browser with default options.
    pub fn start() -> Result<Self> {
        Self::builder().start()
    }

    /// A builder with default options.
    pub fn builder() -> ChromiumBuilder {
        ChromiumBuilder { program: PROGRAM.into(), window: (1200, 800), camera: false }
    }

    /// The process id of the browser, which is also its process group.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Opens `url` in a new tab; tabs share cookies and storage.
    pub fn open(&self, url: &str) -> Result<Page> {
        self.tab(url, None)
    }

    /// Opens `url` with separate cookies and storage, as another user.
    pub fn open_apart(&self, url: &str) -> Result<Page> {
        let context = self.link()?.call(None, "Target.createBrowserContext", json!({}))?;
        let id = context["browserContextId"].as_str().context("a browser context without an id")?;
        self.tab(url, Some(id))
    }

    fn tab(&self, url: &str, context: Option<&str>) -> Result<Page> {
        let mut wanted = json!({ "url": "about:blank" });
        if let Some(context) = context {
            wanted["browserContextId"] = json!(context);
        }
        let made = self.link()?.call(None, "Target.createTarget", wanted)?;
        let target = made["targetId"].as_str().context("a tab without an id")?;
        let page = Page::attach(Arc::clone(self.link()?), target)?;
        page.navigate(url)?;
        Ok(page)
    }

    fn link(&self) -> Result<&Arc<Link>> {
        self.link.as_ref().context("chromium is not running")
    }

    /// Kills all processes, as dropping does, and returns errors.
    pub fn kill9(&self) -> Result<()> {
        self.child.kill9_group()
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        let _ = self.child.kill9_group();
        let Some(profile) = self.profile.take() else { return };
        // Renderers end shortly after the browser and may write until then.
        let path = profile.keep();
        let _ = wait::until("the profile is removed", SWEEP_LIMIT, || match std::fs::remove_dir_all(&path) {
            Ok(()) => true,
            Err(error) => error.kind() == ErrorKind::NotFound,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_chromium_names_the_package() {
        let mut builder = Chromium::builder();
        builder.program = "no-such-chromium".into();
        let error = builder.start().err().unwrap().to_string();
        assert_eq!(error, MISSING);
        assert!(error.contains("apt-get install chromium"), "{error}");
    }
}

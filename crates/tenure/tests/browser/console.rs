//! The console as a person uses it.

use std::ops::Deref;

use tenure_testkit::{Chromium, Page, PageError};

use crate::LIMIT;
use crate::up::Up;

/// An open console.
pub(crate) struct Console {
    page: Page,
}

impl Deref for Console {
    type Target = Page;

    fn deref(&self) -> &Page {
        &self.page
    }
}

/// The selector of a hook.
pub(crate) fn hook(name: &str) -> String {
    format!("[data-test={name}]")
}

/// The selector of a lease's row.
pub(crate) fn row(key: &str) -> String {
    format!("[data-test=row][data-key=\"{key}\"]")
}

impl Console {
    /// Opens an address of the console.
    pub(crate) fn open(chromium: &Chromium, url: &str) -> Self {
        Self { page: chromium.open(url).unwrap() }
    }

    /// Opens it as another person would.
    pub(crate) fn open_apart(chromium: &Chromium, url: &str) -> Self {
        Self { page: chromium.open_apart(url).unwrap() }
    }

    /// Signs in by the printed link and waits until changes come in.
    pub(crate) fn signed_in(chromium: &Chromium, up: &Up) -> Self {
        let console = Self::open(chromium, &up.link);
        console.wait_until_live();
        console
    }

    pub(crate) fn sees(&self, condition: &str) {
        if let Err(error) = self.page.wait_for(condition, LIMIT) {
            panic!("{error:#}");
        }
    }

    pub(crate) fn sees_element(&self, selector: &str) {
        self.sees(&format!("document.querySelector({selector:?})?.checkVisibility()"));
    }

    pub(crate) fn sees_words(&self, selector: &str, words: &str) {
        self.sees(&format!("document.querySelector({selector:?})?.innerText.includes({words:?})"));
    }

    pub(crate) fn wait_until_live(&self) {
        self.sees_element("[data-test=connection][data-state=live]");
    }

    /// Keeps every word that any row's state shows from now on, however short, in the page's `states`.
    pub(crate) fn record_states(&self) {
        self.page
            .evaluate(
                "window.states = new Set();
                 new MutationObserver(() => document.querySelectorAll('[data-test=row] .chip').forEach((one) => states.add(one.textContent)))
                   .observe(document.body, { subtree: true, childList: true, characterData: true }); 0",
            )
            .unwrap();
    }

    /// Opens a lease by its row.
    pub(crate) fn open_lease(&self, key: &str) {
        self.page.click(&format!("{} [data-test=key]", row(key))).unwrap();
        self.sees_words(&hook("lease-key"), key);
        self.sees("document.querySelectorAll('[data-test=reign]').length > 0");
        self.wait_until_live();
    }

    /// Signs in with a token on the sign-in screen.
    pub(crate) fn sign_in(&self, token: &str) {
        self.page.fill(&hook("login-token"), token).unwrap();
        self.page.click(&hook("login-submit")).unwrap();
    }

    /// Fails on anything in the browser's console.
    pub(crate) fn is_calm(&self) {
        self.is_calm_but(|_| false);
    }

    /// [`Console::is_calm`] but for failed loads that are part of the test.
    pub(crate) fn is_calm_but(&self, expected: impl FnMut(&PageError) -> bool) {
        self.page.expect_no_errors(expected).unwrap();
    }
}

/// A request that was refused because no user was signed in.
pub(crate) fn unauthenticated(page_error: &PageError) -> bool {
    page_error.text.contains("401")
}

//! What an engine makes of the list of tests.

/// Makes a module of tests for one engine: its name, the path of an `async fn() -> Harness`, and arguments of
/// `#[tokio::test]`.
///
/// The invoking crate has tokio with its macros.
#[macro_export]
macro_rules! conformance_suite {
    ($engine:ident, $harness:path $(, $($tokio:tt)*)?) => {
        mod $engine {
            #[allow(unused_imports, reason = "the harness may be named by an absolute path")]
            use super::*;
            $crate::conformance_list! { [$crate::conformance_tests] { ($harness) ($($($tokio)*)?) } }
        }
    };
}

/// Makes a module of tests for one engine that comes back after a restart, as [`suite`] does.
///
/// [`suite`]: crate::conformance::suite
#[macro_export]
macro_rules! conformance_restarts {
    ($engine:ident, $harness:path $(, $($tokio:tt)*)?) => {
        mod $engine {
            #[allow(unused_imports, reason = "the harness may be named by an absolute path")]
            use super::*;
            $crate::conformance_restart_list! { [$crate::conformance_tests] { ($harness) ($($($tokio)*)?) } }
        }
    };
}

/// Makes a module of tests for one engine that keeps what it answered over a crash, as [`suite`] does.
///
/// [`suite`]: crate::conformance::suite
#[macro_export]
macro_rules! conformance_crashes {
    ($engine:ident, $harness:path $(, $($tokio:tt)*)?) => {
        mod $engine {
            #[allow(unused_imports, reason = "the harness may be named by an absolute path")]
            use super::*;
            $crate::conformance_crash_list! { [$crate::conformance_tests] { ($harness) ($($($tokio)*)?) } }
        }
    };
}

/// Makes a module of tests for one engine that a restart puts into quarantine, as [`suite`] does.
///
/// [`suite`]: crate::conformance::suite
#[macro_export]
macro_rules! conformance_quarantines {
    ($engine:ident, $harness:path $(, $($tokio:tt)*)?) => {
        mod $engine {
            #[allow(unused_imports, reason = "the harness may be named by an absolute path")]
            use super::*;
            $crate::conformance_quarantine_list! { [$crate::conformance_tests] { ($harness) ($($($tokio)*)?) } }
        }
    };
}

/// Makes a module of tests for one engine whose replies may be lost on the way, as [`suite`] does.
///
/// [`suite`]: crate::conformance::suite
#[macro_export]
macro_rules! conformance_lost_replies {
    ($engine:ident, $harness:path $(, $($tokio:tt)*)?) => {
        mod $engine {
            #[allow(unused_imports, reason = "the harness may be named by an absolute path")]
            use super::*;
            $crate::conformance_lost_reply_list! { [$crate::conformance_tests] { ($harness) ($($($tokio)*)?) } }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_tests {
    ({ $harness:tt $tokio:tt } $($topic:ident { $($name:ident)* })*) => {
        $(
            mod $topic {
                #[allow(unused_imports, reason = "the harness may be named by an absolute path")]
                use super::*;
                $crate::conformance_topic! { $harness $tokio $topic $($name)* }
            }
        )*
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_topic {
    (($harness:path) $tokio:tt $topic:ident $($name:ident)*) => {
        $(
            #[::tokio::test $tokio]
            async fn $name() {
                let harness = $harness().await;
                $crate::conformance::$topic::$name(&harness).await;
            }
        )*
    };
}

#[cfg(test)]
macro_rules! listed {
    ({} $($topic:ident { $($name:ident)* })*) => {
        [$((
            stringify!($topic),
            include_str!(concat!(stringify!($topic), ".rs")),
            &[$(stringify!($name)),*][..],
        )),*]
    };
}

#[cfg(test)]
mod tests {
    /// A function that is on no list would never run.
    #[test]
    fn every_test_is_listed_under_its_topic() {
        let all = crate::conformance_list! { [listed] {} };
        let restarts = crate::conformance_restart_list! { [listed] {} };
        let crashes = crate::conformance_crash_list! { [listed] {} };
        let quarantines = crate::conformance_quarantine_list! { [listed] {} };
        let lost_replies = crate::conformance_lost_reply_list! { [listed] {} };
        let some = restarts.into_iter().chain(crashes).chain(quarantines).chain(lost_replies);
        for (topic, source, listed) in all.into_iter().chain(some) {
            let written: Vec<_> = source
                .lines()
                .filter_map(|line| line.strip_prefix("pub async fn ")?.split('(').next())
                .collect();
            assert_eq!(written, listed, "{topic}");
        }
    }
}

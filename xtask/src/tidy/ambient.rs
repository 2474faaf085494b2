//! Ambient inputs are read in few places: the environment in `service`, clocks in files named `clock.rs`. All other code
//! receives its settings and its clock, and some crates their randomness, so that it can be simulated.
use crate::tidy::Violation;
use crate::tidy::source::{Source, is_word};
use crate::tidy::tree::{Tree, under};

/// The crates that may read the environment; build scripts may too. `breaks` does so only under its feature, in tests.
const ENVIRONMENT: [&str; 5] = ["crates/breaks", "crates/service", "crates/testkit", "xtask", "benches"];
/// The crate whose command-line arguments may come from the environment.
const ARGUMENTS: &str = "crates/tenure";
/// The attributes of clap.
const CLAP: [&str; 4] = ["arg", "clap", "command", "value"];
const CLOCKS: [&str; 3] = ["Instant::now", "SystemTime::now", "clock_gettime"];
/// Crates that receive all randomness.
const HANDED: [&str; 3] = ["crates/lease", "crates/session", "crates/meet-wire"];
/// The exception: the library that signs certificates generates their keys.
const KEYS: &str = "crates/meet-wire/src/transport/certificate.rs";
const DRAWS: [&str; 7] =
    ["SystemRandom", "OsRng", "SysRng", "getrandom", "generate_pkcs8", "KeyPair::generate", "generate_for"];

/// Reads of the environment or of a clock, and draws of randomness, in the wrong place.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, source) in tree.sources().filter(|(path, _)| !tree.is_test(path)) {
        let file = path.rsplit('/').next().unwrap_or(path);
        let environment = file == "build.rs" || ENVIRONMENT.iter().any(|dir| under(path, dir));
        let clock = file == "clock.rs";
        let random = path == KEYS || !HANDED.iter().any(|dir| under(path, dir));
        if !under(path, ARGUMENTS) {
            violations.extend(arguments(path, source));
        }
        for (number, line) in source.product_lines() {
            if !environment && reads_environment(line) {
                violations.push(Violation::new(
                    path,
                    number,
                    "reads the environment; only crates/service does, everyone else takes a setting",
                ));
            }
            if let Some(read) = CLOCKS.iter().find(|read| !clock && calls(line, read)) {
                violations.push(Violation::new(
                    path,
                    number,
                    format!("calls {read}; only files named clock.rs may; take a Clock instead"),
                ));
            }
            if let Some(draw) = DRAWS.iter().find(|draw| !random && calls(line, draw)) {
                violations.push(Violation::new(
                    path,
                    number,
                    format!("names {draw}; this crate must take an Entropy instead"),
                ));
            }
        }
    }
    violations
}

/// Arguments that clap takes from the environment: `env`, alone or with a name, in one of its attributes.
fn arguments(path: &str, source: &Source) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (start, attribute) in source.product_attributes() {
        if !CLAP.iter().any(|name| calls(attribute, name)) {
            continue;
        }
        for (at, word) in attribute.match_indices("env").filter(|(at, _)| is_word(attribute, *at, 3)) {
            if attribute[at + word.len()..].trim_start().starts_with(['=', '(', ',', ')']) {
                let line = source.line_of(start + at);
                let message = format!("takes an argument from the environment; only {ARGUMENTS} may");
                violations.push(Violation::new(path, line, message));
            }
        }
    }
    violations
}

fn calls(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| is_word(line, at, name.len()))
}

fn reads_environment(line: &str) -> bool {
    let names = ["var", "var_os", "vars", "vars_os", "set_var", "remove_var"];
    line.match_indices("env::").filter(|(at, _)| is_word(line, *at, 3)).any(|(at, open)| {
        let rest = &line[at + open.len()..];
        let end = if rest.starts_with('{') {
            rest.find('}')
        } else {
            rest.find(|c: char| !c.is_alphanumeric() && c != '_')
        };
        let used = &rest[..end.unwrap_or(rest.len())];
        used.trim_start_matches('{').split(',').any(|name| names.contains(&name.trim()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)])).into_iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn the_environment_is_read_in_service_only() {
        for code in
            ["let x = std::env::var(\"X\");", "use std::env::{args, var_os};", "for x in env::vars() {}"]
        {
            assert_eq!(lines("crates/lease/src/key.rs", code), [1], "{code}");
            for allowed in ["crates/service/src/config.rs", "crates/lease/build.rs", "xtask/src/main.rs"] {
                assert!(lines(allowed, code).is_empty(), "{allowed}");
            }
        }
        for code in ["std::env::args()", "env!(\"X\")", "myenv::var()", "env::variant()"] {
            assert!(lines("crates/lease/src/key.rs", code).is_empty(), "{code}");
        }
        assert_eq!(lines("crates/service-other/src/lib.rs", "env::var(\"X\")"), [1]);
    }

    #[test]
    fn clap_takes_arguments_from_the_environment_in_tenure_only() {
        for code in [
            "#[arg(long, env = \"X\")]",
            "#[arg(long, env)]",
            "#[clap(env, long)]",
            "#[arg(env(\"X\"))]",
            "#[cfg_attr(unix, arg(env = \"X\"))]",
        ] {
            for path in ["crates/poller/src/args.rs", "crates/service/src/args.rs", "benches/src/args.rs"] {
                assert_eq!(lines(path, code), [1], "{path}: {code}");
            }
            assert!(lines("crates/tenure/src/cli/target.rs", code).is_empty(), "{code}");
        }
        assert_eq!(lines("benches/src/args.rs", "#[arg(\n    long,\n    env = \"X\",\n)]\n"), [3]);
        for code in [
            "#[arg(long = \"env\")]",
            "#[arg(env_file = x)]",
            "#[cfg(target_env = \"gnu\")]",
            "command.env(\"X\", x);",
            "#[cfg(test)]\nmod tests {\n    #[arg(env = \"X\")]\n    struct X;\n}\n",
        ] {
            assert!(lines("benches/src/args.rs", code).is_empty(), "{code}");
        }
    }

    #[test]
    fn crates_that_are_handed_randomness_draw_none() {
        for code in [
            "ring::rand::SystemRandom::new()",
            "rcgen::KeyPair::generate()",
            "KeyPair::generate_for(&ALGORITHM)",
            "getrandom::fill(&mut bytes)",
        ] {
            assert_eq!(lines("crates/meet-wire/src/id.rs", code), [1], "{code}");
            for allowed in [KEYS, "crates/meet-ac/src/keys.rs", "crates/meet-wire/tests/it/main.rs"] {
                assert!(lines(allowed, code).is_empty(), "{allowed}: {code}");
            }
        }
        assert!(lines("crates/meet-wire/src/id.rs", "entropy.fill(&mut bytes)").is_empty());
    }

    #[test]
    fn clocks_are_read_in_clock_files_only() {
        for code in ["Instant::now()", "std::time::SystemTime::now()", "rustix::time::clock_gettime(id)"] {
            assert_eq!(lines("crates/service/src/health.rs", code), [1], "{code}");
            assert!(lines("crates/lease/src/clock.rs", code).is_empty(), "{code}");
        }
        assert!(lines("crates/lease/src/key.rs", "Instant::nowhere(); MyInstant::now()").is_empty());
    }

    #[test]
    fn tests_comments_and_strings_are_free() {
        let text = "// Instant::now()\nlet s = \"Instant::now()\";\n#[cfg(test)]\nmod tests {\n    fn f() { Instant::now(); }\n}\n";
        assert!(lines("crates/lease/src/key.rs", text).is_empty());
        assert!(lines("crates/lease/tests/it/main.rs", "Instant::now()").is_empty());
    }
}

#![allow(
    missing_docs,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "scratch"
)]
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let (from, n): (u64, u64) = (a[1].parse().unwrap(), a[2].parse().unwrap());
    let t = std::time::Instant::now();
    let mut bad = 0;
    let mut words = std::collections::BTreeMap::new();
    let mut c = 0;
    let mut d = 0;
    let br = a.get(3).and_then(|s| s.parse::<usize>().ok()).map(|i| sim::disk::Break::ALL[i]);
    for s in from..from + n {
        let r = match br {
            Some(b) => sim::disk::run_broken(s, b),
            None => sim::disk::run(s),
        };
        match r {
            Ok(st) => {
                c += st.crashes;
                d += st.disk;
            }
            Err(f) => {
                bad += 1;
                let w: String = f.words.chars().map(|c| if c.is_ascii_digit() { '#' } else { c }).collect();
                let e = words.entry(w).or_insert((0, s));
                e.0 += 1;
                if n == 1 {
                    println!("{f}");
                    for e in &f.history.events {
                        println!("{:>12.3} {:?}", e.at as f64 / 1e6, e.what);
                    }
                }
            }
        }
    }
    println!(
        "{br:?} {n} seeds, {bad} bad, {:.3} ms/seed, {c} crashes, {d} disk ops",
        t.elapsed().as_secs_f64() * 1000.0 / n as f64
    );
    for (w, (k, s)) in words {
        println!("  {k:>6} first {s}: {w}");
    }
}

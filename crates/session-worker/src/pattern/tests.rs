use std::path::Path;
use std::sync::Arc;

use lease_store::TokioClock;

use super::*;

struct Cinema {
    root: tempfile::TempDir,
    clock: Arc<TokioClock>,
    projector: Projector,
}

impl Cinema {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let clock = Arc::new(TokioClock::default());
        let options = Options::new([0].into(), root.path().to_owned(), Source::Pattern);
        let projector = Projector::open(&options, clock.clone()).unwrap();
        Self { root, clock, projector }
    }

    fn folder(&self, name: &str) -> PathBuf {
        let folder = self.root.path().join(name);
        folder::make(&folder).unwrap();
        folder
    }

    /// Lets turns pass as the run would.
    fn turn(&self, turns: u32) {
        for _ in 0..turns {
            self.clock.step(SEGMENT);
            let inner = &self.projector.inner;
            inner.advance(&mut inner.house.lock(), inner.number(self.clock.now()));
        }
    }
}

fn listed(folder: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join(folder::PLAYLIST)).unwrap();
    text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

fn segments(folder: &Path) -> usize {
    let names = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.file_name());
    names.filter(|name| name.to_str().is_some_and(|name| name.ends_with(".m4s"))).count()
}

#[tokio::test(start_paused = true)]
async fn a_show_can_be_watched_from_its_first_moment_on() {
    let cinema = Cinema::new();
    let folder = cinema.folder("s1");
    let _show = cinema.projector.show(&folder).unwrap();
    assert_eq!(listed(&folder), ["seg-00001.m4s", "seg-00002.m4s", "seg-00003.m4s"]);
    assert!(listed(&folder).iter().all(|name| folder.join(name).exists()));
    assert_eq!(std::fs::read(folder.join("init.mp4")).unwrap(), INIT);
}

#[tokio::test(start_paused = true)]
async fn the_film_goes_on_and_what_is_past_is_removed() {
    let cinema = Cinema::new();
    let folder = cinema.folder("s1");
    let show = cinema.projector.show(&folder).unwrap();
    cinema.turn(2);
    let late = cinema.folder("s2");
    let _late = cinema.projector.show(&late).unwrap();
    assert_eq!(listed(&late), ["seg-00003.m4s", "seg-00004.m4s", "seg-00005.m4s"]);
    cinema.turn(20);
    assert_eq!(listed(&folder), listed(&late));
    assert_eq!(listed(&folder).last().unwrap(), "seg-00025.m4s");
    assert!(listed(&folder).iter().all(|name| folder.join(name).exists()));
    for folder in [&folder, &late, &cinema.root.path().join(".pattern")] {
        assert!(segments(folder) <= (KEPT + 1) as usize, "{}: {}", folder.display(), segments(folder));
    }
    drop(show);
    let before = listed(&folder);
    cinema.turn(1);
    assert_eq!(listed(&folder), before, "what ended stands still");
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_slept_goes_on_at_the_present() {
    let cinema = Cinema::new();
    let folder = cinema.folder("s1");
    let _show = cinema.projector.show(&folder).unwrap();
    cinema.clock.step(SEGMENT * 99);
    cinema.turn(1);
    assert_eq!(listed(&folder).last().unwrap(), "seg-00103.m4s");
    assert!(listed(&folder).iter().all(|name| folder.join(name).exists()));
    assert!(segments(&folder) <= (KEPT + AT_ONCE) as usize);
}

#[tokio::test(start_paused = true)]
async fn each_segment_begins_where_the_one_before_it_ended() {
    let cinema = Cinema::new();
    let inner = &cinema.projector.inner;
    let start = |number| {
        inner.reel(number).unwrap();
        let bytes = std::fs::read(inner.reels.join(name(number))).unwrap();
        let at = bytes.windows(4).position(|kind| kind == b"tfdt").unwrap();
        u64::from_be_bytes(bytes[at + 8..at + 16].try_into().unwrap())
    };
    for number in 0..6 {
        assert_eq!(start(number), number * 4 * 15_360, "segment {number}");
    }
}

use std::path::Path;
use std::sync::Arc;

use tenure_store::TokioClock;

use super::*;

struct Fixture {
    root: tempfile::TempDir,
    clock: Arc<TokioClock>,
    pattern: PatternSource,
}

impl Fixture {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let clock = Arc::new(TokioClock::default());
        let options = Options::new([0].into(), root.path().to_owned(), Source::Pattern);
        let pattern = PatternSource::open(&options, clock.clone()).unwrap();
        Self { root, clock, pattern }
    }

    fn folder(&self, name: &str) -> PathBuf {
        let folder = self.root.path().join(name);
        output_dir::create(&folder).unwrap();
        folder
    }

    /// Advances by this many segments, as `run` would.
    fn advance(&self, segments: u32) {
        for _ in 0..segments {
            self.clock.step(SEGMENT);
            let inner = &self.pattern.inner;
            inner.advance(&mut inner.outputs.lock(), inner.number(self.clock.now()));
        }
    }
}

fn listed(folder: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join(output_dir::PLAYLIST)).unwrap();
    text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

fn segments(folder: &Path) -> usize {
    let names = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.file_name());
    names.filter(|name| name.to_str().is_some_and(|name| name.ends_with(".m4s"))).count()
}

#[tokio::test(start_paused = true)]
async fn an_output_is_playable_immediately() {
    let fixture = Fixture::new();
    let folder = fixture.folder("s1");
    let _output = fixture.pattern.start_output(&folder).unwrap();
    assert_eq!(listed(&folder), ["seg-00001.m4s", "seg-00002.m4s", "seg-00003.m4s"]);
    assert!(listed(&folder).iter().all(|name| folder.join(name).exists()));
    assert_eq!(std::fs::read(folder.join("init.mp4")).unwrap(), INIT);
}

#[tokio::test(start_paused = true)]
async fn outputs_advance_and_old_segments_are_removed() {
    let fixture = Fixture::new();
    let folder = fixture.folder("s1");
    let output = fixture.pattern.start_output(&folder).unwrap();
    fixture.advance(2);
    let late = fixture.folder("s2");
    let _late = fixture.pattern.start_output(&late).unwrap();
    assert_eq!(listed(&late), ["seg-00003.m4s", "seg-00004.m4s", "seg-00005.m4s"]);
    fixture.advance(20);
    assert_eq!(listed(&folder), listed(&late));
    assert_eq!(listed(&folder).last().unwrap(), "seg-00025.m4s");
    assert!(listed(&folder).iter().all(|name| folder.join(name).exists()));
    for folder in [&folder, &late, &fixture.root.path().join(".pattern")] {
        assert!(segments(folder) <= (KEPT + 1) as usize, "{}: {}", folder.display(), segments(folder));
    }
    drop(output);
    let before = listed(&folder);
    fixture.advance(1);
    assert_eq!(listed(&folder), before, "an ended output does not advance");
}

#[tokio::test(start_paused = true)]
async fn after_a_suspend_the_output_continues_at_the_current_segment() {
    let fixture = Fixture::new();
    let folder = fixture.folder("s1");
    let _output = fixture.pattern.start_output(&folder).unwrap();
    fixture.clock.step(SEGMENT * 99);
    fixture.advance(1);
    assert_eq!(listed(&folder).last().unwrap(), "seg-00103.m4s");
    assert!(listed(&folder).iter().all(|name| folder.join(name).exists()));
    assert!(segments(&folder) <= (KEPT + INITIAL) as usize);
}

#[tokio::test(start_paused = true)]
async fn each_segment_starts_where_the_previous_one_ended() {
    let fixture = Fixture::new();
    let inner = &fixture.pattern.inner;
    let start = |number| {
        inner.write_segment(number).unwrap();
        let bytes = std::fs::read(inner.segment_dir.join(segment_name(number))).unwrap();
        let at = bytes.windows(4).position(|kind| kind == b"tfdt").unwrap();
        u64::from_be_bytes(bytes[at + 8..at + 16].try_into().unwrap())
    };
    for number in 0..6 {
        assert_eq!(start(number), number * 4 * 15_360, "segment {number}");
    }
}

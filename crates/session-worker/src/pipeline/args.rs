//! The arguments of ffmpeg.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use session::{ServiceRef, Session, Target};

use crate::{Ffmpeg, folder};

/// How long a segment is meant to be, in seconds.
const SEGMENT: &str = "2";
/// Segments that a live playlist names.
const WINDOW: &str = "8";
/// How long ffmpeg waits for a receiver that says nothing, in microseconds.
const PATIENCE: &str = "20000000";

/// The file of a recording, if it is there.
pub(super) fn recording(dir: &Path, id: &str) -> Option<PathBuf> {
    // An id has no slash and no dot at its beginning: it stays in the folder.
    [id.to_owned(), format!("{id}.ts")].into_iter().map(|name| dir.join(name)).find(|file| file.is_file())
}

/// All arguments for a session with this profile; `file` is that of its recording.
pub(super) fn all(
    source: &Ffmpeg,
    session: &Session,
    profile: &[String],
    file: Option<&Path>,
) -> Vec<OsString> {
    let mut args: Vec<OsString> = words("-nostdin -hide_banner -nostats -loglevel warning").collect();
    match (&session.target, file) {
        (Target::Live(service_ref), _) => {
            args.extend(["-rw_timeout".into(), PATIENCE.into(), "-i".into()]);
            args.push(receiver(&source.receiver_url, service_ref).into());
        }
        (Target::Recording { start_ms, .. }, file) => {
            args.push("-re".into());
            args.extend(["-ss".into(), format!("{}.{:03}", start_ms / 1_000, start_ms % 1_000).into()]);
            args.extend(["-i".into(), file.map(|file| file.as_os_str().to_owned()).unwrap_or_default()]);
        }
    }
    args.extend(profile.iter().map(OsString::from));
    args.extend(words("-f hls -hls_segment_type fmp4 -hls_fmp4_init_filename init.mp4 -start_number 1"));
    args.extend(["-hls_time".into(), SEGMENT.into(), "-hls_segment_filename".into(), "seg-%05d.m4s".into()]);
    match session.target {
        Target::Live(_) => {
            args.extend(["-hls_list_size".into(), WINDOW.into()]);
            args.extend(words(
                "-hls_delete_threshold 3 -hls_flags delete_segments+independent_segments+temp_file",
            ));
        }
        Target::Recording { .. } => {
            args.extend(words(
                "-hls_list_size 0 -hls_playlist_type event -hls_flags independent_segments+temp_file",
            ));
        }
    }
    args.push(folder::PLAYLIST.into());
    args
}

fn words(text: &str) -> impl Iterator<Item = OsString> {
    text.split_whitespace().map(OsString::from)
}

/// The receiver's address of a channel. What would lead out of the template's place is escaped.
fn receiver(template: &str, service_ref: &ServiceRef) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:,;=@!$&'()*+".contains(&byte);
    let mut escaped = String::new();
    for byte in service_ref.as_str().bytes() {
        match plain(byte) {
            true => escaped.push(char::from(byte)),
            false => escaped += &format!("%{byte:02X}"),
        }
    }
    template.replace("{serviceRef}", &escaped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use session::{CorrelationId, IdempotencyKey, ProfileId, SessionId, UnixMs};

    fn session(target: Target) -> Session {
        Session::new(
            SessionId::new("s1").unwrap(),
            target,
            ProfileId::new("copy").unwrap(),
            CorrelationId::new("c1").unwrap(),
            IdempotencyKey::from_hex(&"0".repeat(64)).unwrap(),
            UnixMs(0),
        )
    }

    fn line(target: Target, file: Option<&str>) -> String {
        let source = Ffmpeg {
            program: "ffmpeg".into(),
            receiver_url: "http://r:8001/{serviceRef}".to_owned(),
            recordings_dir: None,
            profiles: crate::default_profiles(),
        };
        let profile = ["-c".to_owned(), "copy".to_owned()];
        let args = all(&source, &session(target), &profile, file.map(Path::new));
        args.join(" ".as_ref()).into_string().unwrap()
    }

    #[test]
    fn a_channel_has_a_sliding_list_and_a_recording_a_whole_one_from_its_start() {
        let live = line(Target::new(Some("1:0:1:445D:453:1:C00000:0:0:0:"), None, None).unwrap(), None);
        assert!(live.contains("-i http://r:8001/1:0:1:445D:453:1:C00000:0:0:0: -c copy"), "{live}");
        assert!(live.contains("delete_segments") && live.ends_with(" index.m3u8"), "{live}");
        let target = Target::new(None, Some("rec-1"), Some(60_250)).unwrap();
        let recording = line(target, Some("/rec/rec-1.ts"));
        assert!(recording.contains("-re -ss 60.250 -i /rec/rec-1.ts -c copy"), "{recording}");
        assert!(
            recording.contains("-hls_list_size 0") && !recording.contains("delete_segments"),
            "{recording}"
        );
    }

    #[test]
    fn a_channel_cannot_lead_anywhere_else() {
        let service_ref = ServiceRef::new("a/../../etc?x=1#y%2f\\").unwrap();
        assert_eq!(
            receiver("http://r/{serviceRef}", &service_ref),
            "http://r/a%2F..%2F..%2Fetc%3Fx=1%23y%252f%5C"
        );
    }

    #[test]
    fn a_recording_is_found_with_and_without_its_ending() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.ts"), b"x").unwrap();
        std::fs::write(dir.path().join("b.mkv"), b"x").unwrap();
        assert_eq!(recording(dir.path(), "a"), Some(dir.path().join("a.ts")));
        assert_eq!(recording(dir.path(), "b.mkv"), Some(dir.path().join("b.mkv")));
        assert_eq!(recording(dir.path(), "b"), None);
    }
}

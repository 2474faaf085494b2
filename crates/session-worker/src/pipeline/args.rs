//! Builds the arguments of ffmpeg.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use tenure_session::{ServiceRef, Session, Target};

use crate::{Ffmpeg, output_dir};

/// The target duration of a segment, in seconds.
const SEGMENT: &str = "2";
/// Segments in a live playlist.
const WINDOW: &str = "8";
/// How long ffmpeg waits for data from the receiver, in microseconds.
const READ_TIMEOUT: &str = "20000000";

/// What ffmpeg may open for a stream of the receiver, and for a recording: a stream cannot name a local file, and a
/// file cannot name a server.
const RECEIVER_PROTOCOLS: &str = "http,https,httpproxy,tcp,tls";
const FILE_PROTOCOLS: &str = "file";

/// Finds the file of a recording.
pub(super) fn find_recording(dir: &Path, id: &str) -> Option<PathBuf> {
    // An id contains no slash and no leading dot, so the path stays in the directory.
    [id.to_owned(), format!("{id}.ts")].into_iter().map(|name| dir.join(name)).find(|file| file.is_file())
}

/// Builds the arguments for a session; `file` is its recording.
pub(super) fn build(
    source: &Ffmpeg,
    session: &Session,
    profile: &[String],
    file: Option<&Path>,
) -> Vec<OsString> {
    let mut args: Vec<OsString> = split("-nostdin -hide_banner -nostats -loglevel warning").collect();
    match (&session.target, file) {
        (Target::Live(service_ref), _) => {
            args.extend(["-protocol_whitelist".into(), RECEIVER_PROTOCOLS.into()]);
            args.extend(["-rw_timeout".into(), READ_TIMEOUT.into(), "-i".into()]);
            args.push(receiver_url(&source.receiver_url, service_ref).into());
        }
        (Target::Recording { start_ms, .. }, file) => {
            args.extend(["-protocol_whitelist".into(), FILE_PROTOCOLS.into(), "-re".into()]);
            args.extend(["-ss".into(), format!("{}.{:03}", start_ms / 1_000, start_ms % 1_000).into()]);
            args.extend(["-i".into(), file.map(|file| file.as_os_str().to_owned()).unwrap_or_default()]);
        }
    }
    args.extend(profile.iter().map(OsString::from));
    args.extend(split("-f hls -hls_segment_type fmp4 -hls_fmp4_init_filename init.mp4 -start_number 1"));
    args.extend(["-hls_time".into(), SEGMENT.into(), "-hls_segment_filename".into(), "seg-%05d.m4s".into()]);
    match session.target {
        Target::Live(_) => {
            args.extend(["-hls_list_size".into(), WINDOW.into()]);
            args.extend(split(
                "-hls_delete_threshold 3 -hls_flags delete_segments+independent_segments+temp_file",
            ));
        }
        Target::Recording { .. } => {
            args.extend(split(
                "-hls_list_size 0 -hls_playlist_type event -hls_flags independent_segments+temp_file",
            ));
        }
    }
    args.push(output_dir::PLAYLIST.into());
    args
}

fn split(text: &str) -> impl Iterator<Item = OsString> {
    text.split_whitespace().map(OsString::from)
}

/// Builds the receiver URL of a channel. Reserved characters are percent-encoded.
fn receiver_url(template: &str, service_ref: &ServiceRef) -> String {
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
    use tenure_session::{CorrelationId, IdempotencyKey, ProfileId, SessionId, UnixMs};

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

    fn command_line(target: Target, file: Option<&str>) -> String {
        let source = Ffmpeg {
            program: "ffmpeg".into(),
            receiver_url: "http://r:8001/{serviceRef}".to_owned(),
            recordings_dir: None,
            profiles: crate::default_profiles(),
        };
        let profile = ["-c".to_owned(), "copy".to_owned()];
        let args = build(&source, &session(target), &profile, file.map(Path::new));
        args.join(" ".as_ref()).into_string().unwrap()
    }

    #[test]
    fn a_channel_has_a_sliding_playlist_and_a_recording_a_complete_one() {
        let live =
            command_line(Target::new(Some("1:0:1:445D:453:1:C00000:0:0:0:"), None, None).unwrap(), None);
        assert!(live.contains("-i http://r:8001/1:0:1:445D:453:1:C00000:0:0:0: -c copy"), "{live}");
        assert!(live.contains("delete_segments") && live.ends_with(" index.m3u8"), "{live}");
        let target = Target::new(None, Some("rec-1"), Some(60_250)).unwrap();
        let recording = command_line(target, Some("/rec/rec-1.ts"));
        assert!(recording.contains("-re -ss 60.250 -i /rec/rec-1.ts -c copy"), "{recording}");
        assert!(
            recording.contains("-hls_list_size 0") && !recording.contains("delete_segments"),
            "{recording}"
        );
    }

    #[test]
    fn a_service_ref_cannot_change_the_url_path() {
        let service_ref = ServiceRef::new("a/../../etc?x=1#y%2f\\").unwrap();
        assert_eq!(
            receiver_url("http://r/{serviceRef}", &service_ref),
            "http://r/a%2F..%2F..%2Fetc%3Fx=1%23y%252f%5C"
        );
    }

    #[test]
    fn a_recording_is_found_with_and_without_its_extension() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.ts"), b"x").unwrap();
        std::fs::write(dir.path().join("b.mkv"), b"x").unwrap();
        assert_eq!(find_recording(dir.path(), "a"), Some(dir.path().join("a.ts")));
        assert_eq!(find_recording(dir.path(), "b.mkv"), Some(dir.path().join("b.mkv")));
        assert_eq!(find_recording(dir.path(), "b"), None);
    }
}

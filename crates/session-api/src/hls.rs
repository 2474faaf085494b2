//! `GET /api/v3/sessions/{id}/hls/{file}`: the pictures of a session, streamed from its folder.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use rustix::fs::{FileType, Mode, OFlags, fstat, open, openat};
use rustix::io::Errno;
use service::{Code, ProblemBody};
use session::SessionId;
use tokio::io::{AsyncReadExt, AsyncSeekExt};

use crate::gate::{FileName, Id, Reader};
use crate::range::{self, Part};
use crate::site::Site;
use crate::trouble::Trouble;
use crate::view::is_shown;

/// Bytes of a file in memory at once, per client.
const CHUNK: u64 = 64 * 1_024;
/// Longest name of a segment, in bytes.
const NAME: usize = 64;

/// What a session's folder holds for clients. Nothing else in it is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Playlist,
    Init,
    Segment,
}

impl Kind {
    fn of(name: &str) -> Option<Self> {
        let plain = |part: &str| {
            !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        };
        match name {
            "index.m3u8" => Some(Self::Playlist),
            "init.mp4" => Some(Self::Init),
            _ => name
                .strip_prefix("seg-")
                .and_then(|name| name.strip_suffix(".m4s"))
                .filter(|part| name.len() <= NAME && plain(part))
                .map(|_| Self::Segment),
        }
    }

    const fn media_type(self) -> &'static str {
        match self {
            Self::Playlist => "application/vnd.apple.mpegurl",
            Self::Init => "video/mp4",
            Self::Segment => "video/iso.segment",
        }
    }

    /// A playlist changes; what it names does not.
    const fn cache(self) -> &'static str {
        match self {
            Self::Playlist => "no-store",
            Self::Init | Self::Segment => "private, max-age=3600, immutable",
        }
    }
}

/// The playlist of a session, or what it names.
#[utoipa::path(
    get, path = "/api/v3/sessions/{id}/hls/{file}", tag = "sessions", operation_id = "picture",
    params(
        ("id" = String, Path, description = "The session", max_length = 64, pattern = "^[A-Za-z0-9_-]+$"),
        ("file" = String, Path, description = "`index.m3u8`, `init.mp4` or `seg-….m4s`"),
        ("range" = Option<String>, Header, description = "One part of a segment"),
    ),
    responses(
        (status = 200, body = Vec<u8>, content_type = "application/vnd.apple.mpegurl"),
        (status = 206, body = Vec<u8>, content_type = "video/iso.segment"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "There is no such session or file, or no picture yet"),
        (status = 410, body = ProblemBody, content_type = "application/problem+json", description = "The session is over"),
    )
)]
pub(crate) async fn file(
    State(site): State<Arc<Site>>,
    _: Reader,
    Id(id): Id,
    FileName(name): FileName,
    headers: HeaderMap,
) -> Result<Response, Trouble> {
    let kind = Kind::of(&name).ok_or_else(|| missing(&name))?;
    let session = site.live(&id).await?;
    if !is_shown(session.state) {
        let detail = format!("the session is {}; there is no picture yet or any more", session.state);
        return Err(Trouble::new(Code::NOT_FOUND, detail));
    }
    if kind == Kind::Playlist {
        site.watched(&id).await;
    }
    let (folder, found) = (site.options.output_dir.clone(), name.clone());
    let opened = tokio::task::spawn_blocking(move || lift(&folder, &id, &found)).await;
    let opened = opened.map_err(io::Error::other).flatten().map_err(|error| {
        tracing::warn!(session = %session.id, %error, "cannot open a picture");
        Trouble::new(Code::V3_UNAVAILABLE, "the picture cannot be read now")
    })?;
    let (file, size) = opened.ok_or_else(|| missing(&name))?;
    let part = range::part(headers.get(header::RANGE).filter(|_| kind != Kind::Playlist), size);
    answer(tokio::fs::File::from_std(file), kind, size, part).await
}

async fn answer(
    mut file: tokio::fs::File,
    kind: Kind,
    size: u64,
    part: Option<Part>,
) -> Result<Response, Trouble> {
    let all = Part { first: 0, length: size };
    let Part { first, length } = part.unwrap_or(all);
    if first > 0 && file.seek(io::SeekFrom::Start(first)).await.is_err() {
        return Err(Trouble::new(Code::V3_UNAVAILABLE, "the picture cannot be read now"));
    }
    let mut response = Response::new(Body::from_stream(stream::try_unfold((file, length), read)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind.media_type()));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(kind.cache()));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    if kind != Kind::Playlist {
        headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    }
    if part.is_some()
        && let Ok(range) = HeaderValue::from_str(&format!("bytes {first}-{}/{size}", first + length - 1))
    {
        headers.insert(header::CONTENT_RANGE, range);
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    Ok(response.into_response())
}

/// The next bytes. A file that is shorter than it was when it was opened breaks the answer off.
async fn read(
    (mut file, left): (tokio::fs::File, u64),
) -> io::Result<Option<(Bytes, (tokio::fs::File, u64))>> {
    if left == 0 {
        return Ok(None);
    }
    let mut chunk = vec![0; left.min(CHUNK) as usize];
    let length = file.read(&mut chunk).await?;
    if length == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    chunk.truncate(length);
    Ok(Some((chunk.into(), (file, left - length as u64))))
}

/// Opens a file of a session's folder, and its size. Neither the folder nor the file may be a link, and what is no
/// plain file is not there.
fn lift(output: &Path, id: &SessionId, name: &str) -> io::Result<Option<(File, u64)>> {
    let safe = OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = open(output.join(id.as_str()), OFlags::DIRECTORY | safe, Mode::empty()).and_then(|folder| {
        // Without blocking: somebody may have put a pipe there.
        openat(folder, name, OFlags::RDONLY | OFlags::NONBLOCK | safe, Mode::empty())
    });
    let file = match opened {
        Ok(file) => file,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    let stat = fstat(&file)?;
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    let plain = FileType::from_raw_mode(stat.st_mode).is_file();
    Ok(plain.then(|| (File::from(file), size)))
}

fn missing(name: &str) -> Trouble {
    let shown: String = name.chars().take(NAME).collect();
    Trouble::new(Code::NOT_FOUND, format!("there is no file {shown:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_pictures_are_names() {
        assert_eq!(Kind::of("index.m3u8"), Some(Kind::Playlist));
        assert_eq!(Kind::of("init.mp4"), Some(Kind::Init));
        for name in ["seg-0.m4s", "seg-00042.m4s", "seg-a_b-1.m4s"] {
            assert_eq!(Kind::of(name), Some(Kind::Segment), "{name}");
        }
        let long = format!("seg-{}.m4s", "1".repeat(NAME));
        for name in [
            "",
            "..",
            "../index.m3u8",
            "index.m3u8.tmp",
            "Index.m3u8",
            "ffmpeg.log",
            "seg-.m4s",
            "seg-1.m4s.tmp",
            "seg-../x.m4s",
            "seg-1/2.m4s",
            "seg-%2e.m4s",
            "seg-1.m4s\0",
            "other.m3u8",
            ".init.mp4",
            &long,
        ] {
            assert_eq!(Kind::of(name), None, "{name}");
        }
    }

    #[test]
    fn links_folders_and_pipes_are_not_there() {
        let dir = tempfile::tempdir().unwrap();
        let (id, linked) = (SessionId::new("s-1").unwrap(), SessionId::new("s-2").unwrap());
        let folder = dir.path().join("s-1");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(dir.path().join("secret"), "secret").unwrap();
        std::fs::write(folder.join("index.m3u8"), "#EXTM3U").unwrap();
        std::os::unix::fs::symlink(dir.path().join("secret"), folder.join("init.mp4")).unwrap();
        std::os::unix::fs::symlink(&folder, dir.path().join("s-2")).unwrap();
        std::fs::create_dir(folder.join("seg-1.m4s")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            folder.join("seg-2.m4s"),
            FileType::Fifo,
            Mode::RUSR | Mode::WUSR,
            0,
        )
        .unwrap();
        assert_eq!(lift(dir.path(), &id, "index.m3u8").unwrap().unwrap().1, 7);
        for name in ["init.mp4", "seg-1.m4s", "seg-2.m4s", "seg-3.m4s"] {
            assert!(lift(dir.path(), &id, name).unwrap().is_none(), "{name}");
        }
        assert!(lift(dir.path(), &linked, "index.m3u8").unwrap().is_none(), "a folder that is a link");
    }
}

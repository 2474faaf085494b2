//! `GET /api/v3/sessions/{id}/hls/{file}`: the HLS output of a session, streamed from its directory.

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
use tenure_service::{Code, ProblemBody};
use tenure_session::SessionId;
use tokio::io::{AsyncReadExt, AsyncSeekExt};

use crate::error::ApiError;
use crate::extract::{PathFile, PathId, ReadAccess};
use crate::range::{self, ByteRange};
use crate::state::ApiState;
use crate::view::is_playable;

/// Bytes of a file held in memory per client.
const CHUNK: u64 = 64 * 1_024;
/// Longest name of a segment, in bytes.
const NAME: usize = 64;

/// The files of a session's directory that are served. Everything else is hidden.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum HlsFile {
    Playlist,
    Init,
    Segment,
}

impl HlsFile {
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

    /// A playlist changes; the files it lists do not.
    const fn cache(self) -> &'static str {
        match self {
            Self::Playlist => "no-store",
            Self::Init | Self::Segment => "private, max-age=3600, immutable",
        }
    }
}

/// The playlist of a session, or a file that it lists.
#[utoipa::path(
    get, path = "/api/v3/sessions/{id}/hls/{file}", tag = "sessions", operation_id = "hlsFile",
    params(
        ("id" = String, Path, description = "The session", max_length = 64, pattern = "^[A-Za-z0-9_-]+$"),
        ("file" = String, Path, description = "`index.m3u8`, `init.mp4` or `seg-….m4s`"),
        ("range" = Option<String>, Header, description = "A single byte range"),
    ),
    responses(
        (status = 200, body = Vec<u8>, content_type = "application/vnd.apple.mpegurl"),
        (status = 206, body = Vec<u8>, content_type = "video/iso.segment"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "The session or file does not exist, or the session cannot be played"),
        (status = 410, body = ProblemBody, content_type = "application/problem+json", description = "The session has ended"),
    )
)]
pub(crate) async fn get_file(
    State(api): State<Arc<ApiState>>,
    _: ReadAccess,
    PathId(id): PathId,
    PathFile(name): PathFile,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let kind = HlsFile::of(&name).ok_or_else(|| not_found(&name))?;
    let session = api.get_active(&id).await?;
    if !is_playable(session.state) {
        let detail = format!("the session is {} and cannot be played", session.state);
        return Err(ApiError::new(Code::NOT_FOUND, detail));
    }
    if kind == HlsFile::Playlist {
        api.record_access(&id).await;
    }
    let (folder, found) = (api.options.output_dir.clone(), name.clone());
    let opened = tokio::task::spawn_blocking(move || open_file(&folder, &id, &found)).await;
    let opened = opened.map_err(io::Error::other).flatten().map_err(|error| {
        tracing::warn!(session = %session.id, %error, "failed to open an HLS file");
        ApiError::new(Code::V3_UNAVAILABLE, "the file cannot be read")
    })?;
    let (file, size) = opened.ok_or_else(|| not_found(&name))?;
    let part = range::parse_range(headers.get(header::RANGE).filter(|_| kind != HlsFile::Playlist), size);
    respond(tokio::fs::File::from_std(file), kind, size, part).await
}

async fn respond(
    mut file: tokio::fs::File,
    kind: HlsFile,
    size: u64,
    part: Option<ByteRange>,
) -> Result<Response, ApiError> {
    let all = ByteRange { first: 0, length: size };
    let ByteRange { first, length } = part.unwrap_or(all);
    if first > 0 && file.seek(io::SeekFrom::Start(first)).await.is_err() {
        return Err(ApiError::new(Code::V3_UNAVAILABLE, "the file cannot be read"));
    }
    let mut response = Response::new(Body::from_stream(stream::try_unfold((file, length), read_chunk)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind.media_type()));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(kind.cache()));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    if kind != HlsFile::Playlist {
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

/// Reads the next chunk. A file that was truncated after it was opened aborts the response.
async fn read_chunk(
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

/// Opens a file of a session's directory and returns its size. Symbolic links and anything but regular files count as
/// missing.
fn open_file(output: &Path, id: &SessionId, name: &str) -> io::Result<Option<(File, u64)>> {
    let safe = OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = open(output.join(id.as_str()), OFlags::DIRECTORY | safe, Mode::empty()).and_then(|folder| {
        // Without blocking, in case the file is a pipe.
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

fn not_found(name: &str) -> ApiError {
    let shown: String = name.chars().take(NAME).collect();
    ApiError::new(Code::NOT_FOUND, format!("file {shown:?} does not exist"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hls_file_names_are_recognized() {
        assert_eq!(HlsFile::of("index.m3u8"), Some(HlsFile::Playlist));
        assert_eq!(HlsFile::of("init.mp4"), Some(HlsFile::Init));
        for name in ["seg-0.m4s", "seg-00042.m4s", "seg-a_b-1.m4s"] {
            assert_eq!(HlsFile::of(name), Some(HlsFile::Segment), "{name}");
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
            assert_eq!(HlsFile::of(name), None, "{name}");
        }
    }

    #[test]
    fn links_directories_and_pipes_are_not_served() {
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
        assert_eq!(open_file(dir.path(), &id, "index.m3u8").unwrap().unwrap().1, 7);
        for name in ["init.mp4", "seg-1.m4s", "seg-2.m4s", "seg-3.m4s"] {
            assert!(open_file(dir.path(), &id, name).unwrap().is_none(), "{name}");
        }
        assert!(
            open_file(dir.path(), &linked, "index.m3u8").unwrap().is_none(),
            "a directory that is a link"
        );
    }
}

//! What people send: a picture in three renditions and a tone, encoded in advance and played in a loop.

use std::path::Path;
use std::process::Stdio;

use bytes::Bytes;
use tenure_meet_client::media::VideoFormat;
use tenure_meet_wire::media::message::Rendition;
use tokio::process::Command;

use super::annexb::{AccessUnit, access_units};
use super::ogg::opus_packets;
use crate::cli::{Failure, Result};

/// Constrained baseline, level 3.1.
const CODEC: &str = "avc1.42C01F";

/// A rendition before it is encoded.
struct Spec {
    file: &'static str,
    width: u32,
    height: u32,
    fps: u32,
    bitrate: u32,
}

/// The lowest first.
const SPECS: [Spec; 3] = [
    Spec { file: "low.h264", width: 320, height: 180, fps: 15, bitrate: 80_000 },
    Spec { file: "middle.h264", width: 640, height: 360, fps: 15, bitrate: 200_000 },
    Spec { file: "high.h264", width: 1_280, height: 720, fps: 30, bitrate: 500_000 },
];
const AUDIO: &str = "tone.opus";
/// How much of a file is played.
const SECONDS: &str = "60";

/// Made once with ffmpeg: `assets/pattern/README.md`.
const PATTERN: [&[u8]; 3] = [
    include_bytes!("../../../../assets/pattern/low.h264"),
    include_bytes!("../../../../assets/pattern/middle.h264"),
    include_bytes!("../../../../assets/pattern/high.h264"),
];
const TONE: &[u8] = include_bytes!("../../../../assets/pattern/tone.opus");

/// One rendition.
pub(super) struct ClipRendition {
    pub(super) fps: u32,
    /// The first one is a key frame.
    pub(super) frames: Vec<AccessUnit>,
}

/// Encoded picture and sound.
pub(super) struct Clip {
    pub(super) renditions: Vec<ClipRendition>,
    /// Opus packets of 20 ms each. Empty if the file has no sound.
    pub(super) packets: Vec<Bytes>,
}

impl Clip {
    /// The pattern, or a file.
    pub(super) async fn load(what: &str) -> Result<Self> {
        match what {
            "pattern" => Self::pattern(),
            file => Self::encode(Path::new(file)).await,
        }
    }

    fn pattern() -> Result<Self> {
        Self::parse(PATTERN.map(Bytes::from_static), Some(TONE))
    }

    fn parse(streams: [Bytes; 3], tone: Option<&[u8]>) -> Result<Self> {
        let mut renditions = Vec::new();
        for (stream, spec) in streams.iter().zip(&SPECS) {
            let frames: Vec<AccessUnit> =
                access_units(stream).into_iter().skip_while(|unit| !unit.key).collect();
            if frames.is_empty() {
                return Err(Failure::usage("the file has no picture"));
            }
            renditions.push(ClipRendition { fps: spec.fps, frames });
        }
        let packets = tone.and_then(opus_packets).unwrap_or_default();
        Ok(Self { renditions, packets })
    }

    /// Encodes the first minute of a file with ffmpeg.
    async fn encode(file: &Path) -> Result<Self> {
        if !file.is_file() {
            return Err(Failure::usage(format!("--publish: {} is not a file", file.display()))
                .hint("`--publish pattern` sends the built-in test picture"));
        }
        let folder = tempfile::tempdir().map_err(|error| Failure::internal(error.to_string()))?;
        let mut video = ffmpeg(file);
        for spec in &SPECS {
            let Spec { width, height, fps, bitrate, .. } = spec;
            let scale = format!(
                "scale={width}:{height}:force_original_aspect_ratio=decrease,\
                 pad={width}:{height}:(ow-iw)/2:(oh-ih)/2,fps={fps},format=yuv420p"
            );
            let (rate, keys) = (bitrate.to_string(), fps.to_string());
            video.args(["-map", "0:v:0", "-t", SECONDS, "-vf", &scale, "-c:v", "libx264"]);
            video.args(["-profile:v", "baseline", "-level", "3.1", "-refs", "2", "-preset", "veryfast"]);
            video.args(["-tune", "zerolatency", "-b:v", &rate, "-maxrate", &rate, "-bufsize", &rate]);
            video.args(["-g", &keys, "-keyint_min", &keys, "-sc_threshold", "0"]);
            video
                .args(["-bsf:v", "h264_metadata=aud=insert", "-f", "h264"])
                .arg(folder.path().join(spec.file));
        }
        finish(video, file).await?;
        let mut audio = ffmpeg(file);
        audio.args(["-map", "0:a:0", "-t", SECONDS, "-ac", "1", "-ar", "48000", "-c:a", "libopus"]);
        audio.args(["-b:a", "24k", "-frame_duration", "20"]).arg(folder.path().join(AUDIO));
        // A file without sound is sent without sound.
        let tone = match finish(audio, file).await {
            Ok(()) => std::fs::read(folder.path().join(AUDIO)).ok(),
            Err(_) => None,
        };
        let read = |spec: &Spec| std::fs::read(folder.path().join(spec.file)).map(Bytes::from);
        let [low, middle, high] = &SPECS;
        let streams = [read(low)?, read(middle)?, read(high)?];
        Self::parse(streams, tone.as_deref())
    }

    /// How the picture is published.
    pub(super) fn format(stream_id: &str) -> VideoFormat {
        let renditions = SPECS.iter().enumerate().map(|(index, spec)| Rendition {
            index: index as u32,
            width: spec.width,
            height: spec.height,
            // The encoder exceeds its rate for a moment.
            max_bitrate: spec.bitrate * 3 / 2,
            max_fps: spec.fps,
        });
        VideoFormat {
            stream_id: stream_id.to_owned(),
            screen: false,
            codec: CODEC.to_owned(),
            renditions: renditions.collect(),
            temporal_layers: 1,
        }
    }
}

fn ffmpeg(file: &Path) -> Command {
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-nostdin", "-y", "-i"]).arg(file).stdin(Stdio::null()).kill_on_drop(true);
    command
}

async fn finish(mut command: Command, file: &Path) -> Result {
    let output = command.output().await.map_err(|error| {
        Failure::unavailable(format!("cannot start ffmpeg: {error}"))
            .hint("install ffmpeg to send a file, or use `--publish pattern`")
    })?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let last = text.lines().last().unwrap_or("ffmpeg failed").to_owned();
    Err(Failure::usage(format!("--publish: cannot encode {}: {last}", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pattern_is_four_seconds_with_a_key_frame_every_second() {
        let clip = Clip::pattern().unwrap();
        for (rendition, spec) in clip.renditions.iter().zip(&SPECS) {
            assert_eq!(rendition.frames.len() as u32, spec.fps * 4);
            for (at, frame) in rendition.frames.iter().enumerate() {
                assert_eq!(frame.key, (at as u32).is_multiple_of(spec.fps), "{} {at}", spec.file);
            }
            let bits: usize = rendition.frames.iter().map(|frame| frame.bytes.len() * 8).sum();
            assert!((bits as u32) < spec.bitrate * 5, "{} has {bits} bits", spec.file);
        }
        assert!((200..=203).contains(&clip.packets.len()));
        assert!(clip.packets.iter().all(|packet| packet.len() < 1_000));
    }
}

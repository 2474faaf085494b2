// What the page says of a participant.
import { LeaveReason, Presence, Role } from "./meetwire.js";

export const NAMES = { audio: "microphone", video: "camera" };
export const ROLES = { [Role.HOST]: "host", [Role.PARTICIPANT]: "participant", [Role.GUEST]: "guest" };
export const LEFT = {
  [LeaveReason.VOLUNTARY]: "left",
  [LeaveReason.KICKED]: "was removed by a host",
  [LeaveReason.CONNECTION_LOST]: "lost the connection",
  [LeaveReason.MEETING_ENDED]: "left: the meeting ended",
  [LeaveReason.TIMEOUT]: "did not come back",
};
const MUTED = { host: "muted by a host", self: "off", no: "on" };

/** How a track of a participant is muted: by a host, by the participant, or not. */
export const muted = (person, kind) => (person.mute?.[`${kind}_host`] ? "host" : person.mute?.[`${kind}_self`] ? "self" : "no");
export const mutedWords = (kind, how) => `${NAMES[kind]} ${MUTED[how]}`;
export const isHere = (person) => person.presence !== Presence.DISCONNECTED;
export const initials = (name) => name.split(/\s+/).filter(Boolean).slice(0, 2).map((word) => [...word][0]).join("").toUpperCase() || "?";

/** Oneself first, then by the time of joining. */
export const inOrder = (view) => Object.values(view.people).sort((a, b) =>
  (b.participant_id === view.me) - (a.participant_id === view.me) || a.joined_at - b.joined_at || (a.participant_id < b.participant_id ? -1 : 1));

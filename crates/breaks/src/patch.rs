//! Breaks of the Redis engine: what is replaced in its scripts, and by what.

use crate::{Break, broken};

/// A break, the correct text, and the text in its place.
pub const PATCHES: &[(Break, &str, &str)] = &[
    (
        Break::RedisGrantsHeld,
        "if live and lease.value == lease.holder then return lease.state end",
        "if live and lease.value == lease.holder then return 'free' end",
    ),
    (
        Break::RedisNoQuarantine,
        "store.quarantine = math.max(quarantine_end - now, 0)",
        "store.quarantine = 0",
    ),
    (
        Break::RedisHandsOnInQuarantine,
        "if store.quarantine > 0 and not (ending == 'transferred' and may_be_replaced(lease)) then return nil end",
        "",
    ),
    (
        Break::RedisPlainIncrement,
        "math.max(tonumber(lease.last) or 0, store.floor) + 1",
        "(tonumber(lease.last) or 0) + 1",
    ),
    (
        Break::RedisFenceBlind,
        "return (highest > mine or (highest == mine and mark[2] ~= token)) and mark[1] or nil",
        "return nil",
    ),
    (Break::RedisRenewsExpired, " and fields[3] == values[i] and tonumber(fields[4]) > now", ""),
    (Break::RedisLastInFirstOut, "call('LPOP', queue)", "call('RPOP', queue)"),
    (
        Break::RedisWipesUnproven,
        "if not is_held_by(gate, token, generation) then return { 'unproven' } end",
        "",
    ),
    (Break::RedisGrantsSpent, "if is_spent(lease, claim.token)", "if false"),
    (Break::RedisConflictIsWritten, "  if found then return found end\n  if mode ~= ''", "  if mode ~= ''"),
    (
        Break::RedisAnnouncesUnfenced,
        "if not is_held_by(lease, token, generation) then return 'refused' end",
        "",
    ),
    (
        Break::RedisForeignIsFree,
        "if lease.value or lease.opaque then return 'foreign' end",
        "if lease.value or lease.opaque then return 'free' end",
    ),
];

/// The text of a script with the break that is switched on, if it is one of the scripts.
pub fn patched(text: String) -> String {
    match PATCHES.iter().find(|(what, ..)| broken(*what)) {
        Some((_, correct, wrong)) => text.replace(correct, wrong),
        None => text,
    }
}

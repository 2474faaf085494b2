-- Common to all scripts: short names and the time of this call.
--
-- KEYS 1-8 are tenure:inc, floor, index, keys, rev, events, tombs, tombed; then one per lease key. A lease key's
-- companions are its name with a prefix: spelling them here is half the cost of sending them.
-- ARGV 1 is what tenure:inc is as long as nothing happened, or ''; ARGV 2 describes the server's incarnation: run id,
-- uptime, quarantine in ms, 1 if another server came before.
--
-- tenure:o holds what a key is doing besides what the frozen layout shows, and never expires:
--   h digest(32) gen(16) since(16) ttl(8) holder TAIL   held
--   f gen(16) TAIL                                      free; the last generation
--   d until(16) TAIL                                    nobody may have it yet
--   r until(16) heir TAIL                               kept for an heir
-- where TAIL is at(13) spent(96) flag: `at` is a time not before the key's place in the index, spent the last 6 bytes
-- of the digests of the last 16 spent tokens, newest first, and flag is w while somebody may be parked, or -.
-- All fields but the name in the middle have a fixed place from the front or from the back. Strings are costly: this
-- Lua hashes every byte of every string it makes, and every closure costs as much as a command. So what most calls
-- need is written out without functions, and functions are only made when something rarer happens.
local call, a, K = redis.call, ARGV, KEYS
local sub, fmt, find, byte = string.sub, string.format, string.find, string.byte
local GLOBALS, HEAD = 8, 2
local INCARNATION = '^(%S*) (%d+) (%d+) (%d)$'
local time = call('TIME')
-- Microseconds and milliseconds, as texts of 16 and 13 digits.
local stamp = time[1] .. sub('00000' .. time[2], -6)
local ms = sub(stamp, 1, 13)
local NEVER, ZEROS = '9999999999999', '0000000000000000'
-- A tail without its flag: not in the index, nothing spent.
local BLANK = '9999999999999................................................................................................'

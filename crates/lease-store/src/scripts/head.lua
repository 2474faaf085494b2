-- Common to all scripts: short names and the time of this call.
--
-- KEYS are lease keys and records. What the store keeps for itself, and a lease key's companions, whose names are its
-- own with a prefix, are spelled here: that is half the cost of sending them.
-- ARGV 1 says who the server is and who asks: what tenure:inc is as long as nothing happened to this server process, its
-- uptime, the quarantine in ms, 1 if another server came before, and of a release the instance(16) that asks. It begins
-- with ! if another server came before: then nothing is as if nothing happened.
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
-- need is written out without functions, and functions are only made when something rarer happens. It also counts in
-- digits: making a number of a text and a text of a number costs a lone call as much as two commands, because the code
-- that does it is large and nothing else needs it.
local call, a, K = redis.call, ARGV, KEYS
local sub, fmt, find, byte, char = string.sub, string.format, string.find, string.byte, string.char
local INC, FLOOR, REV, EVENTS = 'tenure:inc', 'tenure:floor', 'tenure:rev', 'tenure:events'
local INDEX, ORDER, TOMBS, TOMBED = 'tenure:index', 'tenure:keys', 'tenure:tombs', 'tenure:tombed'
local HEAD = 1
local INCARNATION = '^!?(%S*)0000000000000 (%d+) (%d+) (%d) '
local time = call('TIME')
-- Microseconds and milliseconds, as texts of 16 and 13 digits.
local stamp = time[1] .. sub('00000' .. time[2], -6)
local ms = sub(stamp, 1, 13)
local NEVER, ZEROS = '9999999999999', '0000000000000000'
-- The greatest generation, 2^53 - 1.
local LAST = '9007199254740991'
-- A tail without its flag: not in the index, nothing spent.
local BLANK = '9999999999999................................................................................................'

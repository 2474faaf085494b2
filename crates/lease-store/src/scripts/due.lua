-- Looks after the keys whose place in the index has come: a reign that was renewed meanwhile gets a new one here and
-- now, and time may have changed the others. KEYS: index, tombs. ARGV: at most so many.
-- Answers: how many were looked at, the server's time in ms, then the names of those others.
local call, sub, find, fmt = redis.call, string.sub, string.find, string.format
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
local due = call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1])
local count, read, n = #due, {}, 0
local out, index, set, places = { count, now }, {}, {}, 0
if count == 0 then return out end
for i = 1, count do
  read[n + 1], read[n + 2] = due[i], 'tenure:o:' .. due[i]
  n = n + 2
end
local got = call('MGET', unpack(read))
for i = 1, count do
  local key, value, o, left = due[i], got[i * 2 - 1], got[i * 2], 0
  if value and o and sub(o, 1, 1) == 'h' and #o - #value == 183 and find(o, value, 74, true) == 74 then
    left = call('PTTL', 'tenure:l:' .. key)
  end
  if left > 0 then
    local ends = fmt('%013d', now + left)
    index[places + 1], index[places + 2] = ends, key
    set[places + 1], set[places + 2] = read[i * 2], sub(o, 1, -111) .. ends .. sub(o, -97)
    places = places + 2
  else
    out[#out + 1] = key
  end
end
if places > 0 then
  call('ZADD', KEYS[1], unpack(index))
  call('MSET', unpack(set))
end
return out

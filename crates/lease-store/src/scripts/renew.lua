-- Many renewals. KEYS: index, then one per item.
-- ARGV per item: 'h' digest(32) gen(16) and the ttl(8), if it changes.
-- Answers: the ttl from now on in one number when every item was renewed and has the same. Otherwise per item:
-- the ttl from now on, or -1 when this is not the live reign.
local call, a, K = redis.call, ARGV, KEYS
local sub, fmt, find = string.sub, string.format, string.find
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local count = #K - 1
local read, out, ending, n = {}, {}, {}, 0
for i = 1, count do
  local key = K[i + 1]
  read[n + 1], read[n + 2] = key, 'tenure:o:' .. key
  n = n + 2
end
local got = call('MGET', unpack(read))
local same, all = nil, true
for i = 1, count do
  local value, o, item, key, ttl = got[i * 2 - 1], got[i * 2], a[i], K[i + 1], nil
  local changes = #item > 49
  -- Comparing in place is cheaper than making the parts.
  if value and o and find(o, changes and sub(item, 1, 49) or item, 1, true) == 1 and #o - #value == 183
    and find(o, value, 74, true) == 74
  then
    local granted = sub(o, 66, 73)
    ttl = changes and sub(item, 50) or granted
    local ends = ending[ttl]
    if not ends then
      ends = fmt('%d', now + ttl)
      ending[ttl] = ends
    end
    if call('PEXPIREAT', 'tenure:l:' .. key, ends) == 1 then
      call('PEXPIREAT', key, ends)
      if ttl ~= granted then
        call('SET', read[i * 2], sub(o, 1, 65) .. ttl .. sub(o, 74))
        if 0 + ttl < 0 + granted then call('ZADD', K[1], 'LT', ends, key) end
      end
    else
      ttl = nil
    end
  end
  same = same or ttl
  all = all and ttl and ttl == same
  out[i] = ttl or -1
end
if all then return 0 + same end
for i = 1, count do
  out[i] = 0 + out[i]
end
return out

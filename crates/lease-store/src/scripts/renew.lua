-- Many renewals. KEYS: index, then one per item.
-- ARGV per item: 'h' digest(32) gen(16) and the ttl(8), if it changes; then a mark, if any of them does.
-- Answers: the ttl from now on in one number when every item was renewed and has the same. Otherwise per item:
-- the ttl from now on, or -1 when this is not the live reign.
local call, a, K = redis.call, ARGV, KEYS
local sub, fmt, find = string.sub, string.format, string.find
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local count = #K - 1
local read, n = {}, 0
for i = 1, count do
  local key = K[i + 1]
  read[n + 1], read[n + 2] = key, 'tenure:o:' .. key
  n = n + 2
end
local got = call('MGET', unpack(read))
-- First those that are live, if all keep their ttl. Mostly they have one holder and one ttl: what was made of the last
-- pair is kept, and nothing is noted of an item that was renewed.
local renewed, same, pair, holder, ends = 0, nil, nil, nil, nil
if #a == count then
  n = 0
  for i = 1, count do
    local o = got[n + 2]
    -- Comparing in place is cheaper than making the parts.
    if not o or find(o, a[i], 1, true) ~= 1 then break end
    local this = sub(o, 66, -111)
    if this ~= pair then
      local ttl = sub(this, 1, 8)
      if same and same ~= ttl then break end
      same, pair, holder, ends = ttl, this, sub(this, 9), fmt('%d', now + ttl)
    end
    if got[n + 1] ~= holder or call('PEXPIREAT', 'tenure:l:' .. read[n + 1], ends) ~= 1 then break end
    call('PEXPIREAT', read[n + 1], ends)
    n, renewed = n + 2, i
  end
  if renewed == count then return 0 + same end
end
-- Then one by one: those that change their ttl or have another one, those that are not live, and whoever comes after.
local out = {}
for i = 1, count do
  local value, o, item, key, ttl = got[i * 2 - 1], got[i * 2], a[i], K[i + 1], nil
  if i <= renewed then
    ttl = same
  elseif value and o and find(o, sub(item, 1, 49), 1, true) == 1 and sub(o, 74, -111) == value then
    local granted = sub(o, 66, 73)
    ttl = #item > 49 and sub(item, 50) or granted
    ends = fmt('%d', now + ttl)
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
  out[i] = 0 + (ttl or -1)
end
return out

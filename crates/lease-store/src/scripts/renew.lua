-- Many renewals. KEYS: index, then per item K, tenure:l, tenure:o.
-- ARGV per item: 'h' generation digest as one text, ttl or ''.
-- Answers per item: the ttl from now on, or -1 when this is not the live reign.
local call, k, a = redis.call, KEYS, ARGV
local sub = string.sub
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local count = (#k - 1) / 3
local read, out = {}, {}
for i = 1, count do
  read[i * 2 - 1], read[i * 2] = k[i * 3 - 1], k[i * 3 + 1]
end
local got = call('MGET', unpack(read))
for i = 1, count do
  local value, o, asked = got[i * 2 - 1], got[i * 2], a[i * 2]
  local ttl = -1
  if value and o and sub(o, 1, 49) == a[i * 2 - 1] and sub(o, 77, 76 + sub(o, 74, 76)) == value then
    ttl = sub(o, 50, 57) + 0
    local granted = ttl
    if asked ~= '' then ttl = asked + 0 end
    local ends = now + ttl
    if call('PEXPIREAT', k[i * 3], ends) == 1 then
      call('PEXPIREAT', k[i * 3 - 1], ends)
      if ttl ~= granted then
        call('SET', k[i * 3 + 1], sub(o, 1, 49) .. string.format('%08d', ttl) .. sub(o, 58))
        if ttl < granted then call('ZADD', k[1], 'LT', ends, k[i * 3 - 1]) end
      end
    else
      ttl = -1
    end
  end
  out[i] = ttl
end
return out

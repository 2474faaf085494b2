-- Many renewals. KEYS: index, then one per item.
-- ARGV per item: 'h' gen(16) digest(32) and the ttl, if it changes.
-- Answers per item: the ttl from now on, or -1 when this is not the live reign.
local call, a = redis.call, ARGV
local sub, fmt = string.sub, string.format
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local count = #KEYS - 1
local read, out, ending = {}, {}, {}
for i = 1, count do
  local key = KEYS[i + 1]
  read[i * 2 - 1], read[i * 2] = key, 'tenure:o:' .. key
end
local got = call('MGET', unpack(read))
for i = 1, count do
  local value, o, item = got[i * 2 - 1], got[i * 2], a[i]
  local proof = #item == 49 and item or sub(item, 1, 49)
  local left = -1
  if value and o and sub(o, 1, 49) == proof and sub(o, 77, 76 + sub(o, 74, 76)) == value then
    local granted = sub(o, 50, 57)
    local ttl = #item > 49 and sub(item, 50) or granted
    local ends = ending[ttl]
    if not ends then
      ends = fmt('%d', now + ttl)
      ending[ttl] = ends
    end
    if call('PEXPIREAT', 'tenure:l:' .. KEYS[i + 1], ends) == 1 then
      call('PEXPIREAT', KEYS[i + 1], ends)
      left = 0 + ttl
      if ttl ~= granted then
        call('SET', read[i * 2], sub(o, 1, 49) .. ttl .. sub(o, 58))
        if 0 + ttl < 0 + granted then call('ZADD', KEYS[1], 'LT', ends, KEYS[i + 1]) end
      end
    end
  end
  out[i] = left
end
return out

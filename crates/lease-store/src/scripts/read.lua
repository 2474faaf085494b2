-- Reads records; a key that carries a lease is none. KEYS: rindex, then per record K, tenure:v, tenure:l, tenure:o.
-- Answers per record: {value, revision, remaining}, or {} after forgetting its place in the index.
local call, k, sub = redis.call, KEYS, string.sub
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local out = {}
for i = 1, (#k - 1) / 4 do
  local x = 1 + (i - 1) * 4
  local got = call('MGET', k[x + 1], k[x + 2], k[x + 4])
  local value, o = got[1], got[3]
  local was = value and o and sub(o, 1, 1)
  local leased = (was == 'h' and value == sub(o, 74, -111) and call('EXISTS', k[x + 3]) == 1)
    or (was == 'r' and value == sub(o, 18, -111) and tonumber(sub(o, 2, 17)) > now - 1000)
  if not value or leased then
    if call('EXISTS', k[x + 1]) == 0 or leased then call('ZREM', k[1], k[x + 1]) end
    out[i] = {}
  else
    local rev, sum = string.match(got[2] or '', '^(%d+) (%x+)$')
    out[i] = { value, sum == redis.sha1hex(value) and rev or '0', call('PTTL', k[x + 1]) }
  end
end
return out

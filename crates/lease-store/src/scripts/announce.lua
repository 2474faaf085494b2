-- Tells and keeps news, each only while its lease is live. KEYS: one lease key per item.
-- ARGV per item: 'h' digest(32) gen(16), channel, message, latest, ttl, log, most entries.
-- Answers per item: 1 told, 0 refused.
local call, a, sub = redis.call, ARGV, string.sub
local out = {}
for i = 1, #KEYS do
  local key, x = KEYS[i], (i - 1) * 7
  local got = call('MGET', key, 'tenure:o:' .. key)
  local value, o = got[1], got[2]
  if value and o and sub(o, 1, 49) == a[x + 1] and value == sub(o, 74, -111)
    and call('EXISTS', 'tenure:l:' .. key) == 1
  then
    local log, count = 'tenure:log:' .. a[x + 6], 'tenure:n:' .. a[x + 6]
    call('SET', a[x + 4], a[x + 3], 'PX', a[x + 5])
    call('INCR', count)
    if call('RPUSH', log, a[x + 3]) > tonumber(a[x + 7]) then call('LTRIM', log, -a[x + 7], -1) end
    call('PEXPIRE', log, a[x + 5])
    call('PEXPIRE', count, a[x + 5])
    call('PUBLISH', a[x + 2], a[x + 3])
    out[i] = 1
  else
    out[i] = 0
  end
end
return out

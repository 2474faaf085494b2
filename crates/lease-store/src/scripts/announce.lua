-- Tells and keeps news, each only while its lease is live. KEYS: one lease key per item.
-- ARGV per item: 'h' digest(32) gen(16), channel, message, latest, ttl, log, most entries.
-- Answers per item: 1 told, 0 refused, 2 where `latest` carries a lease; nothing after that is told.
local call, a, sub = redis.call, ARGV, string.sub
local out = {}

-- Whether somebody has a key, or is to have it, or nobody may yet.
local function leased(key, o)
  local was, time, value = o and sub(o, 1, 1), call('TIME'), nil
  local kept = (was == 'r' or was == 'd') and tonumber(sub(o, 2, 17)) > time[1] * 1000 + math.floor(time[2] / 1000)
  if was == 'd' then return kept end
  value = (was == 'h' or kept) and call('GET', key)
  if was == 'h' then return value == sub(o, 74, -111) and call('EXISTS', 'tenure:l:' .. key) == 1 end
  return kept and value == sub(o, 18, -111)
end

for i = 1, #KEYS do
  local key, x = KEYS[i], (i - 1) * 7
  local got = call('MGET', key, 'tenure:o:' .. key, 'tenure:m:' .. key, 'tenure:o:' .. a[x + 4])
  local value, o, mark, theirs = got[1], got[2], got[3], got[4]
  if theirs and leased(a[x + 4], theirs) then
    out[i] = 2
    for rest = i + 1, #KEYS do
      out[rest] = 0
    end
    break
  elseif value and o and sub(o, 1, 49) == a[x + 1] and value == sub(o, 74, -111)
    and call('EXISTS', 'tenure:l:' .. key) == 1
  then
    local log, count = 'tenure:log:' .. a[x + 6], 'tenure:n:' .. a[x + 6]
    -- As every strict write does: an older monotonic one must not land after it.
    local mine = sub(a[x + 1], 34, 49) .. sub(a[x + 1], 2, 17)
    if mark ~= mine and (not mark or sub(mark, 1, 16) <= sub(mine, 1, 16)) then call('SET', 'tenure:m:' .. key, mine) end
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

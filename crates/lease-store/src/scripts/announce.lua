-- Publishes and stores messages, each only while its lease is live.
--
--@libs store lease
--@keys key...
--@item token generation channel message latest ttl log max_len
--@reply announced
--@reply refused
--@reply leased
--
-- The message goes to `channel`, replaces the record `latest` for `ttl` ms, and is appended to `log`, which keeps
-- `max_len` entries. `leased`: a lease occupies `latest`; the items after that one are refused.
local LOG, LOG_COUNT = 'tenure:log:', 'tenure:n:'

-- As every strict write does: an older monotonic one must not land after it.
local function raise_mark(key, token, generation)
  local mark = tonumber(call('HGET', HIGH_WATER_MARK .. key, 'generation')) or 0
  if mark < tonumber(generation) then
    call('HSET', HIGH_WATER_MARK .. key, 'generation', generation, 'token', token)
  end
end

local function append(log, message, ttl, max_len)
  call('INCR', LOG_COUNT .. log)
  if call('RPUSH', LOG .. log, message) > tonumber(max_len) then call('LTRIM', LOG .. log, '-' .. max_len, -1) end
  call('PEXPIRE', LOG .. log, ttl)
  call('PEXPIRE', LOG_COUNT .. log, ttl)
end

local function announce(i, lease, occupied)
  local token, generation, channel, message, latest, ttl, log, max_len = item(i)
  if occupied then return 'leased' end
  if not is_held_by(lease, token, generation) then return 'refused' end
  raise_mark(lease.key, token, generation)
  call('SET', latest, message, 'PX', ttl)
  append(log, message, ttl, max_len)
  call('PUBLISH', channel, message)
  return 'announced'
end

local targets = {}
for i = 1, #KEYS do
  local _, _, _, _, latest = item(i)
  targets[i] = latest
end
targets = load_leases(targets)

local replies, stopped = {}, false
for i, lease in ipairs(load_leases(KEYS)) do
  local outcome = stopped and 'refused' or announce(i, lease, is_leased(targets[i]))
  stopped = stopped or outcome == 'leased'
  replies[i] = { outcome }
end
return replies

-- Describes keys. Changes nothing.
--
--@libs store lease
--@keys key...
--@reply status state holder generation remaining since waiters meta
--
-- `state` is free, held, delayed, reserved or foreign; `generation` is the last one, or '0'. Fields that a state does
-- not have are '', and `remaining` is -1 for something without an end.

-- A record is not a holder, and its value is not shown here.
local function is_record(lease)
  return lease.value and record_revision(lease.value, call('GET', 'tenure:v:' .. lease.key)) ~= '0'
end

local function describe(lease)
  local key, state = lease.key, current_state(lease)
  if state == 'foreign' and is_record(lease) then state = 'free' end
  local holder, remaining, since, meta = '', -1, '', ''
  if state == 'held' or state == 'reserved' then
    holder, remaining = lease.holder, call('PTTL', key)
  elseif state == 'delayed' then
    remaining = lease.expires - now
  elseif state == 'foreign' then
    holder, remaining = string.sub(lease.value or '?', 1, 128), call('PTTL', key)
  end
  if state == 'held' then
    since, meta = lease.since, call('HGET', LEASE .. key, 'meta') or ''
  end
  return { 'status', state, holder, lease.last, integer(remaining), since, call('LLEN', QUEUE .. key), meta }
end

local replies = {}
for i, lease in ipairs(load_leases(KEYS)) do
  replies[i] = describe(lease)
end
return replies

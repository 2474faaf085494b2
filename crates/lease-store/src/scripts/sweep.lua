-- Brings the keys up to date whose time in the index has come, and gives each a new time or removes it. Forgets the
-- past of keys that have long been free.
--
--@libs store lease
--@keys
--@args run_id uptime_ms quarantine_ms replaced_ms limit
--@reply swept count
--
-- `limit` is how many keys are checked and how many are forgotten at most, `count` the greater of what both did.
write_without_memory()
local wrong_layout = open_store(run_id, uptime_ms, quarantine_ms, replaced_ms)
if wrong_layout then return wrong_layout end

-- How soon a free key is checked again while claims wait for it, in ms: they wait for the end of a quarantine, or for
-- another program.
local RECHECK_MS = 1000

-- How long the past of a free key is kept, in ms: seven days. And of how many free keys.
local PAST_MS, PAST_KEYS = 604800000, 100000

-- When time changes the key next, or nil if never.
local function next_check(lease)
  if lease.state == 'held' or lease.state == 'reserved' then return now + math.max(call('PTTL', lease.key), 1) end
  if lease.state == 'delayed' then return lease.expires end
  return call('EXISTS', QUEUE .. lease.key) == 1 and now + RECHECK_MS or nil
end

-- Free keys whose past is no longer kept, oldest first.
local function outdated_keys()
  local keys = call('ZRANGEBYSCORE', FREED_KEYS, '-inf', integer(now - PAST_MS), 'LIMIT', 0, limit)
  local excess = math.min(call('ZCARD', FREED_KEYS) - PAST_KEYS, tonumber(limit))
  if #keys > 0 or excess <= 0 then return keys end
  return call('ZRANGE', FREED_KEYS, 0, excess - 1)
end

-- Forgets the past of a key that is still free: the last generation, which the floor covers from then on, the history,
-- and the mark. A write that no history proves needs no mark to be fenced out.
local function forget_past(lease)
  call('ZREM', FREED_KEYS, lease.key)
  if lease.state ~= 'free' then return end
  local last = tonumber(lease.last) or 0
  if last > store.floor then
    store.floor = last
    call('HSET', STORE, 'floor', integer(last))
  end
  call('DEL', GENERATION .. lease.key, HISTORY .. lease.key, HIGH_WATER_MARK .. lease.key)
end

call('ZREMRANGEBYSCORE', UNUSED_TOKENS, '-inf', now_text)
local due = call('ZRANGEBYSCORE', INDEX, '-inf', now_text, 'LIMIT', 0, limit)
for _, lease in ipairs(#due > 0 and load_leases(due) or {}) do
  settle(lease)
  local at = next_check(lease)
  call('ZREM', INDEX, lease.key)
  if at then
    schedule(lease.key, integer(at))
  else
    call('ZREM', LEASE_KEYS, lease.key)
    call('ZADD', FREED_KEYS, now_text, lease.key)
  end
end
local outdated = outdated_keys()
for _, lease in ipairs(#outdated > 0 and load_leases(outdated) or {}) do forget_past(lease) end
finish()
return { 'swept', math.max(#due, #outdated) }

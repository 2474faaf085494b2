-- Brings the keys up to date whose time in the index has come, and gives each a new time or removes it.
--
--@libs store lease
--@keys
--@args run_id uptime_ms quarantine_ms replaced_ms limit
--@reply swept count
--
-- `limit` is how many keys are checked at most, `count` how many were.
write_without_memory()
local wrong_layout = open_store(run_id, uptime_ms, quarantine_ms, replaced_ms)
if wrong_layout then return wrong_layout end

-- How soon a free key is checked again while claims wait for it, in ms: they wait for the end of a quarantine, or for
-- another program.
local RECHECK_MS = 1000

-- How long the past of a free key is kept after its last reign, in ms: seven days. The mark is kept a minute longer,
-- because a write that the history cannot prove any more needs no mark to be fenced out.
local PAST_MS, MARK_MS = 604800000, 604860000

-- When time changes the key next, or nil if never.
local function next_check(lease)
  if lease.state == 'held' or lease.state == 'reserved' then return now + math.max(call('PTTL', lease.key), 1) end
  if lease.state == 'delayed' then return lease.expires end
  return call('EXISTS', QUEUE .. lease.key) == 1 and now + RECHECK_MS or nil
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
    call('PEXPIRE', HISTORY .. lease.key, PAST_MS)
    call('PEXPIRE', 'tenure:m:' .. lease.key, MARK_MS)
  end
end
finish()
return { 'swept', #due }

-- Releases keys. Each release is decided by itself; no two releases of a call have the same key.
--
--@libs store lease
--@keys key...
--@args run_id uptime_ms quarantine_ms replaced_ms instance
--@item token generation mode successor waiter
--@reply released waiter generation
--@reply not_held
--
-- `generation` is the one to release, or '' for any. `mode` is 'release', 'repeat' (an earlier attempt may have been
-- applied) or 'leave' (only leave the queue). `successor` is the holder that gets the key next, or ''. `waiter` is the
-- claim that stops waiting, or ''. `instance` is the process of the caller: a claim that waits there and was granted
-- the key learns of it from this reply, as `waiter` and `generation`; otherwise these are ''.
write_without_memory()
local wrong_layout = open_store(run_id, uptime_ms, quarantine_ms, replaced_ms)
if wrong_layout then return wrong_layout end
caller.instance = instance

-- How long a key stays reserved for a successor that does not wait for it yet, in ms.
local RESERVATION_MS = 2000

local function release(lease, successor)
  local waiter = grant_to_next(lease, successor, 'released')
  if waiter then return { 'released', waiter.id, lease.generation } end
  end_reign(lease, 'released')
  if successor then
    block(lease, now + RESERVATION_MS, successor)
  else
    free(lease)
  end
  return { 'released', '', '' }
end

local function decide(lease, token, generation, mode, successor)
  if mode == 'leave' then return { 'not_held' } end
  settle(lease)
  local held = lease.state == 'held' and lease.token == token
  if held and (generation == '' or generation == lease.generation) then return release(lease, successor) end
  if is_spent(lease, token) then
    return mode == 'repeat' and { 'released', '', '' } or { 'not_held' }
  end
  -- A claim with this token that is still on its way must not be granted.
  if not held then give_up_token(lease, token) end
  return { 'not_held' }
end

local replies = {}
for i, lease in ipairs(load_leases(KEYS)) do
  local token, generation, mode, successor, waiter = item(i)
  if waiter ~= '' then
    call('LREM', QUEUE .. lease.key, 1, waiter)
    call('DEL', WAITER .. waiter)
  end
  replies[i] = decide(lease, token, generation, mode, successor ~= '' and successor or nil)
end
finish()
return replies

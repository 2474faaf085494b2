-- Claims keys. Each claim is decided by itself; no two claims of a call have the same key.
--
--@libs store lease
--@keys key...
--@args run_id uptime_ms quarantine_ms replaced_ms
--@item token holder ttl meta instead_of queue waiter instance wait
--@reply granted generation
--@reply kept generation ttl holder
--@reply busy reason generation remaining position holder
--@reply refused why
--
-- `instead_of` is the generation that the claim replaces, or ''. `queue` is '' (answer at once), 'join' (wait, or keep
-- waiting) or 'leave' (answer at once and stop waiting); a claim that may wait has an id, `waiter`, an `instance`,
-- whose channel wakes it, and waits for at most `wait` ms. `kept`: the token holds the key already.
-- `remaining` is -1 for something without an end; `why` is spent, waiters (too many) or generations (none left).
local wrong_layout = open_store(run_id, uptime_ms, quarantine_ms, replaced_ms)
if wrong_layout then return wrong_layout end

-- Most claims that wait for one key.
local WAITERS = 1024

local function leave_queue(lease, claim)
  if claim.waiter == '' then return end
  call('LREM', QUEUE .. lease.key, 1, claim.waiter)
  call('DEL', WAITER .. claim.waiter)
end

-- Removes claims from a full queue whose time is over or whose process is gone. Returns how many are left.
local function drop_dead_waiters(queue)
  local listening = {}
  for _, id in ipairs(call('LRANGE', queue, 0, -1)) do
    local instance = call('HGET', WAITER .. id, 'instance')
    if instance and listening[instance] == nil then
      listening[instance] = call('PUBSUB', 'NUMSUB', CHANNEL .. instance)[2] > 0
    end
    if not instance or not listening[instance] then
      call('LREM', queue, 1, id)
      call('DEL', WAITER .. id)
    end
  end
  return call('LLEN', queue)
end

-- Queues a claim unless it waits already. Returns how many wait before it, or nil if too many do.
local function join_queue(lease, claim)
  local queue, name = QUEUE .. lease.key, WAITER .. claim.waiter
  local ahead = call('LPOS', queue, claim.waiter)
  if ahead then return ahead end
  if call('LLEN', queue) >= WAITERS and drop_dead_waiters(queue) >= WAITERS then return nil end
  call('HSET', name, 'token', claim.token, 'holder', claim.holder, 'ttl', claim.ttl, 'meta', claim.meta,
    'instance', claim.instance)
  call('PEXPIRE', name, claim.wait)
  return call('RPUSH', queue, claim.waiter) - 1
end

-- The position of a claim, or the one that it would have.
local function queue_position(lease, claim, reason)
  local queue = QUEUE .. lease.key
  local ahead
  if claim.queue == 'join' and reason ~= 'not_that_generation' then
    ahead = join_queue(lease, claim)
    return ahead and ahead + 1
  elseif claim.queue == 'leave' then
    ahead = call('LPOS', queue, claim.waiter)
    leave_queue(lease, claim)
  end
  return (ahead or call('LLEN', queue)) + 1
end

local function busy(lease, claim, reason, holder, remaining)
  local position = queue_position(lease, claim, reason)
  if not position then return { 'refused', 'waiters' } end
  return { 'busy', reason, lease.last, integer(remaining), position, holder }
end

-- The token holds the key: the reign goes on, with the ttl of this claim.
local function keep(lease, claim)
  local expires = integer(now + claim.ttl)
  call('HSET', LEASE .. lease.key, 'ttl', claim.ttl, 'expires', expires, 'incarnation', store.incarnation)
  note_ttl(claim.ttl)
  call('PEXPIREAT', lease.key, expires)
  schedule(lease.key, expires)
  return { 'kept', lease.generation, claim.ttl, lease.holder }
end

local function begin_reign(lease, claim)
  local generation = next_generation(lease)
  if not generation then return { 'refused', 'generations' } end
  if lease.state == 'held' then end_reign(lease, 'superseded') end
  grant(lease, claim, generation)
  return { 'granted', generation }
end

-- Replaces exactly the reign that the claim names.
local function replace(lease, claim)
  if lease.state ~= 'held' then return busy(lease, claim, 'not_that_generation', '', -1) end
  if lease.generation ~= claim.instead_of then
    return busy(lease, claim, 'not_that_generation', lease.holder, call('PTTL', lease.key))
  end
  if not may_be_replaced(lease) then return busy(lease, claim, 'quarantine', '', store.quarantine) end
  return begin_reign(lease, claim)
end

local function decide(lease, claim)
  settle(lease)
  local state = lease.state
  if state == 'held' and lease.token == claim.token then return keep(lease, claim) end
  if is_spent(lease, claim.token) or is_given_up(lease, claim.token) then
    leave_queue(lease, claim)
    return { 'refused', 'spent' }
  end
  if state == 'foreign' then
    return busy(lease, claim, 'foreign', string.sub(lease.value or '?', 1, 128), call('PTTL', lease.key))
  end
  if claim.instead_of ~= '' then return replace(lease, claim) end
  if state == 'held' or (state == 'reserved' and lease.holder ~= claim.holder) then
    return busy(lease, claim, state, lease.holder, call('PTTL', lease.key))
  end
  if state == 'delayed' then return busy(lease, claim, 'delayed', '', lease.expires - now) end
  if store.quarantine > 0 then return busy(lease, claim, 'quarantine', '', store.quarantine) end
  leave_queue(lease, claim)
  return begin_reign(lease, claim)
end

local replies = {}
for i, lease in ipairs(load_leases(KEYS)) do
  local token, holder, ttl, meta, instead_of, queue, waiter, instance, wait = item(i)
  caller.waiter = waiter
  replies[i] = decide(lease, { token = token, holder = holder, ttl = ttl, meta = meta,
    instead_of = instead_of, queue = queue, waiter = waiter, instance = instance, wait = wait })
end
finish()
return replies

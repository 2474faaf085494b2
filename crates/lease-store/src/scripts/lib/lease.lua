-- How reigns begin and end: shared by all scripts that read or change leases.
-- A lease is a table: `key`; `value`, the string under the key; `last`, its last generation; `opaque`, whether the key
-- has another type; `queued`, whether claims may wait for it; and the fields of `tenure:l:<key>`.
-- luacheck: push ignore 211
local LEASE, GENERATION, QUEUE = 'tenure:l:', 'tenure:g:', 'tenure:w:'
local WAITER, HISTORY, SPENT_TOKENS, CHANNEL = 'tenure:waiter:', 'tenure:h:', 'tenure:t:', 'tenure:c:'
local HIGH_WATER_MARK = 'tenure:m:'

-- How long a token stays spent, in ms, and of how many reigns of a key. A minute without a release forgets them all.
local SPENT_MS, SPENT_REIGNS = 60000, 4096
-- Most tombstones of all keys.
local TOMBSTONES = 65536
-- Sets and lists are trimmed once in so many additions.
local SPENT_SLACK, HISTORY_SLACK = 64, 16
-- How many reigns of a key are kept.
local HISTORY_REIGNS = 32

-- The claim and the process that wait for the reply of this call. They learn of a grant from it, without a message.
local caller = { waiter = '', instance = '' }

local function load_lease(key, value, last, queued)
  local fields = redis.pcall('HMGET', LEASE .. key,
    'state', 'generation', 'holder', 'token', 'since', 'ttl', 'expires', 'incarnation')
  return {
    key = key, value = value, last = last or '0', queued = queued, opaque = false,
    -- Fields of another type were written by another program.
    spoiled = fields.err, state = fields[1] or 'free', expires = fields[7] and tonumber(fields[7]) or 0,
    generation = fields[2], holder = fields[3], token = fields[4], since = fields[5], ttl = fields[6],
    incarnation = fields[8],
  }
end

-- Reads the leases of several keys. Commands that take many keys are called once for all of them.
local function load_leases(keys)
  local names, queues, strings = {}, {}, 0
  for i, key in ipairs(keys) do
    names[2 * i - 1], names[2 * i], queues[i] = key, GENERATION .. key, QUEUE .. key
  end
  local values = call('MGET', unpack(names))
  local leases, queued = {}, call('EXISTS', unpack(queues)) > 0
  for i, key in ipairs(keys) do
    local value = values[2 * i - 1]
    if value then strings = strings + 1 end
    leases[i] = load_lease(key, value, values[2 * i], queued)
  end
  -- MGET does not show keys of other types.
  if call('EXISTS', unpack(keys)) > strings then
    for _, lease in ipairs(leases) do
      lease.opaque = not lease.value and call('EXISTS', lease.key) == 1
    end
  end
  return leases
end

-- Whether the value is what is left of a reign or reservation that is over by the time of this call. The server
-- removes it by the time at which the call began, which is a little earlier.
local function is_leftover(lease)
  return lease.value == lease.holder and lease.expires <= now
    and call('PEXPIRETIME', lease.key) == lease.expires
end

-- The state of a key at this moment: held, reserved, delayed, free, or foreign if another program has set it.
local function current_state(lease)
  local live = lease.state ~= 'free' and lease.expires > now
  if lease.state == 'held' or lease.state == 'reserved' then
    if live and lease.value == lease.holder then return lease.state end
    if lease.value and is_leftover(lease) then return 'free' end
  end
  if lease.value or lease.opaque then return 'foreign' end
  return live and lease.state == 'delayed' and 'delayed' or 'free'
end

-- Whether a token holds a key at this moment, with this generation.
local function is_held_by(lease, token, generation)
  return lease.token == token and lease.generation == generation and current_state(lease) == 'held'
end

-- Whether a lease or a lock-delay occupies the key, so that it cannot be written as a record.
local function is_leased(lease)
  local state = current_state(lease)
  return state == 'held' or state == 'reserved' or (lease.state == 'delayed' and lease.expires > now)
end

-- Whether the token had a reign of this key that ended other than by expiry.
local function is_spent(lease, token)
  local spent_at = call('ZSCORE', SPENT_TOKENS .. lease.key, token)
  return spent_at and tonumber(spent_at) > now - SPENT_MS
end

-- Whether the token was released before it held the key.
local function has_tombstone(lease, token)
  local tombstone_end = call('ZSCORE', UNUSED_TOKENS, token .. lease.key)
  return tombstone_end and tonumber(tombstone_end) > now
end

-- The same, without a command where no key has a tombstone.
local function is_given_up(lease, token)
  return store.unused_until > now and has_tombstone(lease, token)
end

-- Leaves a tombstone. The oldest ones are dropped beyond the bound.
local function give_up_token(lease, token)
  store.unused_until = now + SPENT_MS
  call('ZADD', UNUSED_TOKENS, integer(store.unused_until), token .. lease.key)
  call('ZREMRANGEBYRANK', UNUSED_TOKENS, 0, -TOMBSTONES - 1)
  call('HSET', STORE, 'unused_until', integer(store.unused_until))
end

local function spend_token(lease)
  local set = SPENT_TOKENS .. lease.key
  call('ZADD', set, now_text, lease.token)
  call('PEXPIRE', set, SPENT_MS)
  if lease.generation % SPENT_SLACK == 0 then call('ZREMRANGEBYRANK', set, 0, -SPENT_REIGNS - 1) end
end

-- Ends the reign in history and events; the caller then grants, reserves, delays or frees the key.
-- An entry of the history is 'end until generation since holder token'.
local function end_reign(lease, how)
  local history = HISTORY .. lease.key
  local entry = how .. ' ' .. now_us_text .. ' ' .. lease.generation .. ' ' .. lease.since .. ' ' .. lease.holder
    .. ' ' .. lease.token
  if call('RPUSH', history, entry) > HISTORY_REIGNS + HISTORY_SLACK then
    call('LTRIM', history, -HISTORY_REIGNS, -1)
  end
  if how ~= 'expired' and how ~= 'gone' then spend_token(lease) end
  add_event(how, lease.key, lease.holder, lease.generation)
end

-- The next generation of a key, or nil if all are used.
local function next_generation(lease)
  local generation = math.max(tonumber(lease.last) or 0, store.floor) + 1
  return generation < NUMBER_LIMIT and integer(generation) or nil
end

-- Begins a reign for a claim (holder, token, ttl, meta), whatever the key held before.
local function grant(lease, claim, generation)
  local key, expires = lease.key, now + claim.ttl
  local expires_text = integer(expires)
  -- In the order in which renewals look for them: Redis searches a small hash from its start.
  call('HSET', LEASE .. key, 'token', claim.token, 'generation', generation, 'holder', claim.holder,
    'expires', expires_text, 'ttl', claim.ttl, 'incarnation', store.incarnation, 'state', 'held',
    'since', now_us_text, 'meta', claim.meta)
  note_ttl(claim.ttl)
  call('SET', GENERATION .. key, generation)
  call('SET', key, claim.holder, 'PXAT', expires_text)
  schedule(key, expires_text)
  add_event('granted', key, claim.holder, generation)
  lease.state, lease.generation, lease.last, lease.expires = 'held', generation, generation, expires
  lease.value, lease.holder, lease.token, lease.ttl = claim.holder, claim.holder, claim.token, claim.ttl
  lease.since, lease.incarnation = now_us_text, store.incarnation
end

-- Nothing holds the key any more. `keep_value`: what is under the key belongs to another program.
local function free(lease, keep_value)
  if keep_value then
    call('DEL', LEASE .. lease.key)
  else
    call('DEL', LEASE .. lease.key, lease.key)
    lease.value = false
  end
  lease.state = 'free'
  -- Claims that wait for it are granted by the sweep.
  if store.quarantine > 0 and lease.queued then schedule(lease.key, integer(now + store.quarantine)) end
end

-- Blocks a free key until `expires`: delayed for every claim, or reserved for the successor.
local function block(lease, expires, successor)
  local name, expires_text = LEASE .. lease.key, integer(expires)
  call('DEL', name)
  if successor then
    call('HSET', name, 'state', 'reserved', 'holder', successor, 'expires', expires_text)
    call('SET', lease.key, successor, 'PXAT', expires_text)
  else
    call('HSET', name, 'state', 'delayed', 'expires', expires_text)
    call('DEL', lease.key)
  end
  schedule(lease.key, expires_text)
end

-- Removes a waiting claim and returns it, or nil if its time is over.
local function take_waiter(id)
  local name = WAITER .. id
  local fields = call('HMGET', name, 'token', 'holder', 'ttl', 'meta', 'instance')
  if not fields[1] then return nil end
  call('DEL', name)
  return { id = id, token = fields[1], holder = fields[2], ttl = fields[3], meta = fields[4], instance = fields[5] }
end

-- Removes the first claim from the queue, or the first one of the holder `successor`, and returns its id.
local function dequeue(lease, successor)
  local queue = QUEUE .. lease.key
  if not successor then return call('LPOP', queue) end
  for _, id in ipairs(call('LRANGE', queue, 0, -1)) do
    if call('HGET', WAITER .. id, 'holder') == successor then
      call('LREM', queue, 1, id)
      return id
    end
  end
  return false
end

-- Tells a waiting claim that it was granted. Returns false if its process no longer listens.
local function wake(waiter, generation)
  if waiter.id == caller.waiter or waiter.instance == caller.instance then return true end
  return call('PUBLISH', CHANNEL .. waiter.instance, waiter.id .. ' ' .. generation) > 0
end

-- Whether a running reign may be handed to another holder. During a quarantine it must have been granted or renewed
-- under this server process: another holder may have had the key after what the server remembers.
local function may_be_replaced(lease)
  return store.quarantine == 0 or lease.incarnation == store.incarnation
end

-- Grants the key to the first waiting claim that can take it, or to the first one of the holder `successor`. The
-- running reign, if any, ends as `ending` says. Returns the claim, or nil after changing nothing but the queue.
-- Nothing is granted during a quarantine, except by the transfer of a reign that may be replaced.
local function grant_to_next(lease, successor, ending)
  if store.quarantine > 0 and not (ending == 'transferred' and may_be_replaced(lease)) then return nil end
  while lease.queued do
    local id = dequeue(lease, successor)
    if not id then return nil end
    local waiter, generation = take_waiter(id), next_generation(lease)
    if waiter and generation and waiter.token ~= lease.token and not is_spent(lease, waiter.token)
      and not is_given_up(lease, waiter.token) and wake(waiter, generation)
    then
      if ending then end_reign(lease, ending) end
      grant(lease, waiter, generation)
      return waiter
    end
  end
  return nil
end

-- Brings a key up to date: ends a reign that is over, and grants a free key to the first waiting claim.
-- Afterwards `lease.state` is the current state.
local function settle(lease)
  local state = current_state(lease)
  if lease.spoiled then call('DEL', LEASE .. lease.key) end
  -- A lock-delay lasts, whatever another program does to the key meanwhile.
  local delayed = lease.state == 'delayed' and lease.expires > now
  if lease.state ~= state and lease.state ~= 'free' and not delayed then
    if lease.state == 'held' then end_reign(lease, lease.expires > now and 'gone' or 'expired') end
    free(lease, state == 'foreign')
    lease.token = false
  end
  lease.state = state
  if state == 'free' then grant_to_next(lease) end
end
-- luacheck: pop

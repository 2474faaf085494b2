-- Shared by all scripts: the time of the call, the state of the store, its events and its indexes.
-- docs/adr/0006-redis.md lists every key and field.
-- luacheck: push ignore 211
local call = redis.call

-- The version of the layout. A store of another version is refused.
local LAYOUT = '2'

local STORE, EVENTS = 'tenure:store', 'tenure:events'
-- Lease keys by the time at which they must be checked, lease keys by name, record keys by name.
local INDEX, LEASE_KEYS, RECORD_KEYS = 'tenure:index', 'tenure:keys', 'tenure:records'
-- Lease keys that became free, by the time at which a sweep saw it.
local FREED_KEYS = 'tenure:freed'
-- Tokens that were released without holding anything, by the end of their tombstone.
local UNUSED_TOKENS = 'tenure:unused'

-- Generations and revisions stay below 2^53, where Lua still counts in steps of one.
local NUMBER_LIMIT = 9007199254740992
-- How far a new server process, or a repaired stream, moves beyond the numbers used before: 2^20.
local NUMBER_STEP = 1048576
-- How many of the latest events the stream keeps, at least.
local EVENTS_KEPT = 65536
-- Most members that one ZADD adds; `unpack` cannot return more than about 8,000 values.
local INDEX_BATCH = 1000

local time = call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now = math.floor(now_us / 1000)

-- What `open_store` found: the highest generation used elsewhere, for how many ms free keys are not granted, the number
-- of the incarnation, and the longest ttl that was ever granted.
local store = { floor = 0, quarantine = 0, unused_until = 0, incarnation = '', longest_ttl = 0 }
local events = {}
local scheduled, listed = {}, {}

-- A whole number as text. The operator `..` would round it to 14 digits.
local function integer(number)
  return string.format('%.0f', number)
end

local now_text, now_us_text = integer(now), integer(now_us)

-- Lets this call write although the server is out of memory, because it frees some or only prolongs. A server without
-- memory refuses commands that need some, unless the script has written before: a DEL of nothing counts.
local function write_without_memory()
  call('DEL', 'tenure:none')
end

-- Stores the numbers of a server process that this store has not seen: everything minted before is below them.
-- `started` is the time from which its quarantine counts.
local function register_server(run_id, started, before)
  store.floor = math.min(math.max(before.floor + NUMBER_STEP, time[1] * NUMBER_STEP + time[2]), NUMBER_LIMIT - 2)
  store.incarnation = integer(math.max(before.incarnation + 1, now))
  local revision = before.revision > 0 and math.max(before.revision + NUMBER_STEP, now_us) or now_us
  call('HSET', STORE, 'layout', LAYOUT, 'run_id', run_id, 'started', integer(started),
    'quarantine_end', integer(before.quarantine_end), 'incarnation', store.incarnation,
    'floor', integer(store.floor), 'revision', integer(revision))
end

-- The layout of this store, or nil where nothing is stored. Layout 1 had no version; it kept its floor in a string.
local function stored_layout(layout)
  if layout then return layout end
  return call('EXISTS', 'tenure:floor') == 1 and '1' or nil
end

-- Applies the quarantine. It ends for all callers at the same time: after the longest ttl that any of them may hold,
-- counted from the start of the server process or from the moment at which the caller came from another one.
local function apply_quarantine(started, quarantine_end, quarantine_ms, replaced_ms)
  local span = tonumber(quarantine_ms)
  if span > 0 then
    local from = replaced_ms == '' and started or math.max(started, now - replaced_ms)
    local wanted = from + math.max(span, store.longest_ttl)
    if wanted > quarantine_end and wanted > now then
      quarantine_end = wanted
      call('HSET', STORE, 'quarantine_end', integer(quarantine_end))
    end
  end
  store.quarantine = math.max(quarantine_end - now, 0)
end

-- Reads the state of the store. A server process that is new to it starts a quarantine: a holder that the server has
-- forgotten may still be alive. A store without a state is a new one or was emptied, which nothing can tell apart.
-- Returns an error reply if the store has another layout.
local function open_store(run_id, uptime_ms, quarantine_ms, replaced_ms)
  local fields = call('HMGET', STORE, 'layout', 'run_id', 'started', 'quarantine_end', 'incarnation', 'floor',
    'revision', 'unused_until', 'longest_ttl')
  local layout = fields[1] == LAYOUT and LAYOUT or stored_layout(fields[1])
  if layout and layout ~= LAYOUT then
    return redis.error_reply('LAYOUT the store has layout ' .. layout .. ', this version needs layout ' .. LAYOUT)
  end
  local started, quarantine_end, incarnation = tonumber(fields[3]), tonumber(fields[4]), tonumber(fields[5])
  local floor, revision = tonumber(fields[6]), tonumber(fields[7])
  local complete = layout and started and quarantine_end and incarnation and floor and revision
  store.floor, store.incarnation = floor or 0, fields[5]
  store.unused_until, store.longest_ttl = tonumber(fields[8]) or 0, tonumber(fields[9]) or 0
  if fields[2] ~= run_id or not complete then
    started, quarantine_end = complete and now - uptime_ms or now, quarantine_end or 0
    register_server(run_id, started, { quarantine_end = quarantine_end, incarnation = incarnation or 0,
      floor = floor or 0, revision = revision or 0 })
  end
  apply_quarantine(started, quarantine_end, quarantine_ms, replaced_ms)
  return nil
end

-- Remembers the longest ttl: the next server process must wait for as long.
local function note_ttl(ttl)
  if tonumber(ttl) <= store.longest_ttl then return end
  store.longest_ttl = tonumber(ttl)
  call('HSET', STORE, 'longest_ttl', ttl)
end

-- Notes an event of this call: `verb` is granted, written, deleted, or how a reign ended.
local function add_event(verb, key, holder, generation)
  events[#events + 1] = verb .. ' ' .. key .. ' ' .. holder .. ' ' .. generation
end

local function append_to_stream(first, count)
  local oldest = integer(math.max(first - EVENTS_KEPT, 0))
  local id = integer(first) .. '-0'
  local added = redis.pcall('XADD', EVENTS, 'MINID', '~', oldest, id,
    'at', now_us_text, 'count', integer(count), 'events', table.concat(events, '\n'))
  return not (type(added) == 'table' and added.err)
end

-- Writes the events of this call as one entry of the stream, whose id is the first of `count` new revisions.
-- Returns that revision, or 0 if there is nothing to write.
local function publish_events(count)
  if count == 0 then return 0 end
  local first = call('HINCRBY', STORE, 'revision', count) - count + 1
  if not append_to_stream(first, count) then
    -- The stream is ahead of the counter, so one of them was changed by hand. Watchers must notice a gap.
    first = math.max(now_us, first) + NUMBER_STEP
    call('HSET', STORE, 'revision', integer(first + count - 1))
    call('DEL', EVENTS)
    append_to_stream(first, count)
  end
  return first
end

local function write_index()
  if #scheduled == 0 then return end
  call('ZADD', INDEX, 'LT', unpack(scheduled))
  call('ZADD', LEASE_KEYS, unpack(listed))
  scheduled, listed = {}, {}
end

-- Lists a lease key, and has it checked at `at`, a time in ms as text, or earlier.
local function schedule(key, at)
  local n = #scheduled
  scheduled[n + 1], scheduled[n + 2] = at, key
  listed[n + 1], listed[n + 2] = '0', key
  if n >= 2 * INDEX_BATCH then write_index() end
end

-- Ends a call that may have changed leases.
local function finish()
  write_index()
  publish_events(#events)
end

-- The revision of a record from `tenure:v:<key>`, which is 'revision checksum'; '0' if another program wrote the value.
local function record_revision(value, mark)
  local revision, checksum = string.match(mark or '', '^(%d+) (%x+)$')
  return checksum == redis.sha1hex(value) and revision or '0'
end
-- luacheck: pop

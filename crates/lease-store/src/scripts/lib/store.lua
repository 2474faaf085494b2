-- Shared by all scripts: the time of the call, the state of the store, its events and its indexes.
-- docs/adr/0006-redis.md lists every key and field.
-- luacheck: push ignore 211
local call = redis.call

-- The version of the layout. A store of another version is refused.
local LAYOUT = '2'

local STORE, EVENTS = 'tenure:store', 'tenure:events'
-- Lease keys by the time at which they must be checked, lease keys by name, record keys by name.
local INDEX, LEASE_KEYS, RECORD_KEYS = 'tenure:index', 'tenure:keys', 'tenure:records'
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

-- What `open_store` found: the highest generation used elsewhere, and for how many ms free keys are not granted.
local store = { floor = 0, quarantine = 0, unused_until = 0 }
local events = {}
local scheduled, listed = {}, {}

-- A whole number as text. The operator `..` would round it to 14 digits.
local function integer(number)
  return string.format('%.0f', number)
end

local now_text, now_us_text = integer(now), integer(now_us)

-- Stores the numbers of a server process that this store has not seen: everything minted before is below them.
local function register_server(run_id, quarantine_end, floor, revision)
  store.floor = math.min(math.max(floor + NUMBER_STEP, time[1] * NUMBER_STEP + time[2]), NUMBER_LIMIT - 2)
  local start = revision > 0 and math.max(revision + NUMBER_STEP, now_us) or now_us
  call('HSET', STORE, 'layout', LAYOUT, 'run_id', run_id, 'quarantine_end', integer(quarantine_end),
    'floor', integer(store.floor), 'revision', integer(start))
end

-- The layout of this store, or nil where nothing is stored. Layout 1 had no version; it kept its floor in a string.
local function stored_layout(layout)
  if layout then return layout end
  return call('EXISTS', 'tenure:floor') == 1 and '1' or nil
end

-- Reads the state of the store. A server process that is new to it starts a quarantine: a holder that the server
-- has forgotten may still be alive. So does a client that was connected to another server before (`replaced`).
-- Returns an error reply if the store has another layout.
local function open_store(run_id, uptime_ms, quarantine_ms, replaced)
  local fields = call('HMGET', STORE, 'layout', 'run_id', 'quarantine_end', 'floor', 'revision', 'unused_until')
  local layout = fields[1] == LAYOUT and LAYOUT or stored_layout(fields[1])
  if layout and layout ~= LAYOUT then
    return redis.error_reply('LAYOUT the store has layout ' .. layout .. ', this version needs layout ' .. LAYOUT)
  end
  local quarantine_end, floor, revision = tonumber(fields[3]), tonumber(fields[4]), tonumber(fields[5])
  local span = tonumber(quarantine_ms)
  store.floor, store.unused_until = floor or 0, tonumber(fields[6]) or 0
  if fields[2] ~= run_id or not (layout and quarantine_end and floor and revision) then
    local uptime = tonumber(uptime_ms)
    quarantine_end = uptime < span and now + span - uptime or 0
    register_server(run_id, quarantine_end, floor or 0, revision or 0)
  end
  if replaced == '1' and quarantine_end == 0 and span > 0 then
    quarantine_end = now + span
    call('HSET', STORE, 'quarantine_end', integer(quarantine_end))
  end
  if span > 0 then store.quarantine = math.max(quarantine_end - now, 0) end
  return nil
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

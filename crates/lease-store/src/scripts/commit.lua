-- Writes records and logs: all operations or none, under a fence if there is one.
--
--@libs store lease
--@keys [fence] key...
--@args run_id uptime_ms quarantine_ms replaced_ms mode token generation
--@item kind value ttl number
--@reply written revision
--@reply fenced_out generation
--@reply conflict index revision
--@reply leased index
--
-- The first key is that of the fence, unless `mode` is ''.
-- `mode` is 'strict' (the reign of `fence` must be live), 'monotonic' (no greater generation has written) or ''.
-- `kind` is put, put_if_absent, put_if_revision, delete or append. `ttl` is in ms or ''. `number` is the revision of
-- put_if_revision and the greatest length of an append; the key of an append is the name of the log.
-- `index` counts operations from 0; `revision` of a conflict is '' where there is no record.
local wrong_layout = open_store(run_id, uptime_ms, quarantine_ms, replaced_ms)
if wrong_layout then return wrong_layout end

local VERSION, LOG, LOG_COUNT = 'tenure:v:', 'tenure:log:', 'tenure:n:'

-- Whether the token had the reign of this generation. Of an ended one, the history knows it.
local function is_proven(lease)
  if lease.token == token and lease.generation == generation then return true end
  for _, entry in ipairs(call('LRANGE', HISTORY .. lease.key, 0, -1)) do
    if string.match(entry, '^%S+ %d+ (%d+) ') == generation and string.sub(entry, -#token) == token then
      return true
    end
  end
  return false
end

-- The generation that fences this write out, or nil. A fence that nothing proves must not raise the mark: it would
-- fence the holders out.
local function fenced_out_by(fence)
  local lease = load_leases({ fence })[1]
  local last = lease.last ~= '0' and lease.last or ''
  if mode == 'strict' then return not is_held_by(lease, token, generation) and last or nil end
  local mark = call('HMGET', HIGH_WATER_MARK .. fence, 'generation', 'token')
  if not is_proven(lease) then return mark[1] or last end
  local highest = tonumber(mark[1]) or 0
  local mine = tonumber(generation)
  return (highest > mine or (highest == mine and mark[2] ~= token)) and mark[1] or nil
end

-- A strict write raises the mark too: an older monotonic one must not land after it. The mark never falls.
local function raise_mark(fence)
  local name = HIGH_WATER_MARK .. fence
  if (tonumber(call('HGET', name, 'generation')) or 0) <= tonumber(generation) then
    call('HSET', name, 'generation', generation, 'token', token)
  end
end

-- Why an operation on a record cannot be applied, as a reply, or nil.
local function obstacle(lease, operation)
  if is_leased(lease) then return { 'leased', operation.index } end
  local exists = lease.value or lease.opaque
  if operation.kind == 'delete' then
    if exists then add_event('deleted', lease.key, '-', '0') end
    return nil
  end
  add_event('written', lease.key, '-', '0')
  if operation.kind == 'put' then return nil end
  local revision = exists and '0' or ''
  if lease.value then revision = record_revision(lease.value, call('GET', VERSION .. lease.key)) end
  local expected = operation.kind == 'put_if_absent' and '' or operation.number
  return revision ~= expected and { 'conflict', operation.index, revision } or nil
end

local function put(key, value, ttl, revision)
  local mark = revision .. ' ' .. redis.sha1hex(value)
  if ttl == '' then
    call('MSET', key, value, VERSION .. key, mark)
  else
    local expires = integer(now + ttl)
    call('SET', key, value, 'PXAT', expires)
    call('SET', VERSION .. key, mark, 'PXAT', expires)
  end
  call('ZADD', RECORD_KEYS, 0, key)
end

local function apply(key, revision, kind, value, ttl, number)
  if kind == 'append' then
    call('INCR', LOG_COUNT .. key)
    call('RPUSH', LOG .. key, value)
    call('LTRIM', LOG .. key, '-' .. number, -1)
  elseif kind == 'delete' then
    call('DEL', key, VERSION .. key)
    call('ZREM', RECORD_KEYS, key)
  else
    put(key, value, ttl, revision)
  end
end

local function check_operations(keys)
  local records, operations = {}, {}
  for i, key in ipairs(keys) do
    local kind, _, _, number = item(i)
    if kind ~= 'append' then
      records[#records + 1] = key
      operations[#records] = { index = i - 1, kind = kind, number = number }
    end
  end
  for i, lease in ipairs(#records > 0 and load_leases(records) or {}) do
    local found = obstacle(lease, operations[i])
    if found then return found end
  end
  return nil
end

local function commit(fence, keys)
  local newer = mode ~= '' and fenced_out_by(fence)
  if newer then return { 'fenced_out', newer } end
  local found = check_operations(keys)
  if found then return found end
  if mode ~= '' then raise_mark(fence) end
  local count = math.max(#events, 1)
  local revision = integer(publish_events(count) + count - 1)
  for i, key in ipairs(keys) do
    local kind, value, ttl, number = item(i)
    apply(key, revision, kind, value, ttl, number)
  end
  return { 'written', revision }
end

if mode == '' then return commit(nil, KEYS) end
return commit(KEYS[1], { unpack(KEYS, 2) })

-- Renews leases. It never grants and never revives: what is not live stays as it is.
--
--@libs store
--@keys key...
--@args run_id uptime_ms quarantine_ms replaced_ms
--@item token generation ttl
--@reply renewed ttl...
--
-- `ttl` of an item is the new ttl in ms, or '' to keep the one that the lease has. `ttl` of the reply is, for each key,
-- the ttl from now on, or -1 where the token and generation do not hold the key.
write_without_memory()
local wrong_layout = open_store(run_id, uptime_ms, quarantine_ms, replaced_ms)
if wrong_layout then return wrong_layout end

local values = call('MGET', unpack(KEYS))
local reply = { 'renewed' }
-- Most leases of a batch have the same ttl.
local last_ttl, ttl_ms, expires = nil, nil, nil
for i, key in ipairs(KEYS) do
  local token, generation, ttl = item(i)
  local name = 'tenure:l:' .. key
  local fields = redis.pcall('HMGET', name, 'token', 'generation', 'holder', 'expires', 'ttl',
    'incarnation')
  if fields[1] == token and fields[2] == generation and fields[3] == values[i] and tonumber(fields[4]) > now then
    local granted = fields[5]
    if ttl == '' then ttl = granted end
    if ttl ~= last_ttl then
      last_ttl, ttl_ms, expires = ttl, tonumber(ttl), integer(now + ttl)
    end
    call('PEXPIREAT', key, expires)
    if fields[6] ~= store.incarnation then call('HSET', name, 'incarnation', store.incarnation) end
    if ttl == granted then
      call('HSET', name, 'expires', expires)
    else
      note_ttl(ttl)
      call('HSET', name, 'expires', expires, 'ttl', ttl)
      -- A shorter reign must be checked earlier; one that was prolonged is scheduled anew by the sweep.
      call('ZADD', INDEX, 'LT', expires, key)
    end
    reply[i + 1] = ttl_ms
  else
    reply[i + 1] = -1
  end
end
return reply

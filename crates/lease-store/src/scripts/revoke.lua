-- Ends a reign by force.
--
--@libs store lease
--@keys key
--@args run_id uptime_ms quarantine_ms replaced_ms generation delay
--@reply revoked delay
--@reply stale generation
--
-- `delay` is how long nothing is granted afterwards, in ms; '' is the rest of the reign. `stale`: the generation of the
-- live reign is another one, or '' where there is none.
write_without_memory()
local wrong_layout = open_store(run_id, uptime_ms, quarantine_ms, replaced_ms)
if wrong_layout then return wrong_layout end

local function revoke(lease)
  if lease.state ~= 'held' then return { 'stale', '' } end
  if lease.generation ~= generation then return { 'stale', lease.generation } end
  local span = delay ~= '' and tonumber(delay) or math.max(call('PTTL', lease.key), 0)
  if span > 0 then
    end_reign(lease, 'revoked')
    block(lease, now + span)
  elseif not grant_to_next(lease, nil, 'revoked') then
    end_reign(lease, 'revoked')
    free(lease)
  end
  return { 'revoked', integer(span) }
end

local lease = load_leases(KEYS)[1]
settle(lease)
local reply = revoke(lease)
finish()
return reply

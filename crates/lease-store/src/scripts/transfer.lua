-- Hands a key to a successor that waits for it.
--
--@libs store lease
--@keys key
--@args run_id uptime_ms quarantine_ms replaced_ms token generation successor
--@reply transferred generation ttl
--@reply not_held
--@reply no_successor
--@reply quarantine remaining
--
-- `token` and `generation` prove the running reign; `generation` and `ttl` of the reply are those of the new one.
-- `quarantine`: the server process is new, and the reign must be renewed before it can be handed over.
write_without_memory()
local wrong_layout = open_store(run_id, uptime_ms, quarantine_ms, replaced_ms)
if wrong_layout then return wrong_layout end

local function transfer(lease)
  if lease.state ~= 'held' or lease.token ~= token or lease.generation ~= generation then return { 'not_held' } end
  if not may_be_replaced(lease) then return { 'quarantine', integer(store.quarantine) } end
  if not grant_to_next(lease, successor, 'transferred') then return { 'no_successor' } end
  return { 'transferred', lease.generation, lease.ttl }
end

local lease = load_leases(KEYS)[1]
settle(lease)
local reply = transfer(lease)
finish()
return reply

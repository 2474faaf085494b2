-- Ends every reign under a prefix, except that of the gate. What other programs have set is left alone.
--
--@libs store lease
--@keys gate
--@args run_id uptime_ms quarantine_ms replaced_ms token generation first last limit
--@reply wiped count
--@reply unproven
--@reply too_many
--
-- `token` and `generation` prove the reign of the gate. `first` and `last` are the range of keys, as ZRANGEBYLEX takes
-- them. Nothing is wiped if there are more than `limit` leases.
write_without_memory()
local wrong_layout = open_store(run_id, uptime_ms, quarantine_ms, replaced_ms)
if wrong_layout then return wrong_layout end

-- How many keys are read at a time.
local PAGE = 500

local function live_leases(gate, most)
  local found, from = {}, first
  local keys
  repeat
    keys = call('ZRANGEBYLEX', LEASE_KEYS, from, last, 'LIMIT', 0, PAGE)
    for _, lease in ipairs(#keys > 0 and load_leases(keys) or {}) do
      from = '(' .. lease.key
      if lease.key ~= gate and current_state(lease) == 'held' then found[#found + 1] = lease end
    end
  until #keys < PAGE or #found > most
  return found
end

local function wipe()
  local gate, most = load_leases(KEYS)[1], tonumber(limit)
  settle(gate)
  if not is_held_by(gate, token, generation) then return { 'unproven' } end
  local leases = live_leases(gate.key, most)
  if #leases > most then return { 'too_many' } end
  for _, lease in ipairs(leases) do
    if not grant_to_next(lease, nil, 'wiped') then
      end_reign(lease, 'wiped')
      free(lease)
    end
  end
  return { 'wiped', #leases }
end

local reply = wipe()
finish()
return reply

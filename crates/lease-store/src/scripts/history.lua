-- The last reigns of a key, oldest first, and the running one.
--
--@libs store lease
--@keys key
--@args run_id uptime_ms quarantine_ms replaced_ms
--@reply reigns generation since holder entry...
--
-- `generation`, `since` and `holder` are those of the running reign, or ''. An `entry` is a closed reign:
-- 'end until generation since holder token'.
local wrong_layout = open_store(run_id, uptime_ms, quarantine_ms, replaced_ms)
if wrong_layout then return wrong_layout end

local lease = load_leases(KEYS)[1]
settle(lease)
finish()
local reply = { 'reigns', '', '', '' }
if lease.state == 'held' then reply = { 'reigns', lease.generation, lease.since, lease.holder } end
for _, entry in ipairs(call('LRANGE', HISTORY .. lease.key, -HISTORY_REIGNS, -1)) do
  reply[#reply + 1] = entry
end
return reply

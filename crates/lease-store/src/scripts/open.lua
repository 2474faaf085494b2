-- Opens the store: every generation from here on is greater than any that was minted elsewhere before.
--
--@libs store
--@keys
--@args run_id uptime_ms quarantine_ms replaced_ms
--@reply opened revision
local wrong_layout = open_store(run_id, uptime_ms, quarantine_ms, replaced_ms)
if wrong_layout then return wrong_layout end
local floor = math.min(time[1] * NUMBER_STEP + time[2], NUMBER_LIMIT - 2)
if store.floor < floor then call('HSET', STORE, 'floor', integer(floor)) end
return { 'opened', call('HGET', STORE, 'revision') }

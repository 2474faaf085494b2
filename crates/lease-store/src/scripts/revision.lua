-- The last revision.
--
--@libs store
--@keys
--@args run_id uptime_ms quarantine_ms replaced_ms
--@reply revision revision
local wrong_layout = open_store(run_id, uptime_ms, quarantine_ms, replaced_ms)
if wrong_layout then return wrong_layout end
return { 'revision', call('HGET', STORE, 'revision') }

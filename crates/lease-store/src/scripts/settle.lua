-- Brings keys up to date and says how reigns ended.
--
--@libs store lease
--@keys key...
--@args run_id uptime_ms quarantine_ms replaced_ms
--@item generation
--@reply ended how
--@reply held
--@reply unknown
write_without_memory()
local wrong_layout = open_store(run_id, uptime_ms, quarantine_ms, replaced_ms)
if wrong_layout then return wrong_layout end

-- How the reign with this generation ended, as `end_reign` wrote it.
local function end_of(lease, generation)
  for _, entry in ipairs(call('LRANGE', HISTORY .. lease.key, -HISTORY_REIGNS, -1)) do
    local how, closed = string.match(entry, '^(%S+) %d+ (%d+) ')
    if closed == generation then return { 'ended', how } end
  end
  return { 'unknown' }
end

local replies = {}
for i, lease in ipairs(load_leases(KEYS)) do
  local generation = item(i)
  settle(lease)
  if lease.state == 'held' and lease.generation == generation then
    replies[i] = { 'held' }
  else
    replies[i] = end_of(lease, generation)
  end
end
finish()
return replies

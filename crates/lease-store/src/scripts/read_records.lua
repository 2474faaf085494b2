-- Reads records. A key that carries a lease is not one.
--
--@libs store lease
--@keys key...
--@reply record value revision remaining
--@reply absent
--
-- `revision` is '0' if another program wrote the value; `remaining` is -1 for a record without a ttl.
local replies = {}
for i, lease in ipairs(load_leases(KEYS)) do
  if lease.value and current_state(lease) == 'foreign' then
    local mark = call('GET', 'tenure:v:' .. lease.key)
    replies[i] = { 'record', lease.value, record_revision(lease.value, mark), call('PTTL', lease.key) }
  else
    -- The index lists records that were overwritten or have expired until they are read.
    if not lease.opaque then call('ZREM', RECORD_KEYS, lease.key) end
    replies[i] = { 'absent' }
  end
end
return replies

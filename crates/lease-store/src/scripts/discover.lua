-- Reads plain strings that any program may have written. A key that carries a lease is not one.
--
--@libs store lease
--@keys key...
--@reply record value revision expires
--@reply absent
--
-- `revision` is that of the last write by this store, or '0'; `expires` is 1 if the key has a ttl, and 0 if not.
local names = {}
for i, key in ipairs(KEYS) do
  names[i] = 'tenure:v:' .. key
end
local marks = call('MGET', unpack(names))
local replies = {}
for i, lease in ipairs(load_leases(KEYS)) do
  if lease.value and current_state(lease) == 'foreign' then
    local revision = string.match(marks[i] or '', '^(%d+) ') or '0'
    replies[i] = { 'record', lease.value, revision, call('PTTL', lease.key) == -1 and 0 or 1 }
  else
    replies[i] = { 'absent' }
  end
end
return replies

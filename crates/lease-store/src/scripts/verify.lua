-- Says what a token is to a key. Changes nothing.
--
--@libs store lease
--@keys key
--@args token
--@reply live generation remaining
--@reply ended
--@reply wrong
local lease = load_leases(KEYS)[1]
if lease.token == token and lease.state == 'held' then
  if current_state(lease) ~= 'held' then return { 'ended' } end
  return { 'live', lease.generation, integer(call('PTTL', lease.key)) }
end
if is_spent(lease, token) or has_tombstone(lease, token) then return { 'ended' } end
for _, entry in ipairs(call('LRANGE', HISTORY .. lease.key, -HISTORY_REIGNS, -1)) do
  -- The token is the last field; see `end_reign`.
  if string.sub(entry, -#token) == token then return { 'ended' } end
end
return { 'wrong' }

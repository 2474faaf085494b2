-- Ends every reign under a prefix. KEYS: the globals and the gate's key; the keys to wipe come from the index.
-- ARGV: 'h' digest generation of the gate as one text, first and last key of the range, most leases.
-- Answers: how many, -1 unproven, -2 too many.
incarnate()
local gate = K[GLOBALS + 1]
local state, _, o = settle(spell(gate), nil)
if state ~= 'h' or sub(o, 1, 49) ~= a[HEAD + 1] then
  tell(happened)
  return -1
end
local from, to, most = a[HEAD + 2], a[HEAD + 3], tonumber(a[HEAD + 4])
local doomed, n = {}, 0
repeat
  local members = call('ZRANGEBYLEX', k[4], from, to, 'LIMIT', 0, 500)
  for _, key in ipairs(members) do
    from = '(' .. key
    local got = call('MGET', key, 'tenure:o:' .. key)
    if key ~= gate and got[1] and got[2] and sub(got[2], 1, 1) == 'h' and got[1] == holder_of(got[2])
      and call('EXISTS', 'tenure:l:' .. key) == 1
    then
      n = n + 1
      doomed[n] = key
    end
  end
until #members < 500 or n > most
if n > most then
  tell(happened)
  return -2
end
for i = 1, n do
  local b = spell(doomed[i])
  local got = call('MGET', k[b + 5], k[b + 3])
  local spent = spend(sub(got[1], 2, 33), got[1])
  close(b, got[1], 'w')
  call('DEL', k[b + 1], k[b + 2])
  call('SET', k[b + 5], freed(b, got[1], spent))
  hand_on(b, got[2], spent)
end
tell(happened)
return n

-- Ends every reign under a prefix. KEYS: the gate's key; the keys to wipe come from the index.
-- ARGV: 'h' digest generation of the gate as one text, first and last key of the range, most leases.
-- Answers: how many, -1 unproven, -2 too many.
incarnate()
local gate = K[1]
spell(gate)
local state, _, o = settle()
if state ~= 'h' or sub(o, 1, 49) ~= a[HEAD + 1] then
  tell(happened)
  return -1
end
local from, to, most = a[HEAD + 2], a[HEAD + 3], tonumber(a[HEAD + 4])
local doomed, n = {}, 0
repeat
  local members = call('ZRANGEBYLEX', ORDER, from, to, 'LIMIT', 0, 500)
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
  spell(doomed[i])
  local got = call('MGET', k[5], k[3])
  local spent = spend(sub(got[1], 2, 33), got[1])
  close(got[1], 'w')
  call('DEL', k[1], k[2])
  call('SET', k[5], freed(got[1], spent))
  hand_on(got[2], spent)
end
tell(happened)
return n

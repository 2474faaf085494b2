-- What a token is to a key; changes nothing. ARGV: digest. Answers: 'lgen remaining', e ended, w wrong.
spell(K[1])
local digest = a[HEAD + 1]
local got = call('MGET', k[1], k[5])
local value, o = got[1], got[2]
if o and sub(o, 1, 1) == 'h' and sub(o, 2, 33) == digest then
  if value == holder_of(o) and call('EXISTS', k[2]) == 1 then
    return 'l' .. sub(o, 34, 49) .. ' ' .. fmt('%d', call('PTTL', k[1]))
  end
  return 'e'
end
if is_spent(digest, spent_of(o)) then return 'e' end
local tomb = call('ZSCORE', TOMBS, sub(digest, 1, 8) .. k[1])
if tomb and tonumber(tomb) > now then return 'e' end
for _, reign in ipairs(call('LRANGE', k[6], -32, -1)) do
  if sub(reign, 18, 25) == sub(digest, 25) then return 'e' end
end
return 'w'

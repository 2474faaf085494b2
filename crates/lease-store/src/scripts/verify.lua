-- What a token is to a key; changes nothing. ARGV: digest. Answers: 'lgen remaining', e ended, w wrong.
local b, digest = GLOBALS, a[HEAD + 1]
local half = sub(digest, 1, 16)
local got = call('MGET', k[b + 1], k[b + 5])
local value, o = got[1], got[2]
if o and sub(o, 1, 1) == 'h' and sub(o, 18, 49) == digest then
  if value == holder_of(o) and call('EXISTS', k[b + 2]) == 1 then
    return 'l' .. sub(o, 2, 17) .. ' ' .. fmt('%.0f', call('PTTL', k[b + 1]))
  end
  return 'e'
end
if find(spent_of(o), half, 1, true) then return 'e' end
local tomb = call('ZSCORE', k[7], half .. k[b + 1])
if tomb and tonumber(tomb) > now then return 'e' end
for _, reign in ipairs(call('LRANGE', k[b + 6], 0, 31)) do
  if sub(reign, 50, 65) == half then return 'e' end
end
return 'w'

-- What keys are doing; changes nothing. KEYS per key: as everywhere.
-- Answers per key: {state, holder, last generation, remaining, since, waiters, meta}.
local out = {}
for i = 1, #K do
  local key = K[i]
  spell(key)
  local got = call('MGET', key, k[5], k[3])
  local value, o, last = got[1], got[2], got[3] or ''
  local state, holder, left, since, meta = 'f', '', -1, '', ''
  local was = o and sub(o, 1, 1)
  local held = was == 'h' and value == holder_of(o) and call('HMGET', k[2], 'g', 'm')
  if held and held[1] then
    state, holder, left, since, meta = 'h', value, call('PTTL', key), sub(o, 50, 65), held[2] or ''
  elseif was == 'r' and reserved(o, value) then
    state, holder, left = 'r', value, call('PTTL', key)
  elseif value then
    -- A record is none of a key's holders, and its value nobody's business here.
    local sum = string.match(call('GET', 'tenure:v:' .. key) or '', '^%d+ (%x+)$')
    if sum ~= redis.sha1hex(value) then state, holder, left = 'x', sub(value, 1, 128), call('PTTL', key) end
  elseif call('EXISTS', key) == 1 then
    state, holder, left = 'x', '?', call('PTTL', key)
  elseif was == 'd' and tonumber(sub(o, 2, 17)) > now then
    state, left = 'd', sub(o, 2, 17) - now
  end
  out[i] = { state, holder, last, fmt('%d', left), since, call('LLEN', k[4]), meta }
end
return out

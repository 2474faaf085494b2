-- What keys are doing; changes nothing. KEYS per key: as everywhere.
-- Answers per key: {state, holder, last generation, remaining, since, waiters, meta}.
for i = 1, (#k - GLOBALS) / PER_KEY do
  local b = GLOBALS + (i - 1) * PER_KEY
  local key = k[b + 1]
  local got = call('MGET', key, k[b + 5], k[b + 3])
  local value, o, last = got[1], got[2], got[3] or ''
  local state, holder, left, since, meta = 'f', '', -1, '', ''
  local was = o and sub(o, 1, 1)
  local held = was == 'h' and value == holder_of(o) and call('HGET', k[b + 2], 'm')
  if held then
    state, holder, left, since, meta = 'h', value, call('PTTL', key), sub(o, 58, 73), held
  elseif was == 'r' and value == heir_of(o) and tonumber(sub(o, 2, 17)) > now then
    state, holder, left = 'r', value, call('PTTL', key)
  elseif value then
    state, holder, left = 'x', sub(value, 1, 128), call('PTTL', key)
  elseif call('EXISTS', key) == 1 then
    state, holder, left = 'x', '?', call('PTTL', key)
  elseif was == 'd' and tonumber(sub(o, 2, 17)) > now then
    state, left = 'd', sub(o, 2, 17) - now
  end
  out[i] = { state, holder, last, fmt('%.0f', left), since, call('ZCARD', k[b + 4]), meta }
end
return out

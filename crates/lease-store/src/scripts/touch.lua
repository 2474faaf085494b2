-- Brings keys up to date and says why a reign ended.
-- ARGV per key: a padded generation or ''. Answers per key: the end's letter, h while it lives, g when unknown.
incarnate()
local out = {}
for i = 1, #K do
  local key, gen = K[i], a[HEAD + i]
  spell(key)
  local state, _, o = settle()
  local answer = 'g'
  if gen ~= '' then
    if state == 'h' and sub(o, 34, 49) == gen then answer = 'h' end
    for _, reign in ipairs(call('LRANGE', k[6], -32, -1)) do
      if sub(reign, 26, 41) == gen then answer = sub(reign, 1, 1) end
    end
  elseif state == 'h' then
    local ends = fmt('%013d', now + math.max(call('PTTL', key), 1))
    call('ZADD', INDEX, ends, key)
    call('SET', k[5], sub(o, 1, -111) .. ends .. sub(o, -97))
  elseif state == 'r' then
    call('ZADD', INDEX, fmt('%d', now + math.max(call('PTTL', key), 1)), key)
  elseif state == 'd' then
    call('ZADD', INDEX, sub(o, 2, 17), key)
  elseif call('EXISTS', k[4]) == 1 then
    call('ZADD', INDEX, fmt('%d', now + 1000), key)
  else
    call('ZREM', INDEX, key)
    call('ZREM', ORDER, key)
    if o and sub(o, 1, 1) == 'f' then call('SET', k[5], sub(o, 1, 17) .. NEVER .. sub(o, 31)) end
  end
  out[i] = answer
end
tell(happened)
return out

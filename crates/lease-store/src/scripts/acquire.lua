-- Then the claims that met anything else.
incarnate()
out = out or {}
for i, gen in pairs(out) do
  out[i] = '+' .. gen
end

local function busy(b, mode, parked, reason, holder, o, last, left)
  local queue, place = k[b + 4], nil
  if mode == 'w' and reason ~= 'not_that_generation' then
    place = call('ZRANK', queue, parked)
    if not place then
      if call('ZCARD', queue) >= 1024 then return '!waiters' end
      local tail = call('ZRANGE', queue, -1, -1, 'WITHSCORES')
      local order = us
      if tail[2] and tonumber(tail[2]) >= us then order = tail[2] + 1 end
      call('ZADD', queue, fmt('%d', order), parked)
      place = call('ZRANK', queue, parked)
      if not o then
        call('SET', k[b + 5], 'f' .. fmt('%016d', tonumber(last or 0) or 0) .. BLANK .. 'w')
      elseif byte(o, -1) ~= 119 then
        call('SET', k[b + 5], sub(o, 1, -2) .. 'w')
      end
    end
  elseif mode == 'l' then
    place = call('ZRANK', queue, parked)
    if place then call('ZREM', queue, parked) end
  end
  place = place or call('ZCARD', queue)
  return '-' .. reason .. ' ' .. (last or '0') .. ' ' .. fmt('%d', left) .. ' ' .. (place + 1) .. ' ' .. holder
end

local function refresh(b, ttl, o)
  local key, ends = k[b + 1], fmt('%d', now + ttl)
  call('PEXPIREAT', key, ends)
  call('PEXPIREAT', k[b + 2], ends)
  if tonumber(sub(o, 66, 73)) ~= ttl then
    call('SET', k[b + 5], sub(o, 1, 65) .. fmt('%08d', ttl) .. sub(o, 74))
    call('ZADD', k[3], 'LT', ends, key)
    call('HDEL', k[b + 2], 'x')
  end
  return '=' .. sub(o, 34, 49) .. ' ' .. ttl .. ' ' .. holder_of(o)
end

local function decide(b, claim, want)
  local digest, ttl, holder = sub(claim, 1, 32), tonumber(sub(want, 1, 8)), sub(want, 9)
  local replace, mode, length = sub(claim, 33, 48), sub(claim, 49, 49), tonumber(sub(claim, 50, 53)) or 0
  local meta, parked = sub(claim, 54, 53 + length), sub(claim, 54 + length)
  local state, value, o, last = settle(b, parked ~= '' and sub(parked, 1, 16) or nil)
  local key = k[b + 1]
  local function in_the_way(reason, who, left)
    return busy(b, mode, parked, reason, who, o, last, left)
  end
  local function new_reign(spent)
    local plain, gen = mint(last)
    if not plain then return '!generations' end
    return '+' .. grant(b, holder, digest, ttl, meta, spent, plain, gen)
  end
  if state == 'h' and sub(o, 2, 33) == digest then return refresh(b, ttl, o) end
  if is_spent(digest, spent_of(o)) or given_up(digest, key) then
    if parked ~= '' then call('ZREM', k[b + 4], parked) end
    return '!spent'
  end
  if state == 'x' then return in_the_way('foreign', value and sub(value, 1, 128) or '?', call('PTTL', key)) end
  if replace ~= '' and replace ~= ZEROS then
    if state == 'h' and sub(o, 34, 49) == replace then
      close(b, o, 's')
      return new_reign(spend(sub(o, 2, 33), o))
    end
    if state == 'h' then return in_the_way('not_that_generation', holder_of(o), call('PTTL', key)) end
    return in_the_way('not_that_generation', '', -1)
  end
  if state == 'h' then return in_the_way('held', holder_of(o), call('PTTL', key)) end
  if state == 'd' then return in_the_way('delayed', '', sub(o, 2, 17) - now) end
  if state == 'r' and value ~= holder then return in_the_way('reserved', value, call('PTTL', key)) end
  if state == 'f' and quarantine > 0 then return in_the_way('quarantine', '', quarantine) end
  if parked ~= '' then call('ZREM', k[b + 4], parked) end
  return new_reign(sub(kept(o), 14))
end

for _, i in ipairs(rest) do
  out[i] = decide(spell(K[GLOBALS + i]), a[HEAD + i * 2 - 1], a[HEAD + i * 2])
end
tell(happened)
return out

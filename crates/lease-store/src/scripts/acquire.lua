-- Then the claims that met anything else.
incarnate()
out = out or {}
for i, gen in pairs(out) do
  out[i] = '+' .. gen
end

local function busy(mode, parked, reason, holder, o, last, left)
  local queue, place = k[4], nil
  if mode == 'w' and reason ~= 'not_that_generation' then
    place = call('LPOS', queue, parked)
    if not place then
      if call('LLEN', queue) >= 1024 then return '!waiters' end
      place = call('RPUSH', queue, parked) - 1
      if not o then
        call('SET', k[5], 'f' .. fmt('%016d', tonumber(last or 0) or 0) .. BLANK .. 'w')
      elseif byte(o, -1) ~= 119 then
        call('SET', k[5], sub(o, 1, -2) .. 'w')
      end
    end
  elseif mode == 'l' then
    place = call('LPOS', queue, parked)
    if place then call('LREM', queue, 1, parked) end
  end
  place = place or call('LLEN', queue)
  return '-' .. reason .. ' ' .. (last or '0') .. ' ' .. fmt('%d', left) .. ' ' .. (place + 1) .. ' ' .. holder
end

local function refresh(ttl, o)
  local key, ends = k[1], fmt('%d', now + ttl)
  call('PEXPIREAT', key, ends)
  call('PEXPIREAT', k[2], ends)
  if tonumber(sub(o, 66, 73)) ~= ttl then
    call('SET', k[5], sub(o, 1, 65) .. fmt('%08d', ttl) .. sub(o, 74))
    call('ZADD', INDEX, 'LT', ends, key)
    call('HDEL', k[2], 'x')
  end
  return '=' .. sub(o, 34, 49) .. ' ' .. ttl .. ' ' .. holder_of(o)
end

local function decide(claim, want)
  local digest, ttl, holder = sub(claim, 1, 32), tonumber(sub(want, 1, 8)), sub(want, 9)
  local replace, mode, length = sub(claim, 33, 48), sub(claim, 49, 49), tonumber(sub(claim, 50, 53)) or 0
  local meta, parked = sub(claim, 54, 53 + length), sub(claim, 54 + length)
  local state, value, o, last = settle(parked ~= '' and sub(parked, 1, 16) or nil)
  local key = k[1]
  local function in_the_way(reason, who, left)
    return busy(mode, parked, reason, who, o, last, left)
  end
  local function new_reign(spent)
    local plain, gen = mint(last)
    if not plain then return '!generations' end
    return '+' .. grant(holder, digest, ttl, meta, spent, plain, gen)
  end
  if state == 'h' and sub(o, 2, 33) == digest then return refresh(ttl, o) end
  if is_spent(digest, spent_of(o)) or given_up(digest, key) then
    if parked ~= '' then call('LREM', k[4], 1, parked) end
    return '!spent'
  end
  if state == 'x' then return in_the_way('foreign', value and sub(value, 1, 128) or '?', call('PTTL', key)) end
  if replace ~= '' and replace ~= ZEROS then
    if state == 'h' and sub(o, 34, 49) == replace then
      close(o, 's')
      return new_reign(spend(sub(o, 2, 33), o))
    end
    if state == 'h' then return in_the_way('not_that_generation', holder_of(o), call('PTTL', key)) end
    return in_the_way('not_that_generation', '', -1)
  end
  if state == 'h' then return in_the_way('held', holder_of(o), call('PTTL', key)) end
  if state == 'd' then return in_the_way('delayed', '', sub(o, 2, 17) - now) end
  if state == 'r' and value ~= holder then return in_the_way('reserved', value, call('PTTL', key)) end
  if state == 'f' and quarantine > 0 then return in_the_way('quarantine', '', quarantine) end
  if parked ~= '' then call('LREM', k[4], 1, parked) end
  return new_reign(sub(kept(o), 14))
end

for _, i in ipairs(rest) do
  spell(K[i])
  out[i] = decide(a[HEAD + i * 2 - 1], a[HEAD + i * 2])
end
tell(happened)
return out

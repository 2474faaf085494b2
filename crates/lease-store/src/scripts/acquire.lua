-- Many independent claims on different keys.
-- ARGV per claim: digest(32) ttl(8) length(3) holder meta, and '' or what is rarer:
-- generation to replace or zeros (16), mode (- at once, w wait, l leave), parked claim.
-- Answers per claim: '+gen' granted, '=gen ttl holder' held already, '!word' refused,
-- '-reason last remaining position holder' busy.
incarnate()
local count = #KEYS - GLOBALS
local tombs = call('ZCARD', k[7])

local function busy(b, mode, parked, reason, holder, last, left)
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
  if tonumber(sub(o, 50, 57)) ~= ttl then
    call('SET', k[b + 5], sub(o, 1, 49) .. fmt('%08d', ttl) .. sub(o, 58))
    call('ZADD', k[3], 'LT', ends, key)
  end
  return '=' .. sub(o, 2, 17) .. ' ' .. ttl .. ' ' .. holder_of(o)
end

local function decide(b, claim, rare)
  local digest, ttl, length = sub(claim, 1, 32), tonumber(sub(claim, 33, 40)), tonumber(sub(claim, 41, 43))
  local holder, meta = sub(claim, 44, 43 + length), sub(claim, 44 + length)
  local replace, mode, parked = sub(rare, 1, 16), sub(rare, 17, 17), sub(rare, 18)
  local state, value, o, last = settle(b, parked ~= '' and sub(parked, 1, 16) or nil)
  local key, spent = k[b + 1], spent_of(o)
  local function in_the_way(reason, who, left)
    return busy(b, mode, parked, reason, who, last, left)
  end
  local function new_reign(over)
    local plain, gen = mint(last)
    if not plain then return '!generations' end
    return '+' .. grant(b, holder, digest, ttl, meta, over, plain, gen)
  end
  if state == 'h' and sub(o, 18, 49) == digest then return refresh(b, ttl, o) end
  if is_spent(digest, spent) or (tombs > 0 and given_up(digest, key)) then
    if parked ~= '' then call('ZREM', k[b + 4], parked) end
    return '!spent'
  end
  if state == 'x' then return in_the_way('foreign', value and sub(value, 1, 128) or '?', call('PTTL', key)) end
  if replace ~= '' and replace ~= '0000000000000000' then
    if state == 'h' and sub(o, 2, 17) == replace then
      close(b, o, 's')
      return new_reign(spend(sub(o, 18, 49), spent))
    end
    if state == 'h' then return in_the_way('not_that_generation', holder_of(o), call('PTTL', key)) end
    return in_the_way('not_that_generation', '', -1)
  end
  if state == 'h' then return in_the_way('held', holder_of(o), call('PTTL', key)) end
  if state == 'd' then return in_the_way('delayed', '', sub(o, 2, 17) - now) end
  if state == 'r' and value ~= holder then return in_the_way('reserved', value, call('PTTL', key)) end
  if state == 'f' and quarantine > 0 then return in_the_way('quarantine', '', quarantine) end
  if parked ~= '' then call('ZREM', k[b + 4], parked) end
  return new_reign(spent)
end

-- Most claims meet a key that is plainly free; what they read and write is gathered over the whole batch.
local names, queues = {}, {}
for i = 1, count do
  local key = KEYS[GLOBALS + i]
  names[i * 2 - 1], names[i * 2] = key, 'tenure:o:' .. key
  queues[i] = 'tenure:w:' .. key
end
local got = call('MGET', unpack(names))
local waited = call('EXISTS', unpack(queues)) > 0
local set, index, order, s, z = {}, {}, {}, 0, 0
local ending = {}
for i = 1, count do
  local key, claim, rare = names[i * 2 - 1], a[HEAD + i * 2 - 1], a[HEAD + i * 2]
  local o, plain, gen = got[i * 2], nil, nil
  if not got[i * 2 - 1] and rare == '' and tombs == 0 and quarantine == 0
    and (not waited or call('EXISTS', queues[i]) == 0)
  then
    if not o then
      plain, gen = mint(call('GET', 'tenure:g:' .. key))
    elseif sub(o, 1, 1) == 'f' and not find(o, sub(claim, 1, 8), 18, true) then
      plain, gen = mint(sub(o, 2, 17))
    end
  end
  local ttl, length, holder, ends
  if plain then
    ttl, length = sub(claim, 33, 40), 0 + sub(claim, 41, 43)
    holder, ends = sub(claim, 44, 43 + length), ending[ttl]
    if not ends then
      ends = fmt('%d', now + ttl)
      ending[ttl] = ends
    end
  end
  if plain and #claim == 43 + length and call('SET', key, holder, 'PXAT', ends, 'NX') then
    local live = 'tenure:l:' .. key
    call('HSET', live, 'g', plain, 't', sub(claim, 1, 32), 's', stamp, 'h', holder)
    call('PEXPIREAT', live, ends)
    set[s + 1], set[s + 2], set[s + 3] = 'tenure:g:' .. key, plain, names[i * 2]
    set[s + 4] = 'h' .. gen .. sub(claim, 1, 40) .. stamp .. sub(claim, 41)
      .. (o and sub(o, 18) or '')
    index[z + 1], index[z + 2], order[z + 1], order[z + 2] = ends, key, '0', key
    s, z = s + 4, z + 2
    event('granted', key, holder, gen)
    out[i] = '+' .. gen
  else
    out[i] = decide(spell(key), claim, rare)
  end
end
if s > 0 then
  call('MSET', unpack(set))
  call('ZADD', k[3], 'LT', unpack(index))
  call('ZADD', k[4], unpack(order))
end
tell(happened)
return out

-- Many independent claims on different keys.
-- ARGV per claim: holder, digest, ttl, meta, generation to replace or '', mode ('' at once, w wait, l leave),
-- parked claim or ''.
-- Answers per claim: '+gen' granted, '=gen ttl holder' held already, '!word' refused,
-- '-reason last remaining position holder' busy.
incarnate()
local PER_CLAIM = 7
local count = (#k - GLOBALS) / PER_KEY
local tombs = call('ZCARD', k[7])

local function tombstone(digest, key)
  return tombs > 0 and given_up(digest, key)
end

local function busy(b, p, reason, holder, last, left)
  local queue, mode, parked = k[b + 4], a[p + 6], a[p + 7]
  local place
  if mode == 'w' and reason ~= 'not_that_generation' then
    place = call('ZRANK', queue, parked)
    if not place then
      if call('ZCARD', queue) >= 1024 then return '!waiters' end
      local tail = call('ZRANGE', queue, -1, -1, 'WITHSCORES')
      local order = us
      if tail[2] and tonumber(tail[2]) >= us then order = tail[2] + 1 end
      call('ZADD', queue, fmt('%.0f', order), parked)
      place = call('ZRANK', queue, parked)
    end
  elseif mode == 'l' then
    place = call('ZRANK', queue, parked)
    if place then call('ZREM', queue, parked) end
  end
  place = place or call('ZCARD', queue)
  return '-' .. reason .. ' ' .. (last or '0') .. ' ' .. fmt('%.0f', left) .. ' ' .. (place + 1) .. ' ' .. holder
end

local function refresh(b, p, o)
  local ttl, key = tonumber(a[p + 3]), k[b + 1]
  local ends = now + ttl
  call('PEXPIREAT', key, ends)
  call('PEXPIREAT', k[b + 2], ends)
  if tonumber(sub(o, 50, 57)) ~= ttl then
    call('SET', k[b + 5], sub(o, 1, 49) .. fmt('%08d', ttl) .. sub(o, 58))
    call('ZADD', k[3], 'LT', ends, key)
  end
  return '=' .. sub(o, 2, 17) .. ' ' .. ttl .. ' ' .. holder_of(o)
end

local function new_reign(b, p, last, spent)
  local plain, gen = mint(last)
  if not plain then return '!generations' end
  return '+' .. grant(b, a[p + 1], a[p + 2], tonumber(a[p + 3]), a[p + 4], spent, plain, gen)
end

local function decide(b, p)
  local parked = a[p + 7]
  local state, value, o, last = settle(b, parked ~= '' and sub(parked, 1, 16) or nil)
  local key, digest, spent = k[b + 1], a[p + 2], spent_of(o)
  if state == 'h' and sub(o, 18, 49) == digest then return refresh(b, p, o) end
  if find(spent, sub(digest, 1, 16), 1, true) or tombstone(digest, key) then
    if parked ~= '' then call('ZREM', k[b + 4], parked) end
    return '!spent'
  end
  if state == 'x' then
    return busy(b, p, 'foreign', value and sub(value, 1, 128) or '?', last, call('PTTL', key))
  end
  if a[p + 5] ~= '' then
    if state == 'h' and sub(o, 2, 17) == a[p + 5] then
      close(b, o, 's')
      return new_reign(b, p, last, spend(sub(o, 18, 49), spent))
    end
    if state == 'h' then
      return busy(b, p, 'not_that_generation', holder_of(o), last, call('PTTL', key))
    end
    return busy(b, p, 'not_that_generation', '', last, -1)
  end
  if state == 'h' then return busy(b, p, 'held', holder_of(o), last, call('PTTL', key)) end
  if state == 'd' then return busy(b, p, 'delayed', '', last, sub(o, 2, 17) - now) end
  if state == 'r' and value ~= a[p + 1] then
    return busy(b, p, 'reserved', value, last, call('PTTL', key))
  end
  if state == 'f' and quarantine > 0 then return busy(b, p, 'quarantine', '', last, quarantine) end
  if parked ~= '' then call('ZREM', k[b + 4], parked) end
  return new_reign(b, p, last, spent)
end

-- Most claims meet a key that is plainly free; what they read and write is gathered over the whole batch.
local read, queues, n = {}, {}, 0
for i = 1, count do
  local b = GLOBALS + (i - 1) * PER_KEY
  read[n + 1], read[n + 2], read[n + 3] = k[b + 1], k[b + 5], k[b + 3]
  n = n + 3
  queues[i] = k[b + 4]
end
local got = call('MGET', unpack(read))
local parked = call('EXISTS', unpack(queues)) > 0
local set, index, keys, s, z = {}, {}, {}, 0, 0
for i = 1, count do
  local b, p = GLOBALS + (i - 1) * PER_KEY, HEAD + (i - 1) * PER_CLAIM
  local o, digest = got[i * 3 - 1], a[p + 2]
  local plain, gen
  if not got[i * 3 - 2] and (not parked or call('EXISTS', queues[i]) == 0) and quarantine == 0 and a[p + 5] == ''
    and (not o or (sub(o, 1, 1) == 'f' and not find(o, sub(digest, 1, 16), 2, true)))
    and not tombstone(digest, k[b + 1])
  then
    plain, gen = mint(got[i * 3])
  end
  local holder, ttl = a[p + 1], a[p + 3]
  local ends = plain and now + ttl
  if plain and call('SET', k[b + 1], holder, 'PXAT', ends, 'NX') then
    call('HSET', k[b + 2], 'g', plain, 't', digest, 'm', a[p + 4], 's', stamp, 'h', holder)
    call('PEXPIREAT', k[b + 2], ends)
    set[s + 1], set[s + 2], set[s + 3] = k[b + 3], plain, k[b + 5]
    set[s + 4] = 'h' .. gen .. digest .. fmt('%08d', ttl) .. stamp .. fmt('%03d', #holder) .. holder
      .. (o and sub(o, 2) or '')
    s = s + 4
    index[z + 1], index[z + 2] = ends, k[b + 1]
    keys[z + 1], keys[z + 2] = 0, k[b + 1]
    z = z + 2
    event('granted', k[b + 1], holder, gen)
    out[i] = '+' .. gen
  else
    out[i] = decide(b, p)
  end
end
if s > 0 then
  call('MSET', unpack(set))
  call('ZADD', k[3], 'LT', unpack(index))
  call('ZADD', k[4], unpack(keys))
end
tell(happened)
return out

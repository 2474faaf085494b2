-- Many independent releases of different keys.
-- ARGV per release: generation or zeros (16) digest(32) how length(3) heir parked, where how is r release, a release
-- again after a lost reply, q only leave the queue.
-- Answers per release: r released, n not held.
incarnate()
local count = #KEYS - GLOBALS
local ANY = '0000000000000000'

local function reserve(b, heir, spent)
  local ends = fmt('%d', now + 2000)
  call('SET', k[b + 1], heir, 'PXAT', ends)
  call('SET', k[b + 5], 'r' .. fmt('%016d', ends) .. fmt('%03d', #heir) .. heir .. spent)
  note(k[b + 1], ends)
end

local function give_back(b, o, last, heir)
  local spent = spend(sub(o, 18, 49), spent_of(o))
  local function over()
    close(b, o, 'r')
    return spent
  end
  local to = heir ~= '' and heir or nil
  if hand_on(b, last, spent, nil, to, over) then return end
  over()
  call('DEL', k[b + 1], k[b + 2])
  if to then
    reserve(b, heir, spent)
  else
    call('SET', k[b + 5], 'f' .. sub(o, 2, 17) .. spent)
  end
end

local function decide(b, item)
  local gen, digest, how, length = sub(item, 1, 16), sub(item, 17, 48), sub(item, 49, 49), 0 + sub(item, 50, 52)
  local heir, parked = sub(item, 53, 52 + length), sub(item, 53 + length)
  if parked ~= '' then call('ZREM', k[b + 4], parked) end
  if how == 'q' then return 'n' end
  local state, _, o, last = settle(b, nil)
  local mine = state == 'h' and sub(o, 18, 49) == digest
  if mine and (gen == ANY or sub(o, 2, 17) == gen) then
    give_back(b, o, last, heir)
    return 'r'
  end
  if is_spent(digest, spent_of(o)) then return how == 'a' and 'r' or 'n' end
  if not mine then
    call('ZREMRANGEBYSCORE', k[7], '-inf', fmt('%d', now))
    call('ZADD', k[7], fmt('%d', now + 60000), sub(digest, 1, 8) .. k[b + 1])
  end
  return 'n'
end

-- Most releases meet their own reign and nobody parked; those are gathered over the whole batch.
local names, queues, lives = {}, {}, {}
for i = 1, count do
  local key = KEYS[GLOBALS + i]
  names[i * 2 - 1], names[i * 2] = key, 'tenure:o:' .. key
  queues[i], lives[i] = 'tenure:w:' .. key, 'tenure:l:' .. key
end
local got = call('MGET', unpack(names))
local waited, whole = call('EXISTS', unpack(queues)) > 0, call('EXISTS', unpack(lives)) == count
local del, set, n = {}, {}, 0
for i = 1, count do
  local value, o, item = got[i * 2 - 1], got[i * 2], a[HEAD + i]
  local key, gen = names[i * 2 - 1], o and sub(o, 2, 17)
  if whole and value and o and (not waited or call('EXISTS', queues[i]) == 0)
    and #item == 52 and sub(item, 49, 49) ~= 'q' and sub(o, 1, 1) == 'h'
    and sub(o, 18, 49) == sub(item, 17, 48) and (sub(item, 1, 16) == gen or sub(item, 1, 16) == ANY)
    and value == holder_of(o)
  then
    local past, short = 'tenure:h:' .. key, sub(item, 17, 24)
    local kept = call('RPUSH', past, 'r' .. gen .. sub(o, 58, 73) .. stamp .. short .. value)
    if kept > 48 then call('LTRIM', past, -32, -1) end
    event('released', key, value, gen)
    del[n + 1], del[n + 2] = key, lives[i]
    set[n + 1], set[n + 2] = names[i * 2], 'f' .. gen .. short .. sub(o, 77 + #value, 324 + #value)
    n = n + 2
    out[i] = 'r'
  else
    out[i] = decide(spell(key), item)
  end
end
if n > 0 then
  call('DEL', unpack(del))
  call('MSET', unpack(set))
end
tell(happened)
return out

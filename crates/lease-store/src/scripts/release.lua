-- Many independent releases of different keys.
-- ARGV per release: digest, generation or '', heir or '', how (r release, a release again after a lost reply,
-- q only leave the queue), parked claim or ''.
-- Answers per release: r released, n not held.
incarnate()
local PER_RELEASE = 5
local count = (#k - GLOBALS) / PER_KEY

local function reserve(b, heir, spent)
  local ends = now + 2000
  call('SET', k[b + 1], heir, 'PXAT', ends)
  call('SET', k[b + 5], 'r' .. fmt('%016.0f', ends) .. fmt('%03d', #heir) .. heir .. spent)
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
    call('SET', k[b + 5], 'f' .. spent)
  end
end

local function decide(b, p)
  local digest, gen, how, parked = a[p + 1], a[p + 2], a[p + 4], a[p + 5]
  if parked ~= '' then call('ZREM', k[b + 4], parked) end
  if how == 'q' then return 'n' end
  local state, _, o, last = settle(b, nil)
  if state == 'h' and sub(o, 18, 49) == digest and (gen == '' or sub(o, 2, 17) == gen) then
    give_back(b, o, last, a[p + 3])
    return 'r'
  end
  local half = sub(digest, 1, 16)
  if find(spent_of(o), half, 1, true) then return how == 'a' and 'r' or 'n' end
  if state ~= 'h' or sub(o, 18, 49) ~= digest then
    call('ZREMRANGEBYSCORE', k[7], '-inf', now)
    call('ZADD', k[7], now + 60000, half .. k[b + 1])
  end
  return 'n'
end

-- Most releases meet their own reign and nobody parked; those are gathered over the whole batch.
local read, queues, live, n = {}, {}, {}, 0
for i = 1, count do
  local b = GLOBALS + (i - 1) * PER_KEY
  read[n + 1], read[n + 2] = k[b + 1], k[b + 5]
  n = n + 2
  queues[i], live[i] = k[b + 4], k[b + 2]
end
local got = call('MGET', unpack(read))
local parked, whole = call('EXISTS', unpack(queues)) > 0, call('EXISTS', unpack(live)) == count
local del, set, s, d = {}, {}, 0, 0
for i = 1, count do
  local b, p = GLOBALS + (i - 1) * PER_KEY, HEAD + (i - 1) * PER_RELEASE
  local value, o = got[i * 2 - 1], got[i * 2]
  if whole and value and o and (not parked or call('EXISTS', queues[i]) == 0) and a[p + 3] == '' and a[p + 4] ~= 'q'
    and sub(o, 1, 1) == 'h' and sub(o, 18, 49) == a[p + 1] and value == holder_of(o) and (a[p + 2] == '' or sub(o, 2, 17) == a[p + 2])
  then
    close(b, o, 'r')
    del[d + 1], del[d + 2] = k[b + 1], k[b + 2]
    d = d + 2
    set[s + 1], set[s + 2] = k[b + 5], 'f' .. sub(a[p + 1], 1, 16) .. sub(o, 77 + #value, 572 + #value)
    s = s + 2
    out[i] = 'r'
  else
    out[i] = decide(b, p)
  end
end
if s > 0 then
  call('DEL', unpack(del))
  call('MSET', unpack(set))
end
tell(happened)
return out

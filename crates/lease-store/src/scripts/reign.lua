-- How reigns begin and end: shared by every script that changes who holds a key.
local floor, quarantine = 0, 0

-- Raises the floor once per server process and decides whether a forgotten holder may still be alive.
-- tenure:inc is the server's run id and when its quarantine ends(13), or zeros when it had none.
local function incarnate()
  local known, run, uptime, wait, changed = call('GET', INC), string.match(a[1], INCARNATION)
  wait = tonumber(wait)
  local ends = known and tonumber(sub(known, -13)) or 0
  local last = tonumber(call('GET', FLOOR) or 0) or 0
  floor = last
  if not known or sub(known, 1, -14) ~= run or last == 0 then
    floor = math.min(math.max(last + 1048576, time[1] * 1048576 + time[2]), 9007199254740990)
    call('SET', FLOOR, fmt('%d', floor))
    local rev = tonumber(call('GET', REV) or 0) or 0
    call('SET', REV, fmt('%d', math.max(rev + (rev > 0 and 1048576 or 0), us)))
    ends = 0
    if tonumber(uptime) < wait then ends = now + wait - uptime end
    call('SET', INC, run .. fmt('%013d', ends))
  end
  if changed == '1' and ends == 0 and wait > 0 then
    ends = now + wait
    call('SET', INC, run .. fmt('%013d', ends))
  end
  if wait > 0 and ends > now then quarantine = ends - now end
end

-- The next generation as plain decimal and padded to 16 digits; none when all are used.
local function mint(last)
  local n = tonumber(last or 0) or 0
  if n < floor then n = floor end
  n = n + 1
  if n >= 9007199254740992 then return nil end
  return fmt('%d', n), fmt('%016d', n)
end

-- Closes the reign in `o` in the history and the events; the caller writes what comes after.
-- A closed reign: why until(16) end-of-digest(8) gen(16) since(16) ttl(8) holder.
local function close(o, why)
  local kept = call('RPUSH', k[6], why .. stamp .. sub(o, 26, -111))
  if kept > 48 then call('LTRIM', k[6], -32, -1) end
  event(why, k[1], holder_of(o), sub(o, 34, 49))
end

local function note(key, at)
  call('ZADD', INDEX, 'LT', at, key)
  call('ZADD', ORDER, 0, key)
end

-- Begins a reign, whatever the key held before. Returns its padded generation.
local function grant(holder, digest, ttl, meta, spent, plain, gen)
  local key, ends = k[1], fmt('%013d', now + ttl)
  call('DEL', k[2])
  call('SET', key, holder, 'PXAT', ends)
  call('HSET', k[2], 'g', plain, 't', digest, 's', stamp)
  if meta ~= '' then call('HSET', k[2], 'm', meta) end
  call('PEXPIREAT', k[2], ends)
  local o = 'h' .. digest .. gen .. stamp .. fmt('%08d', ttl) .. holder .. ends .. spent .. flag()
  call('MSET', k[3], plain, k[5], o)
  note(key, ends)
  event('+', key, holder, gen)
  return gen
end

-- Whether a token was given up on this key before it held anything.
local function given_up(digest, key)
  local ends = call('ZSCORE', TOMBS, sub(digest, 1, 8) .. key)
  return ends and tonumber(ends) > now
end

-- A parked claim: id(16) digest(32) ttl(8) deadline(16) instance(16) length(3) holder meta.
-- Grants to the first one that is alive, or to the first one called `to`. A claim whose process no longer
-- listens, whose time is over or whose token was spent meanwhile loses its place. `me` needs no message.
-- `before` runs once a successor is sure and before anything is written. Returns the parked claim and its
-- generation.
local function hand_on(last, spent, me, to, before)
  local queue = k[4]
  local members = call('LRANGE', queue, 0, to and -1 or 0)
  local at = 1
  while members[at] do
    local m = members[at]
    local length = tonumber(sub(m, 89, 91))
    local holder = sub(m, 92, 91 + length)
    if not to or holder == to then
      local id, digest = sub(m, 1, 16), sub(m, 17, 48)
      local plain, gen = mint(last)
      call('LREM', queue, 1, m)
      if plain and tonumber(sub(m, 57, 72)) >= now and not is_spent(digest, spent)
        and not given_up(digest, k[1])
        and (id == me or call('PUBLISH', 'tenure:c:' .. sub(m, 73, 88), id .. gen) > 0)
      then
        if before then before() end
        grant(holder, digest, tonumber(sub(m, 49, 56)), sub(m, 92 + length), spent, plain, gen)
        return m, gen
      end
    end
    if to then
      at = at + 1
    else
      members = call('LRANGE', queue, 0, 0)
    end
  end
  return nil
end

-- Brings a key up to date: closes a reign that is over and hands a free key to whoever is parked first.
-- Returns state (h held, r reserved, d delayed, x foreign, f free), K's value, tenure:o, tenure:g.
local function settle(me)
  local key = k[1]
  local got = call('MGET', key, k[5], k[3])
  local value, o, last = got[1], got[2], got[3]
  local state = o and sub(o, 1, 1) or 'f'
  if state == 'h' then
    local alive = call('EXISTS', k[2]) == 1
    if alive and value == holder_of(o) then return 'h', value, o, last end
    close(o, alive and 'g' or 'e')
    if alive then call('DEL', k[2]) end
    o = freed(o, spent_of(o))
    call('SET', k[5], o)
  elseif state == 'r' and reserved(o, value) then
    return 'r', value, o, last
  end
  if value or call('EXISTS', key) == 1 then return 'x', value, o, last end
  if state == 'd' and tonumber(sub(o, 2, 17)) > now then return 'd', value, o, last end
  if quarantine == 0 and hand_on(last, sub(kept(o), 14), me) then
    got = call('MGET', key, k[5], k[3])
    return 'h', got[1], got[2], got[3]
  end
  return 'f', value, o, last
end
